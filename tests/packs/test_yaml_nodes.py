"""YAML as nodes: what is read, what is refused and how it is said, and that nothing hurts."""

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.yaml_nodes import (
    NESTING_LIMIT,
    Mapping,
    Plain,
    Scalar,
    Sequence,
    node_at,
    parse_yaml,
    source_text,
    values,
)
from spinf_serve.packs.yaml_sentences import quoted

PACK = """\
# A pack.
pack: spinf/reviews
contexts:
  default: "Review: {X}\\n"   # one
scoring:
  queries:
  - id: sentiment
    template: |
      Is it good?
      Answer:{?}

    options: [yes, 010, 1.10, 12:30, 2024-01-05, null, "null", 'it''s']
  - {id: about, for: {F: [the price, "a, b"]}, empty: }
empty:
last: {}
"""


def refused(text: str) -> tuple[str, int, int]:
    with pytest.raises(InvalidPack) as caught:
        parse_yaml(text, "pack.yaml")
    (fault,) = caught.value.faults
    assert fault.file == "pack.yaml"
    return fault.message, fault.line, fault.column


def test_scalars_stay_what_was_written() -> None:
    assert values(parse_yaml(PACK, "pack.yaml")) == {
        "pack": "spinf/reviews",
        "contexts": {"default": "Review: {X}\n"},
        "scoring": {
            "queries": [
                {
                    "id": "sentiment",
                    "template": "Is it good?\nAnswer:{?}\n",
                    "options": [
                        "yes",
                        "010",
                        "1.10",
                        "12:30",
                        "2024-01-05",
                        "null",
                        "null",
                        "it's",
                    ],
                },
                {"id": "about", "for": {"F": ["the price", "a, b"]}, "empty": ""},
            ]
        },
        "empty": "",
        "last": {},
    }


def test_unquoted_scalars_are_told_from_quoted_ones() -> None:
    read = values(parse_yaml("a: [null, 'null', true, \"1.5\", 1.5]\nb: |\n  null\n", "p"))
    assert isinstance(read, dict)
    assert [isinstance(item, Plain) for item in read["a"]] == [True, False, True, False, True]
    assert not isinstance(read["b"], Plain)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_marks_are_spans_of_the_text(ending: str) -> None:
    text = PACK.replace("\n", ending)
    root = parse_yaml(text, "p")
    assert values(root) == values(parse_yaml(PACK, "p"))
    checked = 0
    stack = [root]
    while stack:
        node = stack.pop()
        # Everything before the mark on its line, so that line, column and offset agree.
        line = text.split(ending)[node.start.line - 1]
        assert line[node.start.column - 1 :] == text[node.start.index :].split(ending)[0]
        written = text[node.start.index : node.end.index]
        if isinstance(node, Scalar):
            if node.plain:
                assert written == node.text
            checked += 1
        elif isinstance(node, Sequence):
            assert not node.flow or (written[0], written[-1]) == ("[", "]")
            stack += node.items
        else:
            assert not node.flow or (written[0], written[-1]) == ("{", "}")
            stack += [part for pair in node.pairs for part in pair]
    assert checked == 31
    assert node_at(root, ["empty"]).start.column == len("empty:") + 1
    assert text[: node_at(root, ["scoring"]).end.index].endswith("empty: }")


def test_node_at_stops_at_the_nearest_parent() -> None:
    root = parse_yaml(PACK, "p")
    price = node_at(root, ["scoring", "queries", 1, "for", "F", 0])
    assert isinstance(price, Scalar) and price.text == "the price"
    assert (price.start.line, price.start.column) == (13, 27)
    queries = node_at(root, ["scoring", "queries"])
    assert node_at(root, ["scoring", "queries", 7, "id"]) is queries
    assert node_at(root, ["scoring", "queries", "id"]) is queries
    assert node_at(root, ["nothing"]) is root
    assert node_at(price, ["deeper"]) is price


