import shutil
from dataclasses import asdict
from html import unescape
from pathlib import Path

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.rows import rows
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions.evaluations import EvaluationWish, SideWish, evaluate_job
from spinf_serve.workbench.desk import open_desk
from tests.support.recorded_engine import recording
from tests.workbench.support import messages, page
from tests.workbench.test_evaluations import PACK, Said


def measure(folder: Path, **wish) -> None:
    side = SideWish(PACK, recording().header.bits)
    evaluate_job(open_desk(folder), asdict(EvaluationWish(side, "messages", **wish)), Said())


def test_the_example_comes_measured(folder):
    shown = page("report", folder)
    assert not shown.exception
    assert "measured only" in messages(shown)
    assert not any(one.label == "Measure" for one in shown.button)


def test_nothing_measured_yet_says_what_to_do(folder):
    shutil.rmtree(folder / ".workbench" / "reports")
    shown = page("report", folder)
    assert not shown.exception
    assert "Nothing was measured" in messages(shown)
    assert any(one.label == "Measure" for one in shown.button)


def test_a_measured_pack_shows_verdict_figures_and_the_command(folder):
    measure(folder)
    shown = page("report", folder)
    assert not shown.exception
    assert "measured only" in messages(shown)
    figures = shown.dataframe[0].value
    assert "case" in list(figures["target"])
    assert any("spinf-serve eval packs/triage/pack.yaml" in one.value for one in shown.code)


def test_a_report_says_how_many_messages_are_flagged_and_wrong(folder):
    open_desk(folder).set(per_day=2000)
    shutil.rmtree(folder / ".workbench" / "reports")
    measure(folder)
    shown = page("report", folder)
    assert not shown.exception
    figures = shown.dataframe[0].value.set_index("target").loc["case"]
    (table,) = [one.value for one in shown.dataframe if "misses" in one.value]
    line = table.set_index("target").loc["case"]
    for name, column in (("false alarms", "false alarms"), ("misses", "missed")):
        share = figures[column] / figures["labelled"]
        told = f"{share * 1000:,.0f} of 1,000 messages, {share * 2000:,.0f} a day"
        assert line[name] == told
    for file in (folder / ".workbench" / "reports").glob("*/report.*"):
        if file.suffix in (".html", ".md"):
            assert unescape(file.read_text()).count(line["misses"])
    # The setting counts on the page as it is now.
    open_desk(folder).set(per_day=None)
    shown = page("report", folder)
    (table,) = [one.value for one in shown.dataframe if "misses" in one.value]
    assert table["flagged"].str.endswith("of 1,000 messages").all()


def test_limits_are_kept_in_the_project_and_their_faults_told(folder):
    shown = page("report", folder)
    shown.text_area[0].set_value("case.precison >= 0.9").run()
    assert "precison" in messages(shown)
    assert open_desk(folder).settings().get("rules") is None
    shown.text_area[0].set_value("case.precision >= 0.5\n\nrefused <= 0").run()
    assert not shown.exception
    again = page("report", folder)
    assert again.text_area[0].value == "case.precision >= 0.5\nrefused <= 0"
    assert any("--rule 'refused <= 0'" in one.value for one in again.code)
    assert audit.events(open_desk(folder))[0].action == "set limits"


def test_a_broken_limit_is_a_regression(folder):
    page("report", folder).text_area[0].set_value("case.precision >= 0.99").run()
    measure(folder, rules=("case.precision >= 0.99",))
    shown = page("report", folder)
    assert "regression" in messages(shown)
    assert shown.dataframe[0].value[""].iloc[0] == "regression"


def test_a_report_is_kept_as_a_baseline(folder):
    measure(folder)
    shown = page("report", folder)
    next(one for one in shown.button if one.label == "Keep as a baseline").click().run()
    assert not shown.exception
    assert (folder / "baselines" / "example-triage.json").is_file()
    assert (
        "baselines/example-triage.json"
        in next(
            one for one in page("report", folder).selectbox if one.label == "Hold against"
        ).options
    )


def test_a_draft_is_told_what_it_lacks(folder):
    file = folder / PACK
    text = file.read_text()
    file.write_text(text[: text.index("fitted:")])
    shown = page("report", folder)
    assert not shown.exception
    assert "has no numbers" in messages(shown)


def test_a_pack_with_faults_is_told_where(folder):
    file = folder / PACK
    file.write_text(file.read_text().replace("options:", "optoins:", 1))
    shown = page("report", folder)
    assert not shown.exception
    assert "has faults" in messages(shown) and "did you mean `options`" in messages(shown)


def test_an_empty_project_says_what_to_do(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    shown = page("report", tmp_path)
    assert not shown.exception
    assert "no pack yet" in messages(shown)


def test_a_label_that_changed_since_makes_a_report_one_of_before(folder):
    measure(folder)
    assert "measured only" in messages(page("report", folder))
    project = open_desk(folder).project
    (row, *_) = rows(project, "messages")
    value = "no" if row.labels["case"] else "yes"
    put_labels(
        project,
        "messages",
        [Label(row.id, "case", value, "me", now(), None, False, True)],
    )
    assert "Nothing was measured" in messages(page("report", folder))
