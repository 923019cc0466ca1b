"""Edits of a text by spans: what changes, and that nothing else does."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.json_nodes import parse_json
from spinf_serve.packs.yaml_edit import Block, set_value
from spinf_serve.packs.yaml_nodes import Mapping, parse_yaml, values

TEXT = """\
# top

a:   .50   # half
b: {x: 1, 'y': "two"}  # flow
list:
- p   # first
- q

deep:
   inner:
      text: |   # header
         one

         two

   # about other
   other: 'v'
entries:
-   # none
empty:      # later
lines: {
  m: 1,  # em
  n: 2   # en
}
"""


def changed(path: list[str | int], value: Any, text: str = TEXT) -> list[str]:
    """Lines that an edit takes out and puts in; the edit has to hold with every line end."""
    edited = set_value(text, "p.yaml", path, value)
    windows = set_value(text.replace("\n", "\r\n"), "p.yaml", path, value)
    assert windows == edited.replace("\n", "\r\n")
    before, after = text.split("\n"), edited.split("\n")
    start = next(
        (n for n, (one, other) in enumerate(zip(before, after, strict=False)) if one != other),
        min(len(before), len(after)),
    )
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return ["-" + line for line in before[start : len(before) - end]] + [
        "+" + line for line in after[start : len(after) - end]
    ]


@pytest.mark.parametrize(
    ("path", "value", "lines"),
    [
        (["a"], 0.5, []),
        (["a"], 1e-7, ["-a:   .50   # half", "+a:   1.0e-07   # half"]),
        (["a"], "yes", ["-a:   .50   # half", '+a:   "yes"   # half']),
        (["a"], None, ["-a:   .50   # half", "+a:   null   # half"]),
        (["a"], True, ["-a:   .50   # half", "+a:   true   # half"]),
        (["b"], {"y": "two", "x": 1.0}, []),
        (["b", "x"], -2, ["-b: {x: 1, 'y': \"two\"}  # flow", "+b: {x: -2, 'y': \"two\"}  # flow"]),
        (["b", "z"], [1, 2.5], ["-" + TEXT.split("\n")[3], "+b: {x: 1, 'y': \"two\", z: [1, 2.5]}  # flow"]),
        (["b"], {"z": 1}, ["-" + TEXT.split("\n")[3], "+b: {z: 1}  # flow"]),
        (["b"], {"y": "two"}, ["-" + TEXT.split("\n")[3], "+b: {'y': \"two\"}  # flow"]),
        (["b"], {"x": 1, "w": 3}, ["-" + TEXT.split("\n")[3], "+b: {x: 1, w: 3}  # flow"]),
        (["b"], 7, ["-" + TEXT.split("\n")[3], "+b: 7  # flow"]),
        (["list", 0], "r: s", ["-- p   # first", '+- "r: s"   # first']),
        (["list"], ["p", "z"], ["-- q", "+- z"]),
        (["list"], ["only"], ["-- p   # first", "-- q", "+   [only]"]),
        (["deep", "inner", "text"], "flat", ["-      text: |   # header", "-         one", "-", "-         two", "+      text: flat"]),
        (["deep", "inner", "more"], 1, ["+      more: 1"]),
        (["deep", "new"], Block(k=Block(j={"m": 1.5})), ["+   new:", "+      k:", "+         j: {m: 1.5}"]),
        (["deep"], Block(inner={"text": "one\n\ntwo\n"}), ["-   # about other", "-   other: 'v'", "+   # about other"]),
        (["deep"], {"other": "v"}, ["-   inner:", "-      text: |   # header", "-         one", "-", "-         two"]),
        (["entries", 0], 5, ["--   # none", "+- 5   # none"]),
        (["empty"], 5, ["-empty:      # later", "+empty: 5      # later"]),
        (["empty"], Block(k={"l": 1}), ["+   k: {l: 1}"]),
        (["empty", "k", "l"], 1, ["+   k:", "+      l: 1"]),
        (["lines", "o"], 3, ["-  n: 2   # en", "+  n: 2,   # en", "+  o: 3"]),
        (["lines"], {"n": 2}, ["-  m: 1,  # em"]),
        (["fitted", "a/b c", "reads"], {"x": 0.1}, ["+fitted:", "+   a/b c:", "+      reads: {x: 0.1}"]),
        (["fitted", "a: b"], Block(), ["+fitted:", '+   "a: b": {}']),
    ],
)  # fmt: skip
def test_an_edit_changes_its_span(path: list[str | int], value: Any, lines: list[str]) -> None:
    found = changed(path, value)
    # Which of two equal neighbours moved cannot be told from the text.
    common = [line[1:] for line in lines if "+" + line[1:] in lines and "-" + line[1:] in lines]
    assert found == [line for line in lines if line[1:] not in common]


def test_an_empty_mapping_in_braces_becomes_lines() -> None:
    text = "a: 1\nfitted: {}   # none\nz: 2\n"
    edited = set_value(text, "p.yaml", ["fitted", "m"], Block(reads=Block(r={"mean": 0.5})))
    assert edited == "a: 1\nfitted:   # none\n  m:\n    reads:\n      r: {mean: 0.5}\nz: 2\n"
    assert set_value(text, "p.yaml", ["fitted"], {"m": 1}) == text.replace("{}", "{m: 1}")


def test_a_text_without_a_last_line_end_is_added_to() -> None:
    assert set_value("a: 1", "p.yaml", ["b"], 2) == "a: 1\nb: 2"
    # The block's own text would gain a line end.
    with pytest.raises(InvalidPack, match="^p.yaml:1:4: .*no line end"):
        set_value("a: |\n  x", "p.yaml", ["b"], 2)


def test_what_is_added_stands_below_the_comments_of_its_mapping() -> None:
    text = "a:\n  b: 1\n  # of a\n\n   # too\n# of c\n\nc: |\n  x\n\n# the end\n\n"
    assert set_value(text, "p.yaml", ["a", "d"], 2) == text.replace("# too", "# too\n  d: 2")
    assert set_value(text, "p.yaml", ["e"], 2) == text.replace("end\n", "end\ne: 2\n")


def test_a_kept_block_keeps_its_blank_lines() -> None:
    text = "a:\n  t: |+\n    x\n\nb: 1\n"
    assert set_value(text, "p.yaml", ["a", "u"], 2) == "a:\n  t: |+\n    x\n\n  u: 2\nb: 1\n"


@pytest.mark.parametrize("path", [["a", "b"], ["list", 5], ["list", "x"], ["deep", "other", "x"]])
def test_a_path_that_leads_nowhere_is_refused(path: list[str | int]) -> None:
    with pytest.raises(InvalidPack, match=r"^p.yaml:\d+:\d+: cannot be edited here"):
        set_value(TEXT, "p.yaml", path, 1)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_only_finite_numbers_are_written(number: float) -> None:
    with pytest.raises(ValueError, match="no finite number"):
        set_value(TEXT, "p.yaml", ["a"], number)


def test_exact_numbers_are_written_as_python_prints_them() -> None:
    assert set_value("a: 1\n", "p.yaml", ["a"], 1.0) == "a: 1\n"
    assert set_value("a: 1\n", "p.yaml", ["a"], 1.0, exact=True) == "a: 1.0\n"
    assert set_value("a: 1.0\n", "p.yaml", ["a"], 1, exact=True) == "a: 1\n"


JSON = (
    '{\n\t"a": [1, 2.50],\n\t"b": {"x": "1", "y": true},\n\t"c": {},\n\t"d": "\\ud83d\\ude00"\n}\n'
)


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (["a", 1], 2.5, "", ""),
        (["a", 1], 3, "2.50", "3"),
        (["b", "x"], "1", "", ""),
        (["b", "y"], "true", "true", '"true"'),
        (["b", "z"], None, "true", 'true, "z": null'),
        (["b"], {"y": True}, '"x": "1", ', ""),
        (["b"], {"x": "1"}, ', "y": true', ""),
        (["c", "k"], Block(l={"m": 1}), "{},", '{\n\t\t"k": {\n\t\t\t"l": {"m": 1}\n\t\t}\n\t},'),
        (["e"], Block(l={"é": "\n"}), '"\n}', '",\n\t"e": {\n\t\t"l": {"é": "\\n"}\n\t}\n}'),
    ],
)
def test_json_is_edited_alike(path: list[str | int], value: Any, old: str, new: str) -> None:
    for text in (JSON, JSON.replace("\n", "\r\n")):
        ending = "\r\n" if "\r" in text else "\n"
        edited = set_value(text, "p.json", path, value)
        assert edited == text.replace(old.replace("\n", ending), new.replace("\n", ending), 1)
        assert isinstance(json.loads(edited), dict)


def test_compact_json_stays_compact() -> None:
    text = '{"a":1,"b":2}'
    assert json.loads(set_value(text, "p.json", ["c"], Block(d=1))) == {
        "a": 1,
        "b": 2,
        "c": {"d": 1},
    }
    assert "\n" not in set_value(text, "p.json", ["c"], Block(d=1))


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1,}', '{"a": 1, "a": 2}', "[" * 5000, ""])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidPack):
        set_value(text, "p.json", ["a"], 1)


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
NUMBERS = st.integers(-99, 99) | st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(WORDS, inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3).map(Block)
    ),
    max_leaves=8,
)


def plain(value: Any) -> Any:
    """What `values` gives for a written value."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value)
    return value if isinstance(value, str) else json.dumps(value)


def read(value: Any, like: Any) -> Any:
    """What was read, with numbers as numbers where one was meant."""
    if isinstance(value, dict) and isinstance(like, dict):
        return {key: read(item, like.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(like, list):
        return [read(item, other) for item, other in zip(value, like, strict=True)]
    return float(value) if isinstance(like, float) and isinstance(value, str) else value


@given(TREES, TREES, st.sampled_from(["p.yaml", "p.json"]))
def test_any_value_is_written_over_any_other(first: Any, second: Any, name: str) -> None:
    parse = parse_json if name == "p.json" else parse_yaml
    text = '{\n  "a": 1\n}\n' if name == "p.json" else "a: 1\nlast: 2 # end\n"
    held = set_value(text, name, ["v", "w"], first)
    then = set_value(held, name, ["v", "w"], second)
    for edited, value in ((held, first), (then, second)):
        root = parse(edited, name)
        assert isinstance(root, Mapping)
        found: Any = values(root)
        assert read(found["v"]["w"], value) == plain(value)
        assert found["a"] == "1"
    assert set_value(then, name, ["v", "w"], second) == then
    assume(name == "p.yaml")
    assert then.startswith("a: 1\nlast: 2 # end\nv:\n")
