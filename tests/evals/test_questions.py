import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss

from spinf_serve.evals.asking import digest_of
from spinf_serve.evals.baseline import evaluation_text, read_evaluation
from spinf_serve.evals.compare import compare
from spinf_serve.evals.gate import hold, not_worse, parse_rule, verdict
from spinf_serve.evals.measuring import Known, evaluate
from spinf_serve.evals.reports.html import html
from spinf_serve.evals.reports.markdown import markdown
from spinf_serve.evals.reports.terminal import lines
from spinf_serve.evals.runner import run
from spinf_serve.evals.scored import arranged, question_values
from spinf_serve.evals.store import matrix
from spinf_serve.packs.errors import Unusable
from tests.support.evaluations import MADE
from tests.support.kept_scores import Counting, project_with
from tests.support.packs import golden, made

KINDS = ("billing", "technical", "other")
KIND, ANGRY, BUG = "question:kind", "question:angry", "question:about[F=a bug]"
TEXTS = [f"content number {index} of all" for index in range(60)]


def row(index: int, **changes) -> Known:
    classes = {KIND: KINDS[index % 3], ANGRY: " false" if index % 4 else "true "}
    one = Known(f"r{index + 1}", f"c{index}", None, {}, {}, "random", None, classes)
    return replace(one, **changes)


