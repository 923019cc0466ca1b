"""Requests that schemathesis makes from the OpenAPI document, good ones and spoilt ones.

Its command is run on a server that wants a token; what may differ from the document is nothing.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from spinf_serve.packs.errors import CODES
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.openapi.document import document
from spinf_serve.server.urgency import DEADLINE_HEADER
from tests.contract.conftest import LIMITS, TOKEN
from tests.support.servers import Running, question, running
from tests.support.stub_engine import StubEngine

COMMAND = Path(sys.executable).parent / "schemathesis"
# Good requests are looked at closer below. Answers to methods that a path lacks name one of several
# methods that it has, as the framework does. Headers that nobody reads are no fault.
CONFIGURATION = """
[checks]
positive_data_acceptance.enabled = false
allow_header_conformance.enabled = false

[generation]
allow-extra-parameters = false
"""
# What a schema can say of a body, so that one which fits is never refused for it. Everything else it
# may be: a schema cannot count tokens, compare parts of a body, or know what is served.
SAID_BY_SCHEMA = {"invalid_json", "invalid_encoding", "invalid_field"} | {
    "scoring_required",
    "unsupported_content",
}
BEYOND = {name for name, code in CODES.items() if code.status in (400, 413)} - SAID_BY_SCHEMA
PATHS = {
    "score": "/v1/score",
    "systemone": "/v1/systemone",
    "decisions": "/v1/decisions",
    "raw": "/v0/score",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a token and batch files, on the stub."""
    config = ServerConfig(
        limits=LIMITS,
        token=TOKEN,
        max_body_bytes=64 * 1024,
        batch_dir=str(tmp_path_factory.mktemp("batches")),
    )
    with running(lambda: StubEngine(LIMITS).as_engine(), config) as server:
        server.http.headers["Authorization"] = f"Bearer {TOKEN}"
        yield server


def run(server: Running, told: Any, folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of schemathesis on a document and a server."""
    (folder / "openapi.json").write_text(json.dumps(told))
    (folder / "schemathesis.toml").write_text(CONFIGURATION)
    ran = subprocess.run(
        [
            *(str(COMMAND), "--config-file", str(folder / "schemathesis.toml"), "run"),
            *(str(folder / "openapi.json"), "--url", server.url),
            *("--header", f"Authorization: Bearer {TOKEN}"),
            *("--seed", "1", "--generation-database", "none", "--no-color"),
            *("--request-timeout", "60"),
            *options,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return ran.returncode, ran.stdout + ran.stderr


def without_deadlines(told: Any) -> Any:
    """The document without the header for them: a millisecond would be drawn, and answered 504."""
    for methods in told["paths"].values():
        for operation in methods.values():
            kept = [
                one for one in operation.get("parameters", []) if one["name"] != DEADLINE_HEADER
            ]
            operation["parameters"] = kept
    return told


@pytest.mark.slow
def test_no_request_gets_an_answer_that_is_not_told(guarded, tmp_path):
    code, said = run(
        guarded,
        without_deadlines(guarded.http.get("/openapi.json").json()),
        tmp_path,
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "8"),
        # After it every request is refused; test_openapi.py has it.
        *("--exclude-path", "/v0/drain"),
    )
    assert code == 0, said
    assert guarded.http.get("/readyz").status_code == 200


def test_an_answer_that_is_not_told_is_seen(guarded, tmp_path):
    told = document(LIMITS, 64 * 1024)
    told["components"]["schemas"]["Models"]["properties"]["object"]["enum"] = ["other"]
    del told["paths"]["/v1/packs/{id}"]["get"]["responses"]["404"]
    options = (
        "--phases",
        "fuzzing",
        "--max-examples",
        "2",
        "--include-path-regex",
        "(packs/|models)",
    )
    code, said = run(guarded, told, tmp_path, *options)
    assert code == 1
    assert "Response violates schema" in said
    assert "Undocumented status code" in said


def whole(value: Any) -> Any:
    """The value with each 2.0 in it made a 2: whole to a schema, and not to the reader."""
    if isinstance(value, dict):
        return {key: whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def in_order(value: Any) -> Any:
    """The value with the frames of each video a second apart: a schema knows no order of times."""
    if isinstance(value, list):
        return [in_order(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {key: in_order(one) for key, one in value.items()}
    if isinstance(made.get("frames"), list):
        frames = enumerate(made["frames"])
        made["frames"] = [one | {"t": at} if "t" in one else one for at, one in frames]
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", PATHS)
def test_bodies_that_fit_are_refused_only_for_what_no_schema_can_say(guarded, name):
    told = guarded.http.get("/openapi.json").json()
    operation = schemathesis.openapi.from_dict(told)[PATHS[name]]["POST"]
    seen: Counter[str] = Counter()

    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Any) -> None:
        body = case.body
        # A schema knows no names of models; nearly every other one is refused at once.
        body |= {"model": "stub"} if "model" in body else {}
        if name == "score" and not (body.get("scoring") or {}).get("queries"):
            body["scoring"] = {**(body.get("scoring") or {}), "queries": [question("shared")]}
        if name == "raw":
            # Nor does it know that ids differ, and that each prompt has options.
            body["jobs"] = [
                {"id": str(number), "prompts": job["prompts"]}
                | {"options": job["options"][:1] * len(job["prompts"])}
                for number, job in enumerate(body["jobs"])
            ]
        sent = json.dumps(in_order(whole(body)))
        answer = guarded.http.post(PATHS[name], content=sent)
        code = "" if answer.status_code == 200 else _code(answer.json())
        if code == "body_too_large":
            assert len(sent) > guarded.config.max_body_bytes
            return
        assert code in {"", *BEYOND}, (body, answer.text)
        seen[code] += 1

    ask()
    assert seen[""] >= 5, seen


def _code(body: Any) -> str:
    """The code of an error in either form."""
    error = body.get("error", body.get("detail"))
    found: str = error[0]["type"] if isinstance(error, list) else error["code"]
    return found
