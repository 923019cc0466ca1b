"""POST /v1/systemone against running servers: answers, their numbers, errors in their form."""

import json
import math
from typing import Any

import httpx
import pytest
import zstandard

from tests.contract.conftest import TOKEN
from tests.support.servers import Running
from tests.support.stub_engine import POOR

STATE = "Billed twice. Please refund one of the two charges."
NOUL: dict[str, Any] = {"type": "noul", "instructions": "Does the writer ask for money back?"}
TEAM: dict[str, Any] = {
    "type": "choice",
    "instructions": "Who handles it?",
    "criteria": {"Billing": "payments", "Tech": None, "Sales": None},
}
HEAT: dict[str, Any] = {
    "type": "score",
    "instructions": "How upset?",
    "criteria": ["calm", "annoyed", "furious"],
}
QUESTIONS: dict[str, Any] = {"refund": NOUL, "team": TEAM, "heat": HEAT}


def body(questions: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    asked = QUESTIONS if questions is None else questions
    return {"model": "jev-latest", "state": STATE, "questions": asked, **more}


def post(server: Running, value: Any, **headers: str) -> httpx.Response:
    return server.http.post("/v1/systemone", json=value, headers=headers)


def answers(server: Running, questions: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = post(server, body(questions, **more))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["answers"]
    return found


def test_the_three_kinds_are_answered_under_their_ids(server):
    answer = post(server, body())
    value = answer.json()
    assert answer.status_code == 200
    assert answer.headers["x-typesafe-request-id"] == answer.headers["x-request-id"]
    assert value["model"] == answer.headers["x-spinf-model"]
    assert value["usage"]["input_tokens"] > 0 and value["usage"]["output_tokens"] == 0
    assert list(value["answers"]) == ["refund", "team", "heat"]
    assert {name for name in value if not name.startswith("x_")} == {"model", "answers", "usage"}
    refund, team, heat = value["answers"].values()
    assert refund.keys() == {"type", "noul"} and 0 < refund["noul"] < 1
    assert team.keys() == {"type", "choice", "confidence", "probabilities"}
    assert list(team["probabilities"]) == ["Billing", "Tech", "Sales"]
    assert heat["legend"] == {"0": "calm", "1": "annoyed", "2": "furious"}
    assert list(heat["probabilities"]) == ["0", "1", "2"]


def test_the_numbers_of_an_answer_agree(server):
    value = answers(server, QUESTIONS)
    p = value["team"]["probabilities"]
    assert math.isclose(math.fsum(p.values()), 1, abs_tol=1e-12)
    assert p[value["team"]["choice"]] == max(p.values())
    expected = (max(p.values()) - 1 / 3) / (1 - 1 / 3)
    assert value["team"]["confidence"] == pytest.approx(expected, abs=1e-12)
    heat = value["heat"]
    levels = [heat["probabilities"][str(index)] for index in range(3)]
    assert heat["score"] == pytest.approx(levels[1] + 2 * levels[2], abs=1e-12)
    top = levels.index(max(levels))
    distance = sum(share * abs(index - top) for index, share in enumerate(levels))
    assert heat["confidence"] == pytest.approx(max(0, 1 - distance / (2 / 3)), abs=1e-12)


def test_ids_order_and_company_move_no_bit(server):
    alone = {name: answers(server, {name: value})[name] for name, value in QUESTIONS.items()}
    backwards = dict(reversed(QUESTIONS.items()))
    assert answers(server, backwards) == alone
    renamed = answers(server, {"긴 이름 🎈": TEAM, "a.b": NOUL, "0": HEAT})
    assert renamed == {"긴 이름 🎈": alone["team"], "a.b": alone["refund"], "0": alone["heat"]}


def test_the_order_of_options_moves_no_bit(server):
    criteria = {f"label {index}": None for index in range(7)} | {"label": "short", "Ω": None}
    order = list(criteria)
    shuffled = {label: criteria[label] for label in [*order[4:], *reversed(order[:4])]}
    one = answers(server, {"q": {**TEAM, "criteria": criteria}})["q"]
    other = answers(server, {"q": {**TEAM, "criteria": shuffled}})["q"]
    assert list(other["probabilities"]) == list(shuffled)
    assert other == one


def test_what_is_said_about_a_question_moves_its_answer(server):
    plain = answers(server, {"q": NOUL})["q"]
    for criteria in ({"true": "any refund"}, {"false": "no refund"}, {"true": {"a": [1, "ä"]}}):
        assert answers(server, {"q": {**NOUL, "criteria": criteria}})["q"] != plain
    for same in (None, {}, {"true": None, "false": None}):
        assert answers(server, {"q": {**NOUL, "criteria": same}})["q"] == plain
    assert answers(server, {"q": {**NOUL, "instructions": {"ask": "refund?"}}})["q"] != plain
    bare = {**TEAM, "criteria": dict.fromkeys(TEAM["criteria"])}
    assert answers(server, {"q": bare})["q"] != answers(server, {"q": TEAM})["q"]
    assert answers(server, {"q": NOUL}, state="Thanks!")["q"] != plain


def test_a_state_may_be_an_object_or_a_list(server):
    for state in ({"subject": "Billed twice"}, [{"from": "a"}, "b"], ""):
        assert 0 < answers(server, {"q": NOUL}, state=state)["q"]["noul"] < 1
    as_text = answers(server, {"q": NOUL}, state='{"é": 1}')
    assert answers(server, {"q": NOUL}, state={"é": 1}) == as_text


def test_labels_and_levels_may_be_long_structured_and_many(server):
    long = "one of the many people who take care of invoices that were paid twice or not at all"
    labels = {long: None, long + " or late": None, "가나다": None, ' "quoted"\n': None, "": None}
    found = answers(server, {"q": {"type": "choice", "criteria": labels}})["q"]
    assert list(found["probabilities"]) == list(labels)
    levels = [{"label": "calm"}, ["angry", "loud"], "in between"]
    found = answers(server, {"q": {"type": "score", "criteria": levels}})["q"]
    assert found["legend"] == {"0": levels[0], "1": levels[1], "2": levels[2]}
    many = {f"L{index}": None for index in range(255)}
    found = answers(server, {"q": {"type": "choice", "criteria": many}})["q"]
    assert math.isclose(math.fsum(found["probabilities"].values()), 1, abs_tol=1e-9)


def test_a_lone_option_and_a_lone_level_are_sure(server):
    found = answers(
        server,
        {
            "c": {"type": "choice", "criteria": {"x": None}},
            "s": {"type": "score", "criteria": ["x"]},
        },
    )
    assert (found["c"]["probabilities"], found["c"]["confidence"]) == ({"x": 1.0}, 1.0)
    assert (found["s"]["score"], found["s"]["confidence"]) == (0.0, 1.0)


@pytest.mark.parametrize("name", ["jev-latest", "spinf-12b", "JEV-Latest"])
def test_the_names_that_clients_ask_for_are_served(server, name):
    assert post(server, body({"q": NOUL}, model=name)).status_code == 200


def test_fields_that_are_not_known_are_named_in_the_answer(server):
    value = post(server, body({"q": {**NOUL, "wieght": 2}}, x_nonce="7")).json()
    told = {(note["param"], note["message"].split()[0]) for note in value["x_warnings"]}
    assert {("body", "'x_nonce'"), ("questions.q", "'wieght'")} <= told


BAD: list[tuple[Any, list[Any]]] = [
    ({"model": "jev-latest", "questions": QUESTIONS}, ["body", "state"]),
    (body(state=None), ["body", "state"]),
    (body(state=3), ["body", "state"]),
    ({"model": "jev-latest", "state": "x"}, ["body", "questions"]),
    (body({}), ["body", "questions"]),
    (body({"a.b": {"instructions": "x"}}), ["body", "questions", "a.b", "type"]),
    (body({"q": {"type": "boolean"}}), ["body", "questions", "q", "type"]),
    (body({"7": {"type": "choice", "criteria": {}}}), ["body", "questions", "7", "criteria"]),
    (body({"q": {"type": "choice"}}), ["body", "questions", "q", "criteria"]),
    (
        body({"q": {"type": "choice", "criteria": {str(n): None for n in range(256)}}}),
        ["body", "questions", "q", "criteria"],
    ),
    (
        body({"q": {"type": "score", "criteria": {"a": "b"}}}),
        ["body", "questions", "q", "criteria"],
    ),
    (
        body({"q": {"type": "score", "criteria": list("abcdefghijk")}}),
        ["body", "questions", "q", "criteria"],
    ),
    (
        body({"q": {"type": "score", "criteria": ["a", None]}}),
        ["body", "questions", "q", "criteria", 1],
    ),
    (
        body({"q": {"type": "score", "criteria": ["a", "b", "a"]}}),
        ["body", "questions", "q", "criteria", 2],
    ),
    (
        body({"q": {"type": "noul", "criteria": {"yes": "x"}}}),
        ["body", "questions", "q", "criteria", "yes"],
    ),
    (body({"q": {**NOUL, "instructions": 5}}), ["body", "questions", "q", "instructions"]),
    ([], ["body"]),
]


@pytest.mark.parametrize(("value", "place"), BAD)
def test_a_body_that_does_not_say_what_it_should_is_422_with_its_place(server, value, place):
    answer = post(server, value)
    assert answer.status_code == 422, answer.text
    [entry] = answer.json()["detail"]
    assert entry["loc"] == place
    assert entry["msg"] and entry["type"]
    assert answer.headers["x-typesafe-request-id"] == answer.headers["x-request-id"]


def test_broken_json_is_422_too(server):
    answer = server.http.post("/v1/systemone", content=b'{"model": ')
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["type"] == "invalid_json"


def test_other_errors_have_a_type_and_a_message(server, guarded):
    answer = post(server, body(model="gpt-6-luna"))
    assert answer.status_code == 400
    assert answer.json()["detail"]["error_type"] == "invalid_request_error"
    assert "gpt-6-luna" in answer.json()["detail"]["message"]
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": TOKEN}):
        refused = post(guarded, body(), **headers)
        assert refused.status_code == 401
        assert refused.json()["detail"]["error_type"] == "authentication_error"
    assert post(guarded, body(), Authorization=f"Bearer {TOKEN}").status_code == 200
    assert post(server, body({"q": NOUL}, state="x " * 2000)).status_code in (400, 413)


@pytest.mark.parametrize("assets", [{}, [], {"<i>": {"type": "video"}}, {"<i>": {"type": "image"}}])
def test_assets_of_another_form_are_refused_as_such(server, assets):
    assert post(server, body(assets=assets)).status_code == 422


def test_images_are_refused_in_words(server):
    asset = {"<i>": {"type": "image", "format": "png", "data_base64": "aaaa"}}
    answer = post(server, body(assets=asset))
    assert answer.status_code == 400
    assert "text only" in answer.json()["detail"]["message"]
    box = post(server, body({"q": {"type": "box", "instructions": "the cat"}}))
    assert "text only" in box.json()["detail"]["message"]


def compressed(value: Any) -> bytes:
    return zstandard.ZstdCompressor().compress(json.dumps(value).encode())


def test_a_compressed_body_is_the_same_body(server):
    sent = server.http.post(
        "/v1/systemone", content=compressed(body()), headers={"Content-Encoding": "zstd"}
    )
    assert sent.json()["answers"] == post(server, body()).json()["answers"]


def test_a_compressed_body_ends_at_the_limit_of_plain_ones(server):
    bomb = zstandard.ZstdCompressor().compress(b" " * 50_000_000)
    assert len(bomb) < server.config.max_body_bytes
    answer = server.http.post("/v1/systemone", content=bomb, headers={"Content-Encoding": "zstd"})
    assert answer.status_code == 413
    assert answer.json()["detail"]["error_type"] == "request_too_large"


def multipart(value: Any, *parts: str) -> list[tuple[str, tuple[str | None, bytes, str]]]:
    images = [(name, ("a.png", b"\x89PNG", "image/png")) for name in parts]
    return [("request", (None, json.dumps(value).encode(), "application/json")), *images]


def test_a_body_of_several_parts_is_read(server):
    sent = server.http.post("/v1/systemone", files=multipart(body()))
    assert sent.json()["answers"] == post(server, body()).json()["answers"]


@pytest.mark.parametrize(
    ("assets", "parts", "status"),
    [
        ({"<i>": {"type": "image", "part": "asset-0"}}, ["asset-0"], 400),
        ({"<i>": {"type": "image", "part": "asset-1"}}, ["asset-0"], 422),
        (None, ["asset-0"], 422),
        (None, ["request"], 422),
    ],
)
def test_parts_are_matched_with_assets(server, assets, parts, status):
    value = body() if assets is None else body(assets=assets)
    answer = server.http.post("/v1/systemone", files=multipart(value, *parts))
    assert answer.status_code == status, answer.text
    assert "detail" in answer.json()


def test_labels_that_the_model_hardly_thinks_of_are_told(stub_server):
    """In words for who wrote a question and no template."""
    value = post(stub_server, body({"q": {**NOUL, "instructions": POOR}})).json()
    [note] = value["x_warnings"]
    assert (note["code"], note["question"]) == ("low_option_mass", "q")
    assert "labels" in note["message"] and "template" not in note["message"]


def test_more_questions_than_prompts_are_allowed_are_refused(server):
    most = server.config.limits.max_prompts_per_input
    asked = {str(n): {"type": "noul"} for n in range(most + 1)}
    answer = post(server, body(asked))
    assert answer.status_code == 400
    assert answer.json()["detail"]["code"] == "too_many_prompts"
    assert str(most) in answer.json()["detail"]["message"]
