"""Files as rows of text: encodings, dialects, kinds of files, and what is refused of them."""

import json
import tracemalloc

import duckdb
import openpyxl
import pytest

from spinf_serve.evals.data.csv_files import csv_rows, dialect_of
from spinf_serve.evals.data.readers import Source, batches, open_source
from spinf_serve.packs.errors import Unusable


def read(path, wanted=(), **source):
    opened = open_source(Source(path, **source), wanted)
    return opened, [(line.number, line.cells or line.fault) for line in opened.lines]


@pytest.fixture
def write(tmp_path):
    def put(name, data, encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode(encoding))
        return path

    return put


def test_a_mark_semicolons_carriage_returns_and_a_quoted_line_break(write):
    path = write("a.csv", '\ufeffid;text\r\n1;"one\r\ntwo; ""three"""\r\n2;é\r\n')
    opened, lines = read(path)
    assert opened.columns == ("id", "text")
    assert opened.encoding == "utf-8-sig"
    assert any("';'" in note for note in opened.notes)
    assert lines == [(2, ["1", 'one\r\ntwo; "three"']), (4, ["2", "é"])]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("cp1252", "cp1252"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
    ],
)
def test_encodings_are_found(write, encoding, found):
    opened, lines = read(write("a.csv", "id,text\n1,für 5 €\n", encoding))
    assert opened.encoding == found
    assert lines == [(2, ["1", "für 5 €"])]


def test_falling_back_is_said_with_the_byte_and_a_declared_encoding_is_held(write):
    path = write("a.csv", "id,text\n1,für\n", "cp1252")
    opened, _ = read(path)
    assert opened.notes == ("byte 12 is not UTF-8: read as Windows-1252; else give --encoding",)
    with pytest.raises(Unusable, match="byte 12 is not utf-8"):
        read(path, encoding="utf-8")
    with pytest.raises(Unusable, match="no such encoding"):
        read(path, encoding="latin-99")
    assert read(write("b.csv", b"id,text\n1,\x81\xff\n"), encoding="latin-1")[0].notes == ()
    with pytest.raises(Unusable, match="no place for all"):
        read(write("b.csv", b"id,text\n1,\x81\xff\n"))


def test_a_byte_that_is_wrong_far_into_the_file_is_found_exactly(write):
    data = b"id,text\n" + b"1,aaaa\n" * 300_000
    with pytest.raises(Unusable, match=f"byte {len(data) + 3:,} is not"):
        read(write("a.csv", data + b"1,\xff\n"), encoding="utf-8")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_delimiters_are_found_by_the_cells_that_agree(write, mark):
    others = "".join(one for one in ",;\t|" if one != mark)
    path = write("a.csv", f"id{mark}text\n1{mark}a{others}b{others}c\n2{mark}d\n")
    dialect = dialect_of(path, None, None)
    assert dialect.delimiter == mark
    rows = [cells for _, cells in csv_rows(path, dialect)]
    assert rows == [["id", "text"], ["1", f"a{others}b{others}c"], ["2", "d"]]


def test_one_column_and_a_declared_delimiter(write):
    opened, lines = read(write("a.csv", "text\nhello\n\nworld\n"))
    assert opened.notes == ("one column only: no delimiter was found",)
    assert lines == [(2, ["hello"]), (4, ["world"])]
    opened, lines = read(write("b.csv", "a~b;c\n1~2;3\n"), delimiter="~")
    assert lines == [(2, ["1", "2;3"])]
    with pytest.raises(Unusable, match="one character"):
        read(write("b.csv", "a\n1\n"), delimiter="~~")


def test_rows_that_are_wrong_are_told_by_line_and_the_others_read(write):
    path = write("a.csv", 'id,text\n1,"a"b\n2,c,d\n3,e\n4\n5,"never closed\n6,f\n')
    _, lines = read(path)
    assert lines[0] == (
        2,
        "it is not CSV (',' expected after '\"'); write a quote inside quotes twice, \"\"",
    )
    assert lines[1] == (3, "it has 3 cells, and the header 2")
    assert lines[2] == (4, ["3", "e"])
    assert lines[3] == (5, "it has 1 cells, and the header 2")
    assert lines[4] == (6, "a quote opens here and is not closed up to the end of the file")


def test_no_type_is_guessed(write):
    rows = "".join(f"{n},{'1' if n % 2 else '0'}\n" for n in range(30_000))
    _, lines = read(write("a.csv", f"id,label\n{rows}30000,NA\n007,0012\n"))
    assert lines[-2:] == [(30_002, ["30000", "NA"]), (30_003, ["007", "0012"])]


def test_jsonl_tells_wrong_lines_and_keeps_lists_and_objects(write):
    path = write(
        "a.jsonl",
        '{"text": "a", "labels": ["x", "y"], "n": 3, "b": true, "f": 1.0}\n\n[1]\n{"text": \n'
        '{"text": "b", "labels": {"x": true, "y": null}, "n": NaN}\n',
    )
    opened, lines = read(path, ("text", "labels", "n", "b", "f"))
    assert opened.columns == ("text", "labels", "n", "b", "f")
    assert lines[0] == (1, ["a", ["x", "y"], "3", "true", "1"])
    assert lines[1] == (3, "it is JSON, but no object")
    assert lines[2][0] == 4
    assert "not JSON" in lines[2][1]
    assert lines[3] == (5, ["b", {"x": "true", "y": None}, "nan", None, None])


