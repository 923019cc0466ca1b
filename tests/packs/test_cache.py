import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from spinf_serve.packs import cache as cache_module
from spinf_serve.packs.cache import PackCache, cached_reader
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from tests.support.pack_files import folder_of, json_pack, yaml_pack

YAML = yaml_pack().encode()


@pytest.fixture
def said():
    return []


@pytest.fixture
def reading(tmp_path, said):
    """Reads through the cache; the second value tells whether the parser was asked."""

    def read(data=YAML, name="a.yaml", folder=tmp_path):
        asked = []

        def parse(data, name):
            asked.append(name)
            return read_pack(data, name)

        pack = cached_reader(PackCache(folder, said.append), parse)(data, name)
        return pack, bool(asked)

    return read


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "parsed").iterdir())


@pytest.mark.parametrize(("text", "name"), [(YAML, "a.yaml"), (json_pack().encode(), "a.json")])
def test_a_pack_comes_out_of_the_cache_as_it_was_parsed(reading, said, text, name):
    first, parsed = reading(text, name)
    second, again = reading(text, name)
    assert (parsed, again, said) == (True, False, [])
    assert second == first == read_pack(text, name)


def test_other_bytes_or_another_form_are_parsed(reading):
    reading()
    assert reading(YAML + b"\n")[1]
    assert reading(YAML, "a.yml")[1]
    # JSON is YAML, but a field that one form tolerates the other refuses.
    text = json_pack(strange=1).encode()
    reading(text, "a.json")
    with pytest.raises(InvalidPack):
        reading(text, "a.yaml")


def test_an_invalid_pack_is_not_kept(reading, tmp_path):
    for _ in range(2):
        with pytest.raises(InvalidPack):
            reading(YAML[:90])
    assert not (tmp_path / "parsed").exists()


def test_other_code_parses_again(reading, monkeypatch):
    reading()
    monkeypatch.setattr(cache_module, "_code_stamp", lambda: "other")
    assert reading()[1]


def test_the_code_stamp_follows_the_code(tmp_path, monkeypatch):
    folder = folder_of(tmp_path, {"cache.py": "1", "loader.py": "2"})
    monkeypatch.setattr(cache_module, "__file__", str(folder / "cache.py"))
    first = cache_module._code_stamp()
    (folder / "loader.py").write_text("3")
    assert cache_module._code_stamp() != first


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data.replace(b"Mood", b"Nood"),
        lambda data: data[:80] + b"\xff" + data[81:],
    ],
)
def test_a_damaged_entry_is_made_anew_and_said(reading, said, tmp_path, damage):
    reading()
    entry = entries(tmp_path)[0]
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert reading()[1]
    assert len(said) == 1 and "damaged entry" in said[0]
    assert entry.read_bytes() == whole


@pytest.mark.parametrize(
    "changed", [lambda body: body[:-1] + ["0" * 64], lambda body: body[1:], lambda body: {}]
)
def test_an_entry_of_another_pack_is_not_believed(reading, said, tmp_path, changed):
    reading()
    entry = entries(tmp_path)[0]
    body = json.loads(entry.read_bytes().split(b"\n", 1)[1])
    changed = json.dumps(changed(body)).encode()
    entry.write_bytes(hashlib.sha256(changed).hexdigest().encode() + b"\n" + changed)
    pack, parsed = reading()
    assert parsed and pack == read_pack(YAML, "a.yaml")
    assert "damaged" in said[0]


def test_a_cache_that_cannot_be_used_is_said_once_and_does_no_harm(said, tmp_path):
    (tmp_path / "file").write_text("")
    read = cached_reader(PackCache(tmp_path / "file", said.append), read_pack)
    for version in ("1.0.0", "1.0.1", "1.0.2"):
        assert read(yaml_pack(version=version).encode(), "a.yaml").version == version
    assert len(said) == 2
    assert "cannot be read" in said[0]
    assert "cannot be written" in said[1] and "set SPINF_PACKS_CACHE" in said[1]


def test_its_folder_is_for_its_owner_only(reading, tmp_path):
    reading()
    assert (tmp_path / "parsed").stat().st_mode & 0o077 == 0


def test_it_does_not_grow_without_end(reading, tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "_MOST_ENTRIES", 6)
    monkeypatch.setattr(cache_module, "_PRUNED_TO", 4)
    for number in range(9):
        reading(yaml_pack(version=f"1.0.{number}").encode())
    assert 4 <= len(entries(tmp_path)) <= 6
    assert not reading(yaml_pack(version="1.0.8").encode())[1]


def test_a_fresh_process_reads_a_kept_pack_without_yaml_and_its_checks(reading, tmp_path, root):
    reading()
    folder_of(tmp_path / "packs", {"a.yaml": yaml_pack()})
    code = (
        "import sys, pathlib\n"
        "from spinf_serve.packs.catalogue import load_catalogue\n"
        "from spinf_serve.packs.sources import Access\n"
        "cache = pathlib.Path(sys.argv[1])\n"
        "sources = [str(cache / 'packs')]\n"
        "found = load_catalogue(sources, official=None, access=Access(cache), say=print)\n"
        "assert found.get('demo/mood').version == '1.0.0'\n"
        "heavy = 'torch pydantic ruamel.yaml urllib.request tarfile'.split()\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
