"""A run asks what is missing and nothing else, keeps what it got, and says what happened."""

import signal
import sys
import time
from dataclasses import replace

import pytest

from spinf_serve.evals.data.rows import delete_rows
from spinf_serve.evals.pace import Progress
from spinf_serve.evals.runner import MOST_FAULTS, run
from spinf_serve.evals.scorer import in_process
from spinf_serve.evals.store import kept, matrix, recording
from spinf_serve.packs.errors import Fault, Refused, Unusable
from tests.support.kept_scores import Counting, golden_pack, pack_with, project_with, put
from tests.support.processes import line_with, start_process
from tests.support.stub_engine import NAN, StubEngine, scores

TEXTS = [f"Letter {number}" for number in range(7)]


def asked(project, pack, scorer, **more):
    lines: list[str] = []
    report = run(project, "d", pack, scorer, lines.append, **more)
    return report, lines


def test_what_was_asked_is_not_asked_again(tmp_path):
    project = project_with(tmp_path, TEXTS)
    first, lines = asked(project, golden_pack(), Counting())
    assert (first.rows, first.asked, first.reused, first.floors) == (7, 28, 0, 4)
    assert (first.refused, first.failed, lines) == ({}, 0, [])
    again = Counting()
    second, _ = asked(project, golden_pack(), again)
    assert (second.asked, second.reused, second.floors, again.works) == (0, 28, 0, [])


def test_an_edited_question_is_the_only_one_asked(tmp_path):
    project = project_with(tmp_path, TEXTS)
    asked(project, pack_with(106), Counting())
    scorer = Counting()
    report, _ = asked(project, pack_with(106, edited=40), scorer)
    assert (report.asked, report.reused) == (7, 7 * 105)
    assert scorer.asked == 7
    assert report.floors == 1


def test_values_are_the_engines_bit_for_bit_and_floors_those_of_no_content(tmp_path):
    pack = golden_pack()
    project = project_with(tmp_path, TEXTS, context="chat")
    scorer = Counting()
    asked(project, pack, scorer)
    found = recording(project, "d", pack, scorer.identity.bits)
    assert found.header.bits == scorer.identity.bits
    for text in TEXTS:
        content = f'Chat line:\n"{text}"\n'
        for question in pack.questions:
            for place, prompt in enumerate(question.prompts):
                expected = scores(content, prompt.text, question.options)[0]
                assert found.logprobs(content, question, place) == tuple(expected)
                floor = scores("", prompt.text, question.options)[0]
                assert found.floor(question, place) == tuple(floor)


def test_equal_rows_are_asked_once(tmp_path):
    project = project_with(tmp_path, ["same", "other", "same", "same"])
    scorer = Counting()
    report, _ = asked(project, golden_pack(), scorer)
    assert (report.asked, report.reused, scorer.asked) == (8, 8, 8)


def test_a_split_alone_may_be_asked(tmp_path):
    project = project_with(tmp_path, TEXTS, split="fit")
    put(project, ["other"], dataset="e", split="test")
    report, _ = asked(project, golden_pack(), Counting(), split="test")
    assert (report.rows, report.asked) == (0, 0)
    report, _ = asked(project, golden_pack(), Counting(), split="fit")
    assert report.rows == 7


def test_a_refused_row_is_kept_with_its_code_and_costs_no_other(tmp_path):
    texts = ["a", "word " * 5000, "b", "word " * 6000]
    project = project_with(tmp_path, texts)
    report, _ = asked(project, golden_pack(), Counting())
    assert (report.rows, report.asked, report.refused) == (4, 8, {"content_too_long": 2})
    again = Counting()
    report, _ = asked(project, golden_pack(), again)
    assert (report.reused, report.refused, again.works) == (8, {"content_too_long": 2}, [])
    assert "content_too_long 2" in str(report)
    held = matrix(project, "d", golden_pack(), again.identity.bits)
    assert held.refused == {"r2": "content_too_long", "r4": "content_too_long"}
    assert kept(project)[0].refused == {"content_too_long": 2}


def test_equal_rows_that_are_refused_reuse_nothing(tmp_path):
    project = project_with(tmp_path, ["word " * 5000, "a", "word " * 5000])
    report, _ = asked(project, golden_pack(), Counting())
    assert (report.asked, report.reused, report.refused) == (4, 0, {"content_too_long": 2})


class Picky(Counting):
    """Refuses the question `kind` about contents with an X in them."""

    def run(self, works):
        outcomes = super().run(works)
        for place, work in enumerate(works):
            ids = [question.id for question in work.questions]
            if "X" in work.content and "kind" in ids:
                param = f"questions.{ids.index('kind')}.options.0"
                outcomes[place] = Refused("option_too_long", "too long here", param)
        return outcomes


def test_one_question_refused_about_one_row_costs_no_other_answer(tmp_path):
    project = project_with(tmp_path, ["a", "X", "b"])
    report, _ = asked(project, golden_pack(), Picky())
    assert (report.asked, report.refused) == (11, {"option_too_long": 1})
    again = Picky()
    report, _ = asked(project, golden_pack(), again)
    assert (report.asked, report.refused, again.works) == (0, {"option_too_long": 1}, [])


def test_a_fault_is_not_kept_and_is_asked_again(tmp_path):
    project = project_with(tmp_path, ["a", f"bad {NAN}", "b"])
    for _ in range(2):
        scorer = Counting()
        report, _ = asked(project, golden_pack(), scorer)
        assert (report.failed, report.refused) == (1, {})
        assert scorer.works
    assert (report.asked, report.reused) == (0, 8)


