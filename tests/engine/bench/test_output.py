"""Where figures are written: whole files, links followed, and what is no file left in its place."""

import json
import os
from pathlib import Path
from stat import S_ISFIFO

import pytest

from spinf_serve.engine.bench.output import write_json
from spinf_serve.packs.errors import Unusable


def test_a_file_is_written_whole_and_a_link_followed(tmp_path: Path):
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    for found in ([1], {"a": 2.5}):
        write_json(link, found)
        assert json.loads((tmp_path / "real.json").read_text()) == found
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_what_is_no_regular_file_stays_and_is_written_into(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_json(pipe, [7])
        assert json.loads(os.read(reading, 100)) == [7]
    finally:
        os.close(reading)
    assert S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", [".", "missing/out.json"])
def test_a_place_that_cannot_be_written_is_told_in_a_line(tmp_path: Path, name: str):
    with pytest.raises(Unusable, match=r"^/.* cannot be written: (Is a|No such)[^\n]*$"):
        write_json(tmp_path / name, {})
    assert list(tmp_path.iterdir()) == []
