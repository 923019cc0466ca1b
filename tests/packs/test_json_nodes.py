"""JSON as nodes: the same values as `json` gives, with the place of each."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.json_nodes import parse_json
from spinf_serve.packs.yaml_nodes import NESTING_LIMIT, Node, Plain, Scalar, node_at, values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def read(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: read(item) for key, item in value.items()}
    if isinstance(value, list):
        return [read(item) for item in value]
    return json.loads(value) if isinstance(value, Plain) else value


@given(VALUES.filter(lambda value: "Infinity" not in json.dumps(value)), st.booleans())
def test_values_are_those_of_json(value: Any, indented: bool) -> None:
    text = json.dumps(value, indent=2 if indented else None, ensure_ascii=indented)
    assert read(values(parse_json(text, "p.json"))) == value


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_places_are_told(ending: str) -> None:
    text = '{"a": [1,\n  {"b\\"": "x, y"} ],\n\n "c": -1.5e3}'.replace("\n", ending)
    root = parse_json(text, "p.json")

    def written(node: Node) -> tuple[str, int, int]:
        return text[node.start.index : node.end.index], node.start.line, node.start.column

    assert written(root) == (text, 1, 1)
    assert written(node_at(root, ["a", 1])) == ('{"b\\"": "x, y"}', 2, 3)
    assert written(node_at(root, ["a", 1, 'b"'])) == ('"x, y"', 2, 11)
    assert written(node_at(root, ["c"])) == ("-1.5e3", 4, 7)
    end = node_at(root, ["c"]).end
    assert (end.line, end.column, end.index) == (4, 13, len(text) - 1)
    number = node_at(root, ["c"])
    assert isinstance(number, Scalar) and number.plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,\n "b": 2,\n "a": 3}', "p.json:3:2: the key `a` stands twice, first on line 1"),
        ('{"a": [1,\n 2,]}', "p.json:2:"),
        ('{"a": NaN}', "NaN is no number"),
        ("[" + "1" * 5000 + "]", "not readable"),
        ("", "not JSON"),
        ("[" * (NESTING_LIMIT + 1) + "]" * (NESTING_LIMIT + 1), "p.json:1:33: nested deeper"),
        ("[" * 100_000, "p.json"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, words: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidPack) as caught:
        parse_json(text, "p.json")
    assert words in str(caught.value)
    assert time.process_time() - started < 20


def test_the_deepest_nesting_is_read() -> None:
    text = "[" * NESTING_LIMIT + "]" * NESTING_LIMIT
    assert json.dumps(values(parse_json(text, "p.json"))) == text
