"""Kept scores as answers: the same as those that were given, of rows that have all of them."""

import pytest

from spinf_serve.evals.kept_answers import all_floors, kept_answers
from spinf_serve.evals.runner import run
from spinf_serve.evals.scorer import Work
from spinf_serve.packs.lint import Instructions, asked, lint
from spinf_serve.packs.lint_rules import Limits
from spinf_serve.packs.present import wrapped
from tests.support.kept_scores import Counting, pack_with, project_with

TEXTS = ["one", "two words", "three more words", "four words are here", "five"]


@pytest.fixture
def scored(tmp_path):
    pack = pack_with(3)
    project = project_with(tmp_path, TEXTS, context="chat", parameters='{"shop": "Mill"}')
    scorer = Counting()
    run(project, "d", pack, scorer, lambda line: None)
    return project, pack, scorer


def test_answers_are_those_that_were_given(scored):
    project, pack, scorer = scored
    found = kept_answers(project, "d", pack, scorer.identity.bits, pack.questions, most=10)
    assert len(found) == len(TEXTS) and all_floors(found)
    for text, row in zip(TEXTS, found, strict=True):
        content = wrapped(pack, text, "chat", {"shop": "Mill"})
        given = scorer.run([Work(content, asked(pack)[:3])])[0]
        for mine, theirs in zip(row, given, strict=True):
            for one, other in zip(mine.prompts, theirs.prompts, strict=True):
                assert [o.text for o in one.options] == [o.text for o in other.options]
                assert [o.logprob for o in one.options] == [o.logprob for o in other.options]
                assert [o.p for o in one.options] == pytest.approx([o.p for o in other.options])
                assert [o.floor_p for o in one.options] == pytest.approx(
                    [o.floor_p for o in other.options]
                )
                assert one.residual == pytest.approx(other.residual)


def test_rows_without_all_answers_are_left_out(scored):
    project, _, scorer = scored
    edited = pack_with(3, edited=1)
    assert kept_answers(project, "d", edited, scorer.identity.bits, edited.questions, most=10) == []
    some = kept_answers(project, "d", edited, scorer.identity.bits, [edited.questions[0]], most=10)
    assert len(some) == len(TEXTS)


def test_rows_are_spread_over_those_that_are_there(scored):
    project, pack, scorer = scored
    every = kept_answers(project, "d", pack, scorer.identity.bits, pack.questions, most=10)
    two = kept_answers(project, "d", pack, scorer.identity.bits, pack.questions, most=2)
    assert two == [every[0], every[2]]


def test_lint_takes_them_as_answers(scored):
    project, pack, scorer = scored
    rows = kept_answers(project, "d", pack, scorer.identity.bits, pack.questions, most=10)
    report = lint(pack, Instructions(), Limits(floor=-1.0), rows, None)
    assert {one.on for one in report.findings if one.rule == "floor_skewed"} == {"q0", "q1", "q2"}
    none = lint(pack, Instructions(), Limits(floor=-1.0), [], None)
    assert "floor_skewed" in none.skipped and not [
        one for one in none.findings if one.rule == "floor_skewed"
    ]
