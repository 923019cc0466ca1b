from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.evals.data.rows import Row
from spinf_serve.evals.measuring import NOT_SCORED, Known, evaluate, known, measured
from spinf_serve.evals.reads_measured import MOST_POINTS, thinned
from spinf_serve.evals.runner import run
from spinf_serve.evals.store import matrix
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.metrics import judge
from spinf_serve.packs.present import wrapped
from spinf_serve.packs.recording import Header, Recording
from tests.support.evaluations import MADE, drawn, judged
from tests.support.kept_scores import Counting, project_with
from tests.support.packs import golden, made

TEXTS = [f"content number {index} of all" for index in range(60)]
DECISION_BY_MAX = {"decision__mode": "max"}


def labels_of(index: int) -> dict[str, bool]:
    return {"anger": index % 3 == 0, "money": index % 4 == 0} | (
        {"topic": index % 2 == 0} if index < 40 else {}
    )


def rows_of(texts=TEXTS, **changes) -> list[Row]:
    return [
        Row(
            id=f"r{index + 1}",
            text=text,
            context=None,
            parameters={},
            slices={"language": "en" if index % 2 else "fr"},
            group=None,
            split=None,
            drawn="random",
            weight=None,
            labels=labels_of(index),
            **changes,
        )
        for index, text in enumerate(texts)
    ]


@pytest.fixture
def scored(tmp_path):
    """Project, pack, constants, and the kept scores of `TEXTS`, one of which the model fails on."""
    plain = golden()
    plain["decision"]["mode"] = "max"
    pack, constants = made(plain)
    project = project_with(tmp_path, TEXTS)
    scorer = Counting()
    run(project, "d", pack, scorer, print)
    return pack, constants, matrix(project, "d", pack, scorer.identity.bits)


def test_verdicts_and_areas_are_those_of_the_pack_s_own_report(scored):
    pack, constants, held = scored
    evaluation = evaluate(pack, constants, known(rows_of()), held, MADE)
    recording = Recording(Header("", "", "", "", ""))
    for index, text in enumerate(TEXTS):
        recording.scores[content_digest(wrapped(pack, text, None, {}))] = {
            digest: tuple(values[index].tolist()) for digest, values in held.logprobs.items()
        }
    vectors = []
    for text in TEXTS:
        found = recording.vectors(wrapped(pack, text, None, {}), pack)
        assert found is not None
        vectors.append([found])
    oracle = judge(pack, constants, vectors, [labels_of(index) for index in range(60)])
    assert [one.judged.target for one in evaluation.targets] == [*pack.categories, "decision"]
    for target in evaluation.targets:
        name = target.judged.target
        theirs = oracle.verdict if name == "decision" else oracle.categories[name]
        if theirs.auc is not None:
            assert target.metrics["roc_area"].value == pytest.approx(theirs.auc.value)
        if name != "topic":
            assert target.metrics["recall"].value == theirs.hit
            assert target.metrics["precision"].value == theirs.precision
            assert target.confusion is not None
            assert target.confusion["tp"] + target.confusion["fn"] == theirs.positives
            assert sum(target.confusion.values()) == 60
    topic = evaluation.target("topic")
    assert topic is not None and topic.judged.flagged is None and topic.confusion is None
    assert "accuracy" not in topic.metrics
    assert topic.metrics["brier"].n == 40
    assert "20 of 60 answered rows have no label for it" in topic.notes


def test_refused_and_unanswered_rows_are_counted(scored):
    pack, constants, held = scored
    first = next(iter(held.logprobs))
    holes = {digest: values.copy() for digest, values in held.logprobs.items()}
    holes[first][5] = np.nan
    damaged = replace(held, logprobs=holes, refused={"r2": "content_too_long"})
    evaluation = evaluate(pack, constants, known(rows_of()), damaged, MADE)
    assert {(one.row, one.code) for one in evaluation.refused} == {
        ("r2", "content_too_long"),
        ("r6", NOT_SCORED),
    }
    assert evaluation.rows == 60
    assert all(len(one.judged.rows) == 58 for one in evaluation.targets)
    # The remaining rows keep their own scores.
    whole = evaluate(pack, constants, known(rows_of()), held, MADE)
    before, after = whole.targets[0].judged, evaluation.targets[0].judged
    assert before.scores is not None and after.scores is not None
    at = [before.rows.index(row) for row in after.rows]
    assert np.array_equal(before.scores[at], after.scores)


