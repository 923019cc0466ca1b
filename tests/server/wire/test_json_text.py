"""JSON in and out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.json_text import decode, encode, half_pair

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(VALUES)
def test_what_is_encoded_is_decoded(value):
    assert decode(encode(value)).value == value
    assert half_pair(value) is None


def test_text_is_compact_utf8():
    assert encode({"a": [1, 0.5, None], "ü": "\n"}) == '{"a":[1,0.5,null],"ü":"\\n"}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_number_is_not_written(value):
    with pytest.raises(ValueError, match="JSON"):
        encode(value)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "line 1"),
        (b'{"a": 1,\n "b"}', "line 2"),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b'{"a": {"b": 1, "b": 1}}', "'b' stands twice"),
        (b'{"\\ud800": 1, "\\ud800": 1}', "twice"),
        (b"[" * 10_000 + b"]" * 10_000, "deeply"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "deeply"),
        (b"1" * 5000, "digits"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        ("[1]".encode("utf-16"), "not UTF-8"),
        (b"[1] 2", "Extra data"),
        (b'"a\nb"', "control character at line 1"),
        (b'["a', "string starting at line 1"),
    ],
)
def test_what_is_no_json_is_refused_with_the_reason(body, why):
    with pytest.raises(Refused) as caught:
        decode(body)
    assert caught.value.code == "invalid_json"
    assert why in caught.value.message
    caught.value.message.encode()


@pytest.mark.parametrize("body", [b"[1]", b"\xef\xbb\xbf[1]", b" [ 1 ] "])
def test_a_byte_order_mark_and_spaces_are_read_over(body):
    assert decode(body).value == [1]


def test_large_and_exact_numbers_survive():
    assert decode(b"[123456789012345678901234567890, 1e400]").value == [
        123456789012345678901234567890,
        float("inf"),
    ]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'"\\ud800"', ""),
        (b'{"a": [0, {"b": "x\\uDFFF"}]}', "a.1.b"),
        (b'{"a": 1, "c": {"x\\ud83d": 2}}', "c"),
        (b'["\\ud83d\\ude00", "\\ude00\\ud83d"]', "1"),
    ],
)
def test_half_a_pair_is_found(body, path):
    document = decode(body)
    assert document.may_hold_half_pairs
    found = half_pair(document.value)
    assert found is not None
    assert found[0] == path
    found[1].encode()


@pytest.mark.parametrize("body", [b'["\\ud83d\\ude00"]', b'["\\\\ud800"]', '["😀"]'.encode()])
def test_whole_pairs_are_none(body):
    assert half_pair(decode(body).value) is None


def test_the_walk_takes_any_depth_the_parser_takes():
    value = decode(b"[" * 400 + b'"\\ud800"' + b"]" * 400).value
    found = half_pair(value)
    assert found is not None
    assert found[0] == ".".join("0" * 400)
