import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.catalogue import load_catalogue
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.publish import publish
from spinf_serve.packs.sources import Access
from tests.support.pack_files import folder_of, json_pack, yaml_pack


@pytest.fixture
def folder(tmp_path):
    return folder_of(tmp_path / "repo", {"mood/pack.yaml": yaml_pack()})


def served(folder):
    """`version` -> file of the listed versions that a start would serve, with every check."""
    catalogue = load_catalogue(
        [str(folder)], official=None, access=Access(folder), say=lambda line: None, read=read_pack
    )
    listed = [one["version"] for pack in listing(folder)["packs"] for one in pack["versions"]]
    entry = catalogue.entries[0]
    assert entry.version == listed[0]
    return {
        one.version: one.file.relative_to(folder.resolve()).as_posix()
        for one in entry.versions
        if one.version in listed
    }


def listing(folder):
    return json.loads((folder / "prompt-packs.json").read_text())


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_first_publication_makes_the_listing(folder):
    file = folder / "mood" / "pack.yaml"
    done = publish(file, read=read_pack, root=folder)
    assert (done.id, done.version, done.changed, done.bumped_from) == (
        "demo/mood", "1.0.0", True, None
    )  # fmt: skip
    assert done.file.read_bytes() == file.read_bytes() == yaml_pack().encode()
    assert listing(folder) == {
        "format": 1,
        "namespace": "demo",
        "packs": [
            {
                "id": "demo/mood",
                "name": "Mood",
                "media": ["text"],
                "parameters": [],
                "versions": [
                    {
                        "version": "1.0.0",
                        "file": "mood/versions/1.0.0.yaml",
                        "status": "available",
                        "digest": f"sha256:{read_pack(file.read_bytes(), 'a.yaml').digest}",
                    }
                ],
            }
        ],
    }
    assert served(folder) == {"1.0.0": "mood/versions/1.0.0.yaml"}


def test_a_note_stands_with_its_version_alone(folder):
    file = folder / "mood" / "pack.yaml"
    publish(file, read=read_pack, root=folder, note="The first")
    file.write_text(yaml_pack(question="Glad?"))
    publish(file, read=read_pack, root=folder, bump="patch")
    versions = listing(folder)["packs"][0]["versions"]
    assert [one.get("note") for one in versions] == [None, "The first"]


@pytest.mark.parametrize("bump", [None, "patch", "major"])
def test_publishing_the_same_again_does_nothing(folder, bump):
    file = folder / "mood" / "pack.yaml"
    publish(file, read=read_pack, root=folder)
    before = snapshot(folder)
    again = publish(file, read=read_pack, bump=bump)
    assert (again.version, again.changed) == ("1.0.0", False)
    assert again.file.read_bytes() == file.read_bytes()
    assert snapshot(folder) == before


def test_a_change_needs_a_new_version_and_changes_nothing_published(folder):
    file = folder / "mood" / "pack.yaml"
    first = publish(file, read=read_pack, root=folder).file.read_bytes()
    changed = yaml_pack(question="Glad?").replace("version: 1.0.0", "version:  1.0.0   # now")
    file.write_bytes(changed.replace("\n", "\r\n").encode("utf-8-sig"))
    before = snapshot(folder)
    with pytest.raises(Unusable, match="published with other content.*publish with --bump patch"):
        publish(file, read=read_pack)
    assert snapshot(folder) == before
    done = publish(file, read=read_pack, bump="minor")
    assert (done.version, done.bumped_from, done.changed) == ("1.1.0", "1.0.0", True)
    old, new = (
        text.decode("utf-8-sig").split("\r\n") for text in (before[file], file.read_bytes())
    )
    differing = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
    assert len(differing) == 1
    assert differing[0][1].replace('"', "") == "version:  1.1.0   # now"
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    assert done.file.read_bytes() == file.read_bytes()
    assert (folder / "mood" / "versions" / "1.0.0.yaml").read_bytes() == first
    assert list(served(folder).items()) == [
        ("1.1.0", "mood/versions/1.1.0.yaml"),
        ("1.0.0", "mood/versions/1.0.0.yaml"),
    ]