def test_duplicate_keys_name_both_lines_and_all_are_told() -> None:
    with pytest.raises(InvalidPack) as caught:
        parse_yaml('a: 1\nb: {c: 1, "c": 2}\n"a": 3\n', "p.yaml")
    assert str(caught.value).splitlines() == [
        "p.yaml:2:11: the key `c` stands twice, first on line 2; remove one",
        "p.yaml:3:1: the key `a` stands twice, first on line 1; remove one",
    ]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("k" * 1025 + ": 1\n", (1, 1), ["1,024"]),
        ("a: 1\n\tb: 2\n", (2, 1), ["a tab", "spaces"]),
        ("a:\tb\n", (1, 3), ["a tab"]),
        ("a: [\n\tb]\n", (2, 1), ["a tab"]),
        ("a: &x b\n", (1, 4), ["anchors", '"&x b"']),
        ("a: [x, *b, c]\n", (1, 8), ["aliases", '"*b"']),
        ("<<: a\n", (1, 1), ["merge keys"]),
        ("a: !!str b\n", (1, 4), ["tags", '"!!str b"']),
        ("%YAML 1.2\n---\na: 1\n", (1, 1), ["%", '"%YAML 1.2"']),
        ("a: 1\n---\nb: 1\n", (2, 1), ["second document"]),
        ("a: 1\n...\nb: 1\n", (3, 1), ["second document"]),
        ("? a\n: b\n", (1, 1), ["?"]),
        ("a: {?}\n", (1, 5), ["?", '"{?}"']),
        ("[a, b]: c\n", (1, 1), ["a key must be a text"]),
        (": a\n", (1, 1), ["no key"]),
        ("a: [error: bad]\n", (1, 5), ['"error: bad"', "{key: value}"]),
        ("t: {X} is it good?{?}\n", (1, 5), ['"{X} is it good?{?}"']),
        ("a: b: c # d\n", (1, 5), ['a: "b: c"']),
        ("pack:spinf/a\nversion: 1\n", (1, 1), ["a space after the colon", "pack: spinf/a"]),
        ("a: 1\n- id:b\n", (2, 1), ["column 1", "do not mix"]),
        ("a: 1\nb:2\nc: 3\n", (2, 1), ["b: 2"]),
        ("a: 1\nwords\n", (2, 1), ["no `key: value`"]),
        ("words\na: 1\n", (1, 1), ["no `key: value`"]),
        ("a: b\n  c: d\n", (2, 3), ["indented deeper"]),
        ("a:\n  - b\n - c\n", (3, 2), ["column 2", "align"]),
        ("a:\n    b: 1\n  c: 2\n", (3, 3), ["column 3", "align"]),
        ("  a: 1\nb: 2\n", (2, 1), ["indented less"]),
        ("a: - b\n", (1, 4), ["on the line below", '"- b"']),
        ("a: 'b\nc: d\n", (1, 4), ["quote '", "not closed", "''"]),
        ('a: "b\nc: d\n', (1, 4), ['quote "', "not closed"]),
        ('a: "b\nc: ["d", e]\n', (1, 4), ['quote "', "closed only in line 2"]),
        ("a: 'b\nc: d\ne: 'f g'\n", (1, 4), ["quote '", "closed only in line 3"]),
        ("a: 'it's'\n", (1, 8), ["behind its closing quote"]),
        ('a: "\\d"\n', (1, 5), ["\\d is no escape", "\\\\d"]),
        ('a: "\\x1"\n', (1, 5), ["2 hexadecimal digits"]),
        ('a: "\\UFFFFFFFF"\n', (1, 7), ["U0010FFFF"]),
        ('a: "\\ud83d"\n', (1, 4), ["U+D83D"]),
        ('a: "x\\0"\n', (1, 4), ["U+0000"]),
        ("a: @b # c\n", (1, 4), ['"@b"']),
        ("a: [`b c`, d]\n", (1, 5), ['"`b c`"']),
        ("a: %b\n", (1, 4), ['"%b"']),
        ("a: | b\n  c\n", (1, 4), ["next line", '"| b"']),
        ("a: [|, b]\n", (1, 5), ["double quotes"]),
        ("a: [b, , c]\n", (1, 8), ["before this comma"]),
        ("a: [b, c\n", (1, 4), ["[ is not closed by ]"]),
        ("a: {b: [c}\n", (1, 10), ["} does not close [; write ]"]),
        ('a: ["b" "c"]\n', (1, 9), ["a comma is missing"]),
        ("a: {b: c: d}\n", (1, 9), ["colon"]),
        ("a: x]\nb: ]\n", (2, 4), ["]"]),
        ('a: "b", "c"\n', (1, 7), ["[a, b]"]),
        ('a: "b"#c\n', (1, 7), ["a space before #"]),
        ("a: |\n   \n     b\n", (3, 6), ["line of spaces"]),
        ("a: b\x07\n", (1, 5), ["U+0007", "\\u0007"]),
        ("a: b\u2028\n", (1, 5), ["U+2028", "\\u2028"]),
        ("a: \ufeffb\n", (1, 4), ["byte order mark"]),
        ("a: \x00\n", (1, 4), ["U+0000"]),
        ("", (0, 0), ["no value"]),
        ("# nothing\n\n", (0, 0), ["no value"]),
        ("---\n", (0, 0), ["no value"]),
    ],
)
def test_refusals_say_where_and_what_to_write(
    text: str, place: tuple[int, int], words: list[str]
) -> None:
    message, *found = refused(text)
    assert tuple(found) == place
    assert [word for word in words if word not in message] == []


def test_escaped_control_characters_are_a_text() -> None:
    assert values(parse_yaml('"\\x07\\u2028\\U0001F600"', "p")) == "\x07\u2028\U0001f600"