def test_reads_and_points_stand_beside_their_floors(scored):
    pack, constants, held = scored
    evaluation = evaluate(pack, constants, known(rows_of()), held, MADE)
    money = evaluation.target("money")
    assert money is not None and money.lifts is not None
    assert [one.read for one in money.reads] == ["refund", "bill"]
    assert len(money.lifts.p) == 2 * 60
    for index, read in enumerate(money.reads):
        part = slice(index * 60, index * 60 + 60)
        assert set(money.lifts.floor_p[part]) == {read.floor_p}
        assert read.floor_p is not None
        lifts = money.lifts.p[part] - read.floor_p
        holds = np.array([one % 4 == 0 for one in range(60)])
        assert read.lift_yes == pytest.approx(lifts[holds].mean())
        assert read.lift_no == pytest.approx(lifts[~holds].mean())
    assert money.reads[0].logit_lift_yes is not None
    assert money.reads[1].logit_lift_yes is None
    without = evaluate(pack, constants, known(rows_of()), replace(held, floors={}), MADE)
    told = without.target("money")
    assert told is not None and told.lifts is None
    assert told.reads[0].floor_p is told.reads[0].lift_yes is None


def test_slices_are_of_the_columns_asked_for(scored):
    pack, constants, held = scored
    rows = known(rows_of())
    anger = evaluate(pack, constants, rows, held, MADE).target("anger")
    assert anger is not None
    assert [(one.name, one.value, one.rows) for one in anger.slices] == [
        ("language", "en", 30),
        ("language", "fr", 30),
    ]
    assert anger.metrics["recall"].k == sum(one.metrics["recall"].k or 0 for one in anger.slices)
    none = evaluate(pack, constants, rows, held, MADE, slices=["source"]).target("anger")
    assert none is not None and none.slices == ()


def bare(count: int, **changes) -> list[Known]:
    return [
        replace(Known(f"r{index}", "", None, {}, {}, "random", None), **changes)
        for index in range(count)
    ]


def test_weights_count_where_every_labelled_row_has_one():
    one = judged([True, True, False, False], [True, False, True, False])
    rows = bare(4)
    assert measured(one, rows).metrics["accuracy"].value == 0.5
    assert measured(one, rows).metrics["accuracy"].k == 2
    heavy = [replace(row, weight=weight) for row, weight in zip(rows, [3, 1, 1, 3], strict=True)]
    weighted = measured(one, heavy).metrics["accuracy"]
    assert weighted.value == 0.75
    assert weighted.k is None
    assert measured(one, [*heavy[:3], rows[3]]).metrics["accuracy"].value == 0.5


def test_the_calibration_error_stands_beside_its_noise():
    one = drawn(400, 3)
    found = measured(one, bare(400))
    error = found.metrics["ece"].value
    assert error is not None and found.ece_noise is not None
    assert 0 < error < 2 * found.ece_noise


def test_without_a_label_nothing_is_made_up():
    found = measured(judged([None] * 4, [True] * 4), bare(4))
    assert all(one.value is None for one in found.metrics.values())
    assert "4 of 4 answered rows have no label for it" in found.notes


def test_queued_rows_are_pointed_out(scored):
    pack, constants, held = scored
    rows = known([replace(row, drawn="queue") for row in rows_of()])
    assert any("queue" in note for note in evaluate(pack, constants, rows, held, MADE).notes)
    assert not evaluate(pack, constants, known(rows_of()), held, MADE).notes


def test_points_are_thinned_and_counted():
    p = np.linspace(0, 1, MOST_POINTS + 300)
    found = thinned(np.zeros(len(p)), p, p > 0.5)
    assert (len(found.p), found.left_out) == (MOST_POINTS, 300)
    assert np.array_equal(found.holds, found.p > 0.5)


def test_the_same_text_is_the_same_content_whatever_the_row():
    first, second, other = known([*rows_of()[:2], rows_of()[2]])
    same = known([replace(rows_of()[0], id="x")])[0]
    assert same.content == first.content != second.content != other.content
    filled = known([replace(rows_of()[0], parameters={"shop": "x"})])[0]
    assert filled.content != first.content