ROWS = [row(index) for index in range(60)]


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Pack, constants and kept scores with floors; p of the questions by id and place."""
    plain = golden()
    plain["decision"]["mode"] = "max"
    plain["scoring"]["empty_floor"] = True
    pack, constants = made(plain)
    project = project_with(tmp_path_factory.mktemp("questions"), TEXTS)
    scorer = Counting()
    run(project, "d", pack, scorer, print)
    return pack, constants, matrix(project, "d", pack, scorer.identity.bits)


def measured(scored, rows=ROWS):
    pack, constants, held = scored
    return evaluate(pack, constants, rows, held, MADE)


def values_of(scored, question, place=0):
    pack, _, held = scored
    return question_values(arranged(pack, held.logprobs, held.floors)[0], (question, place))


def test_a_choice_has_the_figures_of_its_top_option(scored):
    found = measured(scored).target(KIND)
    assert found is not None and found.judged.choices is not None
    values = values_of(scored, "kind")
    true = np.arange(60) % 3
    top = values.p.argmax(axis=1)
    figures = found.metrics
    assert figures["accuracy"].k == (top == true).sum()
    assert figures["macro_f1"].value == pytest.approx(f1_score(true, top, average="macro"))
    assert figures["log_loss"].value == pytest.approx(log_loss(true, values.p))
    squares = ((values.p - np.eye(3)[true]) ** 2).sum(axis=1)
    assert figures["brier"].value == pytest.approx(squares.mean())
    assert figures["lift_accuracy"].k == (values.lift.argmax(axis=1) == true).sum()
    assert figures["logit_lift_accuracy"].k == (values.logit_lift.argmax(axis=1) == true).sum()
    order = np.argsort(-values.p.max(axis=1))
    wrong = np.cumsum((top != true)[order]) / np.arange(1, 61)
    assert figures["risk_area"].value == pytest.approx(wrong.mean())
    assert [one.read for one in found.reads] == list(KINDS)
    first = found.reads[0]
    assert first.lift_yes == pytest.approx(values.lift[true == 0, 0].mean())
    assert first.logit_lift_no == pytest.approx(values.logit_lift[true != 0, 0].mean())
    assert sum(sum(counts) for _, counts in found.judged.choices.counts()) == 60


def test_two_options_are_measured_like_a_category(scored):
    rows = [
        replace(one, classes={BUG: "true"}) if index % 2 else replace(one, labels={BUG: False})
        for index, one in enumerate(ROWS)
    ]
    evaluation = measured(scored, rows)
    found = evaluation.target(BUG)
    assert found is not None and found.judged.choices is None and found.judged.threshold == 0.5
    p = values_of(scored, "about", 1).p[:, 0]
    holds = np.arange(60) % 2 == 1
    assert np.array_equal(found.judged.scores, p)
    assert found.metrics["accuracy"].k == ((p >= 0.5) == holds).sum()
    assert found.metrics["brier"].value == pytest.approx(((p - holds) ** 2).mean())
    assert found.confusion is not None and sum(found.confusion.values()) == 60
    assert found.ece_noise is not None and found.lifts is not None
    assert {"pr_area", "log_loss", "ece", "lift_accuracy"} <= found.metrics.keys()
    assert np.array_equal(found.lifts.holds, holds) and np.array_equal(found.lifts.p, p)
    assert [(one.question, one.value) for one in found.reads] == [("about", "a bug")]
    assert evaluation.target("question:about[F=a refund]") is None


def test_rows_without_a_label_and_weights_are_taken_as_everywhere(scored):
    some = [one if index < 30 else replace(one, classes={}) for index, one in enumerate(ROWS)]
    found = measured(scored, some).target(KIND)
    assert found is not None and found.metrics["accuracy"].n == 30
    assert "30 of 60 answered rows have no label for it" in found.notes
    heavy = [replace(one, weight=1.0 + index) for index, one in enumerate(ROWS)]
    weighted = measured(scored, heavy).target(KIND)
    right = values_of(scored, "kind").p.argmax(axis=1) == np.arange(60) % 3
    assert weighted is not None
    assert weighted.metrics["accuracy"].k is weighted.metrics["lift_accuracy"].k is None
    expected = np.average(right, weights=np.arange(1, 61))
    assert weighted.metrics["accuracy"].value == pytest.approx(expected)
    sliced = [replace(one, slices={"half": str(i % 2)}) for i, one in enumerate(ROWS)]
    parts = measured(scored, sliced).target(KIND)
    assert parts is not None
    assert sum(one.metrics["accuracy"].k or 0 for one in parts.slices) == right.sum()


@pytest.mark.parametrize(
    ("options", "label", "first"),
    [
        ((" true", " false"), "yes", True),
        ((" yes", " no"), "NO", False),
        ((" no", " yes"), "yes", False),
        ((" no", " sure"), "yes", False),
        ((" calm", " angry"), "yes", True),
        ((" calm", " angry"), " angry ", False),
        ((" calm", " angry"), "Unsure", None),
    ],
)
def test_what_a_label_of_two_options_means(scored, options, label, first):
    plain = golden()
    plain["scoring"]["queries"][0]["options"] = list(options)
    pack, constants = made(plain)
    held = scored[2]
    logprobs = {**held.logprobs, digest_of(pack.questions[0]): np.log(np.full((60, 2), 0.5))}
    rows = [replace(one, classes={ANGRY: label}) for one in ROWS]
    found = evaluate(pack, constants, rows, replace(held, logprobs=logprobs), MADE).target(ANGRY)
    assert found is not None
    assert set(found.judged.labels) == {first}


def test_labels_that_fit_nothing_are_told(scored):
    with pytest.raises(Unusable, match="row 'r1' is labelled 'sales' for question:kind"):
        measured(scored, [replace(ROWS[0], classes={KIND: "sales"})])
    with pytest.raises(Unusable, match=r"'r1' is labelled 'yes' .* 'billing', 'technical'"):
        measured(scored, [replace(ROWS[0], labels={KIND: True}, classes={})])
    odd = measured(scored, [replace(ROWS[0], classes={"question:about": "true"})])
    assert "labels that are of no question here: question:about" in odd.notes


def test_options_that_no_label_can_name_are_told(scored):
    plain = golden()
    held = scored[2]
    for options, label in (([" unsure", " sure"], " sure"), (["sure", " sure"], "sure")):
        plain["scoring"]["queries"][0]["options"] = options
        pack, constants = made(plain)
        logprobs = {**held.logprobs, digest_of(pack.questions[0]): np.log(np.full((60, 2), 0.5))}
        now = replace(held, logprobs=logprobs)
        rows = [replace(ROWS[0], classes={ANGRY: label})]
        if options[0] == "sure":
            with pytest.raises(Unusable, match="differ in outer spaces alone"):
                evaluate(pack, constants, rows, now, MADE)
        else:
            found = evaluate(pack, constants, rows, now, MADE)
            assert any("option 'unsure'" in note for note in found.notes)
            one = found.target(ANGRY)
            assert one is not None and one.judged.labels == (False,)


def test_an_interval_of_a_loss_stays_where_a_loss_can_be(scored):
    pack, constants, held = scored
    sure = np.log(np.tile([0.98, 0.01, 0.01], (60, 1)))
    logprobs = {**held.logprobs, digest_of(pack.questions[2]): sure}
    found = evaluate(pack, constants, ROWS[:2], replace(held, logprobs=logprobs), MADE).target(KIND)
    assert found is not None
    brier, loss = found.metrics["brier"], found.metrics["log_loss"]
    assert (brier.low, brier.high, loss.low) == (0.0, 2.0, 0.0)
    assert loss.value is not None and loss.high is not None and loss.high > loss.value


def test_without_floors_lifts_are_left_out(scored):
    pack, constants, held = scored
    bare = evaluate(pack, constants, ROWS, replace(held, floors={}), MADE).target(KIND)
    assert bare is not None and bare.lifts is None
    assert "lift_accuracy" not in bare.metrics and bare.metrics["accuracy"].n == 60
    assert bare.reads[0].floor_p is bare.reads[0].lift_yes is None


def test_limits_hold_for_questions(scored):
    evaluation = measured(scored, [replace(one, labels={BUG: True}) for one in ROWS])
    for rule in ("question:kind.accuracy >= 0", f"{BUG}.f1 >= 0", "question:kind.macro_f1 >= 0"):
        (one,) = hold([parse_rule(rule)], evaluation)
        assert one.word == "pass"
    (missed,) = hold([parse_rule("question:kind.accuracy >= 0.99")], evaluation)
    assert (missed.word, missed.target) == ("regression", KIND)
    every = hold([parse_rule("macro_f1 >= 0")], evaluation)
    assert [one.target for one in every] == [KIND]
    with pytest.raises(Unusable, match="question:kind has no recall"):
        hold([parse_rule("question:kind.recall >= 0.5")], evaluation)
    without = measured(scored, [replace(one, classes={}) for one in ROWS])
    with pytest.raises(Unusable, match="no target has macro_f1"):
        hold([parse_rule("macro_f1 >= 0.5")], without)


def test_a_baseline_keeps_choices_and_is_held_to_the_labels_of_now(scored, tmp_path):
    one = measured(scored)
    file = tmp_path / "baseline.json"
    file.write_text(evaluation_text(one))
    before, now = read_evaluation(file).target(KIND), one.target(KIND)
    assert before is not None and now is not None
    assert before.metrics == now.metrics
    same = compare(before.judged, now.judged)
    assert same.flips is not None and same.flips.fixes == same.flips.breaks == ()
    assert same.relabelled == () and same.brier is None
    choices = now.judged.choices
    assert choices is not None
    # All labels are as chosen now, so the baseline was as right.
    true = tuple(choices.chosen)
    fresh = replace(now.judged, choices=replace(choices, true=true), flagged=(True,) * 60)
    after = compare(before.judged, fresh)
    assert after.flips is not None and after.flips.right_before == after.flips.right_now == 60
    assert len(after.relabelled) == 60 - (now.metrics["accuracy"].k or 0)
    worse = tuple(KINDS[(KINDS.index(name) + 1) % 3] for name in true)
    broken = replace(fresh, choices=replace(choices, true=true, chosen=worse))
    assert verdict(not_worse([compare(fresh, broken)])).word == "regression"
    told = json.loads(evaluation_text(one))
    older = [{k: v for k, v in each.items() if k != "choices"} for each in told["targets"]]
    file.write_text(json.dumps(told | {"targets": older}))
    back = read_evaluation(file).target(KIND)
    assert back is not None and compare(back.judged, now.judged).flips is None
    next(each for each in told["targets"] if each["choices"])["choices"]["options"][0] = "bill"
    file.write_text(json.dumps(told))
    with pytest.raises(Unusable, match="damaged"):
        read_evaluation(file)


def test_every_report_shows_the_choice(scored):
    one = measured(scored)
    found = verdict([])
    choices = one.target(KIND)
    assert choices is not None and choices.judged.choices is not None
    (true, counts), *_ = choices.judged.choices.counts()
    terminal = "\n".join(lines(one, found))
    assert true == "billing" and f"{max(counts)} as " in terminal
    for name in ("macro_f1", "lift_accuracy", "log_loss", "risk_area"):
        assert f"  {name} " in terminal
    page = html(one, found)
    assert "labelled, and chosen:" in page and "Wrong among the kept" in page
    cells = "".join(f"<td>{count}</td>" for count in counts)
    assert f"<td>billing</td>{cells}" in page
    summary = markdown(one, found)
    assert "labelled and chosen options" in summary and "billing answered" in summary
    assert "macro&#95;f1" in summary
