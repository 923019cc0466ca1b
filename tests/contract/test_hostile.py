"""Ten thousand hostile requests to every route that takes a body: no fault, and no growth."""

import http.client
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.contract.test_fuzz import GOOD, MEDIA, TEXT
from tests.support.processes import start_process
from tests.support.servers import question, request
from tests.support.spoiling import compressed, encoded, form, headers, spoilt, spoilt_bytes

ROOT = Path(__file__).parents[2]
REQUESTS = 10_000
WARM_UP = 2_000
GROWTH = 0.05


def asking(**changes: Any) -> Any:
    """A request with one question."""
    return request("It came late.", question(**changes))


SYSTEM_ONE: Any = {
    "model": "jev-latest",
    "state": {"subject": "Billed twice", "lines": ["Please refund one.", 2]},
    "questions": {
        "refund": {"type": "noul", "instructions": "Money back?", "criteria": {"true": "asks"}},
        "team.a": {"type": "choice", "criteria": {"Billing": "payments", "Tech": None}},
        "heat": {
            "type": "score",
            "instructions": ["How", {"upset": 1}],
            "criteria": ["calm", "hot"],
        },
    },
}
ASSETS: Any = SYSTEM_ONE | {
    "assets": {"<i>": {"type": "image", "part": "p"}, "<j>": {"type": "image", "format": "png",
               "data_base64": "AAAA"}}
}  # fmt: skip
DECISIONS: Any = {
    "model": "jev-latest",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Billed twice."},
                                     {"type": "input_json", "data": [{"a": 1}]}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
    ],
    "questions": [
        {"type": "predicate", "name": "refund", "instructions": "Money back?"},
        {"type": "choice", "instructions": "Who?", "choices": [{"value": "a", "description": "b"},
                                                                {"value": True}]},
        {"type": "score", "name": "heat", "instructions": "How upset?",
         "levels": [{"label": "calm"}, {"label": "hot", "description": "very"}]},
    ],
    "safety_identifier": "x",
}  # fmt: skip
BATCH: Any = {
    "input_file_id": "file-x",
    "endpoint": "/v1/score",
    "completion_window": "24h",
    "metadata": {"a": "b"},
    "output_expires_after": {"anchor": "created_at", "seconds": 3600},
}
ROW: Any = {"custom_id": "a", "method": "POST", "url": "/v1/score", "body": GOOD}
# Spoiling alone hardly finds these: each is a body with one fault that a check of its own looks for.
FAULTY: list[Any] = [
    asking(template="\nLate? {x}{?}"),
    asking(template="\nLate? {A}{?}", combinations=[{"A": "a", "B": "b"}]),
    asking(template="{A}{B}{C}{?}", combinations="all",
           values={name: [str(n) for n in range(50)] for name in "ABC"}),
    asking(template="word " * 70 + "{?}"),
    asking(options=["a b c d e f g h", "no"]),
    asking(options=[str(n) for n in range(51)]),
    asking(options=["yes", "yes"]),
    asking(template="{?}{?}"),
    request("word " * 300),
    request("x", *[question(f"q{n}", template=f"\n{n}" + " word" * 60 + "{?}") for n in range(150)]),
    request("x", *[question(str(n)) for n in range(201)]),
    request("x", *[{"id": str(n), "template": "{*}"} for n in range(11)]),
    request("x", {"id": "a", "template": "{*}", "options": None}) | {"features": {"extraction": 1}},
    request("x", packs=[{"id": "no/such"}]),
    request("x", question("a"), question("a")),
    {"inputs": [{"id": "a", "messages": [], "query_ids": ["none"]}], "scoring": {"queries": []}},
    {"inputs": [{"id": "a", "messages": []}], "scoring": {"queries": []}},
    request([{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]),
    request("x" * 70_000),
]  # fmt: skip
JSON_BODIES: dict[str, list[Any]] = {
    "/v1/score": [GOOD, MEDIA],
    "/v1/chat/completions": [
        GOOD | {"temperature": 0, "n": 1},
        {name: value for name, value in TEXT.items() if name != "prompt"},
    ],
    "/v1/completions": [{name: value for name, value in TEXT.items() if name != "messages"}],
    "/v1/systemone": [SYSTEM_ONE, ASSETS],
    "/v1/decisions": [DECISIONS, SYSTEM_ONE],
    "/v1/batches": [BATCH],
    "/v1/batches/batch_x/cancel": [{}],
    "/v0/drain": [{}],
}
NOT_HTTP = "not_http"
"""Stands for the answer to a head that HTTP/1.1 does not know; it has no code."""

# What the state of a server decides (a full queue, a batch that has ended, a model without chats, packs)
# no body can reach.
REACHED = {
    "body_too_large", "content_too_long", "duplicate_id", "duplicate_option", "empty_queries",
    "invalid_encoding", "invalid_field", "invalid_json", "invalid_media", "invalid_template",
    "invalid_token", "media_not_supported", "missing_value", "model_not_served", NOT_HTTP,
    "option_too_long", "request_too_large", "template_too_long", "too_many_combinations",
    "too_many_extractions", "too_many_options", "too_many_prompts", "unknown_batch", "unknown_file",
    "unknown_pack", "unknown_placeholder", "unknown_query_id", "unsupported_content",
    "unsupported_encoding",
}  # fmt: skip
STATUSES = {200, 400, 401, 404, 413, 415, 422, 429}


def hostile(path: str, random: Random, file_id: str) -> tuple[bytes, dict[str, str]]:
    """A request's body and headers."""
    sent = headers(random)
    if path == "/v1/files":
        rows = b"\n".join(encoded(spoilt(ROW, random)) for _ in range(2))
        parts = {"purpose": b"batch", "file": rows, "expires_after[anchor]": b"created_at",
                 "expires_after[seconds]": random.choice([b"3600", b"NaN", "٣٦٠٠".encode()])}  # fmt: skip
        for name in [name for name in parts if random.random() < 0.1]:
            del parts[name]
        return form(parts, random), {"Content-Type": "multipart/form-data; boundary=B"} | sent
    good = random.choice(JSON_BODIES[path])
    if path == "/v1/score" and random.random() < 0.3:
        good = random.choice(FAULTY)
    if path == "/v1/batches" and random.random() < 0.1:
        good = good | {"input_file_id": file_id}
    body = encoded(spoilt(good, random))
    if random.random() < 0.2:
        body = spoilt_bytes(body, random)
    if path == "/v1/systemone" and random.random() < 0.2:
        sent = {"Content-Type": "multipart/form-data; boundary=B"} | sent
        return form({"request": body, "p": b"\x89PNG"}, random), sent
    if random.random() < 0.1:
        word, body = compressed(body, random)
        sent = sent | {"Content-Encoding": word}
    return body, sent


def check_error(path: str, body: bytes, request_id: str | None, sent: dict[str, str]) -> str:
    """The code of an error, which is in the envelope of its route."""
    value = json.loads(body)
    if request_id is None:
        # A header that HTTP/1.1 does not know of; this never was a request.
        assert isinstance(value["detail"], str)
        assert re.search(r"[\x00-\x08\x0a-\x1f\x7f]", "".join(sent.values())), (value, sent)
        return NOT_HTTP
    # A body of System One on the other route is answered in its own form once it is read.
    of_systemone = path == "/v1/systemone" or (path == "/v1/decisions" and "detail" in value)
    if not of_systemone:
        assert value["request_id"] == request_id
        assert isinstance(value["error"]["message"], str) and value["error"]["type"]
        return str(value["error"]["code"])
    if isinstance(value["detail"], list):
        [flaw] = value["detail"]
        assert flaw["loc"][0] == "body" and isinstance(flaw["msg"], str)
        return str(flaw["type"])
    assert value["detail"]["message"] and value["detail"]["error_type"]
    return str(value["detail"]["code"])


class Client:
    """A connection to a server that is taken up again when it was closed."""

    def __init__(self, address: str) -> None:
        self._address = address.removeprefix("http://")
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, sent: dict[str, str]) -> tuple[int, bytes, str | None]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._address, timeout=120)
        self._connection.request("POST", path, body, sent)
        answer = self._connection.getresponse()
        read = answer.read()
        if answer.will_close:
            self.close()
        return answer.status, read, answer.headers.get("X-Request-Id")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory as Linux tells it")
