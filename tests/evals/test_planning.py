"""What a run would ask is what it then asks."""

from spinf_serve.evals.planning import plan
from spinf_serve.evals.runner import run
from tests.support.kept_scores import Counting, golden_pack, pack_with, project_with

TEXTS = [f"Letter {number}" for number in range(7)]


def test_a_plan_is_what_the_run_then_does(tmp_path):
    project = project_with(tmp_path, [*TEXTS, TEXTS[0], "word " * 5000])
    scorer = Counting()
    for identity in (None, scorer.identity):
        before = plan(project, "d", golden_pack(), identity)
        assert (before.rows, before.looked, before.prompts) == (9, 9, 4)
        assert (before.contents, before.answers, before.kept) == (8, 32, 4)
    run(project, "d", golden_pack(), scorer, print)
    after = plan(project, "d", golden_pack(), scorer.identity)
    assert (after.contents, after.answers, after.kept, after.refused) == (0, 0, 32, 1)
    assert after.reused == 1
    again = run(project, "d", golden_pack(), scorer, print)
    assert (again.asked, again.reused) == (0, after.kept)


def test_an_edited_question_alone_is_missing(tmp_path):
    project = project_with(tmp_path, TEXTS)
    scorer = Counting()
    run(project, "d", pack_with(106), scorer, print)
    found = plan(project, "d", pack_with(106, edited=40), scorer.identity)
    assert (found.contents, found.answers, found.kept) == (7, 7, 7 * 105)


def test_of_many_rows_a_part_is_looked_at(tmp_path):
    project = project_with(tmp_path, [f"Letter {number}" for number in range(1000)])
    found = plan(project, "d", golden_pack(), None, most_rows=50)
    assert (found.rows, found.looked, found.is_exact) == (1000, 50, False)
    assert (found.contents, found.answers) == (1000, 4000)