def test_a_model_that_only_fails_ends_the_run_and_what_was_answered_stays(tmp_path):
    project = project_with(tmp_path, ["a", *(f"{n} {NAN}" for n in range(MOST_FAULTS + 5))])
    with pytest.raises(Fault):
        asked(project, golden_pack(), Counting())
    assert kept(project)[0].scores == 4


def test_a_question_that_the_model_refuses_is_told_at_once(tmp_path):
    pack = pack_with(3)
    long = replace(pack.questions[1], options=(" yes", " word" * 20))
    project = project_with(tmp_path, TEXTS)
    with pytest.raises(Unusable, match=r"row r1: question q1: the option has 20 tokens"):
        asked(project, replace(pack, questions=(pack.questions[0], long)), Counting())


def test_a_row_that_the_pack_cannot_present_is_counted_and_named(tmp_path):
    project = project_with(tmp_path, ["a", "b"], parameters='{"store": "x"}')
    report, lines = asked(project, golden_pack(), Counting())
    assert report.refused == {"invalid_field": 2}
    assert "row r1: the pack demo/support has no parameter 'store'" in lines[0]


def test_a_dataset_that_is_not_there_is_one_line(tmp_path):
    project = project_with(tmp_path, TEXTS)
    with pytest.raises(Unusable, match="no dataset 'x'; it has d"):
        run(project, "x", golden_pack(), Counting(), print)


def test_progress_tells_rate_time_left_and_what_was_kept(tmp_path, monkeypatch):
    project = project_with(tmp_path, TEXTS)
    asked(project, pack_with(2), Counting())
    monkeypatch.setattr("spinf_serve.evals.pace.QUIET_SECONDS", -1.0)
    monkeypatch.setattr("spinf_serve.evals.pace.SAY_SECONDS", -1.0)
    report, lines = asked(project, pack_with(4), Counting())
    assert report.reused == 14
    assert lines[-1].startswith("asked 7 of 7 contents, ")
    assert " a second, 0 s left; 50% of the answers were kept" in lines[-1]


def test_killing_a_run_loses_nothing_that_was_kept(tmp_path, root):
    project = project_with(tmp_path, [f"Letter {number}" for number in range(3000)])
    command = [sys.executable, "-m", "tests.support.kept_scores", str(project.path), "0.5"]
    with start_process(root, command) as process:
        line_with(process, "asked ")
        time.sleep(2)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    before = kept(project)[0].scores
    assert 0 < before < 12_000
    scorer = Counting()
    report, _ = asked(project, golden_pack(), scorer)
    assert (report.asked, report.reused) == (12_000 - before, before)
    assert kept(project)[0].scores == 12_000
    engine = in_process(StubEngine().as_engine())
    assert recording(project, "d", golden_pack(), engine.identity.bits).scores


def test_two_runs_at_once_keep_every_score_once(tmp_path, root):
    project = project_with(tmp_path, [f"Letter {number}" for number in range(600)])
    command = [sys.executable, "-m", "tests.support.kept_scores", str(project.path), "0.1"]
    with start_process(root, command) as one, start_process(root, command) as other:
        said = [process.communicate(timeout=120) for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    (only,) = kept(project)
    assert (only.scores, only.contents, only.floors) == (2400, 600, 4)
    assert run(project, "d", golden_pack(), Counting(), print).asked == 0


def test_the_scores_of_a_deleted_row_go_with_it(tmp_path):
    """Also behind a context; those of a text that another row has stay."""
    project = project_with(tmp_path, ["kept", "gone", "twice"], context="chat")
    put(project, ["twice"], dataset="e", context="chat")
    asked(project, golden_pack(), Counting())

    def scored():
        with project.open(write=False) as connection:
            return connection.execute(
                "SELECT count(*), count(DISTINCT content) FROM score"
            ).fetchone()

    assert scored() == (12, 3)
    with project.open(write=False) as connection:
        ids = dict(
            connection.execute("SELECT text, row_id FROM item WHERE dataset = 'd'").fetchall()
        )
    delete_rows(project, "d", [ids["gone"], ids["twice"]])
    assert scored() == (8, 2)
    again = Counting()
    report, _ = asked(project, golden_pack(), again)
    assert (report.rows, report.asked) == (1, 0)


def test_rows_about_files_are_refused_and_stay_in_every_denominator(tmp_path):
    project = project_with(tmp_path, ["a", "", "b"])
    with project.open(write=True) as connection:
        connection.execute("UPDATE item SET media = 'pictures/one.png' WHERE row_id = 'r2'")
    report, lines = asked(project, golden_pack(), Counting())
    assert (report.rows, report.asked) == (3, 8)
    assert report.refused == {"media_not_supported": 1}
    assert any("row r2: the row is about the file pictures/one.png" in line for line in lines)
    held = matrix(project, "d", golden_pack(), Counting().identity.bits)
    assert held.refused == {"r2": "media_not_supported"} and len(held.rows) == 3


def test_whoever_watches_sees_every_batch_and_may_end_the_run(tmp_path):
    project = project_with(tmp_path, TEXTS)

    def enough(progress: Progress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(project, golden_pack(), Counting(), watch=enough)
    seen: list[Progress] = []
    report, _ = asked(project, golden_pack(), Counting(), watch=seen.append)
    # What was asked before it ended is kept.
    assert (report.asked, report.reused) == (16, 12)
    assert [(one.done, one.of) for one in seen] == [(0, 4), (1, 4), (3, 4), (4, 4)]
    assert (seen[0].rate, seen[0].seconds_left) == (None, None)
    assert seen[-1].rate is not None and seen[-1].rate > 0
    assert seen[-1].seconds_left == 0
    assert seen[-1].reused == pytest.approx(12 / 28)
    assert seen[-1].refused == 0
