"""Batches that expire, that a server finds in the middle of something, and folders that fail."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.server.auth import ANYBODY
from spinf_serve.server.batches import runner as running_batches
from spinf_serve.server.batches.folder import BatchFolder
from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.batches.records import (
    CANCELLING,
    EXPIRING,
    FINALIZING,
    IN_PROGRESS,
    VALIDATING,
    Batch,
    KeptFile,
    Progress,
)
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.ids import new_id
from tests.support.servers import request, running
from tests.support.stub_engine import StubEngine

ROWS = [
    json.dumps({"custom_id": f"r{n}", "method": "POST", "url": "/v1/score", "body": request("x")})
    for n in range(20)
]


def config(folder: Path, rows: int = 2, **changes: Any) -> ServerConfig:
    return ServerConfig(batch_dir=str(folder), batch_rows=rows, **changes)


def left(folder: Path, status: str = VALIDATING, **changes) -> str:
    """A batch as a server would have left it; its id."""
    shelf = BatchFolder(folder, config(folder))
    text = "\n".join(ROWS).encode()
    now = int(time.time())
    file = KeptFile(new_id("file-"), "anonymous", "rows", "batch", len(text), now, now + 9999)
    shelf.path(file.id).write_bytes(text)
    shelf.ledger.add_file(file)
    batch = Batch(
        id=new_id("batch_"),
        caller=ANYBODY,
        endpoint="/v1/score",
        input_file_id=file.id,
        output_file_id=new_id("file-"),
        error_file_id=new_id("file-"),
        completion_window="24h",
        metadata={},
        output_seconds=9999,
        created_at=now,
        expires_at=now + 9999,
    )
    batch = replace(batch, status=status, **changes)
    shelf.ledger.add_batch(batch, 100)
    shelf.close()
    return batch.id


def served(folder: Path, batch_id: str, stub: StubEngine | None = None) -> dict[str, Any]:
    """The batch's body once it has ended on a server; with the ids of its lines' rows."""
    stub = stub or StubEngine()
    with running(stub.as_engine, config(folder)) as server:
        deadline = time.monotonic() + 20
        while True:
            body: dict[str, Any] = server.http.get(f"/v1/batches/{batch_id}").json()
            if body["status"] in ("completed", "failed", "expired", "cancelled"):
                break
            assert time.monotonic() < deadline, body
            time.sleep(0.02)
        for name in ("output", "error"):
            id = body[f"{name}_file_id"]
            text = server.http.get(f"/v1/files/{id}/content").text if id else ""
            found = [json.loads(line) for line in text.splitlines()]
            body[name] = [line["custom_id"] for line in found]
            body[f"{name}_codes"] = {line["error"] and line["error"]["code"] for line in found}
    return body


NAMES = [f"r{n}" for n in range(20)]


def test_what_is_not_answered_in_time_expires_and_is_named(tmp_path):
    stub = StubEngine()
    stub.step_seconds = 0.15
    batch_id = left(tmp_path, expires_at=int(time.time()) + 2)
    body = served(tmp_path, batch_id, stub)
    assert body["status"] == "expired" and body["expired_at"] >= body["expires_at"]
    assert body["output"] and body["error"]
    assert body["output"] + body["error"] == NAMES
    assert body["error_codes"] == {"batch_expired"}
    assert body["request_counts"] == {
        "total": 20,
        "completed": len(body["output"]),
        "failed": len(body["error"]),
    }


def test_a_batch_that_expired_while_no_server_ran_has_no_answers(tmp_path):
    stub = StubEngine()
    batch_id = left(tmp_path, expires_at=int(time.time()) - 5)
    body = served(tmp_path, batch_id, stub)
    assert (body["status"], body["output_file_id"], stub.passes) == ("expired", None, [])
    assert body["error"] == NAMES


@pytest.mark.parametrize(
    ("status", "end", "output", "code"),
    [
        (IN_PROGRESS, "completed", NAMES[5:], set()),
        (CANCELLING, "cancelled", [], {"batch_cancelled"}),
        (EXPIRING, "expired", [], {"batch_expired"}),
    ],
)
def test_a_server_goes_on_where_another_ended(tmp_path, status, end, output, code):
    place = len("\n".join(ROWS[:5]).encode()) + 1
    batch_id = left(
        tmp_path, status, total=20, progress=Progress(input_bytes=place), times={status: 1}
    )
    body = served(tmp_path, batch_id)
    assert body["status"] == end
    assert body["output"] == output
    assert body["error"] == ([] if output else NAMES[5:])
    assert body["error_codes"] == code


def test_a_batch_whose_rows_all_have_lines_is_only_shown(tmp_path):
    size = len("\n".join(ROWS).encode())
    batch_id = left(
        tmp_path, FINALIZING, total=20, progress=Progress(input_bytes=size), times={FINALIZING: 1}
    )
    stub = StubEngine()
    body = served(tmp_path, batch_id, stub)
    assert (body["status"], stub.passes) == ("completed", [])


def test_a_batch_cancelled_before_its_rows_were_counted_has_none(tmp_path):
    body = served(tmp_path, left(tmp_path, CANCELLING, times={CANCELLING: 1}))
    assert (body["status"], body["output"], body["error"]) == ("cancelled", [], [])


def test_a_folder_that_fails_for_a_while_costs_no_row(tmp_path, monkeypatch, caplog):
    batch_id = left(tmp_path)
    advance, calls = Ledger.advance, []

    def failing(self, id, progress):
        calls.append(id)
        if len(calls) in (2, 3):
            raise OSError(28, "No space left on device")
        advance(self, id, progress)

    monkeypatch.setattr(Ledger, "advance", failing)
    monkeypatch.setattr(running_batches, "_REST_SECONDS", 0.05)
    body = served(tmp_path, batch_id)
    assert (body["status"], body["output"], body["error"]) == ("completed", NAMES, [])
    assert len([each for each in caplog.records if "rests for" in each.message]) == 2


def test_rows_that_changed_behind_the_check_fail_the_batch_and_show_what_was_answered(tmp_path):
    batch_id = left(tmp_path, IN_PROGRESS, total=20, times={IN_PROGRESS: 1})
    [path] = (tmp_path / "files").iterdir()
    path.write_text("\n".join([*ROWS[:3], "what?"]))
    body = served(tmp_path, batch_id)
    assert (body["status"], body["output"]) == ("failed", NAMES[:3])
    assert body["errors"]["data"][0]["code"] == "invalid_json"


def test_no_more_rows_are_in_work_than_allowed(tmp_path):
    stub = StubEngine()
    stub.gate.clear()
    left(tmp_path)
    with running(stub.as_engine, config(tmp_path)) as server:
        deadline = time.monotonic() + 20
        while server.service.admission.in_flight < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        assert server.service.admission.in_flight == 2
        stub.gate.set()


class Stuck(StubEngine):
    """Never answers the content of the first row, and tells how many others it has."""

    answered = 0

    def step(self) -> Any:
        held = {job: None for job in self._jobs if job.work.content == "first"}
        self._jobs = {job: None for job in self._jobs if job not in held}
        done = super().step()
        self._jobs |= held
        self.answered += len(done)
        time.sleep(0.01)
        return done


def test_answers_behind_a_row_that_has_none_are_not_written_past_it(tmp_path):
    first = json.loads(ROWS[0]) | {"body": request("first")}
    batch_id = left(tmp_path, IN_PROGRESS, total=20, times={IN_PROGRESS: 1})
    [path] = (tmp_path / "files").iterdir()
    path.write_text("\n".join([json.dumps(first), *ROWS[1:]]))
    stub = Stuck()
    with running(stub.as_engine, config(tmp_path)) as server:
        deadline = time.monotonic() + 20
        # Two rows may be in work, so others run ahead of the stuck one, but not without end.
        while stub.answered < 7:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        assert stub.answered == 7
        body = server.http.get(f"/v1/batches/{batch_id}").json()
        assert body["request_counts"]["completed"] == 0
    assert served(tmp_path, batch_id)["output"] == NAMES


def test_too_many_batches_at_once_are_turned_away(tmp_path, monkeypatch):
    monkeypatch.setattr(running_batches, "MAX_UNFINISHED", 1)
    batch_id = left(tmp_path)
    stub = StubEngine()
    stub.gate.clear()
    with running(stub.as_engine, config(tmp_path)) as server:
        first = server.http.get(f"/v1/batches/{batch_id}").json()
        body = {
            "input_file_id": first["input_file_id"],
            "endpoint": "/v1/score",
            "completion_window": "1h",
        }
        answer = server.http.post("/v1/batches", json=body)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
        stub.gate.set()


def test_one_caller_leaves_places_for_batches_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(running_batches, "MAX_UNFINISHED_OF_ONE", 2)
    stub = StubEngine()
    stub.gate.clear()
    keys = ("ann: the-key-of-ann-is-long", "bob: the-key-of-bob-is-long")
    row = {"custom_id": "a", "method": "POST", "url": "/v1/score", "body": request()}
    with running(stub.as_engine, config(tmp_path, keys=keys)) as server:

        def asked(name: str) -> list[int]:
            headers = {"Authorization": f"Bearer the-key-of-{name}-is-long"}
            sent = {"file": ("a.jsonl", json.dumps(row).encode())}
            file = server.http.post(
                "/v1/files", files=sent, data={"purpose": "batch"}, headers=headers
            ).json()
            body = {
                "input_file_id": file["id"],
                "endpoint": "/v1/score",
                "completion_window": "1h",
            }

            def post(_: int) -> int:
                answer = server.http.post("/v1/batches", json=body, headers=headers)
                if answer.status_code == 429:
                    assert "of this caller" in answer.json()["error"]["message"]
                return int(answer.status_code)

            with ThreadPoolExecutor(4) as pool:
                return sorted(pool.map(post, range(4)))

        assert asked("ann") == asked("bob") == [200, 200, 429, 429]
        text = server.http.get(
            "/metrics", headers={"Authorization": "Bearer the-key-of-ann-is-long"}
        ).text
        counts = dict(re.findall(r'spinf_batches\{status="(\w+)"\} (\S+)', text))
        assert float(counts["validating"]) + float(counts["in_progress"]) == 4
        assert float(counts["completed"]) == 0
        stub.gate.set()


def test_batches_asked_for_at_once_are_counted_before_they_are_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(running_batches, "MAX_UNFINISHED", 3)
    add = Ledger.add_batch

    def slowly(ledger: Ledger, batch: Any, most_of_owner: int) -> bool:
        time.sleep(0.2)
        return add(ledger, batch, most_of_owner)

    monkeypatch.setattr(Ledger, "add_batch", slowly)
    stub = StubEngine()
    stub.gate.clear()
    with running(stub.as_engine, config(tmp_path)) as server, ThreadPoolExecutor(8) as pool:
        sent = {
            "file": (
                "a.jsonl",
                json.dumps(
                    {"custom_id": "a", "method": "POST", "url": "/v1/score", "body": request()}
                ).encode(),
            )
        }
        file = server.http.post("/v1/files", files=sent, data={"purpose": "batch"}).json()
        body = {
            "input_file_id": file["id"],
            "endpoint": "/v1/score",
            "completion_window": "24h",
        }
        asked = pool.map(lambda _: server.http.post("/v1/batches", json=body).status_code, range(8))
        assert sorted(asked) == [200] * 3 + [429] * 5
        stub.gate.set()
