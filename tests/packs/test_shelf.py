import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from spinf_serve.packs import shelf as shelf_module
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.shelf import look_again, read_shelf
from spinf_serve.packs.sources import Opened
from tests.support.pack_files import folder_of, json_pack, yaml_pack


def shelf_of(folder: Path, read=read_pack):
    return read_shelf(Opened(folder, "local:here", "here", True), read)


def offered(shelf) -> dict[str, str]:
    """`id@version` -> file."""
    return {f"{offer.id}@{offer.version}": offer.file for offer in shelf.offers}


def write(path: Path, text: str) -> None:
    """Writes in place, at a time that no earlier write had."""
    path.write_bytes(text.encode())
    age(path)


def age(path: Path, seconds: float = 60.0) -> None:
    """Makes a file look as if it had been written some time ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def aged(folder: Path) -> Path:
    for path in folder.rglob("*"):
        if path.is_file():
            age(path)
    return folder


class Counted:
    """The real reader, with the names that it was asked to read."""

    def __init__(self):
        self.names = []

    def __call__(self, data, name):
        self.names.append(name)
        return read_pack(data, name)


def test_packs_are_found_below_a_folder_by_what_stands_in_them(tmp_path):
    folder = folder_of(
        tmp_path,
        {
            "a.json": json_pack("demo/a"),
            "deep/er/b.yaml": yaml_pack("demo/b"),
            "C.YML": "\ufeff# c\r\n" + yaml_pack("demo/c").replace("\n", "\r\n"),
            "quoted.yaml": yaml_pack("demo/q").replace("pack: demo/q", '"pack": demo/q'),
            ".git/d.json": json_pack("demo/d"),
            ".hidden.json": json_pack("demo/e"),
            "a.json~": json_pack("demo/f"),
            "late.yaml": "#" * 5000 + "\n" + yaml_pack("demo/g"),
            "inner.yaml": "all:\n  pack: demo/h\n",
            "package.json": '{"pack": 1, "name": "something else"}',
            "other.json": '{"name": "no pack key at all"}',
            "list.json": '[{"pack": 1, "scoring": 2}]',
            "schema.json": '{"properties": {"pack": {}}}',
        },
    )
    shelf = shelf_of(folder)
    assert offered(shelf) == {
        "demo/a@1.0.0": "a.json",
        "demo/b@1.0.0": "deep/er/b.yaml",
        "demo/c@1.0.0": "C.YML",
        "demo/q@1.0.0": "quoted.yaml",
    }
    assert (shelf.faults, shelf.notes) == ((), ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json_pack()[:-10]),
        ("a.json", json_pack(contexts={})),
        ("a.yaml", yaml_pack() + "strange: 1\n"),
        ("a.yaml", yaml_pack()[:60]),
    ],
)
def test_a_file_that_means_to_be_a_pack_and_is_none_is_a_fault(tmp_path, name, text):
    shelf = shelf_of(folder_of(tmp_path, {name: text, "good.yaml": yaml_pack()}))
    assert offered(shelf) == {"demo/mood@1.0.0": "good.yaml"}
    assert shelf.faults and all(fault.file == f"here/{name}" for fault in shelf.faults)


def test_links_lead_to_packs_once_and_not_in_circles(tmp_path):
    folder = folder_of(
        tmp_path / "packs", {"real/a.yaml": yaml_pack(), "top.yaml": yaml_pack("demo/top")}
    )
    outside = folder_of(tmp_path / "outside", {"b.yaml": yaml_pack("demo/b")})
    (folder / "loop").symlink_to(folder)
    (folder / "again").symlink_to(folder / "real" / "..")
    (folder / "other").symlink_to(outside)
    (folder / "nowhere.yaml").symlink_to(tmp_path / "nothing")
    (folder / "self.yaml").symlink_to(folder / "self.yaml")
    shelf = shelf_of(folder)
    assert len(shelf.offers) == 3
    assert offered(shelf) == {
        "demo/mood@1.0.0": "real/a.yaml",
        "demo/b@1.0.0": "other/b.yaml",
        "demo/top@1.0.0": "top.yaml",
    }


def test_a_mounted_volume_that_switches_its_link_is_read_again(tmp_path):
    for number in (1, 2):
        folder_of(tmp_path / f"..{number}", {"a.yaml": yaml_pack(version=f"{number}.0.0")})
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    first = shelf_of(aged(tmp_path))
    assert offered(first) == {"demo/mood@1.0.0": "a.yaml"}
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert offered(look_again(first, read_pack)) == {"demo/mood@2.0.0": "a.yaml"}


def manifest(versions, **pack) -> str:
    entry = {"id": "demo/mood", "name": "Listed", "versions": versions, **pack}
    return json.dumps({"format": 1, "namespace": "demo", "packs": [entry]})


def test_a_manifest_rules_its_folder(tmp_path):
    published = yaml_pack()
    digest = hashlib.sha256(published.encode()).hexdigest()
    versions = [
        {"version": "3.0.0", "file": "none.yaml", "status": "coming_soon"},
        {"version": "1.0.0", "file": "versions/1.yaml", "digest": f"sha256:{digest}"},
        {"version": "0.9.0", "file": "versions/late.yaml", "status": "deprecated", "note": "old"},
    ]
    folder = folder_of(
        tmp_path,
        {
            "ruled/prompt-packs.json": manifest(versions),
            "ruled/pack.yaml": published,
            "ruled/draft.yaml": yaml_pack(question="Glad?"),
            "ruled/versions/1.yaml": published,
            "ruled/versions/late.yaml": "#" * 5000 + "\n" + yaml_pack(version="0.9.0"),
            "free/b.yaml": yaml_pack("demo/b"),
        },
    )
    shelf = shelf_of(folder)
    assert shelf.faults == ()
    assert offered(shelf) == {
        "demo/b@1.0.0": "free/b.yaml",
        "demo/mood@3.0.0": "ruled/none.yaml",
        "demo/mood@1.0.0": "ruled/versions/1.yaml",
        "demo/mood@0.9.0": "ruled/versions/late.yaml",
    }
    by_version = {offer.version: offer for offer in shelf.offers if offer.id == "demo/mood"}
    assert by_version["3.0.0"].pack is None
    assert (by_version["0.9.0"].status, by_version["0.9.0"].note) == ("deprecated", "old")
    # The working file is what was published; the other one is not, and nobody serves it.
    (note,) = shelf.notes
    assert note.startswith("here/ruled/draft.yaml: not served, it differs from the published demo/")
    assert note.endswith("`spinf-serve packs publish here/ruled/draft.yaml --bump patch`")


PUBLISHED = {
    "prompt-packs.json": manifest([{"version": "1.0.0", "file": "versions/1.0.0.yaml"}]),
    "versions/1.0.0.yaml": yaml_pack(),
}


def test_a_manifest_rules_the_ids_that_it_lists_and_no_others(tmp_path):
    folder = folder_of(
        tmp_path,
        PUBLISHED
        | {
            "mood.yaml": yaml_pack(version="1.1.0"),
            "other.yaml": yaml_pack("demo/other"),
            "fit.json": json.dumps({"pack": "demo/mood", "pack_id": "demo/mood", "rows": 10}),
            "fit2.json": json.dumps({"pack_id": "demo/mood"}),
        },
    )
    shelf = shelf_of(folder)
    assert (shelf.faults, shelf.notes) == ((), ())
    assert offered(shelf) == {
        "demo/mood@1.0.0": "versions/1.0.0.yaml",
        "demo/mood@1.1.0": "mood.yaml",
        "demo/other@1.0.0": "other.yaml",
    }
    assert [offer.version for offer in shelf.offers if offer.working] == ["1.1.0"]


def test_a_broken_file_beside_a_manifest_is_a_note_when_its_pack_is_published(tmp_path):
    files = {"mood.yaml": yaml_pack() + "optins: 1\n", "b.yaml": yaml_pack("demo/b") + "c: 1\n"}
    shelf = shelf_of(folder_of(tmp_path, PUBLISHED | files))
    assert [fault.file for fault in shelf.faults] == ["here/b.yaml"]
    (note,) = shelf.notes
    assert note.startswith("not served: here/mood.yaml:")
    assert list(offered(shelf)) == ["demo/mood@1.0.0"]


def test_two_working_files_of_one_version_do_not_stop_what_is_published(tmp_path):
    twice = {"a.yaml": yaml_pack(version="2.0.0"), "b.yaml": yaml_pack(version="2.0.0")}
    folder = folder_of(tmp_path, PUBLISHED | twice)
    assert shelf_of(folder).notes == ()
    write(folder / "b.yaml", yaml_pack(version="2.0.0", question="Glad?"))
    shelf = shelf_of(folder)
    assert shelf.notes == ("here/b.yaml: not served, here/a.yaml is demo/mood 2.0.0 too",)
    assert offered(shelf)["demo/mood@2.0.0"] == "a.yaml"


def test_a_version_that_is_announced_is_not_served_from_its_working_file(tmp_path):
    soon = {"version": "2.0.0", "file": "2.yaml", "status": "coming_soon"}
    files = {"prompt-packs.json": manifest([soon]), "mood.yaml": yaml_pack(version="2.0.0")}
    shelf = shelf_of(folder_of(tmp_path, files))
    assert shelf.offers[0].pack is None
    assert "announced as coming soon; publish it" in shelf.notes[0]


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ([{"version": "1.0.0", "file": "gone.yaml"}], "is missing, and prompt-packs.json lists it"),
        ([{"version": "1.0.0", "file": "bad.yaml"}], "here/bad.yaml"),
        ([{"version": "2.0.0", "file": "a.yaml"}], "version: is 1.0.0, but"),
        ([{"version": "1.0.0", "file": "a.yaml", "digest": "0" * 64}], "not the file that was"),
        ([], "needs at least one version"),
    ],
)
def test_a_listing_that_does_not_hold_is_a_fault(tmp_path, versions, words):
    files = {"prompt-packs.json": manifest(versions), "a.yaml": yaml_pack(), "bad.yaml": "x: 1\n"}
    shelf = shelf_of(folder_of(tmp_path, files))
    assert shelf.offers == ()
    assert any(words in str(fault) for fault in shelf.faults)


def test_looking_again_at_nothing_new_reads_nothing_and_is_cheap(tmp_path):
    files = {f"{number}/pack.yaml": yaml_pack(f"demo/{number}") for number in range(200)}
    read = Counted()
    # What the pack is does not matter here, 200 real ones would take a while.
    pack = read_pack(yaml_pack().encode(), "a.yaml")
    shelf = shelf_of(aged(folder_of(tmp_path, files)), lambda data, name: pack)
    took = []
    for _ in range(7):
        start = time.perf_counter()
        assert look_again(shelf, read) is shelf
        took.append(time.perf_counter() - start)
    assert read.names == []
    # Reading them would take seconds; docs/figures.md has what is measured on a quiet machine.
    assert min(took) < 0.2


def test_only_a_changed_file_is_read_again(tmp_path):
    files = {"a.yaml": yaml_pack("demo/a"), "b.yaml": yaml_pack("demo/b")}
    first = shelf_of(aged(folder_of(tmp_path, files)))
    write(tmp_path / "b.yaml", yaml_pack("demo/b", "2.0.0"))
    read = Counted()
    second = look_again(first, read)
    assert read.names == ["here/b.yaml"]
    assert offered(second) == {"demo/a@1.0.0": "a.yaml", "demo/b@2.0.0": "b.yaml"}
    assert offered(first) == {"demo/a@1.0.0": "a.yaml", "demo/b@1.0.0": "b.yaml"}
    assert second.offers[0].pack is first.offers[0].pack


def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(yaml_pack(question="Happy?"))
    stat = path.stat()
    first = shelf_of(tmp_path)
    signature = first.files["a.yaml"].signature
    path.write_text(yaml_pack(question="Hippy?"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    # The status change time differs on this machine; on a coarser one nothing would.
    files = {"a.yaml": first.files["a.yaml"]}
    found = {"a.yaml": signature}
    again = shelf_module._files(first.opened, found, files, read_pack, time.time_ns())
    pack = again["a.yaml"].pack
    assert pack is not None and pack.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_fresh_file_is_read_again_until_its_time_is_past(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml_pack())
    read = Counted()
    first = shelf_of(tmp_path, read)
    assert look_again(first, read) is first
    age(tmp_path / "a.yaml")
    second = look_again(first, read)
    assert second.offers[0].pack == first.offers[0].pack
    assert look_again(second, read) is second


@pytest.mark.parametrize("broken", [yaml_pack()[:100], "", "strange: 1\n", yaml_pack() + "\tx"])
def test_a_broken_file_keeps_its_pack_until_it_is_mended(tmp_path, broken):
    path = tmp_path / "a.yaml"
    first = shelf_of(aged(folder_of(tmp_path, {"a.yaml": yaml_pack()})))
    write(path, broken)
    second = look_again(first, read_pack)
    assert [offer.pack for offer in second.offers] == [first.offers[0].pack]
    assert [fault.file for fault in second.faults][:1] == ["here/a.yaml"]
    assert look_again(second, read_pack) is second
    write(path, yaml_pack(version="1.0.1") + "# mended\n")
    third = look_again(second, read_pack)
    assert offered(third) == {"demo/mood@1.0.1": "a.yaml"}
    assert third.faults == ()


def test_a_file_written_beside_and_renamed_is_one_change(tmp_path):
    folder_of(tmp_path, {"a.yaml": yaml_pack()})
    first = shelf_of(aged(tmp_path))
    beside = tmp_path / ".a.yaml.swp"
    beside.write_text(yaml_pack(version="2.0.0"))
    assert look_again(first, read_pack) is first
    beside.rename(tmp_path / "a.yaml")
    assert offered(look_again(first, read_pack)) == {"demo/mood@2.0.0": "a.yaml"}


def test_a_file_that_is_away_for_a_moment_keeps_its_pack_and_a_deleted_one_loses_it(tmp_path):
    path = tmp_path / "a.yaml"
    first = shelf_of(aged(folder_of(tmp_path, {"a.yaml": yaml_pack()})))
    path.rename(tmp_path / "a.yaml~")
    away = look_again(first, read_pack)
    assert offered(away) == offered(first)
    path.write_text(yaml_pack(version="1.1.0"))
    back = look_again(away, read_pack)
    assert offered(back) == {"demo/mood@1.1.0": "a.yaml"}
    path.unlink()
    gone = look_again(look_again(back, read_pack), read_pack)
    assert (gone.offers, gone.faults) == ((), ())
    assert look_again(gone, read_pack) is gone


def test_a_listed_file_that_was_changed_keeps_what_was_published(tmp_path):
    digest = hashlib.sha256(yaml_pack().encode()).hexdigest()
    versions = [{"version": "1.0.0", "file": "v.yaml", "digest": digest}]
    files = {"prompt-packs.json": manifest(versions), "v.yaml": yaml_pack()}
    first = shelf_of(aged(folder_of(tmp_path, files)))
    write(tmp_path / "v.yaml", yaml_pack(question="Glad?"))
    second = look_again(first, read_pack)
    assert second.offers == first.offers
    assert "put the published file back" in str(second.faults[0])
    third = look_again(second, read_pack)
    assert third is second
    write(tmp_path / "v.yaml", yaml_pack())
    mended = look_again(third, read_pack)
    assert mended.offers[0].pack == first.offers[0].pack and mended.faults == ()


def test_a_manifest_that_breaks_keeps_its_listing(tmp_path):
    versions = [{"version": "1.0.0", "file": "v.yaml"}]
    folder_of(tmp_path, {"prompt-packs.json": manifest(versions), "v.yaml": yaml_pack()})
    first = shelf_of(aged(tmp_path))
    write(tmp_path / "prompt-packs.json", manifest(versions)[:-5])
    second = look_again(first, read_pack)
    assert second.offers == first.offers
    assert second.faults[0].file == "here/prompt-packs.json"
    versions.insert(0, {"version": "2.0.0", "file": "w.yaml"})
    write(tmp_path / "w.yaml", yaml_pack(version="2.0.0"))
    write(tmp_path / "prompt-packs.json", manifest(versions) + "\n")
    assert offered(look_again(second, read_pack)) == {
        "demo/mood@2.0.0": "w.yaml",
        "demo/mood@1.0.0": "v.yaml",
    }


def test_a_folder_that_is_lost_keeps_offering_and_says_so(tmp_path):
    folder = folder_of(tmp_path / "packs", {"a.yaml": yaml_pack()})
    first = shelf_of(aged(folder))
    folder.rename(tmp_path / "away")
    lost = look_again(first, read_pack)
    assert lost.offers == first.offers
    assert lost.lost is not None and "cannot be read" in lost.lost
    assert look_again(lost, read_pack) is lost
    (tmp_path / "away").rename(folder)
    back = look_again(lost, read_pack)
    assert back.lost is None and back.offers == first.offers


def test_a_folder_that_holds_far_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("spinf_serve.packs.look._ENTRIES", 10)
    with pytest.raises(Unusable, match="more than 10 files and folders; give the folder"):
        shelf_of(folder_of(tmp_path, {f"{number}.txt": "" for number in range(11)}))


def test_an_endless_file_is_not_read_whole(tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.write(b'{"pack": "demo/huge", "scoring": {}, "x": "')
        file.truncate(40 * 1024 * 1024)
    sizes = []

    def read(data, name):
        sizes.append(len(data))
        return read_pack(data, name)

    shelf = shelf_of(tmp_path, read)
    assert sizes == [16 * 1024 * 1024 + 1]
    assert shelf.offers == () and len(shelf.faults) == 1


def test_what_is_no_regular_file_is_a_fault_and_stops_nothing(tmp_path):
    folder = folder_of(tmp_path, {"a.json": json_pack("demo/a")})
    os.mkfifo(folder / "b.yaml")
    (folder / "c.json").symlink_to("b.yaml")
    (folder / "d.json").symlink_to("/dev/zero")
    shelf = shelf_of(folder)
    assert offered(shelf) == {"demo/a@1.0.0": "a.json"}
    assert [str(fault) for fault in shelf.faults] == [
        "here/b.yaml: cannot be read (a named pipe, no regular file)",
        "here/c.json: cannot be read (a named pipe, no regular file)",
        "here/d.json: cannot be read (a device, no regular file)",
    ]


def test_a_link_and_what_it_leads_to_count_once(tmp_path):
    folder = folder_of(tmp_path, {"b.json": json_pack("demo/a")})
    (folder / "a.json").symlink_to("b.json")
    (folder / "more").mkdir()
    (folder / "more" / "c.json").symlink_to("../b.json")
    assert [offer.file for offer in shelf_of(folder).offers] == ["a.json"]
