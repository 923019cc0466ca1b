"""The page Run in its states: nothing there, cost before, under way, ended, a sheet, many rows."""

import time
from io import BytesIO

import pytest

from spinf_serve.evals.project import create
from spinf_serve.workbench import jobs as jobs_module
from spinf_serve.workbench.actions.asking import remember
from spinf_serve.workbench.actions.sheets import lay, lay_text
from spinf_serve.workbench.answering import Who, scorer
from spinf_serve.workbench.desk import Desk, open_desk
from spinf_serve.workbench.jobs import jobs, start, stop, wait
from tests.support import job_process
from tests.workbench.serving import TOKEN, recorded_server, result_of
from tests.workbench.support import messages, page

SECONDS = 90
PACK = "packs/triage/pack.yaml"


def served(folder, who, **params):
    return page("run", folder, how={"server": who.server, "token": who.token}, **params)


def button(shown, label):
    return next(one for one in shown.button if one.label.startswith(label))


def metrics(shown):
    return {one.label: one.value for one in shown.metric}


def test_a_project_without_rows_or_packs_says_what_to_do(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    shown = page("run", tmp_path)
    assert not shown.exception
    assert "no rows yet" in messages(shown)
    shown = page("run", tmp_path, mode="sheet")
    assert not shown.exception
    assert "Bring texts without labels" in messages(shown)
    assert "No file lies in the folder" in messages(shown)


def test_a_sheet_of_the_project_is_taken_with_one_click(folder):
    shown = page("run", folder, mode="sheet")
    button(shown, "new-messages.csv").click().run()
    assert not shown.exception
    assert "77 rows" in messages(shown)
    assert [one.name for one in (folder / ".workbench" / "jobs").iterdir()] == [
        shown.query_params["sheet"]
    ]


def test_what_is_kept_is_that_of_the_model_in_the_sidebar_until_somebody_was_asked(folder):
    shown = served(folder, Who("http://127.0.0.1:9", None))
    assert not shown.exception
    assert metrics(shown)["Rows"] == "600"
    assert metrics(shown)["Kept already"] == "100 %" and metrics(shown)["To ask"] == "0"
    assert metrics(shown)["Time"] == "–"
    assert "whose scores the sidebar shows" in messages(shown)
    # Another model may answer there, so that it can be asked in any case.
    assert button(shown, "Ask what is missing")


def test_what_nobody_was_asked_yet_is_not_guessed(folder):
    with open_desk(folder).project.open(write=True) as connection:
        connection.execute("DELETE FROM score")
    shown = served(folder, Who("http://127.0.0.1:9", None))
    assert not shown.exception
    assert metrics(shown)["Kept already"] == metrics(shown)["Time"] == "–"
    assert "Nobody asked" in messages(shown)
    assert button(shown, "Measure the cost")


@pytest.mark.slow
def test_a_run_goes_from_its_cost_to_its_scores(folder):
    file = folder / PACK
    file.write_text(file.read_text().replace(" asks for", " begs for", 1))
    desk = open_desk(folder)
    with recorded_server() as (who, engine):
        shown = served(folder, who)
        button(shown, "Measure the cost").click().run()
        (measuring,) = jobs(desk)
        assert measuring.kind == "measure"
        wait(desk, measuring.id, SECONDS)
        shown = served(folder, who)
        before = metrics(shown)
        assert before["Kept already"].endswith(" %") and before["Kept already"] != "0 %"
        assert before["Tokens to read"] != "–" and before["Time"] != "–"
        assert before["Money"] == "–"
        next(one for one in shown.number_input if one.key == "run-price").set_value(2.5).run()
        assert desk.settings()["hour_price"] == 2.5
        assert metrics(shown)["Money"] != "–"
        button(shown, "Ask ").click().run()
        assert not shown.exception
        run = wait(desk, jobs(desk, "run")[0].id, SECONDS)
        shown = served(folder, who)
        assert "nothing to ask" in messages(shown)
        assert metrics(shown)["Answers asked"] == f"{result_of(run)['asked']:,}"
        assert metrics(shown)["Kept already"] == "100 %"
        assert any("at 2.5 an hour" in one.value for one in shown.caption)
        button(shown, "See the scores").click().run()
        assert not shown.exception
        assert shown.query_params["bits"] == engine.fingerprint.bits
        assert TOKEN not in messages(shown)


@pytest.mark.slow
def test_a_run_under_way_shows_how_far_it_is_and_stops(folder):
    file = folder / PACK
    file.write_text(file.read_text().replace(" asks for", " begs for", 1))
    desk = open_desk(folder)
    with recorded_server() as (who, engine):
        remember(desk, who, scorer(who))
        engine.step_seconds = 0.2
        shown = served(folder, who)
        button(shown, "Ask ").click().run()
        run = jobs(desk, "run")[0]
        end = time.monotonic() + SECONDS
        while jobs(desk, "run")[0].done < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        shown = served(folder, who)
        assert not shown.exception
        assert metrics(shown)["Texts a second"] != "–"
        assert metrics(shown)["Refused rows"] == "0"
        # A second tab cannot start it again.
        assert not [one for one in shown.button if one.label.startswith("Ask ")]
        button(shown, "Stop").click().run()
        assert wait(desk, run.id, SECONDS).state == "stopped"
        shown = served(folder, who)
        assert "what was finished is kept" in messages(shown)
        engine.step_seconds = 0.0
        button(shown, "Go on").click().run()
        assert not shown.exception
        assert wait(desk, run.id, SECONDS).state == "done"


def test_a_run_that_lost_its_process_offers_to_go_on(folder, monkeypatch):
    monkeypatch.setattr(jobs_module, "_COMMAND", job_process.COMMAND)
    desk = open_desk(folder)
    begun = start(desk, "ann", "count", "Count", {"of": 1_000_000})
    stop(desk, "ann", begun.id)
    wait(desk, begun.id, SECONDS)
    told = (begun.folder / "job.json").read_text().replace('"count"', '"run"', 1)
    (begun.folder / "job.json").write_text(told)
    (begun.folder / "status.json").write_text('{"state": "running", "pid": 1}')
    shown = page("run", folder)
    assert not shown.exception
    assert any("lost its process" in one.label for one in shown.expander)
    assert button(shown, "Go on") and button(shown, "Forget")
    button(shown, "Forget").click().run()
    assert jobs(desk) == []


def test_a_pack_with_faults_is_told(folder):
    (folder / PACK).write_text("pack: example/triage\nquestions: 3\n")
    shown = page("run", folder)
    assert not shown.exception
    assert "has faults" in messages(shown)
    assert not [one for one in shown.button if one.label.startswith("Ask ")]


def test_a_pasted_sheet_is_decided_and_shown_after_a_reload(folder):
    desk = open_desk(folder)
    with recorded_server() as (who, _):
        sheet = lay_text(desk, "Where is my parcel?\nI want my money back.\n\nThank you!")
        shown = served(folder, who, mode="sheet", sheet=sheet.id)
        assert not shown.exception
        assert "3 rows" in messages(shown)
        button(shown, "Decide 3 rows").click().run()
        assert not shown.exception
        assert wait(desk, sheet.id, SECONDS).state == "done"
        shown = served(folder, who, mode="sheet", sheet=sheet.id)
    assert not shown.exception
    assert metrics(shown)["Rows"] == "3" and metrics(shown)["No answer"] == "0"
    assert set(shown.dataframe[0].value["text"]) == {
        "Where is my parcel?",
        "I want my money back.",
        "Thank you!",
    }
    assert "provisional" in messages(shown)
    gone = page("run", folder, mode="sheet", sheet="nothing")
    assert not gone.exception
    assert "not there any more" in messages(gone)


def test_a_sheet_that_cannot_be_read_is_told_by_its_name(folder):
    desk = open_desk(folder)
    sheet = lay(desk, "mails.csv", BytesIO(b"text\nWell, no\n"))
    shown = page("run", folder, mode="sheet", sheet=sheet.id)
    assert not shown.exception
    assert "mails.csv, line 2" in messages(shown) and str(folder) not in messages(shown)
    button(shown, "Another sheet").click().run()
    assert not shown.exception and "Bring texts without labels" in messages(shown)


def test_a_draft_decides_no_sheet(folder):
    desk = open_desk(folder)
    file = folder / PACK
    text = file.read_text()
    file.write_text(text[: text.index("\nfitted:")] + "\n" if "\nfitted:" in text else text)
    sheet = lay_text(desk, "Where is my parcel?")
    shown = page("run", folder, mode="sheet", sheet=sheet.id)
    assert not shown.exception
    assert "is a draft" in messages(shown)
    assert button(shown, "Decide 1 row").disabled


@pytest.mark.slow
def test_many_rows_are_looked_at_in_part(tmp_path, folder, monkeypatch):
    many = tmp_path / "many"
    (many / "packs").mkdir(parents=True)
    (many / "packs" / "pack.yaml").write_text((folder / PACK).read_text())
    project = create(many / "project.duckdb")
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO dataset VALUES ('big', TIMESTAMP '2026-01-01', 'made', 'd')"
        )
        connection.execute(
            "INSERT INTO item SELECT 'big', 'r' || i, i, 'Text ' || i, sha256('Text ' || i), NULL,"
            " '{}', MAP {}, NULL, NULL, 'import', NULL, NULL FROM range(1, 100001) AS t(i)"
        )
    assert Desk(many, many / "project.duckdb").settings() == {}
    shown = page("run", many)
    assert not shown.exception
    assert metrics(shown)["Rows"] == "100,000"
    assert metrics(shown)["To ask"].startswith("about ")
    assert "By a look at 10,000 rows" in messages(shown)
    # The next run of the page takes what was looked up.
    monkeypatch.setattr("spinf_serve.workbench.pages.run_rows.plan_of", None)
    shown.run()
    assert not shown.exception
