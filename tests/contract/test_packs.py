"""Packs over HTTP: own questions beside them, chunks, the list, and the unmodified spinf-client."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from spinf_client import packs as local  # type: ignore[import-untyped]
from spinf_client.client import SpinfClient, SpinfError  # type: ignore[import-untyped]

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.packs.chunks import pieces_of
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import open_packs
from tests.contract.conftest import LIMITS, TOKEN
from tests.support.packs import random_plain
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import Running, question, running
from tests.support.stub_engine import POOR, SERVED, StubEngine

MODERATION = {
    "pack": "spinf/moderation",
    "contexts": {"ai": 'Message to an assistant:\n"{X}"\n', "forum": 'Post:\n"{X}"\n'},
    "parameters": {},
}
PLAIN = {"contexts": {"email": fitted()["contexts"]["email"]}}
TEXTS = ["Where is my money? Third email!", "Thanks, all good.", "", "dinero 돈 {X} {shop}"]
MODES = ("max", "per_category", "micro_layer")
WORDS = " ".join(f"word{n}" for n in range(600))


def poor() -> dict[str, Any]:
    made = fitted(pack="demo/poor", **PLAIN)
    made["scoring"]["queries"][0]["template"] = f"\n{POOR}{{?}}"
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("packs") / "given"
    draft = fitted(pack="demo/draft", model="other/model", **PLAIN)
    write_packs(
        folder,
        fitted(),
        fitted(version="0.0.9", contexts={"old": "{X}\n"}),
        fitted(pack="demo/twin", scoring__empty_floor=True, **PLAIN),
        fitted(**MODERATION),
        fitted(pack="demo/max", on_long={"chunk": "max"}, **PLAIN),
        fitted(pack="demo/mean", on_long={"chunk": "mean"}, **PLAIN),
        draft,
        poor(),
    )
    with running(
        lambda: StubEngine(replace(LIMITS, max_processed_tokens=100_000)).as_engine(),
        ServerConfig(),
        packs=served_from(folder),
    ) as it:
        yield it


@pytest.fixture
def client(server):
    with SpinfClient(base_url=server.url) as client:
        yield client


def body(
    *packs: str | dict[str, Any],
    queries: list[dict[str, Any]] | None = None,
    contents: list[str] | None = None,
    **scoring: Any,
) -> dict[str, Any]:
    refs = [{"id": ref} if isinstance(ref, str) else ref for ref in packs]
    return {
        "inputs": [
            {"id": str(number), "messages": [{"role": "user", "content": content}]}
            for number, content in enumerate(TEXTS if contents is None else contents)
        ],
        "scoring": {"queries": queries or [], "packs": refs, **scoring},
    }


def ask(server: Running, value: dict[str, Any]) -> dict[str, Any]:
    answer = server.score(value)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(server: Running, value: dict[str, Any]) -> dict[str, Any]:
    answer = server.score(value)
    assert answer.status_code == 400, answer.text
    found: dict[str, Any] = answer.json()["error"]
    return found


def same_with_more(server: Running, pack: str, other: str) -> None:
    """A pack and own questions give the same numbers to the bit, alone, together, with another."""
    shown = {"id": pack, "include_queries": True}
    own = [question("mine"), question("more", template="\nIs the writer angry?{?}")]
    alone = ask(server, body(shown, precision="full"))
    packs = [{"id": other, "include_queries": True}, shown]
    beside = ask(server, body(*packs, queries=own, precision="full"))
    pairs = zip(alone["results"], beside["results"], strict=True)
    for one, many in pairs:
        assert many["queries"][-3:] == one["queries"]
        assert many["packs"][-1] == one["packs"][0]
        assert [query["id"] for query in many["queries"][:2]] == ["mine", "more"]
    wrapped = [f'Email sent to the shop:\n"{text}"\n' for text in TEXTS]
    by_hand = ask(
        server, body(queries=own, contents=wrapped, precision="full", case_insensitive=False)
    )
    for one, many in zip(by_hand["results"], beside["results"], strict=True):
        assert many["queries"][:2] == one["queries"]


def test_a_pack_s_numbers_are_the_same_whatever_stands_beside(server):
    same_with_more(server, "demo/support", "demo/twin")


@pytest.mark.weights
def test_a_pack_s_numbers_are_the_same_whatever_stands_beside_on_a_model(tmp_path):
    engine = open_engine(EngineConfig(model="embedded", device="cpu"), Limits())
    model = engine.served.id
    twin = fitted(pack="demo/twin", model=model, **PLAIN)
    twin["scoring"]["queries"][0]["template"] = "\nThe writer is angry. True, or perhaps{?}"
    write_packs(tmp_path / "packs", fitted(model=model), twin)
    with running(lambda: engine, ServerConfig(), packs=served_from(tmp_path / "packs")) as it:
        same_with_more(it, "demo/support", "demo/twin")


def test_own_answers_alone_are_shown_unless_the_pack_s_are_wanted(server):
    found = ask(server, body("demo/support", queries=[question("mine")]))
    for result in found["results"]:
        assert [query["id"] for query in result["queries"]] == ["mine"]
        [pack] = result["packs"]
        assert list(pack) == ["id", "version", "context", "categories", "decision", "state"]
    found = ask(server, body({"id": "demo/support", "include_queries": True}, "demo/twin"))
    for result in found["results"]:
        assert [(q["id"], q["group"]) for q in result["queries"]] == [
            (id, "demo/support@0.1.0") for id in ("angry", "about", "kind")
        ]
        assert [pack["id"] for pack in result["packs"]] == ["demo/support", "demo/twin"]


def test_a_pack_asked_by_itself_and_without_packs_there_is_none(server):
    assert "packs" not in ask(server, body(queries=[question()]))["results"][0]
    assert "packs" not in ask(server, body(queries=[question()]))["usage"]
    [result] = ask(server, {**body("demo/support", contents=["a"])})["results"]
    assert result["queries"] == []


def test_a_pack_s_floor_is_the_pack_s(server):
    shown = [{"id": name, "include_queries": True} for name in ("demo/support", "demo/twin")]
    [result] = ask(server, body(*shown, contents=["a"], empty_floor=True))["results"]
    floors = [
        query["combinations"][0]["options"][0]["floor_p"] is not None for query in result["queries"]
    ]
    assert floors == [False] * 3 + [True] * 3


def test_usage_tells_the_packs_share(server):
    queries = [question("mine", empty_floor=False)]
    own = ask(server, body(queries=queries, contents=["a", "b"]))["usage"]
    one = ask(server, body("demo/support", contents=["a", "b"]))["usage"]
    all_ = ask(server, body("demo/support", "demo/twin", queries=queries, contents=["a", "b"]))
    usage = all_["usage"]
    assert one["packs"] == {"count": 1, "query_tokens": one["scoring"]["query_tokens"]}
    assert usage["packs"] == {"count": 2, "query_tokens": 2 * one["packs"]["query_tokens"]}
    assert usage["scoring"]["query_tokens"] == (
        usage["packs"]["query_tokens"] + own["scoring"]["query_tokens"]
    )
    assert usage["scoring"]["queries"] == 1 + 3 + 3
    assert usage["scoring"]["prompts"] == 2 * (1 + 4 + 4)


def test_a_draft_gives_raw_answers_and_a_warning(server):
    found = ask(server, body("demo/draft", "demo/support", contents=["a"]))
    [result] = found["results"]
    assert [query["id"] for query in result["queries"]] == ["angry", "about", "kind"]
    draft, support = result["packs"]
    assert (draft["state"], draft["decision"]) == ("draft", None)
    assert support["decision"]["mode"] == "micro_layer"
    [warning] = found["warnings"]
    assert (warning["code"], warning["param"]) == ("pack_draft", "scoring.packs.0")
    assert "demo/draft 0.1.0" in warning["message"] and "other/model" in warning["message"]


def test_poor_answers_are_warned_of_only_where_they_are_shown(server):
    assert ask(server, body("demo/poor", contents=["a"]))["warnings"] == []
    shown = ask(server, body({"id": "demo/poor", "include_queries": True}, contents=["a"]))
    [warning] = shown["warnings"]
    assert (warning["code"], warning["query_id"]) == ("low_option_mass", "angry")


def test_the_decision_is_what_the_call_says(server):
    def decided(**decision: Any) -> dict[str, Any]:
        ref = {"id": "demo/support", "decision": decision}
        [result] = ask(server, body(ref, contents=["a"]))["results"]
        found: dict[str, Any] = result["packs"][0]
        return found

    assert decided()["decision"]["mode"] == "micro_layer"
    assert decided(mode="max", threshold=1.0, critical=[])["decision"]["unsafe"] is False
    off = decided(mode="per_category", thresholds={"anger": None, "money": None})
    assert off["decision"] == {"unsafe": False, "mode": "per_category", "categories": []}
    on = decided(mode="max", threshold=1, thresholds={"topic": 0}, critical=["topic"])
    assert on["decision"]["by"] == "critical" and on["decision"]["critical"] == ["topic"]
    assert on["categories"]["topic"]["flagged"] is True


def test_an_older_version_is_asked_by_name(server):
    [result] = ask(server, body({"id": "demo/support", "version": "0.0.9"}, contents=["a"]))[
        "results"
    ]
    assert (result["packs"][0]["version"], result["packs"][0]["context"]) == ("0.0.9", "old")


def chunks_by_hand(server: Running, name: str, count: int) -> list[dict[str, Any]]:
    """Raw answers to each chunk of WORDS, cut where the server cuts."""
    engine = StubEngine(LIMITS).as_engine()
    before, after = 'Email sent to the shop:\n"', '"\n'
    pieces = pieces_of(engine.tokenizer, WORDS, before, after, LIMITS.max_content_tokens)
    assert len(pieces) == count
    shown = {"id": name, "include_queries": True}
    results: list[dict[str, Any]] = ask(server, body(shown, contents=pieces, precision="full"))[
        "results"
    ]
    return results


@pytest.mark.parametrize("how", ["max", "mean"])
def test_a_long_content_is_evaluated_chunk_by_chunk(server, how):
    shown = {"id": f"demo/{how}", "include_queries": True}
    found = ask(server, body(shown, contents=["short", WORDS]))
    short, long = found["results"]
    assert "chunks" not in short["packs"][0] and len(short["queries"]) == 3
    [pack] = long["packs"]
    assert (long["input_id"], long["queries"], pack["chunks"]) == ("1", [], 3)
    [warning] = found["warnings"]
    assert (warning["code"], warning["param"], warning["input_id"]) == (
        "content_chunked",
        "inputs.1",
        "1",
    )
    assert found["usage"]["inputs"] == 2

    file = fitted(pack=f"demo/{how}", **PLAIN)
    each = [
        local.read_z(file, local.answers_from_result(result, file))
        for result in chunks_by_hand(server, f"demo/{how}", 3)
    ]
    combine = max if how == "max" else lambda values: sum(values) / len(values)
    z = {read: combine([one[read] for one in each]) for read in each[0]}
    macros = local.category_macros(file, z)
    for name, category in file["categories"].items():
        a, b = category["platt"]
        wanted = 1 / (1 + math.exp(-(a * macros[name] + b)))
        assert pack["categories"][name]["score"] == pytest.approx(wanted, abs=1e-6)


def test_a_long_content_is_refused_where_cutting_would_mislead(server):
    value = body("demo/max", queries=[question("mine")], contents=["a", WORDS])
    error = refused(server, value)
    assert (error["code"], error["param"]) == ("content_too_long", "inputs.1")
    assert "'mine'" in error["message"] and "another call" in error["message"]
    error = refused(server, body("demo/support", contents=[WORDS]))
    assert (error["code"], error["param"]) == ("content_too_long", "inputs.0")
    error = refused(server, body("demo/max", "demo/support", contents=[WORDS]))
    assert "demo/support refuses long contents" in error["message"]


def test_the_chat_route_takes_packs_too(server):
    value = {
        "messages": [{"role": "user", "content": "a"}],
        "scoring": {"packs": [{"id": "demo/support"}]},
    }
    answer = server.http.post("/v1/chat/completions", json=value)
    assert answer.json()["results"][0]["packs"][0]["decision"]["mode"] == "micro_layer"
    assert answer.json()["choices"] == []


def test_a_pack_s_file_is_given_out_as_it_is(server):
    assert server.http.get("/v1/packs/demo/support").json() == fitted()
    old = server.http.get("/v1/packs/demo/support", params={"version": "0.0.9"}).json()
    assert old["version"] == "0.0.9"
    # Constants of a model that is not served are not those of the one that is.
    draft = server.http.get("/v1/packs/demo/draft").json()
    assert "mean" not in draft["reads"][0] and draft["scoring"] == fitted()["scoring"]


@pytest.mark.parametrize(
    ("path", "code", "param"),
    [
        ("/v1/packs/demo/nothing", "unknown_pack", "id"),
        ("/v1/packs/x", "unknown_pack", "id"),
        ("/v1/packs/", "unknown_pack", "id"),
        ("/v1/packs/demo/support/more", "unknown_pack", "id"),
        ("/v1/packs/demo/support?version=9", "unknown_pack_version", "version"),
        ("/v1/packs/demo/support?version=", "unknown_pack_version", "version"),
    ],
)
def test_what_is_not_served_is_not_found(server, path, code, param):
    answer = server.http.get(path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("not_found", code, param)
    assert answer.headers["X-Request-Id"] == answer.json()["request_id"]


@pytest.mark.parametrize("path", ["/v1/packs", "/v1/packs/demo/support", "/v1/packs/x"])
def test_lists_and_files_need_the_token(guarded, path):
    answer = guarded.http.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_token")
    answer = guarded.http.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == (200 if path == "/v1/packs" else 404)


def test_the_client_lists_packs_and_gets_a_file(client):
    entries = {entry["id"]: entry for entry in client.list_packs()["packs"]}
    assert entries["spinf/moderation"]["decision"]["modes"] == [
        "per_category",
        "max",
        "micro_layer",
    ]
    assert entries["demo/draft"]["state"] == "draft"
    assert client.get_pack() == fitted(**MODERATION)
    assert client.get_pack("demo/support", version="0.0.9")["version"] == "0.0.9"
    with pytest.raises(SpinfError) as caught:
        client.get_pack("demo/nothing")
    assert (caught.value.status, caught.value.code) == (404, "unknown_pack")


CALLS: list[dict[str, Any]] = [
    {},
    {"mode": "max"},
    {"mode": "per_category"},
    {"mode": "max", "threshold": 0.99},
    {"mode": "max", "threshold": 0.99, "critical": []},
    {"mode": "micro_layer", "threshold": -5.0},
    {"mode": "per_category", "thresholds": {"anger": 0.0, "topic": 0.1, "money": None}},
    {"critical": ["topic", "anger"], "thresholds": {"topic": 0.0}},
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_the_client_moderates_here_there_and_again_alike(client, call):
    file = client.get_pack()
    mine = [question("mine")]
    there = client.moderate(TEXTS, context="forum", queries=mine, include_queries=True, **call)
    here = client.moderate(TEXTS, context="forum", queries=mine, pack_file=file, **call)
    plainly = client.moderate(TEXTS, context="forum", include_queries=True)
    for one, other, first in zip(there, here, plainly, strict=True):
        assert one.context == "forum" and one.version == "0.1.0"
        again = first.redecide(file, **call)
        for result in (other, again):
            assert (result.unsafe, result.flagged) == (one.unsafe, one.flagged)
            near(result.decision, one.decision)
            for name, category in one.categories.items():
                assert result.categories[name].score == pytest.approx(category.score, abs=1e-6)
                near(result.categories[name].percentile, category.percentile)
                assert result.categories[name].flagged is category.flagged
        assert [query["id"] for query in one.queries] == ["mine"]
        assert one.queries[0]["combinations"] == other.queries[0]["combinations"]


def near(one: Any, other: Any) -> None:
    """Same shape and texts, numbers within 1e-6; `band` is ours, so that the client has none."""
    if isinstance(other, float):
        assert one == pytest.approx(other, abs=1e-6)
    elif isinstance(other, dict):
        assert one.keys() - {"band"} == other.keys() - {"band"}
        for key in other.keys() - {"band"}:
            near(one[key], other[key])
    else:
        assert one == other


def test_the_client_s_one_text_and_wrong_calls(client):
    found = client.moderate("Where is my money?")
    assert (found.context, found.mode) == ("ai", "micro_layer")
    assert found.raw is None
    for call, code in (
        ({"thresholds": {"none": 0.5}}, "unknown_category"),
        ({"context": "mail"}, "invalid_field"),
        ({"version": "9"}, "unknown_pack_version"),
    ):
        with pytest.raises(SpinfError) as caught:
            client.moderate("a", **call)
        assert (caught.value.status, caught.value.code) == (400, code)


def test_more_texts_than_a_batch_are_moderated(client):
    texts = [f"text {number}" for number in range(130)]
    found = client.moderate(texts)
    assert [one.text for one in found] == texts
    assert found[77].categories == client.moderate("text 77").categories


@pytest.mark.parametrize("seed", range(12))
def test_the_client_s_evaluation_is_the_server_s_for_any_pack(tmp_path, seed):
    """With p or log-probabilities, every kind of read, views, requirements, broken locks."""
    file = {**random_plain(Random(seed)), "model": SERVED.id}
    write_packs(tmp_path / "packs", file)
    with running(
        lambda: StubEngine(LIMITS).as_engine(),
        ServerConfig(),
        packs=served_from(tmp_path / "packs"),
    ) as server:
        assert server.http.get("/v1/packs/tests/random").json() == json.loads(json.dumps(file))
        for mode in MODES:
            ref = {"id": "tests/random", "include_queries": True, "decision": {"mode": mode}}
            for result in ask(server, body(ref))["results"]:
                wanted = local.evaluate(file, local.answers_from_result(result, file), mode=mode)
                [pack] = result["packs"]
                near(pack["categories"], wanted["categories"])
                warned = [
                    one.pop("warning", None) for one in (pack["decision"], wanted["decision"])
                ]
                near(pack["decision"], wanted["decision"])
                assert (warned[0] is None) == (warned[1] is None)


@pytest.mark.weights
@pytest.mark.slow
def test_the_client_moderates_with_the_official_pack(tmp_path):
    config = ServerConfig(packs_cache=tmp_path / "cache")
    with (
        running(
            lambda: open_engine(EngineConfig(model="embedded", device="cpu"), Limits()),
            config,
            packs=open_packs(config),
        ) as it,
        SpinfClient(base_url=it.url) as client,
    ):
        entries = {entry["id"]: entry for entry in client.list_packs()["packs"]}
        entry = entries["spinf/moderation"]
        assert (entry["queries"], len(entry["categories"])) == (106, 22)
        assert [context["id"] for context in entry["contexts"]] == ["ai", "forum"]
        assert set(entry["decision"]["modes"]) == set(MODES)
        file = client.get_pack()
        assert (file["pack"], file["version"]) == ("spinf/moderation", entry["version"])
        text = "I will find you and hurt you."
        there = client.moderate(text, context="forum", include_queries=True)
        assert (there.context, len(there.raw)) == ("forum", 106)
        assert there.mode == entry["decision"]["mode"] and "warning" not in there.decision
        near(there.redecide(file).decision, there.decision)
        here = client.moderate(text, context="forum", pack_file=file)
        near(here.decision, there.decision)
        for mode in MODES:
            again = there.redecide(file, mode=mode)
            assert again.mode == mode and "warning" not in again.decision
