import os
from pathlib import Path

import pytest

from spinf_serve.packs.atomic import try_beside, write_beside


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    write_beside(path, b"one")
    (tmp_path / "plain").write_bytes(b"")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    path.chmod(0o640)
    with path.open("rb") as before:
        write_beside(path, b"two")
        assert before.read() == b"one"
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "a").symlink_to("real/a")
    write_beside(tmp_path / "a", b"one")
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "real" / "a").read_bytes() == b"one"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"one")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spinf_serve.packs.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_beside(path, b"two")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"one"


def test_what_is_no_regular_file_stays_and_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device"):
        write_beside(pipe, b"nobody reads")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try_beside(pipe)
    write_beside(pipe, b"one")
    assert os.read(reader, 9) == b"one"
    os.close(reader)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"] and pipe.is_fifo()


def test_a_device_is_not_replaced(monkeypatch):
    def moved(*_):
        raise AssertionError("a device is replaced")

    monkeypatch.setattr(Path, "replace", moved)
    try_beside(Path("/dev/null"))
    write_beside(Path("/dev/null"), b"one")


def test_whether_a_file_can_be_written_is_found_out_without_a_trace(tmp_path):
    try_beside(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"one")
    try_beside(tmp_path / "a")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("a", b"one")]
    with pytest.raises(FileNotFoundError):
        try_beside(tmp_path / "nowhere" / "a")
    with pytest.raises(IsADirectoryError):
        try_beside(tmp_path)
