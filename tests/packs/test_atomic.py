import pytest

from spinf_serve.packs.atomic import write_beside


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
