import os
import socket

import pytest

from spinf_serve.packs.files import is_regular, is_there, read_regular, read_start, same_file, shown


def test_a_regular_file_is_read_also_through_a_link(tmp_path):
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link", 3) == b"one"
    assert read_start(tmp_path / "a", 2) == b"on"
    with pytest.raises(OSError, match="has more than 2 bytes"):
        read_regular(tmp_path / "a", 2)
    assert is_regular(tmp_path / "link")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, kind in (
            ("pipe", "a named pipe"),
            ("link", "a named pipe"),
            ("socket", "a socket"),
            (".", "a folder"),
            ("/dev/zero", "a device"),
        ):
            with pytest.raises(OSError, match=f"{kind}, no regular file"):
                read_regular(tmp_path / name)
            assert not is_regular(tmp_path / name) and is_there(tmp_path / name)


def test_a_file_exchanged_for_a_pipe_before_it_is_opened_is_not_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"")
    before = os.stat(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(os, "stat", lambda path: before)
    with pytest.raises(OSError, match="a named pipe, no regular file"):
        read_regular(path)


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "nowhere"])
def test_a_name_that_no_file_can_have_is_not_there(tmp_path, name):
    assert not is_regular(tmp_path / name)
    assert not is_there(tmp_path / name)


def test_the_same_file_is_known_by_its_links_and_before_it_is_there(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to("a")
    (tmp_path / "d").symlink_to("later")
    assert same_file(tmp_path / "a", tmp_path / "b") and same_file(tmp_path / "a", tmp_path / "c")
    assert same_file(tmp_path / "d", tmp_path / "later")
    assert not same_file(tmp_path / "a", tmp_path / "later")


def test_any_name_can_be_shown():
    assert shown(os.fsdecode(b"a\xff\xc3\xbc")) == "a\\udcffü"
