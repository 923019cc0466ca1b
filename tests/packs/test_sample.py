"""Samples: what is read, and that every fault names its row and column."""

import csv
import os
from pathlib import Path

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.sample import read_sample
from tests.support.packs import golden, made

HEADER = "id,split,language,labels,text"


@pytest.fixture
def pack():
    return made(golden())[0]


@pytest.fixture
def written(tmp_path):
    def write(text: str | bytes) -> Path:
        path: Path = tmp_path / "sample.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def faults(path, pack):
    with pytest.raises(InvalidPack) as caught:
        read_sample(path, pack)
    return caught.value.faults


def test_rows(written, pack):
    text = f'{HEADER},context,parameters.shop\r\n1,fit,en,anger ?money,"Two\r\nlines, ""quoted""",chat,Alder\r\n2,test,pt-BR,,Olá,,\r\n'
    first, second = read_sample(written(text), pack)
    assert first.labels == {"anger": True, "money": None, "topic": False}
    assert (first.text, first.context) == ('Two\r\nlines, "quoted"', "chat")
    assert first.parameters == {"shop": "Alder"}
    assert (first.id, first.split, first.language, first.line) == ("1", "fit", "en", 2)
    assert second.labels == {"anger": False, "money": False, "topic": False}
    assert (second.context, second.parameters, second.line) == (None, {}, 4)


def test_a_byte_order_mark_and_blank_lines_are_no_matter(written, pack):
    text = f"\ufeff{HEADER}\n\n1,fit,en,,One\n\n2,fit,en,,Two\n"
    assert [row.line for row in read_sample(written(text), pack)] == [3, 5]


@pytest.mark.parametrize(
    ("row", "column", "says"),
    [
        (",fit,en,,Text", "id", "is empty"),
        ("1,train,en,,Text", "split", "fit or test"),
        ("1,fit,English,,Text", "language", "such as en"),
        ("1,fit,en,angre,Text", "labels", "did you mean `anger`"),
        ("1,fit,en,?moneys,Text", "labels", "no category 'moneys'"),
        ("1,fit,en,anger ?anger,Text", "labels", "twice"),
        ('1,fit,en,,"  "', "text", "is empty"),
    ],
)
def test_a_fault_names_row_and_column(written, pack, row, column, says):
    (fault,) = faults(written(f"{HEADER}\n0,fit,en,,Other\n{row}\n"), pack)
    assert (fault.file, fault.line, fault.param) == ("sample.csv", 3, column)
    assert f"column {column}: " in fault.message
    assert says in fault.message


def test_all_faults_at_once(written, pack):
    text = f"{HEADER},context\n1,x,en,y,Text,z\n2,fit,en,,Text,mail\n"
    found = faults(written(text), pack)
    assert [(fault.line, fault.param) for fault in found] == [
        (2, "split"),
        (2, "labels"),
        (2, "context"),
        (3, "context"),
    ]
    assert "`email`" in found[3].message


def test_header(written, pack):
    found = faults(written("id,split,label,text,text\n"), pack)
    messages = "\n".join(fault.message for fault in found)
    assert "'label', which is none; did you mean `labels`?" in messages
    assert "'text' 2 times" in messages
    assert "lacks the column 'language'" in messages
    assert "lacks the column 'labels'" in messages
    assert {fault.line for fault in found} == {1}
    (unknown,) = faults(written(f"{HEADER},parameters.town\n1,fit,en,,Text,Rom\n"), pack)
    assert "parameters.town" in unknown.message and "parameters.shop" in unknown.message


def test_an_empty_file_and_a_header_alone(written, pack):
    assert len(faults(written(""), pack)) == 5
    (fault,) = faults(written(f"{HEADER}\n"), pack)
    assert "no row" in fault.message


def test_a_required_parameter(written):
    pack, _ = made(golden(parameters={"shop": {"required": True}}))
    (fault,) = faults(written(f"{HEADER}\n1,fit,en,,Text\n"), pack)
    assert (fault.param, fault.line) == ("parameters.shop", 2)
    text = f"{HEADER},parameters.shop\n1,fit,en,,Text,Alder\n"
    assert read_sample(written(text), pack)[0].parameters == {"shop": "Alder"}


