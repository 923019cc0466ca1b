"""Sheets: what they are read as, and that what they had is there again behind new columns."""

import csv
import json
from pathlib import Path

import duckdb
import openpyxl
import pytest

from spinf_serve.evals.sheets import Cell, Column, Row, Sheet, Wanted, beside, open_sheet, wanted_of
from spinf_serve.packs.errors import Unusable

ADDED = (Column("x_word"), Column("x_score", is_number=True))
CELLS: list[list[Cell]] = [['a, "b"', 0.1 + 0.2], [None, None], ["ä\n", 1e-9]]


def wanted(sheet: Sheet, text: str | None = None, *more: str) -> Wanted:
    return wanted_of(sheet, text, more, ADDED)


def texts(sheet: Sheet, text: str | None = None) -> list[str | None]:
    return [row.text for row in sheet.rows(wanted(sheet, text))]


def written(path: Path, text: str | None = None) -> Path:
    sheet = open_sheet(path)
    out = path.with_name(f"out{path.suffix}")
    sheet.write(out, wanted(sheet, text), CELLS)
    assert [file.name for file in path.parent.iterdir() if ".part" in file.name] == []
    return out


def test_csv_keeps_every_character_of_what_it_had(tmp_path):
    source = (
        b'\xef\xbb\xbfid; "text" ;n\r\n007; say ""hi"" ;1.10\r\n\r\n8;"two\r\nlines; ""q""";\r\n9;x'
    )
    path = tmp_path / "in.csv"
    path.write_bytes(source)
    sheet = open_sheet(path)
    assert sheet.columns == ("id", ' "text" ', "n")
    out = tmp_path / "out.csv"
    sheet.write(out, wanted(sheet, ' "text" '), CELLS)
    rows = out.read_bytes().decode("utf-8-sig").split("\r\n")
    assert rows[0] == 'id; "text" ;n;x_word;x_score'
    assert rows[1] == '007; say ""hi"" ;1.10;"a, ""b""";0.30000000000000004'
    assert rows[2:4] == ["", '8;"two']
    assert rows[4] == 'lines; ""q""";;;'
    # The short row is filled up before anything is put behind it.
    assert rows[5] == '9;x;;"ä\n";1e-09'
    assert out.read_bytes().startswith(b"\xef\xbb\xbf")


def test_csv_rows_are_told_by_their_line_and_a_long_row_stops_it(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,text,place\n1,"a\nb",here\n2,,\n\n3,c,there\n')
    sheet = open_sheet(path)
    rows = list(sheet.rows(wanted(sheet, None, "place", "none")))
    assert rows == [
        Row("line 2", "a\nb", {"place": "here"}),
        Row("line 4", None, {}),
        Row("line 6", "c", {"place": "there"}),
    ]
    path.write_text("id,text\n1,a,b\n")
    with pytest.raises(Unusable, match="line 2: 3 cells and a header of 2"):
        list(open_sheet(path).rows(wanted(open_sheet(path))))


@pytest.mark.parametrize(("name", "encoding"), [("cp1252", "cp1252"), ("utf-16", None)])
def test_csv_of_other_encodings_is_written_in_them(tmp_path, name, encoding):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes("text\ncafé\n".encode(name))
    sheet = open_sheet(path, encoding=encoding)
    assert texts(sheet) == ["café"]
    sheet.write(out, wanted(sheet), [["é ж", 1.0]])
    assert "café,é" in out.read_bytes().decode(name)


def test_csv_that_is_not_utf_8_says_how_to_go_on(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes("text\ncafé\n".encode("cp1252"))
    with pytest.raises(Unusable, match="--encoding"):
        texts(open_sheet(path))
    with pytest.raises(Unusable, match="no encoding 'none'"):
        open_sheet(path, encoding="none")


def test_jsonl_keeps_every_character_of_what_it_had(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "n": 1.10}\n\n {"text":"\\u00e4" } \n{}')
    out = written(path)
    lines = out.read_text().split("\n")
    assert lines[0] == (
        '{"text": "a", "n": 1.10, "x_word": "a, \\"b\\"", "x_score": 0.30000000000000004}'
    )
    assert json.loads(lines[1]) == {"text": "ä", "x_word": None, "x_score": None}
    assert json.loads(lines[2]) == {"x_word": "ä\n", "x_score": 1e-9}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": 1}', "text is no text"),
        ("[1]", "no object"),
        ('{"text"', "not JSON"),
        ('{"text": "a", "x_word": 1}', "'x_word' already"),
    ],
)
def test_jsonl_faults_name_the_line(tmp_path, line, message):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(Unusable, match=message):
        texts(open_sheet(path))


