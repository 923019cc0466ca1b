"""Whatever a caller sends, the answer is a 200 or a refusal, never a fault."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS, TOKEN
from tests.support.servers import question, request, running
from tests.support.spoiling import places
from tests.support.stub_engine import StubEngine

WORDS = st.sampled_from(
    ["id", "template", "options", "combinations", "values", "all", "user", "text", "type", "x",
     "queries", "scoring", "inputs", "messages", "role", "content", "model", "{?}", "{x}{?}",
     "full", "precision", "image_url", "url", "video", "frames", "t", "data:image/png;base64,AA"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None, categories=None), max_size=20)
    | WORDS
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
GOOD: Any = {
    "model": "jev-latest",
    "endpoint": "desk",
    "inputs": [
        {"id": "a", "messages": [{"role": "user", "content": "It came late."}]},
        {
            "id": "b",
            "query_ids": ["grid"],
            "queries": [question("own", group="g")],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
            ],
            "parameters": {"shop": "x"},
        },
    ],
    "scoring": {
        "queries": [
            question("q", empty_floor=False),
            question("grid", template="\nIs it {A}?{?}", combinations="all", values={"A": ["x", "y"]}),
            {"id": "who", "template": 'Who? "{*}"', "top_k": 2, "calibration": {"a": 1, "b": 0}},
            {"id": "line", "template": "{*}.", "generate": {"n": 2, "temperature": 1, "top_p": 1}},
        ],
        "empty_floor": True,
        "case_insensitive": True,
        "precision": "full",
    },
    "limits": {"max_options": 5},
    "features": {"media": ["image"], "extraction": True},
}  # fmt: skip
TEXT: Any = {
    "model": "stub",
    "prompt": "It came late.",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "It came late."}]}],
    "max_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "seed": 1,
    "stop": ["x", "y"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "n": 1,
}
MEDIA: Any = request(
    [
        {"type": "text", "text": "See"},
        {"type": "video", "video": {"frames": [
            {"t": 0.5, "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
)  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn, good: Any) -> Any:
    """A good body of which a few parts are replaced, removed or doubled."""
    body = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(places(body)))
        owner = body
        for key in above:
            owner = owner[key]
        change = draw(st.sampled_from(["replace", "remove", "double", "rename"]))
        if change == "remove":
            del owner[last]
        elif change == "double" and isinstance(owner, list):
            owner.append(copy.deepcopy(owner[last]))
        elif change == "rename" and isinstance(owner, dict):
            owner[draw(WORDS)] = owner.pop(last)
        else:
            owner[last] = draw(JSON)
        if not places(body):
            break
    return body


def send(server, path: str, body: Any):
    answer = server.http.post(path, content=json.dumps(body).encode())
    assert answer.status_code in (200, 400, 413), (answer.text, body)
    if answer.status_code != 200:
        assert answer.json()["error"]["code"]
        answer.text.encode()


@pytest.fixture(scope="module")
def server():
    """A server on the stub: what is tried here ends before an engine's work begins."""
    config = ServerConfig(limits=LIMITS, max_body_bytes=64 * 1024)
    with running(lambda: StubEngine(LIMITS).as_engine(), config) as it:
        yield it


@pytest.fixture(scope="module")
def trusting():
    """A server whose client is a trusted caller."""
    with running(lambda: StubEngine(LIMITS).as_engine(), ServerConfig(token=TOKEN)) as server:
        server.http.headers["Authorization"] = f"Bearer {TOKEN}"
        yield server


relaxed = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@relaxed
@given(body=JSON)
def test_any_json(server, body):
    send(server, "/v1/score", body)


@relaxed
@given(body=spoilt(GOOD) | spoilt(MEDIA), path=st.sampled_from(["score", "chat/completions"]))
def test_a_spoilt_request(server, body, path):
    send(server, f"/v1/{path}", body)


@relaxed
@given(body=spoilt(TEXT), path=st.sampled_from(["completions", "chat/completions"]))
def test_a_spoilt_request_for_a_text(server, body, path):
    if isinstance(body, dict):
        body.pop("messages" if path == "completions" else "prompt", None)
    send(server, f"/v1/{path}", body)


@relaxed
@given(body=spoilt(GOOD))
def test_a_spoilt_request_of_a_trusted_caller(trusting, body):
    send(trusting, "/v1/score", body)


@relaxed
@given(raw=st.binary(max_size=60))
def test_any_bytes(server, raw):
    answer = server.http.post("/v1/score", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in ("invalid_json", "invalid_field")


def test_the_good_bodies_are_good(server):
    for path, other in (("completions", "messages"), ("chat/completions", "prompt")):
        body = {name: value for name, value in TEXT.items() if name != other}
        assert server.http.post(f"/v1/{path}", json=body).status_code == 200
    assert server.http.post("/v1/score", json=GOOD).status_code == 200
    assert server.http.post("/v1/score", json=MEDIA).json()["error"]["code"] == (
        "media_not_supported"
    )
