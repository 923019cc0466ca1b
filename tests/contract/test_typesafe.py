"""The unmodified SDK of TypeSafe against running servers: answers, compression, images, errors."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import typesafe_sdk as sdk

from tests.contract.conftest import TOKEN
from tests.contract.test_systemone import HEAT, NOUL, STATE, TEAM, answers

QUESTIONS: dict[str, Any] = {
    "refund": sdk.Noul(instructions=NOUL["instructions"]),
    "team": sdk.Choice(instructions=TEAM["instructions"], criteria=TEAM["criteria"]),
    "heat": sdk.Score(instructions=HEAT["instructions"], criteria=HEAT["criteria"]),
}
# The smallest picture there is.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def client_of(url: str, key: str = "any", **more: Any) -> sdk.TypeSafeClient:
    return sdk.TypeSafeClient(
        api_key=key, base_url=url, retry=sdk.RetryPolicy(max_retries=0), timeout=60, **more
    )


@pytest.fixture(params=[False, "zstd"], ids=["plain", "zstd"])
def client(request, server) -> Iterator[sdk.TypeSafeClient]:
    if request.param:
        pytest.importorskip("backports.zstd", reason="the SDK compresses with it")
    with client_of(server.url, compression=request.param) as client:
        yield client


def test_every_kind_of_answer_is_read(client, server):
    done = client.system_one(STATE, QUESTIONS)
    direct = answers(server, {"refund": NOUL, "team": TEAM, "heat": HEAT})
    assert done.answers["refund"].noul == direct["refund"]["noul"]
    assert done.answers["team"].choice == direct["team"]["choice"]
    assert dict(done.answers["team"].probabilities) == direct["team"]["probabilities"]
    assert done.answers["heat"].score == direct["heat"]["score"]
    assert done.answers["heat"].confidence == direct["heat"]["confidence"]
    assert done.usage.input_tokens > 0 and done.usage.output_tokens == 0


def test_a_large_body_is_read_as_it_was_meant(client, server):
    """Large enough for the SDK to compress it."""
    long = "Does the writer ask for money back? " * 60
    done = client.system_one(STATE, {"q": sdk.Noul(instructions=long)})
    assert (
        done.answers["q"].noul
        == answers(server, {"q": {**NOUL, "instructions": long}})["q"]["noul"]
    )


@pytest.mark.parametrize("large", [False, True])
def test_an_image_is_refused_in_words_that_the_sdk_shows(client, large):
    image = sdk.Image(PNG)
    state: Any = {"photo": image, "note": "x" * (4000 if large else 1)}
    with pytest.raises(sdk.TypeSafeBadRequestError, match="text only"):
        client.system_one(state, {"q": sdk.Noul(instructions="Is it red?")})


def test_errors_are_of_the_kind_that_the_sdk_has_for_them(client, guarded):
    with pytest.raises(sdk.TypeSafeUnprocessableEntityError, match="levels"):
        client.system_one(STATE, {"q": sdk.Score(criteria=[str(n) for n in range(11)])})
    with pytest.raises(sdk.TypeSafeBadRequestError, match="not served"):
        client.system_one(STATE, QUESTIONS, model="gpt-6-luna")
    with (
        client_of(guarded.url, "wrong") as stranger,
        pytest.raises(sdk.TypeSafeAuthenticationError),
    ):
        stranger.system_one(STATE, QUESTIONS)
    with client_of(guarded.url, TOKEN) as friend:
        assert friend.system_one(STATE, QUESTIONS).answers.keys() == QUESTIONS.keys()


def test_the_list_of_models_is_read(client):
    [model] = client.models.list().models
    assert client.system_one(STATE, QUESTIONS, model=model.name).model == model.name
