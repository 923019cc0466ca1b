import json
import threading

import duckdb
import pytest

from spinf_serve.evals.data.overview import datasets
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import audit
from spinf_serve.workbench.desk import open_desk


def test_an_empty_folder_gets_the_example(tmp_path):
    desk = open_desk(tmp_path / "new" / "project")
    assert [desk.name_of(file) for file in desk.pack_files()] == ["packs/triage/pack.yaml"]
    assert [(one.name, one.rows) for one in datasets(desk.project)] == [("messages", 600)]
    again = open_desk(tmp_path / "new" / "project")
    assert again == desk


def test_a_folder_with_files_of_its_own_gets_an_empty_project(tmp_path):
    (tmp_path / "mine.yaml").write_text("pack: a/b\n")
    desk = open_desk(tmp_path)
    assert datasets(desk.project) == []
    assert [desk.name_of(file) for file in desk.pack_files()] == ["mine.yaml"]


def test_the_only_duckdb_file_is_the_project_and_several_are_told(tmp_path):
    first = open_desk(tmp_path / "a")
    first.file.rename(first.folder / "shop.duckdb")
    assert open_desk(first.folder).file.name == "shop.duckdb"
    assert open_desk(first.folder / "shop.duckdb").folder == first.folder
    duckdb.connect(str(first.folder / "other.duckdb")).close()
    with pytest.raises(Unusable, match="other.duckdb, shop.duckdb"):
        open_desk(first.folder)


def test_only_packs_are_taken_for_packs(tmp_path):
    (tmp_path / "broken.yaml").write_text("# mine\npack: a/b\n  oops\n")
    (tmp_path / "settings.yaml").write_text("server:\n  pack: 3\n")
    (tmp_path / "evaluation.json").write_text(json.dumps({"made": {"pack": "a/b"}, "format": 1}))
    (tmp_path / "pack.json").write_text(json.dumps({"pack": "a/b", "scoring": {}}))
    hidden = tmp_path / ".workbench"
    hidden.mkdir()
    (hidden / "draft.yaml").write_text("pack: a/b\n")
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "1.0.0.yaml").write_text("pack: a/b\n")
    desk = open_desk(tmp_path)
    assert [desk.name_of(file) for file in desk.pack_files()] == ["broken.yaml", "pack.json"]


@pytest.mark.parametrize("name", ["../outside.yaml", "/etc/passwd", "gone.yaml", ""])
def test_a_name_from_an_address_stays_in_the_folder(tmp_path, name):
    (tmp_path / "outside.yaml").write_text("pack: a/b\n")
    desk = open_desk(tmp_path / "project")
    with pytest.raises(Unusable, match="no file"):
        desk.file_named(name)


def test_settings_of_two_writers_are_both_kept(tmp_path):
    desk = open_desk(tmp_path)

    def write(start: int) -> None:
        for number in range(start, start + 20):
            desk.set(**{f"key{number}": number})

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert desk.settings() == {f"key{number}": number for number in range(40)}


def test_the_audit_trail_is_read_from_its_end(tmp_path):
    desk = open_desk(tmp_path)
    for number in range(3_000):
        audit.note(desk, "eva" if number % 3 else "Tom", "save pack", f"packs/{number}.yaml")
    newest = audit.events(desk, newest=5)
    assert [one.subject for one in newest] == [f"packs/{n}.yaml" for n in range(2999, 2994, -1)]
    assert len(audit.events(desk, newest=5_000)) == 3_000
    assert {one.user for one in audit.events(desk, newest=5_000, word="tom")} == {"Tom"}
    with (desk.folder / audit.AUDIT_FILE).open("ab") as file:
        file.write(b'{"at": "cut sho')
    assert audit.events(desk, newest=1)[0].subject == "packs/2999.yaml"


def test_a_change_keeps_what_is_to_be_known_of_it(tmp_path):
    desk = open_desk(tmp_path)
    audit.note(desk, "eva", "label", "messages/m1", target="angry", before="no", now="yes")
    found = audit.events(desk)[0]
    assert (found.user, found.action, found.subject) == ("eva", "label", "messages/m1")
    assert found.details == {"target": "angry", "before": "no", "now": "yes"}
