"""Bodies of several parts, taken apart."""

import time

import pytest

from spinf_serve.packs.errors import Refused
from spinf_serve.server.multipart import boundary_of, take_apart


def part(disposition: str, data: bytes = b"x", more: str = "") -> bytes:
    return f"--B\r\nContent-Disposition: {disposition}\r\n{more}\r\n".encode() + data + b"\r\n"


REQUEST = part('form-data; name="request"', b'{"a": "\xc3\xa9\r\n"}', "Content-Type: a/b\r\n")
END = b"--B--\r\n"


@pytest.mark.parametrize(
    ("header", "boundary"),
    [
        (None, None),
        ("", None),
        ("application/json", None),
        ("multipart/form-data; boundary=B", "B"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', "a b"),
    ],
)
def test_the_header_says_whether_a_body_has_parts(header, boundary):
    assert boundary_of(header) == boundary


def test_parts_without_a_boundary_are_refused():
    with pytest.raises(Refused, match="boundary"):
        boundary_of("multipart/form-data")


def test_the_request_comes_out_as_it_was_and_others_by_name():
    others = part('form-data; name="asset-0"; filename="a;b.png"', b"\x00\xff") + part(
        "form-data; name=asset-1"
    )
    apart = take_apart(REQUEST + others + END, "B")
    assert apart.request == b'{"a": "\xc3\xa9\r\n"}'
    assert apart.others == {"asset-0", "asset-1"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "ends too early"),
        (b"no parts at all", "not valid multipart"),
        (REQUEST, "ends too early"),
        (REQUEST[:-9], "ends too early"),
        (part('form-data; name="a"') + END, "no part named 'request'"),
        (REQUEST + REQUEST + END, "two parts named 'request'"),
        (REQUEST + part("form-data") + END, "no name"),
        (b"".join(part(f"form-data; name=p{n}") for n in range(65)) + END, "more than 64"),
    ],
)
def test_what_is_no_such_body_is_refused(body, why):
    with pytest.raises(Refused, match=why) as caught:
        take_apart(body, "B")
    assert caught.value.code == "invalid_encoding"


def test_a_content_type_without_end_is_refused_at_once():
    begun = time.process_time()
    with pytest.raises(Refused, match="over 1024 characters") as caught:
        boundary_of('multipart/form-data; a="' + ";" * 60_000 + '"; boundary=B')
    assert caught.value.code == "invalid_encoding"
    assert time.process_time() - begun < 1
