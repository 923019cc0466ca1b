"""Sheets laid into a project, decided in real processes, shown flagged first and handed back."""

import csv
import io
import os
import signal
import time

import duckdb
import pytest

from spinf_serve.engine.work import Limits
from spinf_serve.evals.sheets import open_sheet
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions.sheet_rows import table_of
from spinf_serve.workbench.actions.sheets import (
    laid,
    lay,
    lay_text,
    look_at,
    output_of,
    start_sheet,
    tabs_of,
)
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.jobs import job, jobs, known, resume, wait
from tests.workbench.serving import kill, recorded_server, result_of

PACK = "packs/triage/pack.yaml"
SECONDS = 90


@pytest.fixture
def desk(folder):
    """The example, in a folder of an awkward name; its jobs end with the test."""
    found = open_desk(folder.rename(folder.with_name("the 'new' project")))
    yield found
    for one in jobs(found):
        if one.is_live and one.pid is not None:
            os.kill(one.pid, signal.SIGKILL)
            wait(found, one.id, SECONDS)


def example_sheet(desk):
    return lay_file(desk, desk.folder / "sheets" / "new-messages.csv")


def lay_file(desk, file, name=None):
    return lay(desk, name or file.name, io.BytesIO(file.read_bytes()))


def decided(desk, who, sheet, text="message"):
    ended = wait(desk, start_sheet(desk, "ann", who, sheet, PACK, text=text).id, SECONDS)
    assert ended.state == "done", ended.log()
    return ended


def test_a_sheet_comes_back_with_decisions_behind_its_own_columns(desk):
    sheet = example_sheet(desk)
    look = look_at(sheet)
    assert (look.columns, look.text, look.rows) == (("id", "message"), "message", 77)
    with recorded_server() as (who, _):
        ended = decided(desk, who, sheet)
    name, file = output_of(ended)
    assert name == "new-messages.decided.csv"
    rows = list(csv.DictReader(file.read_text().splitlines()))
    before = list(csv.DictReader(sheet.file.read_text().splitlines()))
    assert [{"id": row["id"], "message": row["message"]} for row in rows] == before
    unsafe = [row["id"] for row in rows if row["spinf_decision"] == "unsafe"]
    result = result_of(ended)
    assert result["verdicts"] == {"unsafe": len(unsafe), "safe": 77 - len(unsafe)}
    assert 0 < len(unsafe) < 77
    table = table_of(ended)
    shown = table.fetch(0, 77)
    assert table.count() == 77
    # Flagged ones first, each kind in the order of the sheet.
    assert list(shown["decision"]) == ["unsafe"] * len(unsafe) + ["safe"] * (77 - len(unsafe))
    texts = {row["message"]: row for row in rows}
    for row in shown.itertuples():
        assert row.reason == texts[row.text]["spinf_reason"]
        assert row.route == texts[row.text]["spinf_route"]
    assert list(table.fetch(5, 3)["text"]) == list(shown["text"])[5:8]
    assert table_of(ended, "safe").count() == 77 - len(unsafe)


def test_rows_without_an_answer_are_in_sight(desk):
    text = "text\tnote\nhello\tb\n" + "word " * 300 + "\tb\n\tc\n"
    sheet = lay_text(desk, text)
    with recorded_server(Limits(max_content_tokens=100)) as (who, _):
        ended = decided(desk, who, sheet, "text")
    assert result_of(ended)["refused"] == {"content_too_long": 1, "missing_value": 1}
    refused = table_of(ended, "refused").fetch(0, 10)
    assert [one.partition(":")[0] for one in refused["error"]] == [
        "content_too_long",
        "missing_value",
    ]
    assert refused["decision"].isna().all()