def test_a_version_written_by_hand_is_taken(folder):
    file = folder / "mood" / "pack.yaml"
    publish(file, read=read_pack, root=folder)
    file.write_text(yaml_pack(version="2.0.0"))
    with pytest.raises(Unusable, match="already says 2.0.0, --bump patch would make it 1.0.1"):
        publish(file, read=read_pack, bump="patch")
    assert publish(file, read=read_pack).version == "2.0.0"
    # A mend of an older line stands behind the newest, which stays the default.
    file.write_text(yaml_pack(version="1.0.1"))
    assert publish(file, read=read_pack).version == "1.0.1"
    assert list(served(folder)) == ["2.0.0", "1.0.1", "1.0.0"]


def test_a_json_pack_and_its_layout_are_published_too(tmp_path):
    text = json.dumps(json.loads(json_pack(strange=1.0)), indent=3)
    file = folder_of(tmp_path, {"mood.json": text}) / "mood.json"
    publish(file, read=read_pack)
    file.write_text(text.replace("Happy", "Glad"))
    done = publish(file, read=read_pack, bump="major")
    assert file.read_text() == text.replace("Happy", "Glad").replace("1.0.0", "2.0.0")
    assert done.file == tmp_path / "versions" / "mood-2.0.0.json"
    assert listing(tmp_path)["packs"][0]["versions"][0]["model"] == "demo/model"
    assert list(served(tmp_path)) == ["2.0.0", "1.0.0"]


def test_two_packs_of_a_folder_do_not_meet(tmp_path):
    files = {"a.yaml": yaml_pack("demo/a"), "b.yaml": yaml_pack("demo/b")}
    folder_of(tmp_path, files)
    copies = {publish(tmp_path / name, read=read_pack).file.name for name in files}
    assert copies == {"a-1.0.0.yaml", "b-1.0.0.yaml"}
    assert [pack["id"] for pack in listing(tmp_path)["packs"]] == ["demo/a", "demo/b"]


def test_what_else_stands_in_the_listing_stays(folder):
    file = folder / "mood" / "pack.yaml"
    soon = {"version": "1.0.0", "file": "soon.yaml", "status": "coming_soon", "note": "almost"}
    other = {"id": "demo/other", "name": "Other", "versions": [soon]}
    mood = {"id": "demo/mood", "name": "Old", "readme": "r.md", "versions": [soon]}
    body = {"format": 1, "namespace": "demo", "homepage": "here", "packs": [other, mood]}
    (folder / "prompt-packs.json").write_text(json.dumps(body))
    publish(file, read=read_pack)
    found = listing(folder)
    assert found["homepage"] == "here"
    assert found["packs"][0] == other
    assert (found["packs"][1]["readme"], found["packs"][1]["name"]) == ("r.md", "Mood")
    assert [one["status"] for one in found["packs"][1]["versions"]] == ["available"]


def test_older_versions_keep_their_media_and_parameters(tmp_path):
    file = folder_of(tmp_path, {"mood.json": json_pack()}) / "mood.json"
    publish(file, read=read_pack)
    shop = {"shop": {"required": False}}
    file.write_text(json_pack(version="2.0.0", media=["text", "image"], parameters=shop))
    publish(file, read=read_pack)
    pack = listing(tmp_path)["packs"][0]
    assert (pack["media"], pack["parameters"]) == (["text", "image"], ["shop"])
    assert pack["versions"][1]["media"] == ["text"] and pack["versions"][1]["parameters"] == []
    assert list(served(tmp_path)) == ["2.0.0", "1.0.0"]