def test_a_quoted_form_reads_back() -> None:
    message, *_ = refused('a: @ say "hi" \\ now\n')
    form = message[message.index('"') :]
    assert values(parse_yaml(f"a: {form}", "p")) == {"a": '@ say "hi" \\ now'}


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "a:\n"])
def test_nesting_ends_at_the_limit(opening: str) -> None:
    def nested(levels: int) -> str:
        if opening == "a:\n":
            return "".join(" " * level + "a:\n" for level in range(levels))
        closing = {"[": "]", "{a: ": "}"}.get(opening, "")
        return opening * levels + "1" + closing * levels

    assert isinstance(parse_yaml(nested(NESTING_LIMIT), "p"), Mapping | Sequence)
    assert "deeper than 32" in refused(nested(NESTING_LIMIT + 1))[0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a: \xe9\n", ["0xe9", "UTF-8"]),
        (b"a: \xed\xa0\x80\n", ["0xed"]),
        ("a: b\n".encode("utf-16"), ["UTF-16"]),
        ("a: b\n".encode("utf-16-be"), ["UTF-16"]),
        (b"#" * (512 << 10) + b"\n", ["524,289", "524,288"]),
        (b"a" * (16 << 20), ["YAML"]),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, words: list[str]) -> None:
    with pytest.raises(InvalidPack) as caught:
        source_text(data, "p.yaml")
    assert [word for word in words if word not in str(caught.value)] == []


def test_the_place_of_a_wrong_byte_is_told() -> None:
    with pytest.raises(InvalidPack, match="^p.yaml:2:4: "):
        source_text("\ufeffé: 1\nb: ".encode() + b"\xff", "p.yaml")


def test_a_byte_order_mark_is_taken_off_and_line_ends_stay() -> None:
    assert source_text("\ufeffa: 1\r\nb: é\r".encode(), "p.yaml") == "a: 1\r\nb: é\r"
    assert len(source_text(b" " * (512 << 10), "p.yaml")) == 512 << 10
    assert len(source_text(b" " * (16 << 20), "p.json")) == 16 << 20


LIMIT = 512 << 10
HOSTILE = {
    "brackets": "[" * 100_000,
    "braces": "{" * 100_000,
    "dashes": "- " * 100_000,
    "alias bomb": "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(1000)),
    "questions": "? " * 100_000,
    "one line": "a: " + "x" * (LIMIT - 4),
    "one line of words": "a: " + "x " * (LIMIT // 2 - 3),
    "one line in quotes": 'a: "' + "x " * (LIMIT // 2 - 4) + '"',
    "escapes": 'a: "' + "\\n" * (LIMIT // 2 - 4) + '"',
    "unclosed quote": 'a: "' + "x\n" * (LIMIT // 2 - 4),
    "comments": "#\n" * (LIMIT // 2),
    "comments before a fault": "a: b\n" + "#\n" * (LIMIT // 2 - 20) + "  c: d\n",
    "blank lines": "a: 1" + "\n" * (LIMIT - 5),
    "blanks": "a:" + " " * (LIMIT - 5),
    "blanks before a fault": "a: b" + " " * (LIMIT - 20) + "x#y: c",
    "flow entries": "[" + "a," * (LIMIT // 2 - 2) + "]",
    "block entries": "- a\n" * (LIMIT // 4),
    "keys": "".join(f"k{n}: 1\n" for n in range(40_000)),
    "one key again and again": "k: 1\n" * 19_000,
    "empty values": "k:\n" * 19_000,
    "braces without values": "{" + "a\n:," * 100_000,
    "commas": "[" + "," * 250_000,
    "block text": "a: |\n" + "  x\n" * (LIMIT // 4 - 3),
    "long key": "k" * 250_000 + ": 1\n",
    "tabs": "a: [" + "\t" * 250_000,
    "number": "a: " + "9" * 250_000,
    "directive": "%YAML 1." + "9" * 250_000 + "\n",
    "tag": "a: !" + "x" * 250_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_text_is_read_or_refused_soon(what: str) -> None:
    started = time.process_time()
    try:
        parse_yaml(HOSTILE[what], "p")
    except InvalidPack as refusal:
        assert len(str(refusal)) < 5000
    assert time.process_time() - started < 20


def test_memory_stays_in_proportion_to_the_text() -> None:
    text = "k: [a, a, a, a]\n" * 1000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidPack):
            parse_yaml(text, "p")
        assert tracemalloc.get_traced_memory()[1] < 200 * len(text)
    finally:
        tracemalloc.stop()


PIECES = st.sampled_from(
    [*"ab:-?#|>[]{},&*!%@`'\"\\~é😀 \t\n\r\0", "\ufeff", "\x85", "\u2028", "\ud800", "::", "--"]
    + ["---", "...", "|+", ">-2", "''", '""', "\\x", "\\u12", "\\\n", "<<", "null", "\r\n", "  "]
    + ["    ", ": ", "- ", " #", "\n  ", "\n- "]
)


@settings(max_examples=400)
@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60)))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = values(parse_yaml(text, "p"))
    except InvalidPack as refusal:
        assert refusal.faults
        for fault in refusal.faults:
            assert fault.message
            assert 0 <= fault.line <= len(text) + 1
    else:
        assert isinstance(read, str | list | dict)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3), max_size=4))
def test_quoted_texts_read_back(mapping: dict[str, list[str]]) -> None:
    text = "".join(
        f"{quoted(key)}:{''.join(f'{chr(10)}- {quoted(item)}' for item in items) or ' []'}\n"
        for key, items in mapping.items()
        if len(quoted(key)) < 1000
    )
    assert values(parse_yaml(text or "{}", "p")) == mapping
