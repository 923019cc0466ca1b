"""What the editor is told: faults with places and fixes, the table of fields, the text's names."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from spinf_serve.workbench.actions import editing
from spinf_serve.workbench.actions.editing import applied, check, table, words_of

TEXT = (Path(editing.__file__).parents[1] / "example" / "pack.yaml").read_text("utf-8")


def test_a_valid_text_is_a_pack_without_marks():
    found = check(TEXT, "pack.yaml")
    assert found.pack is not None and found.pack.id == "example/triage"
    assert found.marks == () and found.errors == 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("category: urgent", "category: urgen"),
        ('      template: "\\nTone:{?}"', '      templat: "\\nTone:{?}"'),
        ("query: subject", "query: subjekt"),
        ("license: Apache-2.0", "licence: Apache-2.0"),
    ],
)
def test_a_slip_is_marked_where_it_stands_and_its_fix_mends_it(right, wrong):
    text = TEXT.replace(right, wrong, 1)
    mark = check(text, "pack.yaml").marks[0]
    assert mark.severity == "error" and mark.fix is not None
    assert text.split("\n")[mark.line - 1][mark.column - 1 : mark.end - 1] == mark.fix.instead_of
    assert mark.fix.instead_of in wrong and mark.fix.instead_of not in right.split()
    assert applied(text, mark.fix) == TEXT


def test_a_no_that_means_false_is_mended():
    text = TEXT.replace(
        "      category: urgent", "      category: urgent\n      empty_floor: no", 1
    )
    mark = check(text, "pack.yaml").marks[0]
    assert mark.fix is not None and (mark.fix.instead_of, mark.fix.insert) == ("no", "false")
    assert check(applied(text, mark.fix), "pack.yaml").errors == 0


def test_a_fix_changes_nothing_where_the_text_has_moved_on():
    text = TEXT.replace("category: urgent", "category: urgen", 1)
    fix = check(text, "pack.yaml").marks[0].fix
    assert fix is not None
    assert applied("# a line more\n" + text, fix) == "# a line more\n" + text
    assert applied("short", fix) == "short"


def test_a_text_that_is_no_yaml_is_marked_too():
    found = check(TEXT + "  : [\n", "pack.yaml")
    assert found.pack is None and found.errors >= 1
    assert found.marks[0].line > 100


def test_numbers_of_an_earlier_wording_are_warnings():
    text = TEXT.replace("options: [payment, refund,", "options: [payment, refund, invoice,", 1)
    found = check(text, "pack.yaml")
    assert found.pack is not None and found.pack.fitted == {}
    assert {mark.severity for mark in found.marks} == {"warning"} and found.errors == 0


def test_the_table_knows_every_place():
    made = table()
    question = made["f"]["scoring"]["f"]["queries"]["i"]
    assert question["f"]["template"]["r"] == 1 and "reads behind" in question["f"]["template"]["h"]
    assert question["f"]["category"]["k"] == "category"
    assert question["f"]["options"]["v"] == [["true/false", ""], ["yes/no", ""]]
    assert ["max", ""] in made["f"]["decision"]["f"]["mode"]["v"]
    rules = made["f"]["lint"]["f"]["waive"]["i"]["f"]["rule"]["v"]
    assert "floor_skewed" in [name for name, _ in rules]


def test_every_place_with_names_is_in_the_table():
    made = table()
    for place in editing.KINDS:
        part = made
        for step in place.split("."):
            part = part["i"] if step == "-" else part["a"] if step == "*" else part["f"][step]
        assert "k" in part or "ak" in part


@pytest.mark.parametrize("broken", [False, True])
def test_names_come_from_the_text(broken):
    pack = None if broken else check(TEXT, "pack.yaml").pack
    found = words_of(TEXT, pack)
    assert {"case", "billing", "urgent"} <= set(found["categories"])
    topic = found["questions"][0]
    assert topic["id"] == "topic" and topic["options"][:2] == ["payment", "refund"]
    line = TEXT.split("\n")[topic["line"] - 1]
    assert line.strip() == "- id: topic"


def test_names_of_a_text_that_does_not_parse():
    found = words_of(TEXT + "  : [\n")
    assert "urgent" in found["categories"] and found["questions"][0]["id"] == "topic"
    # Reads have ids too.
    assert "case/topic" not in [one["id"] for one in found["questions"]]


def test_placeholders_are_names_of_their_question():
    text = TEXT.replace(
        'template: "\\nTone:{?}"', 'template: "\\nTone of {F}:{?}"\n      for: {F: [a, b]}', 1
    )
    for pack in (None, check(text, "pack.yaml").pack):
        tone = next(one for one in words_of(text, pack)["questions"] if one["id"] == "tone")
        assert tone["placeholders"] == ["F"]


HOME = Path(editing.__file__).parents[1] / "parts" / "editor"


def test_the_built_editor_is_made_from_its_source():
    digest = sha256()
    for path in sorted((HOME / "js" / "src").iterdir()):
        digest.update(path.read_bytes())
    digest.update((HOME / "js" / "package-lock.json").read_bytes())
    built = (HOME / "editor.js").read_text("utf-8")
    assert f"sha256 {digest.hexdigest()}" in built.split("\n")[0]


def test_the_licence_of_all_that_is_in_it_lies_beside_it():
    packages = json.loads((HOME / "js" / "package-lock.json").read_text())["packages"]
    licences = (HOME / "editor.licences.txt").read_text("utf-8")
    assert not [name for name, one in packages.items() if "resolved" in one]
    held = {path.removeprefix("node_modules/") for path, one in packages.items() if path}
    shipped = {name for name in held if "esbuild" not in name}
    named = {line.split()[1] for line in licences.split("\n") if line.startswith("---- ")}
    assert named == shipped