def test_xlsx_keeps_formulas_and_other_worksheets(tmp_path):
    path = tmp_path / "in.xlsx"
    book = openpyxl.Workbook()
    first = book.active
    first.append(["n", "text"])
    first.append(["=1+1", "a"])
    first.append([])
    first.append([2, 5])
    first.append([3, None])
    book.create_sheet("other").append(["kept"])
    book.save(path)
    assert texts(open_sheet(path)) == ["a", "5", None]
    sheet = open_sheet(written(path))
    assert sheet.columns == ("n", "text", "x_word", "x_score")
    again = openpyxl.load_workbook(tmp_path / "out.xlsx")
    cells = [[cell.value for cell in row] for row in again.active.iter_rows()]
    assert cells[1] == ["=1+1", "a", 'a, "b"', pytest.approx(0.3, rel=1e-15)]
    assert cells[2] == [None] * 4
    assert cells[3] == [2, 5, None, None]
    assert cells[4] == [3, None, "ä\n", 1e-9]
    assert again["other"]["A1"].value == "kept"


def test_xlsx_worksheets_are_chosen_by_name(tmp_path):
    path = tmp_path / "in.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["text"])
    book.create_sheet("two").append(["content", "n"])
    book["two"].append(["b", 1])
    book.save(path)
    assert texts(open_sheet(path, tab="two")) == ["b"]
    with pytest.raises(Unusable, match="no worksheet 'three'; it has Sheet, two"):
        open_sheet(path, tab="three")


def parquet_of(path: Path, query: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO $path (FORMAT parquet)", {"path": str(path)})


def test_parquet_keeps_types_and_the_order_of_rows(tmp_path):
    path = tmp_path / "in's.parquet"
    columns = "7::UTINYINT AS \"a b\", DATE '2026-01-02' AS day, 'a' AS text"
    parquet_of(path, f"SELECT {columns}")
    sheet = open_sheet(path)
    out = tmp_path / "out.parquet"
    sheet.write(out, wanted(sheet), [CELLS[0]])
    found = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(out)])
    assert [(one[0], str(one[1])) for one in found.description][:3] == [
        ("a b", "UTINYINT"),
        ("day", "DATE"),
        ("text", "VARCHAR"),
    ]
    assert found.fetchall()[0][3:] == ('a, "b"', 0.1 + 0.2)
    many = tmp_path / "many.parquet"
    parquet_of(many, "SELECT 'text ' || i AS text FROM range(5000) t(i)")
    sheet = open_sheet(many)
    assert texts(sheet) == [f"text {i}" for i in range(5000)]
    sheet.write(out, wanted(sheet), ([str(i), float(i)] for i in range(5000)))
    rows = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(out)]).fetchall()
    assert rows == [(f"text {i}", str(i), float(i)) for i in range(5000)]


def test_the_column_of_texts_is_found_or_asked_for(tmp_path):
    path = tmp_path / "in.csv"
    for header, given, expected in [
        ("id,Message,Text", None, "Text"),
        ("only", None, "only"),
        ("id,Content", None, "Content"),
        ("id,text", "id", "id"),
    ]:
        path.write_text(f"{header}\n")
        assert wanted(open_sheet(path), given).text == expected
    for header, given, message in [
        ("id,note", None, "Name it with --text; it has id, note"),
        ("id,note", "text", "no column 'text'"),
        ("text,text", None, "more than one column 'text'"),
        ("text,x_score", None, "'x_score' already"),
    ]:
        path.write_text(f"{header}\n")
        with pytest.raises(Unusable, match=message):
            wanted(open_sheet(path), given)


def test_what_is_no_sheet_is_refused(tmp_path):
    for name, data, message in [
        ("a.txt", b"", "no sheet by its name"),
        ("a.csv", b"", "no header"),
        ("a.jsonl", b"\n", "no object"),
        ("a.xlsx", b"zip", "no XLSX file"),
        ("a.parquet", b"data", "cannot be used as Parquet"),
    ]:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Unusable, match=message):
            open_sheet(tmp_path / name)
    with pytest.raises(Unusable, match="no file"):
        open_sheet(tmp_path / "none.csv")


def test_a_file_that_fails_while_it_is_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), beside(path) as part:
        part.write_text("new")
        _ = 1 / 0
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text() == "old"


def test_a_tab_separated_file_is_read_by_its_header(tmp_path):
    path = tmp_path / "in.tsv"
    path.write_text("id\ttext\n1\ta, b; c\n")
    assert texts(open_sheet(path)) == ["a, b; c"]
    sheet = open_sheet(path)
    sheet.write(tmp_path / "out.tsv", wanted(sheet), [["w", 1.0]])
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    rows = list(csv.reader(lines, delimiter="\t"))
    assert rows[1] == ["1", "a, b; c", "w", "1.0"]