def test_parquet_and_queries_come_as_text(tmp_path):
    path = tmp_path / "a.parquet"
    duckdb.execute(
        "COPY (SELECT * FROM (VALUES (1, 'a', true, 0.5, ['x'], DATE '2026-01-02'),"
        " (2, NULL, NULL, 2.0, NULL, NULL)) AS t(id, text, yes, w, l, d))"
        f" TO '{path}' (FORMAT parquet)"
    )
    opened, lines = read(path)
    assert opened.columns == ("id", "text", "yes", "w", "l", "d")
    assert lines == [
        (1, ["1", "a", "true", "0.5", ["x"], "2026-01-02"]),
        (2, ["2", None, None, "2.0", None, None]),
    ]
    _, asked = read(None, query=f"SELECT text FROM '{path}' WHERE id = 1")
    assert asked == [(1, ["a"])]
    with duckdb.connect(str(tmp_path / "other.duckdb")) as other:
        other.execute("CREATE TABLE t AS SELECT 'b' AS text")
    assert read(tmp_path / "other.duckdb", query="FROM t")[1] == [(1, ["b"])]
    with pytest.raises(Unusable, match="query cannot be read"):
        read(None, query="SELECT FROM")


def test_a_query_that_breaks_in_the_middle_says_where():
    query = "SELECT CASE WHEN range = 9000 THEN error('no') ELSE 'a' END AS text FROM range(20000)"
    with pytest.raises(Unusable, match="cannot be read"):
        read(None, query=query)


def test_workbooks(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Rows"
    for row in (["id", "text", None], [1, "a"], [], [2.5, True], ["3", "b", None, "more"]):
        sheet.append(row)
    book.create_sheet("Other").append(["text"])
    path = tmp_path / "a.xlsx"
    book.save(path)
    opened, lines = read(path)
    assert opened.columns == ("id", "text")
    assert opened.notes == ("sheet 'Rows', the first of 2; --sheet chooses",)
    assert lines == [
        (2, ["1", "a"]),
        (4, ["2.5", "true"]),
        (5, "it has cells behind the header's 2"),
    ]
    assert read(path, sheet="Other")[0].columns == ("text",)
    with pytest.raises(Unusable, match="no sheet 'None'; it has Rows, Other"):
        read(path, sheet="None")
    (tmp_path / "b.xlsx").write_text("no workbook")
    with pytest.raises(Unusable, match="no workbook"):
        read(tmp_path / "b.xlsx")


def test_missing_and_repeated_columns_and_unknown_files_are_refused(write, tmp_path):
    path = write("a.csv", "id,text,text\n1,a,b\n")
    with pytest.raises(Unusable, match=r"no column 'label'; it has 'id', 'text', 'text'"):
        read(path, ("id", "label"))
    with pytest.raises(Unusable, match="column 'text' twice"):
        read(path, ("text",))
    with pytest.raises(Unusable, match="ends in .csv"):
        read(write("a.doc", "x"))
    with pytest.raises(Unusable, match="is no file"):
        read(tmp_path / "none.csv")


def test_reading_is_streamed_in_batches(write):
    path = write("a.jsonl", "".join(json.dumps({"text": str(n)}) + "\n" for n in range(12_000)))
    sizes = [len(batch) for batch in batches(open_source(Source(path), ("text",)).lines)]
    assert sizes == [5_000, 5_000, 2_000]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.csv", b"PK\x03\x04rest", "is a zip file, as workbooks are: call a workbook .xlsx"),
        ("a.xlsx", b"id,text\n1,hello\n", "ends in .xlsx and is no workbook; .* call it .csv"),
        ("a.xlsx", b"\xd0\xcf\x11\xe0rest", "an old or encrypted workbook: save it as .xlsx"),
        ("a.xlsx", b"", "ends in .xlsx and is empty"),
        ("a.parquet", b"id,text\n", "ends in .parquet and is no Parquet file"),
        ("a.csv", b"\x1f\x8brest", "is compressed by gzip: unpack it"),
        ("a.csv", b'{"id": 1}\n', "is JSON lines: call it .jsonl"),
        ("a.jsonl", b"%PDF-1.4", "is a PDF"),
    ],
)
def test_a_file_of_another_kind_than_its_name_says(write, name, data, words):
    with pytest.raises(Unusable, match=words):
        open_source(Source(write(name, data)), ())


def test_utf_16_without_a_mark_is_told_from_signs_without_zero_bytes(write):
    text = "番号,本文\n1,日本語のテキスト\n"
    for encoding in ("utf-16-le", "utf-16-be"):
        opened, lines = read(write("a.csv", text, encoding))
        assert opened.encoding == encoding
        assert lines == [(2, ["1", "日本語のテキスト"])]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,text\n1,{}\n2,b\n"),
        ("a.jsonl", '{{"id":"1","text":"{}"}}\n{{"id":"2","text":"b"}}\n'),
    ],
)
def test_a_line_without_end_is_refused_without_being_held(write, name, text, monkeypatch):
    monkeypatch.setattr("spinf_serve.evals.data.csv_files.MAX_LINE_CHARS", 1_000)
    path = write(name, text.format("a" * 5_000_000))
    tracemalloc.start()
    _, lines = read(path, ("id", "text"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line for line in lines if isinstance(line[1], list)] == [
        (len(lines) + 1 - (name == "a.jsonl"), ["2", "b"])
    ]
    assert any("more than 1,000 characters" in str(fault) for _, fault in lines)
    # What decoding by blocks needs; the line alone has 5 MB.
    assert peak < 4_500_000
