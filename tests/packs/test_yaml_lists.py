"""Edits of lists and of the order of keys: what changes, and that nothing else does."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.yaml_lists import change, insert, move, remove, set_texts
from spinf_serve.packs.yaml_nodes import parse_yaml, values
from spinf_serve.packs.yaml_text import Block

TEXT = """\
# top
names: {a: one, 'b': "two"}   # names

# all of it
list:   # the list
  # of the first
  - id: first   # first id
    words: [x, y,  z]   # words
  # of the second

  - id: "second"
    text: |
      two lines

      of text

  # of the third
  -
    # inside
    id: third
    words:
      - p   # p
      # of q
      - q
      - 'r'
keys:
  # of k
  k: 1
  l:   # l
    m: 2
  n: |
    text
short: [
  a,   # a
  b,   # b
  c    # c
]
empty: []   # none
null:
last: end
"""
COMMENT = re.compile(r"(?<!\S)#.*")


def read(text: str) -> Any:
    return values(parse_yaml(text, "p.yaml"))


def both(edit: Any) -> str:
    """The edit of the text; the same with line ends of Windows has to come out alike."""
    done: str = edit(TEXT)
    assert edit(TEXT.replace("\n", "\r\n")) == done.replace("\n", "\r\n")
    return done


@pytest.mark.parametrize(
    ("path", "index", "new", "old", "edited"),
    [
        (["list"], 0, [Block(id="v", words=["w"])], "  # of the first\n", "  - id: v\n    words: [w]\n  # of the first\n"),
        (["list"], 1, ["v"], "# words\n", "# words\n  - v\n"),
        (["list"], 3, [Block(id="v")], "- 'r'\n", "- 'r'\n  - id: v\n"),
        (["list", 0, "words"], 1, ["v", "m o"], "[x, y", "[x, v, m o, y"),
        (["list", 0, "words"], 0, ["yes"], "[x", '["yes", x'),
        (["list", 2, "words"], 1, ["v"], "- p   # p\n", "- p   # p\n      - v\n"),
        (["short"], 1, ["v"], "  a,   # a", "  a, v,   # a"),
        (["short"], 3, ["v"], "  c    # c", "  c, v    # c"),
        (["empty"], 0, ["v"], "[]", "[v]"),
        (["empty"], 0, [Block(id="v", k=1), "m"], "empty: []   # none", "empty:   # none\n  - id: v\n    k: 1\n  - m"),
        (["null"], 0, [Block(id="v")], "null:", "null:\n  - id: v"),
        (["new"], 0, ["v"], "last: end\n", "last: end\nnew: [v]\n"),
        (["empty"], 0, [], "", ""),
    ],
)  # fmt: skip
def test_entries_are_put_in(
    path: list[str | int], index: int, new: list[Any], old: str, edited: str
) -> None:
    assert both(lambda text: insert(text, "p.yaml", path, index, new)) == TEXT.replace(
        old, edited, 1
    )


@pytest.mark.parametrize(
    ("path", "count", "old", "edited"),
    [
        (["list", 0], 1, "  - id: first   # first id\n    words: [x, y,  z]   # words\n", ""),
        (["list", 2, "words", 1], 1, "      - q\n", ""),
        (["list", 2, "words", 0], 3, "    words:\n      - p   # p\n      # of q\n      - q\n      - 'r'\n", "    words: []\n      # of q\n"),
        (["list", 0, "words", 0], 1, "[x, y", "[y"),
        (["list", 0, "words", 1], 2, "[x, y,  z]", "[x]"),
        (["list", 0, "words", 0], 3, "[x, y,  z]", "[]"),
        (["short", 1], 1, "  b,   # b", "     # b"),
        (["short", 2], 1, "  b,   # b\n  c    # c", "  b   # b\n      # c"),
        (["names", "a"], 1, "{a: one, ", "{"),
        (["names", "b"], 1, "{a: one, 'b': \"two\"}", "{a: one}"),
        (["keys", "l"], 1, "  l:   # l\n    m: 2\n", ""),
        (["keys", "l", "m"], 1, "  l:   # l\n    m: 2\n", "  l: {}   # l\n"),
        (["list", 1, "text"], 1, "    text: |\n      two lines\n\n      of text\n", ""),
        (["last"], 1, "last: end\n", ""),
    ],
)  # fmt: skip
def test_entries_are_taken_out(path: list[str | int], count: int, old: str, edited: str) -> None:
    assert old in TEXT
    done = both(lambda text: remove(text, "p.yaml", path, count))
    assert done == TEXT.replace(old, edited, 1)


def test_an_entry_moves_with_the_comments_above_it() -> None:
    done = both(lambda text: move(text, "p.yaml", ["list", 2], 0))
    assert [one["id"] for one in read(done)["list"]] == ["third", "first", "second"]
    assert "list:   # the list\n  # of the third\n  -\n    # inside\n    id: third" in done
    # What stands apart stays between the places.
    assert "  # of the second\n\n" in done
    done = both(lambda text: move(text, "p.yaml", ["list", 2, "words", 1], 2))
    assert "      - p   # p\n      - 'r'\n      # of q\n      - q\n" in done
    done = both(lambda text: move(text, "p.yaml", ["keys", "n"], 0))
    assert "keys:\n  n: |\n    text\n  # of k\n  k: 1\n  l:   # l\n    m: 2\n" in done
    done = both(lambda text: move(text, "p.yaml", ["short", 0], 2))
    assert "  b,   # a\n  c,   # b\n  a    # c\n" in done
    done = both(lambda text: move(text, "p.yaml", ["names", "b"], 0))
    assert "names: {'b': \"two\", a: one}   # names" in done
    assert move(TEXT, "p.yaml", ["list", 1], 1) == TEXT


def test_texts_and_keys_change_at_once() -> None:
    done = change(
        TEXT,
        "p.yaml",
        put={("list", 0, "id"): "new: id", ("keys", "k"): "no"},
        rename={("names", "a"): "c", ("keys", "l", "m"): "o", ("keys", "l"): "p"},
    )
    expected = TEXT.replace("id: first ", 'id: "new: id" ').replace("k: 1", 'k: "no"')
    expected = expected.replace("{a: one", "{c: one").replace(
        "  l:   # l\n    m:", "  p:   # l\n    o:"
    )
    assert done == expected
    assert change(TEXT, "p.yaml", put={("list", 0, "id"): "first"}) == TEXT


@pytest.mark.parametrize(
    ("new", "old", "edited"),
    [
        (["x", "y", "z"], "", ""),
        (["x", "w", "z"], "[x, y,  z]", "[x, w,  z]"),
        (["z"], "[x, y,  z]", "[z]"),
        (["x", "y", "z", "other"], "[x, y,  z]", "[x, y,  z, other]"),
        ([], "[x, y,  z]", "[]"),
    ],
)
def test_only_texts_that_differ_are_touched(new: list[str], old: str, edited: str) -> None:
    done = both(lambda text: set_texts(text, "p.yaml", ["list", 0, "words"], new))
    assert done == TEXT.replace(old, edited, 1)


@pytest.mark.parametrize(
    "edit",
    [
        lambda: remove(TEXT, "p.yaml", ["list", 9]),
        lambda: move(TEXT, "p.yaml", ["nothing", 0], 1),
        lambda: insert(TEXT, "p.yaml", ["last"], 0, ["x"]),
        lambda: change(TEXT, "p.yaml", rename={("names", "a"): "b"}),
        lambda: change(TEXT, "p.yaml", put={("list",): "b"}),
        lambda: remove("- - a\n  - b\n", "p.yaml", [0, 0]),
    ],
)
def test_what_the_layout_does_not_take_is_refused(edit: Any) -> None:
    with pytest.raises(InvalidPack, match=r"^p.yaml:\d+:\d+: cannot be edited here"):
        edit()


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
LISTS = (("list",), ("list", 0, "words"), ("list", 2, "words"), ("short",), ("empty",))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_edits_in_a_row_keep_comments_and_untouched_lines(data: st.DataObject) -> None:
    text = TEXT
    for number in range(data.draw(st.integers(1, 5))):
        held = read(text)
        path = data.draw(st.sampled_from(LISTS))
        target = held
        try:
            for step in path:
                target = target[step]
        except (KeyError, IndexError, TypeError):
            continue
        what = data.draw(st.sampled_from(["insert", "remove", "move", "set"]))
        before = text
        if what == "insert":
            index = data.draw(st.integers(0, len(target)))
            new = data.draw(st.lists(WORDS, min_size=1, max_size=2))
            text = insert(text, "p.yaml", path, index, new)
            target[index:index] = new
        elif what == "set" and all(isinstance(one, str) for one in target):
            new = data.draw(st.lists(WORDS, max_size=5))
            text = set_texts(text, "p.yaml", path, new)
            target[:] = new
        elif what == "move" and target:
            start = data.draw(st.integers(0, len(target) - 1))
            end = data.draw(st.integers(0, len(target) - 1))
            try:
                text = move(text, "p.yaml", [*path, start], end)
            except InvalidPack:
                # A comment below the last entry would become part of the text in lines.
                assert path == ("list",)
                continue
            target.insert(end, target.pop(start))
        elif what == "remove" and target and path != ("list",):
            at = data.draw(st.integers(0, len(target) - 1))
            text = remove(text, "p.yaml", [*path, at])
            del target[at]
        assert read(text) == held, (number, what)
        # Lines of other parts are the very same.
        for part in ("# top\n", "names: {a: one, 'b': \"two\"}   # names\n", "keys:\n  # of k\n"):
            assert part in text
        if what in ("insert", "move"):
            assert sorted(COMMENT.findall(before)) == sorted(
                one for one in COMMENT.findall(text) if one in before
            )