def test_a_text_with_commas_and_no_quotes(written, pack):
    (fault,) = faults(written(f"{HEADER}\n1,fit,en,,One, two\n"), pack)
    assert fault.line == 2
    assert "has 6 cells and the header 5" in fault.message


def test_broken_quotes(written, pack):
    (fault,) = faults(written(f'{HEADER}\n1,fit,en,,"One" two\n2,fit,en,,Three\n'), pack)
    assert fault.line == 2
    assert "not CSV" in fault.message
    (fault,) = faults(written(f'{HEADER}\n1,fit,en,,One\n2,fit,en,,"Never closed\n'), pack)
    assert fault.line == 3


def test_repeats(written, pack):
    text = f"{HEADER}\n1,fit,en,,One\n1,fit,en,,Two\n3,test,en,,One \n"
    same_id, same_text = faults(written(text), pack)
    assert (same_id.line, same_id.param) == (3, "id")
    assert "line 2 has the same id" in same_id.message
    assert (same_text.line, same_text.param) == (4, "text")
    assert "row '1' in line 2 (fit)" in same_text.message


def test_one_content_in_two_contexts_is_two_rows(written, pack):
    text = f"{HEADER},context\n1,fit,en,,One,chat\n2,fit,en,,One,email\n"
    assert len(read_sample(written(text), pack)) == 2


def test_files_that_cannot_be_read(written, pack, tmp_path, monkeypatch):
    with pytest.raises(Unusable, match="byte 4 is not UTF-8"):
        read_sample(written(b"id,\xff"), pack)
    with pytest.raises(Unusable, match="No such file"):
        read_sample(tmp_path / "none.csv", pack)
    monkeypatch.setattr("spinf_serve.packs.sample.MAX_BYTES", 10)
    with pytest.raises(Unusable, match="more than 10 bytes; split the sample"):
        read_sample(written("x" * 11), pack)


def test_a_long_cell_is_read_up_to_a_limit_that_is_told(written, pack, monkeypatch):
    (row,) = read_sample(written(f"{HEADER}\n1,fit,en,,{'long ' * 100_000}"), pack)
    assert len(row.text) == 500_000
    monkeypatch.setattr("spinf_serve.packs.sample.MAX_CELL_CHARS", 200_000)
    csv.field_size_limit(200_000)
    (fault,) = faults(written(f"{HEADER}\n1,fit,en,,{'long ' * 100_000}"), pack)
    assert fault.message == "a cell has more than 200,000 characters; shorten the text"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HEADER.encode("utf-16"), "is UTF-16 or UTF-32; save it as UTF-8"),
        (HEADER.encode("utf-16-le"), "is UTF-16 or UTF-32; save it as UTF-8"),
        (HEADER.replace(",", ";").encode(), "separated by semicolons; save the file with commas"),
        (HEADER.replace(",", "\t").encode(), "separated by tabs; save the file with commas"),
    ],
)
def test_other_tables_are_recognised(written, pack, data, words):
    with pytest.raises((Unusable, InvalidPack), match=words) as raised:
        read_sample(written(data), pack)
    assert "\n" not in str(raised.value)


def test_of_very_many_faults_the_first_are_told_and_the_rest_counted(written, pack):
    found = faults(written(HEADER + "\n1,fit,en,nothing,Hi" * 5000), pack)
    assert len(found) == 101 and found[-1].message == "and 4,900 more faults"
    assert [fault.line for fault in found[:3]] == [2, 3, 4]


def test_long_names_are_cut_short(written, pack):
    (fault,) = faults(written(f"{HEADER}\n{'i' * 9000},fit,en,{'c' * 9000},Hi"), pack)
    assert len(str(fault)) < 500


def test_a_pipe_is_not_waited_for(pack, tmp_path):
    os.mkfifo(tmp_path / "sample.csv")
    with pytest.raises(Unusable, match="a named pipe, no regular file"):
        read_sample(tmp_path / "sample.csv", pack)
