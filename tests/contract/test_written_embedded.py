"""Slots, completions and chats by the model that comes along, through unmodified clients."""

from typing import Any

import openai
import pytest
from spinf_client.client import SpinfClient, query, text  # type: ignore[import-untyped]

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS
from tests.support.servers import running

pytestmark = [pytest.mark.weights, pytest.mark.slow]

CONTENT = "Order 8841 came two days late in a crushed box. $12 went back to the card."
ASKED: Any = [{"role": "user", "content": "Is the sky blue? Answer yes or no."}]
CLIENT_SECONDS = 300


@pytest.fixture(scope="module")
def server():
    def open_embedded():
        return open_engine(EngineConfig(model="embedded", device="cpu"), LIMITS)

    with running(open_embedded, ServerConfig(limits=LIMITS)) as it:
        yield it


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(
        api_key="any", base_url=f"{server.url}/v1", max_retries=0, timeout=CLIENT_SECONDS
    ) as client:
        yield client


def test_the_query_helpers_of_the_client_ask_every_kind_of_slot(server):
    queries = [
        query("late", "\nWas it late? Answer:{?}", options=[" yes", " no"]),
        query("order", '\nThe order number is "{*}"', max_tokens=5, top_k=3),
        query("days", "\nNumber of days late:{n}", max_tokens=4, calibration=(0.8, 1.1)),
        query("back", "\nAmount returned:{$}", max_tokens=4),
        query("line", '\nIn one line: "{*}"', generate=True, max_tokens=4),
    ]
    with SpinfClient(base_url=server.url, timeout_s=CLIENT_SECONDS) as client:
        out = client.score(content=[text(CONTENT)], queries=queries)
    late, order, days, back, line = out["results"][0]["queries"]
    assert len(late["combinations"][0]["options"]) == 2
    assert order["combinations"][0]["answers"][0]["text"] == "8841"
    assert days["combinations"][0]["answers"][0]["value"] == 2.0
    assert 0 < days["combinations"][0]["p_calibrated"] < 1
    best = back["combinations"][0]["answers"][0]
    assert (best["text"], best["value"], best["currency"]) == ("$12", 12.0, "$")
    assert line["combinations"][0]["answers"][0]["finish"] == "length"
    assert out["usage"]["generation"]["generated_tokens"] == 4
    assert out["timing"]["decode_ms"] > 0


def test_a_completion_knows_a_capital(client):
    done = client.completions.create(
        model="jev-latest", prompt="The capital of France is", max_tokens=2, temperature=0
    )
    assert done.choices[0].text.startswith(" Paris")
    assert done.usage.completion_tokens <= 2


def test_a_chat_streams_what_it_says_at_once(client):
    same: Any = {"model": "jev-latest", "messages": ASKED, "max_tokens": 4, "temperature": 0}
    whole = client.chat.completions.create(**same)
    pieces = list(client.chat.completions.create(**same, stream=True))
    said = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert said and said == whole.choices[0].message.content
    assert pieces[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_the_same_seed_says_the_same(client):
    def said(seed: int) -> str:
        done = client.completions.create(
            model="jev-latest", prompt="Once", max_tokens=4, temperature=1.2, seed=seed
        )
        return str(done.choices[0].text)

    assert said(5) == said(5)
