"""POST /v1/decisions: the unmodified SDK of OpenAI, and the body of System One on the same route."""

import math
from typing import Any

import openai
import pytest

from tests.contract.test_systemone import NOUL, QUESTIONS, STATE, body
from tests.contract.test_systemone import answers as systemone

REFUND = {"type": "predicate", "name": "refund", "instructions": NOUL["instructions"]}
TEAM = {
    "type": "choice",
    "instructions": "Who handles it?",
    "choices": [
        {"value": "Billing", "description": "payments"},
        {"value": "Tech"},
        {"value": "Sales"},
    ],
}
HEAT = {
    "type": "score",
    "name": "heat",
    "instructions": "How upset?",
    "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
}


@pytest.fixture
def client(server):
    with openai.OpenAI(api_key="any", base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def ask(
    client: openai.OpenAI, *questions: Any, content: Any = STATE, model: str = "jev-latest"
) -> Any:
    return client.decisions.create(model=model, input=content, questions=list(questions))


def test_the_sdk_reads_every_kind_of_answer(client, server):
    done = ask(client, REFUND, TEAM, HEAT)
    refund, team, heat = done.answers
    assert (refund.type, refund.name) == ("predicate", "refund")
    assert (team.type, team.name) == ("choice", None)
    assert [entry.value for entry in team.probabilities] == ["Billing", "Tech", "Sales"]
    assert [(entry.value, entry.label) for entry in heat.probabilities] == [
        (0, "calm"),
        (1, "annoyed"),
        (2, "furious"),
    ]
    assert done.usage.total_tokens == done.usage.input_tokens > 0
    assert done.usage.input_tokens_details.cached_tokens == 0
    assert (done.usage.output_tokens, done.usage.output_tokens_details.reasoning_tokens) == (0, 0)
    assert done.model


def test_both_formats_give_the_same_bits(client, server):
    refund, team, heat = ask(client, REFUND, TEAM, HEAT).answers
    other = systemone(server, QUESTIONS)
    assert refund.probability == other["refund"]["noul"]
    shares = {entry.value: entry.probability for entry in team.probabilities}
    assert shares == other["team"]["probabilities"]
    assert (team.choice, team.confidence) == (other["team"]["choice"], other["team"]["confidence"])
    assert (heat.score, heat.confidence) == (other["heat"]["score"], other["heat"]["confidence"])


def test_true_and_the_text_true_are_two_choices(client):
    question = {
        "type": "choice",
        "instructions": "Is it so?",
        "choices": [{"value": True}, {"value": "true"}, {"value": False}],
    }
    [answer] = ask(client, question).answers
    values = [entry.value for entry in answer.probabilities]
    assert values == [True, "true", False] and [type(v) for v in values] == [bool, str, bool]
    assert len({entry.probability for entry in answer.probabilities}) == 3
    assert math.isclose(math.fsum(entry.probability for entry in answer.probabilities), 1)


def test_an_input_of_one_message_is_its_text(client):
    plain = ask(client, REFUND).answers
    message = {"role": "user", "content": [{"type": "input_text", "text": STATE}]}
    assert ask(client, REFUND, content=[message]).answers == plain


def test_every_item_of_an_input_counts(client):
    items: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_json", "data": {"a": 1}}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Well."}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "found"},
        {"type": "custom_tool_call", "call_id": "d", "name": "find", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "none"},
    ]
    whole = ask(client, REFUND, content=items).answers[0].probability
    found = {whole}
    for index in range(len(items)):
        part = items[:index] + items[index + 1 :]
        found.add(ask(client, REFUND, content=part).answers[0].probability)
    assert len(found) == len(items) + 1


def test_the_hosted_model_is_not_served(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, REFUND, model="gpt-6-luna")
    assert (caught.value.code, caught.value.param) == ("model_not_served", "model")


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"questions": []}, "questions"),
        ({"questions": [REFUND] * 401}, "questions"),
        ({"questions": {"q": REFUND}}, "questions"),
        ({"questions": [{"type": "predicate"}]}, "questions.0.instructions"),
        ({"questions": [{**REFUND, "type": "noul"}]}, "questions.0.type"),
        ({"questions": [REFUND, REFUND]}, "questions.1.name"),
        ({"questions": [{**TEAM, "choices": []}]}, "questions.0.choices"),
        ({"questions": [{**TEAM, "choices": [{"value": 3}]}]}, "questions.0.choices.0.value"),
        ({"questions": [{**TEAM, "choices": [{"value": "a"}] * 2}]}, "questions.0.choices.1"),
        ({"questions": [{**HEAT, "levels": [{"label": "a"}] * 11}]}, "questions.0.levels"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "owner", "content": "x"}]}, "input.0.role"),
        ({"input": [{"type": "reasoning"}]}, "input.0.type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "input.0.content.0.type",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input.0.content.0.type",
        ),
        ({"state": "both"}, "input"),
        ({"model": ""}, "model"),
    ],
)
def test_a_refusal_names_its_field_in_the_form_of_openai(server, changes, param):
    value = {"model": "jev-latest", "input": STATE, "questions": [REFUND], **changes}
    answer = server.http.post("/v1/decisions", json=value)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param and error["code"] and error["message"]


def test_deep_json_is_refused(server):
    data: Any = {}
    for _ in range(40):
        data = {"a": data}
    part = {"type": "input_json", "data": data}
    value = {
        "model": "jev-latest",
        "input": [{"role": "user", "content": [part]}],
        "questions": [REFUND],
    }
    answer = server.http.post("/v1/decisions", json=value)
    assert answer.json()["error"]["param"] == "input.0.content.0.data"


def test_a_body_of_system_one_is_answered_in_its_form(server):
    answer = server.http.post("/v1/decisions", json=body())
    direct = server.http.post("/v1/systemone", json=body())
    assert answer.json() == direct.json()
    assert answer.headers["x-typesafe-request-id"]
    refused = server.http.post("/v1/decisions", json=body({"q": {"type": "boolean"}}))
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "questions", "q", "type"]
    assert refused.headers["x-typesafe-request-id"] == refused.headers["x-request-id"]