def test_ten_thousand_hostile_requests_neither_fail_nor_grow_the_server(tmp_path):
    command = [sys.executable, "-m", "tests.support.hostile_server", str(tmp_path)]
    with start_process(ROOT, command) as process:
        assert process.stdout is not None
        client = Client(process.stdout.readline().strip())
        try:
            deadline = time.monotonic() + 60
            while client.post("/v1/score", encoded(GOOD), {})[0] != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            random = Random(20_260_131)
            paths = [*JSON_BODIES, "/v1/files"]
            seen: Counter[tuple[str, int]] = Counter()
            codes: set[str] = set()
            file_id = "file-x"
            warm = 0
            for number in range(REQUESTS):
                if number == WARM_UP:
                    warm = resident_bytes(process.pid)
                path = paths[number % len(paths)]
                body, sent = hostile(path, random, file_id)
                status, answer, request_id = client.post(path, body, sent)
                assert status in STATUSES, (path, status, answer[:500], body[:2000], sent)
                seen[path, status] += 1
                if status != 200:
                    codes.add(check_error(path, answer, request_id, sent))
                elif path == "/v1/files":
                    file_id = json.loads(answer)["id"]
            grown = resident_bytes(process.pid) / warm - 1
            print(
                f"grown by {grown:.2%} from {warm / 2**20:.0f} MiB",
                sorted(seen.items()),
                sorted(codes),
            )
            assert client.post("/v1/score", encoded(GOOD), {})[0] == 200
            # Each route was reached behind its first check, and each of these refusals was met.
            assert {path for path, status in seen if status == 200} >= set(paths) - {
                "/v1/batches/batch_x/cancel", "/v0/drain"
            }  # fmt: skip
            assert codes >= REACHED, REACHED - codes
            assert grown < GROWTH
        finally:
            client.close()
            process.kill()
