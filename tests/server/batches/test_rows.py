"""What a line of an input file must be, and how a whole file is checked."""

import json
from typing import Any

import pytest

from spinf_serve.packs.errors import Refused
from spinf_serve.server.batches import rows
from spinf_serve.server.batches.rows import check_file, read_rows

URL = "/v1/score"


def line(custom_id: Any = "a", **changes: Any) -> str:
    return json.dumps(
        {"custom_id": custom_id, "method": "POST", "url": URL, "body": {"a": 1}, **changes}
    )


def checked(path, *lines: str, max_body_bytes: int = 1000, stopped=lambda: False):
    path.write_text("\n".join(lines))
    return check_file(path, URL, max_body_bytes, stopped)


def test_rows_and_ends_of_their_lines(tmp_path):
    path = tmp_path / "rows"
    text = f"\ufeff{line('a')}\r\n\n  \n{line('b', body={'x': 'é', 'y': 1e-9})}"
    path.write_text(text)
    with path.open("rb") as file:
        first, second = read_rows(file, URL)
    assert (first.custom_id, second.custom_id) == ("a", "b")
    assert json.loads(second.body) == {"x": "é", "y": 1e-9}
    data = path.read_bytes()
    assert data[: first.end_bytes].endswith(b"\r\n") and second.end_bytes == len(data)
    # From the end of a row the next one is read, which is how a batch goes on.
    with path.open("rb") as file:
        file.seek(first.end_bytes)
        assert list(read_rows(file, URL)) == [second]


def test_a_surrogate_half_comes_to_the_route_as_it_was_sent(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(line(body={"x": "\ud83d"}).encode())
    with path.open("rb") as file:
        [row] = read_rows(file, URL)
    assert row.body == rb'{"x": "\ud83d"}'


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        ("{", "invalid_json", None),
        ("3", "invalid_field", None),
        (line(extra=1), "invalid_field", "extra"),
        (line(method="post"), "invalid_field", "method"),
        (line(method=["POST"]), "invalid_field", "method"),
        (line(url="/v1/score/"), "invalid_field", "url"),
        (line(body="{}"), "invalid_field", "body"),
        (line(custom_id=""), "invalid_field", "custom_id"),
        (line(custom_id=7), "invalid_field", "custom_id"),
        (line(custom_id="x" * 513), "invalid_field", "custom_id"),
        ('{"custom_id": "a", "custom_id": "b"}', "invalid_json", None),
    ],
)
def test_what_is_no_row_is_refused_by_field(tmp_path, text, code, param):
    _, [flaw] = checked(tmp_path / "rows", line("before"), text)
    assert (flaw.code, flaw.param, flaw.line) == (code, param, 2)


def test_lines_that_are_not_text_are_named(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(line("a").encode() + b"\n\xff\xfe\n" + line("b").encode())
    total, [flaw] = check_file(path, URL, 1000, lambda: False)
    assert (total, flaw.code, flaw.line) == (3, "invalid_json", 2)


def test_the_numbers_of_lines_hold_behind_one_that_is_too_long(tmp_path):
    long = line("b", body={"x": "y" * 100_000})
    total, flaws = checked(tmp_path / "rows", line("a"), long, "", "null", line("c"))
    assert total == 4
    assert [(flaw.code, flaw.line) for flaw in flaws] == [
        ("body_too_large", 2),
        ("invalid_field", 4),
    ]


def test_a_body_may_have_just_the_bytes_that_are_allowed(tmp_path):
    size = len('{"x":""}') + 50
    text = line(body={"x": "y" * 50})
    assert checked(tmp_path / "rows", text, max_body_bytes=size) == (1, [])
    assert checked(tmp_path / "rows", text, max_body_bytes=size - 1)[1][0].code == "body_too_large"


def test_letters_beyond_ascii_have_their_bytes_of_utf_8(tmp_path):
    text = line(body={"x": "讀" * 50})
    size = len('{"x":""}') + 3 * 50
    assert checked(tmp_path / "rows", text, max_body_bytes=size) == (1, [])
    assert checked(tmp_path / "rows", text, max_body_bytes=size - 1)[1][0].code == "body_too_large"


def test_what_is_nested_too_deeply_to_be_read_is_a_flaw_of_its_line(tmp_path):
    def nested(levels: int) -> str:
        value = "[" * levels + "]" * levels
        return line().replace('"body": {"a": 1}', f'"body": {{"a": {value}}}')

    # To the last level that can be read, it can be written too.
    texts = [nested(levels) for levels in (*range(940, 1000), 100_000)]
    total, flaws = checked(tmp_path / "rows", *texts, max_body_bytes=10**6)
    assert total == len(texts)
    assert {(flaw.code, "too deeply" in flaw.message) for flaw in flaws} <= {
        ("invalid_json", True),
        ("duplicate_id", False),
    }
    assert (flaws[-1].code, flaws[-1].line) == ("invalid_json", total)


def test_a_file_is_read_no_further_than_needed(tmp_path, monkeypatch):
    _, flaws = checked(tmp_path / "rows", *["null"] * 500)
    assert len(flaws) == rows.MAX_FLAWS
    monkeypatch.setattr(rows, "MAX_ROWS", 3)
    total, [flaw] = checked(tmp_path / "rows", *[line(str(n)) for n in range(9)])
    assert (total, flaw.line) == (4, 4)
    assert "more than 3 rows" in flaw.message
    asked = iter([False, False, True])
    path = tmp_path / "rows"
    assert checked(path, *[line(str(n)) for n in range(3)], stopped=lambda: next(asked))[0] == 2


def test_a_row_that_changed_since_it_was_checked_is_refused(tmp_path):
    path = tmp_path / "rows"
    path.write_text(line(url="/v1/decisions"))
    with path.open("rb") as file, pytest.raises(Refused):
        list(read_rows(file, URL))
