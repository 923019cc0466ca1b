"""Workbooks that unfold to any size, name other files or are damaged: refused, with what to do."""

import zipfile

import pytest

from spinf_serve.evals.data import workbooks
from spinf_serve.evals.data.readers import Source, open_source
from spinf_serve.packs.errors import Unusable

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS = {
    "[Content_Types].xml": (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml"'
        f' ContentType="application/xml"/><Override PartName="/xl/workbook.xml"'
        f' ContentType="{_TYPES}.sheet.main+xml"/><Override PartName="/xl/sharedStrings.xml"'
        f' ContentType="{_TYPES}.sharedStrings+xml"/></Types>'
    ),
    "_rels/.rels": (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1"'
        f' Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/workbook.xml": (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets><sheet name="S" sheetId="1"'
        ' r:id="r1"/></sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1"'
        f' Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    ),
}
_DOCTYPE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


def cell(text):
    return f'<c t="inlineStr"><is><t>{text}</t></is></c>'


def book(tmp_path, rows, *, head="", strings="", **parts):
    path = tmp_path / "a.xlsx"
    sheet = (
        f'{head}<worksheet xmlns="{_MAIN}"><sheetData><row r="1">{cell("id")}{cell("text")}</row>'
        f"{rows}</sheetData></worksheet>"
    )
    shared = f'<sst xmlns="{_MAIN}">{strings}</sst>'
    if strings.startswith("<!"):
        shared = strings
    told = _PARTS | {"xl/worksheets/sheet1.xml": sheet, "xl/sharedStrings.xml": shared} | parts
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in told.items():
            file.writestr(name, text)
    return path


def read(path):
    return [(line.number, line.cells) for line in open_source(Source(path), ("id",)).lines]


def test_a_workbook_is_read_row_by_row(tmp_path):
    path = book(tmp_path, f'<row r="3">{cell("1")}{cell("hello")}</row>')
    assert read(path) == [(3, ["1", "hello"])]


@pytest.mark.parametrize(
    ("rows", "more", "words"),
    [
        ("", {"head": _DOCTYPE}, "declares entities"),
        ("", {"strings": f"{_DOCTYPE}<sst><si><t>&x;</t></si></sst>"}, "declares entities"),
        (f'<row r="99999999999">{cell("1")}</row>', {}, "a row behind the 1,048,576th"),
        ("<row>" + "<c/>" * 20_000 + "</row>", {}, "a row of more than 16,384 cells"),
        (
            "<row>" + cell("a" * 5_000_000) + "</row>",
            {},
            "a cell of more than 4,194,304 characters",
        ),
        ("<row>" + cell("a" * 4_000_000) * 5 + "</row>", {}, "a row of more than 16,777,216 char"),
        ("<a>" * 100 + "</a>" * 100, {}, "elements more than 64 levels deep"),
        (f'<row r="{"1" * 3_000_000}"/>', {}, "one tag of more than 1,048,576 bytes"),
        ("<row><c></row>", {}, "is damaged, or no workbook: mismatched tag"),
        ('<row><c t="s"><v>7</v></c></row>', {}, "is damaged, or no workbook"),
        ('<row><c t="d"><v>soon</v></c></row>', {}, "is damaged, or no workbook: .*soon"),
        ("", {"xl/workbook.xml": f'<workbook xmlns="{_MAIN}"/>'}, "has no sheet"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 60 else "",
)
def test_what_no_program_writes_is_refused_with_what_to_do(tmp_path, rows, more, words):
    with pytest.raises(Unusable, match=words):
        read(book(tmp_path, rows, **more))


def test_texts_that_cells_share_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(workbooks, "MAX_STRING_CHARS", 1_000)
    with pytest.raises(Unusable, match="more than 1,000 characters of text"):
        read(book(tmp_path, "", strings="<si><t>hello</t></si>" * 300))
    monkeypatch.setattr(workbooks, "MAX_STRINGS", 100)
    with pytest.raises(Unusable, match="more than 100 texts"):
        read(book(tmp_path, "", strings="<si><t>a</t></si>" * 300))


def test_a_size_that_is_only_said_makes_no_rows(tmp_path):
    path = book(tmp_path, f"<row>{cell('1')}</row>")
    with zipfile.ZipFile(path) as file:
        sheet = file.read("xl/worksheets/sheet1.xml").decode()
    said = sheet.replace("<sheetData>", '<dimension ref="A1:XFD900000000"/><sheetData>')
    path = book(tmp_path, "", **{"xl/worksheets/sheet1.xml": said})
    assert read(path) == [(2, ["1", None])]


def test_damaged_bytes_are_told(tmp_path):
    path = book(tmp_path, "".join(f"<row>{cell(n)}</row>" for n in range(2_000)))
    data = bytearray(path.read_bytes())
    at = data.find(b"sheet1.xml") + 400
    data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(Unusable, match="is damaged, or no workbook"):
        read(path)
