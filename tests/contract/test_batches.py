"""Batch files through the unmodified SDK of OpenAI, and over plain HTTP where it has no words."""

import errno
import json
import os
import re
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS
from tests.support.processes import start_process
from tests.support.servers import Running, question, request, running
from tests.support.stub_engine import NAN, StubEngine
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
QUESTION = {"key": "late", "kind": "noul", "instructions": "Did it come late?"}


def row(custom_id: str, body: Any = None, url: str = "/v1/score", **changes: Any) -> dict[str, Any]:
    asked = request(f"Note {custom_id}") if body is None else body
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": asked, **changes}


def lines_of(*rows: Any) -> bytes:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in rows]
    return "\n".join(texts).encode()


def keeping(folder: Path, **changes: Any) -> ServerConfig:
    return ServerConfig(limits=LIMITS, batch_dir=str(folder), batch_rows=4, **changes)


def sdk(server: Running, key: str = "any") -> Any:
    return openai.OpenAI(api_key=key, base_url=f"{server.url}/v1", max_retries=0)


def until_completed(client: Any, batch_id: str, least: int) -> None:
    until(lambda: client.batches.retrieve(batch_id).request_counts.completed >= least)


@pytest.fixture
def kept(stub, tmp_path):
    with running(stub.as_engine, keeping(tmp_path / "kept")) as it:
        yield it
        stub.gate.set()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A server for tests that begin no batch."""
    with running(StubEngine(LIMITS).as_engine, keeping(tmp_path_factory.mktemp("quiet"))) as it:
        yield it


@pytest.fixture
def client(kept):
    with sdk(kept) as it:
        yield it


def begun(client: Any, *rows: Any, endpoint: Any = "/v1/score", **more: Any):
    file = client.files.create(file=("rows.jsonl", lines_of(*rows)), purpose="batch")
    more.setdefault("completion_window", "24h")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, **more)


def ended(client: Any, batch, status: str = "completed"):
    over = ("completed", "failed", "expired", "cancelled")
    until(lambda: client.batches.retrieve(batch.id).status in over)
    found = client.batches.retrieve(batch.id)
    assert found.status == status, found
    return found


def lines_in(client: Any, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


# --- answers


def test_rows_are_answered_as_the_route_answers_them(client, kept):
    rows = [row(f"n{n}") for n in range(40)]
    batch = ended(client, begun(client, *rows, metadata={"for": "the test"}))
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (40, 40, 0)
    assert (batch.error_file_id, batch.errors) == (None, None)
    assert batch.metadata == {"for": "the test"}
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
    found = lines_in(client, batch.output_file_id)
    # In the order of the input, so that files can be laid side by side.
    assert [line["custom_id"] for line in found] == [each["custom_id"] for each in rows]
    assert len({line["id"] for line in found}) == 40
    for line, asked in zip(found, rows, strict=True):
        assert line["error"] is None
        answer = line["response"]
        assert answer["status_code"] == 200
        assert answer["request_id"].startswith("scr_")
        direct = kept.score(asked["body"]).json()
        assert answer["body"]["results"] == direct["results"]
        assert answer["body"].keys() == direct.keys()


def test_the_page_about_batches_runs(kept):
    page = (ROOT / "docs/batches.md").read_text("utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    block = block.replace("http://127.0.0.1:8000", kept.url).replace("sleep(5)", "sleep(0.05)")
    assert kept.url in block and "sleep(0.05)" in block
    process = start_process(ROOT, [sys.executable, "-c", block])
    out, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    first, second = out.splitlines()
    assert first.startswith("review-0 [{") and second.startswith("review-1 [{")


@pytest.mark.parametrize(
    ("endpoint", "body", "where"),
    [
        ("/v1/chat/completions", request(), "choices"),
        (
            "/v1/systemone",
            {"state": "It came late.", "questions": {"late": {"type": "noul"}}},
            None,
        ),
        (
            "/v1/decisions",
            {
                "model": "jev-latest",
                "input": "It came late.",
                "decisions": {"late": {"type": "predicate", "instructions": "It came late."}},
            },
            None,
        ),
    ],
)
def test_every_scoring_route_may_be_asked(client, kept, endpoint, body, where):
    direct = kept.http.post(endpoint, json=body)
    broken = body | {"model": "gpt-6"}
    wrong = kept.http.post(endpoint, json=broken)
    rows = [row("good", body, endpoint), row("bad", broken, endpoint)]
    batch = ended(client, begun(client, *rows, endpoint=endpoint))
    good, bad = batch.output_file_id, batch.error_file_id
    found = {
        line["custom_id"]: line["response"]
        for id in (good, bad)
        if id
        for line in lines_in(client, id)
    }
    for name, alone in (("good", direct), ("bad", wrong)):
        assert found[name]["status_code"] == alone.status_code
        assert found[name]["body"].keys() == alone.json().keys()
    assert wrong.status_code in (400, 422)
    assert where is None or where in found["good"]["body"]


def test_a_row_that_is_refused_or_fails_leaves_the_others_alone(client):
    rows = [
        row("good"),
        row("poor", request("x", question(options=[]))),
        row("nan", request(f"x {NAN}")),
        row("half", request("\ud83d")),
        row("last"),
    ]
    batch = ended(client, begun(client, *rows))
    assert (batch.request_counts.completed, batch.request_counts.failed) == (2, 3)
    assert [line["custom_id"] for line in lines_in(client, batch.output_file_id)] == [
        "good",
        "last",
    ]
    poor, nan, half = lines_in(client, batch.error_file_id)
    assert poor["custom_id"] == "poor" and poor["error"] is None
    assert poor["response"]["status_code"] == 400
    assert poor["response"]["body"]["error"]["code"] == "too_many_options"
    assert poor["response"]["body"]["request_id"] == poor["response"]["request_id"]
    assert nan["response"]["status_code"] == 500
    assert nan["response"]["body"]["error"]["code"] == "engine_error"
    assert half["response"]["body"]["error"]["code"] == "invalid_field"


def test_a_row_whose_pass_failed_is_asked_again(client, stub):
    stub.step_error = RuntimeError("broken")
    batch = ended(client, begun(client, row("a")))
    assert batch.request_counts.completed == 1


# --- a file that is no batch


def test_lines_that_are_no_rows_fail_the_batch_and_are_named(client, stub):
    rows = [
        row("a"),
        "{nonsense",
        "",
        row("a"),
        row("b", method="GET"),
        row("c", url="/v1/decisions"),
        row("d", body=[]),
        row("e", more=1),
        '["x"]',
        {"custom_id": "f", "method": "POST", "url": "/v1/score"},
        row("\ud83d"),
    ]
    batch = ended(client, begun(client, *rows), "failed")
    assert batch.errors is not None and batch.errors.object == "list"
    found = [(flaw.line, flaw.code, flaw.param) for flaw in batch.errors.data or []]
    assert found == [
        (2, "invalid_json", None),
        (4, "duplicate_id", "custom_id"),
        (5, "invalid_field", "method"),
        (6, "invalid_field", "url"),
        (7, "invalid_field", "body"),
        (8, "invalid_field", "more"),
        (9, "invalid_field", None),
        (10, "invalid_field", "body"),
        (11, "invalid_field", "custom_id"),
    ]
    assert batch.failed_at is not None
    assert (batch.output_file_id, stub.passes) == (None, [])


def test_a_file_without_rows_and_a_body_too_large_fail_the_batch(stub, tmp_path):
    config = keeping(tmp_path, max_body_bytes=2048)
    with running(stub.as_engine, config) as server, sdk(server) as client:
        [flaw] = ended(client, begun(client, "  ", ""), "failed").errors.data
        assert (flaw.code, flaw.line) == ("invalid_field", None)
        large = [row("a"), row("b", request("x" * 4000)), row("c", request("x" * 40_000))]
        flaws = ended(client, begun(client, *large), "failed").errors.data
        assert [(flaw.code, flaw.line) for flaw in flaws] == [
            ("body_too_large", 2),
            ("body_too_large", 3),
        ]


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"input_file_id": "file-none"}, "unknown_file", "input_file_id"),
        ({"endpoint": "/v1/responses"}, "invalid_field", "endpoint"),
        ({"completion_window": "soon"}, "invalid_field", "completion_window"),
        ({"completion_window": "31d"}, "invalid_field", "completion_window"),
        ({"metadata": {"a": 1}}, "invalid_field", "metadata.a"),
        ({"metadata": {str(n): "" for n in range(17)}}, "invalid_field", "metadata"),
        ({"windw": "24h"}, "invalid_field", "windw"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 5}},
            "invalid_field",
            "output_expires_after.seconds",
        ),
    ],
)
def test_a_batch_that_cannot_be_made_is_refused_by_field(quiet, changes, code, param):
    with sdk(quiet) as client:
        file = client.files.create(file=("rows.jsonl", lines_of(row("a"))), purpose="batch")
    body = {"input_file_id": file.id, "endpoint": "/v1/score", "completion_window": "24h"}
    answer = quiet.http.post("/v1/batches", json=body | changes)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
    assert quiet.http.get("/v1/batches").json()["data"] == []


# --- files


def test_files_are_listed_read_and_deleted(client, kept):
    names = [f"{n}.jsonl" for n in range(5)]
    files = [client.files.create(file=(n, lines_of(row(n))), purpose="batch") for n in names]
    assert [file.filename for file in client.files.list(limit=2)] == names[::-1]
    assert [file.filename for file in client.files.list(limit=2, order="asc")] == names
    assert client.files.list(limit=2).has_more
    assert client.files.list(purpose="batch_output").data == []
    first = client.files.retrieve(files[0].id)
    assert first == files[0]
    assert (first.object, first.purpose, first.bytes) == (
        "file",
        "batch",
        len(lines_of(row("0.jsonl"))),
    )
    assert first.expires_at == first.created_at + 30 * 24 * 60 * 60
    assert client.files.content(first.id).content == lines_of(row("0.jsonl"))
    gone = client.files.delete(first.id)
    assert (gone.id, gone.deleted) == (first.id, True)
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            call(first.id)
        assert (caught.value.code, caught.value.param) == ("unknown_file", "file_id")
    assert len(list(Path(kept.config.batch_dir, "files").iterdir())) == 4


def test_uploads_that_cannot_be_kept_leave_nothing(stub, tmp_path):
    config = keeping(tmp_path, max_batch_file_bytes=5000, max_batch_dir_bytes=9000)
    with running(stub.as_engine, config) as server, sdk(server) as client:

        def refused(name: str, size: int, **more: Any) -> tuple[int, Any, Any]:
            with pytest.raises(openai.APIStatusError) as caught:
                client.files.create(file=(name, b"x" * size), **({"purpose": "batch"} | more))
            return caught.value.status_code, caught.value.code, caught.value.param

        assert refused("a", 5001) == (413, "body_too_large", "file")
        assert refused("a", 200_000) == (413, "body_too_large", "file")
        assert refused("a", 9, purpose="vision") == (400, "invalid_field", "purpose")
        soon = {"anchor": "created_at", "seconds": 9}
        assert refused("a", 9, expires_after=soon)[2] == "expires_after.seconds"
        for body, kind in (
            (b"x", "multipart/form-data; boundary=b"),
            (b"--b\r\n\r\n", "multipart/form-data; boundary=b"),
            (b"{}", "application/json"),
        ):
            answer = server.http.post("/v1/files", content=body, headers={"Content-Type": kind})
            assert answer.json()["error"]["code"] == "invalid_encoding"
        assert list((tmp_path / "files").iterdir()) == []
        for _ in range(2):
            client.files.create(file=("a", b"x" * 4500), purpose="batch")
        assert refused("a", 9) == (413, "storage_full", "file")


def test_an_upload_is_larger_than_bodies_may_be_and_its_hour_is_kept(stub, tmp_path):
    config = keeping(tmp_path, max_body_bytes=2048)
    with running(stub.as_engine, config) as server, sdk(server) as client:
        rows = [row(str(n), request("word " * 50)) for n in range(100)]
        hour = {"anchor": "created_at", "seconds": 3600}
        file = client.files.create(
            file=("rows.jsonl", lines_of(*rows)), purpose="batch", expires_after=hour
        )
        assert file.bytes > 10 * 2048
        assert file.expires_at == file.created_at + 3600


def test_an_upload_that_stops_or_is_left_leaves_nothing(stub, tmp_path):
    head = (
        b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nrows'
    )
    files = tmp_path / "files"
    with running(stub.as_engine, keeping(tmp_path, body_idle_seconds=1)) as server:
        address = (server.http.base_url.host, server.http.base_url.port)
        with socket.create_connection(address, timeout=20) as stalled:
            stalled.sendall(head)
            until(lambda: len(list(files.iterdir())) == 1)
            answer = stalled.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 400") and b"--body-idle-seconds" in answer
        assert list(files.iterdir()) == []
    with running(StubEngine(LIMITS).as_engine, keeping(tmp_path)) as server:
        address = (server.http.base_url.host, server.http.base_url.port)
        with socket.create_connection(address, timeout=20) as left:
            left.sendall(head)
            until(lambda: len(list(files.iterdir())) == 1)
        until(lambda: list(files.iterdir()) == [])


def test_a_file_that_a_batch_reads_stays_until_its_end(client, stub):
    stub.gate.clear()
    batch = begun(client, row("a"))
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.delete(batch.input_file_id)
    assert caught.value.code == "file_in_use"
    stub.gate.set()
    ended(client, batch)
    assert client.files.delete(batch.input_file_id).deleted


# --- lists, ends


def test_batches_are_listed_the_newest_first(client):
    made = [begun(client, row(str(n))).id for n in range(3)]
    assert [batch.id for batch in client.batches.list(limit=1)] == made[::-1]
    with pytest.raises(openai.NotFoundError) as caught:
        client.batches.retrieve("batch_none")
    assert caught.value.code == "unknown_batch"


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=101", "limit=-1"])
def test_an_impossible_limit_is_refused(quiet, query):
    answer = quiet.http.get(f"/v1/batches?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "limit")


def test_a_cancelled_batch_shows_what_was_answered_and_names_the_rest(client, stub, kept):
    stub.step_seconds = 0.05
    rows = [row(str(n)) for n in range(300)]
    batch = begun(client, *rows)
    until_completed(client, batch.id, 1)
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = ended(client, batch, "cancelled")
    assert batch.cancelling_at is not None and batch.cancelled_at is not None
    done = lines_in(client, batch.output_file_id)
    left = lines_in(client, batch.error_file_id)
    assert done and left
    assert [line["custom_id"] for line in done + left] == [str(n) for n in range(300)]
    assert {line["error"]["code"] for line in left} == {"batch_cancelled"}
    assert {line["response"] for line in left} == {None}
    assert batch.request_counts.failed == len(left)
    assert client.batches.cancel(batch.id).status == "cancelled"
    until(lambda: kept.service.admission.in_flight == 0 and stub.pending == 0)


def test_a_batch_that_ended_cannot_be_cancelled(client):
    batch = ended(client, begun(client, row("a")))
    with pytest.raises(openai.BadRequestError) as caught:
        client.batches.cancel(batch.id)
    assert caught.value.code == "batch_ended"


# --- who may


def test_callers_see_their_own_and_trusted_ones_everything(stub, tmp_path):
    config = keeping(
        tmp_path,
        keys=("ann:the-key-of-ann-only", "ben:the-key-of-ben-only"),
        trusted_token="the-key-of-all-here",
    )
    with running(stub.as_engine, config) as server:
        with pytest.raises(openai.AuthenticationError), sdk(server, "none") as nobody:
            nobody.files.create(file=("a", lines_of(row("a"))), purpose="batch")
        with sdk(server, "the-key-of-ann-only") as ann, sdk(server, "the-key-of-ben-only") as ben:
            batch = ended(ann, begun(ann, row("a")))
            assert ben.files.list().data == ben.batches.list().data == []
            for call in (
                lambda: ben.batches.retrieve(batch.id),
                lambda: ben.batches.cancel(batch.id),
                lambda: ben.files.content(batch.output_file_id),
                lambda: ben.files.delete(batch.input_file_id),
            ):
                with pytest.raises(openai.NotFoundError):
                    call()
            with pytest.raises(openai.BadRequestError):
                ben.batches.create(
                    input_file_id=batch.input_file_id,
                    endpoint="/v1/score",
                    completion_window="24h",
                )
            assert len(ann.files.list().data) == 2
        with sdk(server, "the-key-of-all-here") as root:
            assert [each.id for each in root.batches.list()] == [batch.id]
            assert lines_in(root, batch.output_file_id)


def test_without_a_folder_the_routes_say_how_to_get_them(stub_server):
    for method, path in (
        ("GET", "/v1/files"),
        ("POST", "/v1/files"),
        ("GET", "/v1/files/x/content"),
        ("GET", "/v1/batches"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/batches/x/cancel"),
    ):
        answer = stub_server.http.request(method, path)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] == "batches_disabled" and "--batch-dir" in error["message"]


# --- beside people


def test_people_are_answered_while_rows_wait(stub, tmp_path):
    config = keeping(tmp_path, queue=2)
    with running(stub.as_engine, config) as server, sdk(server) as client:
        stub.step_seconds = 0.02
        batch = begun(client, *[row(str(n)) for n in range(160)])
        until_completed(client, batch.id, 1)
        answers: list[httpx.Response] = []

        def person(n: int) -> None:
            for turn in range(4):
                answers.append(server.score(request(f"person {n} {turn}")))

        people = [threading.Thread(target=person, args=(n,)) for n in range(3)]
        for each in people:
            each.start()
        for each in people:
            each.join()
        assert client.batches.retrieve(batch.id).status == "in_progress"
        assert {answer.status_code for answer in answers} == {200}
        assert len(answers) == 12
        assert ended(client, batch).request_counts.completed == 160


def test_a_small_batch_does_not_wait_for_a_large_one(client, stub):
    stub.step_seconds = 0.02
    large = begun(client, *[row(str(n)) for n in range(400)])
    small = begun(client, *[row(str(n)) for n in range(4)])
    ended(client, small)
    assert client.batches.retrieve(large.id).status == "in_progress"
    client.batches.cancel(large.id)


# --- restarts


def test_a_server_that_ends_in_order_leaves_its_batches_to_the_next(stub, tmp_path):
    config = keeping(tmp_path)
    rows = [row(str(n)) for n in range(60)]
    stub.step_seconds = 0.02
    with running(stub.as_engine, config) as server, sdk(server) as client:
        batch = begun(client, *rows)
        until_completed(client, batch.id, 9)
    with running(StubEngine(LIMITS).as_engine, config) as server, sdk(server) as client:
        done = ended(client, batch)
        found = lines_in(client, done.output_file_id)
    assert [line["custom_id"] for line in found] == [str(n) for n in range(60)]
    assert sum(stub.passes) < 60


def serving(folder: Path, step_seconds: float):
    command = [sys.executable, "-m", "tests.support.batch_server", str(folder), str(step_seconds)]
    process = start_process(ROOT, command)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_after_sudden_ends_every_row_stands_once(tmp_path):
    rows = [
        row(f"r{n}", request("x", question(options=[])) if n % 7 == 3 else None) for n in range(240)
    ]
    batch_id, counts = "", []
    for life in range(3):
        process, url = serving(tmp_path, 0.02 if life < 2 else 0.0)
        try:
            client: Any
            with openai.OpenAI(api_key="x", base_url=f"{url}/v1", max_retries=20) as client:
                if not batch_id:
                    batch_id = begun(client, *rows).id
                before = client.batches.retrieve(batch_id).request_counts
                counts.append(before.completed + before.failed)
                if life < 2:
                    until_completed(client, batch_id, before.completed + 10)
                    process.send_signal(signal.SIGKILL)
                    continue
                batch = ended(client, client.batches.retrieve(batch_id))
                done = lines_in(client, batch.output_file_id)
                failed = lines_in(client, batch.error_file_id)
                kept = [file.id for file in client.files.list()]
        finally:
            process.kill()
            process.communicate()
    # What was noted before an end is not asked again.
    assert counts[0] < counts[1] < counts[2] < 240
    assert [line["custom_id"] for line in done] == [f"r{n}" for n in range(240) if n % 7 != 3]
    assert [line["custom_id"] for line in failed] == [f"r{n}" for n in range(240) if n % 7 == 3]
    assert (batch.request_counts.total, batch.request_counts.completed) == (240, len(done))
    assert sorted(kept) == sorted(path.name for path in (tmp_path / "files").iterdir())


def test_two_servers_do_not_share_a_folder(kept):
    process, url = serving(Path(kept.config.batch_dir), 0.0)
    _, log = process.communicate(timeout=20)
    assert (url, process.returncode) == ("", 1)
    assert "another server holds it" in log


@pytest.mark.parametrize(
    "name",
    [
        "filename*=unicode_escape''%5Cud800",
        "filename*=idna''a..b",
        "filename*=%00''a",
        "filename*=undefined''a",
        "filename*=utf-8''%ff%00%1b",
        "filename*3=a; filename*1*=x''b",
        'filename="\x00\x1b[2J"',
    ],
)
def test_a_filename_of_any_charset_is_kept_or_replaced(kept, name):
    form = (
        "--B\r\nContent-Disposition: form-data; name=purpose\r\n\r\nbatch\r\n"
        f"--B\r\nContent-Disposition: form-data; name=file; {name}\r\n\r\n{{}}\r\n--B--\r\n"
    )
    answer = kept.http.post(
        "/v1/files",
        content=form.encode(),
        headers={"Content-Type": "multipart/form-data; boundary=B"},
    )
    assert answer.status_code == 200, answer.text
    assert kept.http.get(f"/v1/files/{answer.json()['id']}/content").content == b"{}"


def test_a_disk_that_takes_nothing_is_told_as_such_and_leaves_nothing(kept, monkeypatch, caplog):
    client = sdk(kept)
    before = sdk(kept).files.create(file=("a.jsonl", b"{}"), purpose="batch")
    files = Path(kept.config.batch_dir, "files")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def upload() -> None:
        client.files.create(file=("b.jsonl", b"{}"), purpose="batch")

    for owner, name, asked in (
        (os, "fsync", upload),
        (Ledger, "add_file", upload),
        (Ledger, "batches", client.batches.list),
        (Ledger, "file", lambda: client.files.delete(before.id)),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, full)
            with pytest.raises(openai.InternalServerError) as caught:
                asked()
        assert (caught.value.status_code, caught.value.code) == (503, "storage_unavailable")
        assert int(caught.value.response.headers["Retry-After"]) > 0
        assert [file.name for file in files.iterdir()] == [before.id]
    assert "No space left on device" in caplog.text


def test_a_file_that_somebody_took_away_is_told_as_such(kept):
    file = sdk(kept).files.create(file=("a.jsonl", b"{}"), purpose="batch")
    Path(kept.config.batch_dir, "files", file.id).unlink()
    answer = kept.http.get(f"/v1/files/{file.id}/content")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "storage_unavailable"
