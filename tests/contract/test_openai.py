"""The unmodified SDK of OpenAI against a running server."""

from typing import Any

import openai
import pytest

from tests.contract.conftest import TOKEN
from tests.support.servers import question, request

MESSAGES = request()["messages"]
SCORING = request()["scoring"]


@pytest.fixture
def client(server):
    with openai.OpenAI(api_key="any", base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, model: str = "jev-latest", messages=None, scoring=None, **more):
    extra = {"scoring": SCORING if scoring is None else scoring}
    return client.chat.completions.create(
        model=model, messages=messages or MESSAGES, extra_body=extra, **more
    )


def test_a_completion_carries_the_results(client, server):
    done = ask(client)
    assert (done.choices, done.object, done.model) == ([], "score", "jev-latest")
    direct = server.score(request()).json()
    assert done.results == direct["results"]
    assert done.warnings == direct["warnings"]
    assert done.usage.prompt_tokens == direct["usage"]["prompt_tokens"]
    assert done.usage.scoring["prompts"] == 1
    assert done.timing.keys() == direct["timing"].keys()


@pytest.mark.parametrize("temperature", [0, 0.3, 1.7])
def test_sampling_settings_change_nothing_and_are_named(client, temperature):
    done = ask(client, temperature=temperature)
    assert done.results == ask(client).results
    assert "temperature" in [warning.get("param") for warning in done.warnings]
    assert "temperature" not in [warning.get("param") for warning in ask(client).warnings]


def test_the_model_list_names_a_model_that_can_be_asked(client):
    [model] = client.models.list().data
    assert model.object == "model"
    assert ask(client, model=model.id).model == model.id


@pytest.mark.parametrize("name", ["jev-latest", "SPINF-12B", None])
def test_a_model_is_retrieved_by_any_of_its_names(client, name):
    [model] = client.models.list().data
    assert client.models.retrieve(name or model.id) == model


@pytest.mark.parametrize("name", ["gpt-5", "x/y", "é"])
def test_a_model_that_is_not_served_is_not_found(client, name):
    with pytest.raises(openai.NotFoundError, match="is not served here") as caught:
        client.models.retrieve(name)
    assert (caught.value.code, caught.value.param) == ("model_not_served", "model")


@pytest.mark.parametrize(
    ("sent", "code", "param"),
    [
        ({"model": "gpt-6"}, "model_not_served", "model"),
        ({"scoring": {}}, "empty_queries", "inputs.0"),
        (
            {"scoring": {"queries": [question(options=[])]}},
            "too_many_options",
            "scoring.queries.0.options",
        ),
        (
            {"messages": [{"role": "user", "content": "It came late. " * 200}]},
            "content_too_long",
            "inputs.0",
        ),
        (
            {"messages": [{"role": "system", "content": "Be kind."}]},
            "invalid_field",
            "inputs.0.messages.0.role",
        ),
    ],
)
def test_a_refusal_is_a_bad_request_error_with_code_param_and_type(client, sent, code, param):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **sent)
    error: Any = caught.value
    assert (error.status_code, error.code, error.param) == (400, code, param)
    assert error.type == "invalid_request"
    assert error.body["message"] in str(error)
    assert error.request_id.startswith("scr_")
    assert ask(client).results


def test_a_body_that_is_too_large_is_a_status_error(client):
    with pytest.raises(openai.APIStatusError) as caught:
        ask(client, messages=[{"role": "user", "content": "x" * 200_000}])
    assert (caught.value.status_code, caught.value.code) == (413, "body_too_large")


def test_a_wrong_key_is_an_authentication_error(guarded):
    for key in ("no", TOKEN):
        with openai.OpenAI(api_key=key, base_url=f"{guarded.url}/v1", max_retries=0) as client:
            if key == TOKEN:
                assert ask(client).results
                continue
            with pytest.raises(openai.AuthenticationError) as caught:
                client.models.list()
            assert (caught.value.code, caught.value.type) == (
                "invalid_token",
                "authentication_error",
            )


def test_a_fault_and_a_full_queue_are_typed_too(stub, stub_server):
    with openai.OpenAI(api_key="x", base_url=f"{stub_server.url}/v1", max_retries=0) as client:
        stub.step_error = RuntimeError("broken")
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client)
        assert caught.value.code == "engine_error"
        assert ask(client).results