def test_a_sheet_that_lost_its_process_goes_on_where_it_was(desk):
    sheet = example_sheet(desk)
    with recorded_server() as (who, engine):
        engine.step_seconds = 0.2
        begun = start_sheet(desk, "ann", who, sheet, PACK, text="message")
        end = time.monotonic() + SECONDS
        while (found := job(desk, begun.id)).done < 15:
            assert found.is_live and time.monotonic() < end, found.log()
            time.sleep(0.02)
        kill(found)
        assert wait(desk, begun.id, SECONDS).state == "broken"
        engine.step_seconds = 0.0
        resume(desk, "ann", begun.id)
        ended = wait(desk, begun.id, SECONDS)
        assert ended.state == "done", ended.log()
        assert result_of(ended)["reused"] >= 15
        other = decided(desk, who, example_sheet(desk))
    assert output_of(ended)[1].read_bytes() == output_of(other)[1].read_bytes()


def test_a_decided_sheet_can_be_decided_again_and_keeps_what_it_has(desk):
    sheet = lay_text(desk, "one\ntwo")
    with recorded_server() as (who, _):
        first = decided(desk, who, sheet, "text")
        second = decided(desk, who, sheet, "text")
        assert second.id != first.id
        name, file = output_of(first)
        third = decided(desk, who, lay_file(desk, file, name), "text")
    assert third.arguments["prefix"] == "spinf2_"
    columns = open_sheet(output_of(third)[1]).columns
    assert {"spinf_decision", "spinf2_decision"} <= set(columns)


def test_pasted_texts_are_lines_or_a_table(desk):
    lines = lay_text(desk, 'a, b; c\n\n"second" | it\'s\n')
    assert (look_at(lines).rows, look_at(lines).first) == (2, ("a, b; c", '"second" | it\'s'))
    assert lines.name == "pasted.csv"
    table = lay_text(desk, "id\tmessage\n1\thello\n2\t\n")
    assert look_at(table).columns == ("id", "message")
    assert (look_at(table).text, look_at(table).rows) == ("message", 2)
    with pytest.raises(Unusable, match="no text to paste"):
        lay_text(desk, " \n \n")


def test_a_sheet_stays_before_it_is_decided_and_others_are_refused(desk):
    sheet = example_sheet(desk)
    assert laid(desk, sheet.id) == sheet
    assert not known(desk, sheet.id) and jobs(desk) == []
    with pytest.raises(Unusable, match="is no sheet by its name"):
        lay(desk, "picture.png", io.BytesIO(b""))
    for id in ("../..", "nothing"):
        with pytest.raises(Unusable, match="not there any more"):
            laid(desk, id)
    wide = lay(desk, "a.csv", io.BytesIO("id,body\n1,caf\xe9\n".encode("cp1252")))
    with pytest.raises(Unusable, match="encoding"):
        look_at(wide)
    assert look_at(wide, encoding="cp1252", text="body").first == ("café",)
    unclear = lay(desk, "a.csv", io.BytesIO(b"id,words\n1,hello\n"))
    assert (look_at(unclear).text, look_at(unclear).rows) == (None, None)
    broken = lay(desk, "a.xlsx", io.BytesIO(b"no workbook"))
    with pytest.raises(Unusable, match="no XLSX"):
        tabs_of(broken)
    with pytest.raises(Unusable, match="no column 'text'"):
        start_sheet(desk, "ann", Who("http://x"), sheet, PACK, text="text")


def test_parquet_and_excel_come_back_as_such(desk, tmp_path):
    from openpyxl import Workbook

    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 'hello' AS text, 7 AS n) TO '{tmp_path}/a.parquet'")
    book = Workbook()
    book.active.append(["text"])
    book.active.append(["hello"])
    book.create_sheet("More").append(["text"])
    book.save(tmp_path / "a.xlsx")
    with recorded_server() as (who, _):
        for name in ("a.parquet", "a.xlsx"):
            sheet = lay_file(desk, tmp_path / name)
            assert tabs_of(sheet) == (["Sheet", "More"] if name == "a.xlsx" else [])
            ended = decided(desk, who, sheet, "text")
            assert output_of(ended)[0] == name.replace(".", ".decided.")
            assert table_of(ended).fetch(0, 5)["text"].tolist() == ["hello"]
    with duckdb.connect() as connection:
        connection.execute("SELECT n FROM read_parquet($1)", [str(output_of(jobs(desk)[-1])[1])])
        assert connection.fetchall() == [(7,)]