@pytest.mark.parametrize("broken_at", ["prompt-packs.json", "pack.yaml"])
def test_a_publication_that_breaks_off_is_finished_by_doing_it_again(
    folder, monkeypatch, broken_at
):
    file = folder / "mood" / "pack.yaml"
    publish(file, read=read_pack, root=folder)
    file.write_text(yaml_pack(question="Glad?"))

    def failing(path, data):
        if path.name == broken_at:
            raise OSError(28, "No space left on device", str(path))
        write_beside(path, data)

    with monkeypatch.context() as patch:
        patch.setattr("spinf_serve.packs.publish.write_beside", failing)
        with pytest.raises(Unusable, match="No space left on device; nothing is published"):
            publish(file, read=read_pack, bump="patch")
    assert served(folder) == {"1.0.0": "mood/versions/1.0.0.yaml"}
    assert publish(file, read=read_pack, bump="patch").version == "1.0.1"
    assert list(served(folder)) == ["1.0.1", "1.0.0"]


def test_a_stray_copy_with_other_content_is_not_overwritten(folder):
    folder_of(folder, {"mood/versions/1.0.0.yaml": "mine"})
    with pytest.raises(Unusable, match="exists with other content and is not listed"):
        publish(folder / "mood" / "pack.yaml", read=read_pack)
    assert (folder / "mood" / "versions" / "1.0.0.yaml").read_text() == "mine"


def test_what_cannot_be_published_is_said(folder, tmp_path):
    file = folder / "mood" / "pack.yaml"
    with pytest.raises(Unusable, match="the manifest must be above what it lists"):
        publish(file, read=read_pack, root=tmp_path / "other")
    with pytest.raises(Unusable, match="nothing.yaml: No such file"):
        publish(folder / "nothing.yaml", read=read_pack)
    (folder / "prompt-packs.json").write_text('{"format": 1, "namespace": "other", "packs": []}')
    with pytest.raises(Unusable, match="lists packs of 'other', not 'demo'"):
        publish(file, read=read_pack)
    (folder / "prompt-packs.json").write_text("{")
    with pytest.raises(InvalidPack, match="prompt-packs.json"):
        publish(file, read=read_pack)
    file.write_text(yaml_pack() + "strange: 1\n")
    with pytest.raises(InvalidPack, match="strange"):
        publish(file, read=read_pack)


def test_a_version_that_is_not_three_numbers_cannot_be_raised(folder):
    file = folder / "mood" / "pack.yaml"
    file.write_text(yaml_pack(version="1.0"))
    publish(file, read=read_pack)
    file.write_text(yaml_pack(version="1.0", question="Glad?"))
    with pytest.raises(Unusable, match="'1.0' is not major.minor.patch"):
        publish(file, read=read_pack, bump="patch")


def test_publications_at_once_are_all_listed(tmp_path):
    names = [f"demo/p{number}" for number in range(6)]
    folder_of(tmp_path, {f"{name}/pack.yaml": yaml_pack(name) for name in names})

    def reading(data, name):
        time.sleep(0.02)
        return read_pack(data, name)

    with ThreadPoolExecutor(len(names)) as threads:
        files = [tmp_path / name / "pack.yaml" for name in names]
        list(threads.map(lambda file: publish(file, read=reading, root=tmp_path), files))
    assert sorted(pack["id"] for pack in listing(tmp_path)["packs"]) == names
    assert [one.name for one in tmp_path.iterdir() if "lock" in one.name] == []


def test_a_publication_that_takes_long_is_waited_for_only_so_long(folder, monkeypatch):
    monkeypatch.setattr("spinf_serve.packs.publish._LOCK_SECONDS", 0.1)
    with (
        locked(folder / "prompt-packs.json", 1),
        pytest.raises(Unusable, match="lock: another process holds the lock; nothing is published"),
    ):
        publish(folder / "mood" / "pack.yaml", read=read_pack, root=folder)
    assert publish(folder / "mood" / "pack.yaml", read=read_pack, root=folder).changed
