"""What a folder keeps, for how long, and what it makes of the rest of a run cut short."""

import json
import sqlite3
from dataclasses import replace

import pytest

from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.server.auth import ANYBODY, Caller
from spinf_serve.server.batches.folder import DAY_SECONDS, BatchFolder
from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.batches.records import (
    CANCELLED,
    CANCELLING,
    COMPLETED,
    FAILED,
    FINALIZING,
    IN_PROGRESS,
    VALIDATING,
    Batch,
    Flaw,
    KeptFile,
    Progress,
)
from spinf_serve.server.batches.rows import Row
from spinf_serve.server.batches.spool import Spool, answered, given_up
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.ids import new_id

CONFIG = ServerConfig(batch_days=2, max_batch_file_bytes=2000, max_batch_dir_bytes=3000)


@pytest.fixture
def folder(tmp_path):
    it = BatchFolder(tmp_path, CONFIG)
    yield it
    it.close()


def kept(
    folder: BatchFolder, text: bytes = b"rows", owner: str = "ann", at: int = 1000
) -> KeptFile:
    file = KeptFile(new_id("file-"), owner, "rows", "batch", len(text), at, at + 10)
    folder.path(file.id).write_bytes(text)
    folder.ledger.add_file(file)
    return file


def made(folder: BatchFolder, caller: Caller = ANYBODY, **changes) -> Batch:
    file = kept(folder)
    batch = Batch(
        id=new_id("batch_"),
        caller=caller,
        endpoint="/v1/score",
        input_file_id=file.id,
        output_file_id=new_id("file-"),
        error_file_id=new_id("file-"),
        completion_window="24h",
        metadata={"a": "b"},
        output_seconds=10,
        created_at=1000,
        expires_at=2000,
    )
    batch = replace(batch, **changes)
    assert folder.ledger.add_batch(batch, 100)
    return batch


def test_entries_are_there_when_the_folder_is_opened_again(tmp_path):
    folder = BatchFolder(tmp_path, CONFIG)
    caller = Caller(trusted=True, sees_counters=True, name="ann", address="::1")
    batch = made(folder, caller, total=7, progress=Progress(1, 2, 3, 4, 5))
    batch = replace(batch, flaws=(Flaw("invalid_json", "it is not", None, 3),))
    folder.ledger.move(batch.id, FAILED, 1500, before=(VALIDATING,), flaws=batch.flaws)
    folder.close()
    folder = BatchFolder(tmp_path, CONFIG)
    found = folder.ledger.batch(batch.id)
    assert found == replace(batch, status=FAILED, times={FAILED: 1500})
    assert folder.path(batch.input_file_id).read_bytes() == b"rows"
    folder.close()


def test_a_folder_is_one_servers_and_a_ledger_is_ours(tmp_path, folder):
    with pytest.raises(Unusable, match="another server holds it"):
        BatchFolder(tmp_path, CONFIG)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "batches.sqlite").write_text("no database at all, but a long text" * 9)
    with pytest.raises(Unusable, match="not a database"):
        BatchFolder(tmp_path / "other", CONFIG)
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="--batch-dir"):
        BatchFolder(tmp_path / "file", CONFIG)


