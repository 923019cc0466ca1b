"""Differences of packs: what changed, grouped by question, and nothing that means the same."""

import json
from typing import Any

import pytest

from spinf_serve.packs.diff import Change, difference
from spinf_serve.packs.lint import instructions
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.new import starter
from spinf_serve.packs.plain import plain
from tests.support.packs import golden

Sides = tuple[Any, Any]

TEXT = starter("demo/diff")["pack.yaml"]


def pack(text: str = TEXT):
    return read_pack(text.encode(), "pack.yaml")


def changed(*replaced: tuple[str, str]) -> dict[str, dict[str, Sides]]:
    """Group -> label -> before and after, of the starter with some text replaced."""
    text = TEXT
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    return told(difference(pack(), pack(text)))


def told(groups) -> dict[str, dict[str, Sides]]:
    return {g.name: {c.what: (c.before, c.after) for c in g.changes} for g in groups}


def test_comments_layout_and_form_are_no_difference():
    bare = "\n".join(line for line in TEXT.splitlines() if not line.lstrip().startswith("#"))
    assert difference(pack(), pack(bare + "\n\n")) == ()
    exported = read_pack(json.dumps(plain(pack(), None)).encode(), "pack.json")
    assert difference(pack(), exported) == ()
    assert difference(exported, pack()) == ()


def test_wording_options_and_grid_stand_with_their_question():
    assert changed(("The writer is{", "The author is{")) == {
        "question mood": {"template": ("\nThe writer is{?}", "\nThe author is{?}")}
    }
    assert changed(("[angry, calm]", "[angry, quiet]")) == {
        "question mood": {"options": ([" angry", " calm"], [" angry", " quiet"])}
    }
    grid = changed(("for: {F: [money,", "for: {F: [price,"), ("{money: money,", "{price: money,"))
    question = grid.pop("question mentions")
    assert grid == {}
    assert question["values"] == (
        [{"F": "money"}, {"F": "a delivery"}],
        [{"F": "price"}, {"F": "a delivery"}],
    )
    assert question["read mentions/money"][1] is None
    assert question["read mentions/price"][0] is None


@pytest.mark.parametrize(
    ("old", "new", "group", "label"),
    [
        ("version: 0.1.0", "version: 0.2.0", "pack", "version"),
        ("tags: [draft]", "tags: [mine]", "pack", "tags"),
        ('"Message: {X}\\n"', '"Mail: {X}\\n"', "contexts", "default"),
        ("label: About money", "label: Money", "category money", "label"),
        (", decides: false}\n\n", "}\n\n", "category delivery", "decides"),
        ("mode: per_category", "mode: max", "decision", "mode"),
        ("      sign: -1\n", "", "question tone", "read tone"),
        (
            "      sign: -1\n",
            "      sign: -1\n      empty_floor: false\n",
            "question tone",
            "empty_floor",
        ),
    ],
)
def test_each_part_is_told_in_its_group(old, new, group, label):
    found = changed((old, new))
    assert label in found[group]
    before, after = found[group][label]
    assert before != after
    assert set(found) - {group} <= {"decision"}


def test_questions_that_came_or_went_are_marked_and_their_order_is_not_told():
    at = TEXT.index("    - id: topic")
    end = TEXT.index("\n# `decides")
    without = TEXT[:at] + TEXT[end:]
    gone = difference(pack(), pack(without))
    assert [(one.name, one.only) for one in gone] == [("question topic", "before")]
    assert Change("template", "\nTopic:{?}", None) in gone[0].changes
    came = difference(pack(without), pack())
    assert [(one.name, one.only) for one in came] == [("question topic", "after")]


def test_another_order_of_the_same_questions_is_told():
    first, second, third = (
        TEXT.index(mark) for mark in ("    - id: mood", "    - id: tone", "    - id: men")
    )
    turned = TEXT[:first] + TEXT[second:third] + TEXT[first:second] + TEXT[third:]
    assert told(difference(pack(), pack(turned))) == {
        "pack": {
            "order of questions": (
                ["mood", "tone", "mentions", "topic"],
                ["tone", "mood", "mentions", "topic"],
            )
        }
    }  # fmt: skip


def test_fitted_numbers_stand_side_by_side_with_what_they_are_of():
    def read(**changes):
        return read_pack(json.dumps(golden(**changes)).encode(), "pack.json")

    found = told(
        difference(
            read(),
            read(
                reads__0__sd=2.5,
                reads__2__mu=[-1.0, -1.1, -0.9],
                categories__anger__threshold=0.75,
                decision__max__threshold=0.7,
            ),
        )
    )
    assert found["question angry"] == {"demo/model: angry sd": (2.0, 2.5)}
    assert found["question kind"] == {
        "demo/model: bill mu": ([-1.2, -1.1, -0.9], [-1.0, -1.1, -0.9])
    }
    assert found["category anger"] == {"demo/model: threshold": (0.5, 0.75)}
    assert found["decision"] == {"demo/model: max threshold": (0.6, 0.7)}
    assert set(found) == {"question angry", "question kind", "category anger", "decision"}


def test_a_fitted_pack_and_its_draft_differ_by_the_numbers_alone():
    fitted = read_pack(json.dumps(golden()).encode(), "pack.json")
    draft = read_pack(json.dumps(plain(fitted, None)).encode(), "pack.json")
    found = told(difference(draft, fitted))
    labels = [label for group in found.values() for label in group]
    assert labels
    assert all(label.startswith("demo/model: ") for label in labels)


def test_bands_of_the_pack_are_no_difference_of_the_numbers():
    bands = {"decision": {"act": 0.9, "review": 0.5}, "categories": {}}
    fitted = read_pack(json.dumps(golden() | {"bands": bands}).encode(), "pack.json")
    draft = read_pack(json.dumps(plain(fitted, None)).encode(), "pack.json")
    labels = [label for group in told(difference(draft, fitted)).values() for label in group]
    assert labels
    assert not [label for label in labels if "bands" in label]
    other = bands | {"decision": {"act": 0.8, "review": 0.5}}
    again = read_pack(json.dumps(golden() | {"bands": other}).encode(), "pack.json")
    assert told(difference(fitted, again)) == {"pack": {"bands": (bands, other)}}


def test_what_the_file_says_to_lint_is_compared():
    text = TEXT.replace("      sign: -1\n", "      sign: -1\n      negates: mood\n")
    text += "lint: {waive: [{rule: flat, on: mood, reason: so}]}\n"
    said = [instructions(one.encode(), "pack.yaml") for one in (TEXT, text)]
    found = told(difference(pack(), pack(text), *said))
    assert found == {
        "question tone": {"negates": (None, "mood")},
        "lint": {"waive flat on mood": (None, "so")},
    }