def test_a_ledger_of_a_later_version_is_left_alone(tmp_path):
    path = tmp_path / "batches.sqlite"
    Ledger(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(Unusable, match="form 7"):
        Ledger(path)


def test_a_state_is_left_only_from_where_it_may_be(folder):
    batch = made(folder)
    ledger = folder.ledger
    assert ledger.move(batch.id, IN_PROGRESS, 1, before=(VALIDATING,), total=3)
    assert not ledger.move(batch.id, FAILED, 2, before=(VALIDATING,))
    assert ledger.move(batch.id, CANCELLING, 3, before=(VALIDATING, IN_PROGRESS))
    assert not ledger.move(batch.id, FINALIZING, 4, before=(IN_PROGRESS,))
    assert ledger.batch(batch.id).times == {IN_PROGRESS: 1, CANCELLING: 3}
    assert ledger.batch(batch.id).total == 3
    assert ledger.unfinished() == [batch.id]
    assert ledger.move(batch.id, CANCELLED, 5, before=(CANCELLING,))
    assert ledger.unfinished() == []


def test_owners_see_their_own_and_pages_begin_behind_an_entry(folder):
    mine = [kept(folder, owner="ann") for _ in range(3)]
    other = kept(folder, owner="ben")
    ledger = folder.ledger
    assert ledger.files("ann", None, None, 9, oldest=True) == mine
    assert ledger.files("ann", None, mine[2].id, 9, oldest=False) == mine[1::-1]
    assert ledger.files("ann", None, mine[0].id, 1, oldest=True) == mine[1:2]
    assert ledger.files("ann", "batch_output", None, 9, oldest=True) == []
    assert len(ledger.files(None, None, None, 9, oldest=True)) == 4
    assert ledger.file(other.id, "ann") is None and ledger.file(other.id, None) == other


def test_what_nobody_accounts_for_is_deleted_at_the_next_opening(tmp_path):
    folder = BatchFolder(tmp_path, CONFIG)
    batch = made(folder)
    (folder.files / batch.output_file_id).write_text("half")
    stray = folder.files / new_id("file-")
    stray.write_text("an upload cut short")
    foreign = folder.files / "thesis.txt"
    foreign.write_text("not ours")
    folder.close()
    BatchFolder(tmp_path, CONFIG).close()
    assert not stray.exists() and foreign.exists()
    assert folder.path(batch.output_file_id).exists()
    assert folder.path(batch.input_file_id).exists()


def test_old_files_and_batches_are_deleted_but_for_what_is_in_use(folder):
    running, over, file = made(folder), made(folder), kept(folder, at=5000)
    folder.ledger.move(over.id, COMPLETED, 1500, before=(VALIDATING,))
    folder.sweep(now=1009)
    assert folder.path(over.input_file_id).exists()
    folder.sweep(now=1500 + 2 * DAY_SECONDS)
    assert not folder.path(over.input_file_id).exists()
    assert not folder.path(file.id).exists()
    assert folder.path(running.input_file_id).exists()
    assert folder.ledger.batch(over.id) is not None
    folder.sweep(now=1501 + 2 * DAY_SECONDS)
    assert folder.ledger.batch(over.id) is None
    assert folder.ledger.batch(running.id) is not None
    with pytest.raises(Refused, match="cancel it"):
        folder.remove(folder.ledger.file(running.input_file_id, None))


def test_room_is_what_is_left_of_the_whole(folder):
    assert folder.room_bytes() == 2000
    kept(folder, b"x" * 1800)
    assert folder.room_bytes() == 1200
    batch = made(folder)
    folder.ledger.advance(batch.id, Progress(output_bytes=700, error_bytes=100))
    assert folder.room_bytes() == 3000 - 1800 - 4 - 800
    kept(folder, b"x" * 1200)
    with pytest.raises(Refused) as caught:
        folder.room_bytes()
    assert caught.value.code == "storage_full"


def test_lines_that_were_written_but_not_noted_are_written_again_once(folder):
    batch = made(folder)
    rows = [Row(f"r{n}", b"{}", 10 * (n + 1)) for n in range(4)]
    with Spool(folder.files, folder.ledger, batch) as spool:
        spool.add([answered(rows[0], 200, "scr_1", b"{}"), given_up(rows[1], "a", "b")])
    noted = folder.ledger.batch(batch.id)
    assert noted.progress.input_bytes == 20
    for id in (batch.output_file_id, batch.error_file_id):
        with folder.path(id).open("ab") as file:
            file.write(b'{"custom_id": "r2", "resp')
    with Spool(folder.files, folder.ledger, noted) as spool:
        spool.add([answered(rows[2], 200, "scr_2", b"[]"), answered(rows[3], 400, "s", b"1")])
    output = folder.path(batch.output_file_id).read_text().splitlines()
    errors = folder.path(batch.error_file_id).read_text().splitlines()
    assert [json.loads(line)["custom_id"] for line in output] == ["r0", "r2"]
    assert [json.loads(line)["custom_id"] for line in errors] == ["r1", "r3"]
    assert folder.ledger.batch(batch.id).progress == spool.progress
    assert (spool.progress.completed, spool.progress.failed) == (2, 2)


def test_a_file_shorter_than_what_was_noted_is_no_file_to_go_on_with(folder):
    batch = made(folder, progress=Progress(output_bytes=5))
    with pytest.raises(OSError, match="5 were written"):
        Spool(folder.files, folder.ledger, batch)
