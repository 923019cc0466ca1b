"""Packs fitted on labelled rows: cuts that hold, what is spent, and the state that follows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spinf_serve.evals.certificates import Certificate, NotReachable
from spinf_serve.evals.cost import CostCut
from spinf_serve.evals.cuts import Target
from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.fitting import Fitted, fit_pack
from spinf_serve.evals.ledger import spent
from spinf_serve.evals.project import Project
from spinf_serve.evals.scored import arranged, outcomes, score
from spinf_serve.evals.store import matrix
from spinf_serve.evals.wishes import Wish
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.evaluate import state
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.save import save_constants
from tests.support.fitting_world import loaded, pack_file, put_rows, world

PRECISE = Target("precision", 0.8)
EVERY = [
    Wish("spam", (PRECISE,)),
    Wish("rude", (Target("recall", 0.8),)),
    Wish("late", (Target("precision", 0.9), Target("npv", 0.97))),
]
COUNT = 600


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Project, str]:
    """The pack's file, a project of 600 labelled rows, and the bits of its scores."""
    folder = tmp_path_factory.mktemp("world")
    file = pack_file(folder / "pack")
    project, bits = world(folder, loaded(file), COUNT, sharpness=20.0)
    return file, project, bits


def fitted(made: tuple[Path, Project, str], wishes: list[Wish], **more: object) -> Fitted:
    file, project, bits = made
    # Certifications of other tests are none of this one's.
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM spent")
    return fit_pack(project, "d", loaded(file), bits, wishes, by="ada", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(made: tuple[Path, Project, str]) -> Fitted:
    """Fitted with every target."""
    return fitted(made, EVERY)


def result_of(found: Fitted, answer: int = 0, promise: int = 0) -> Certificate | NotReachable:
    """What came of a target that promises something."""
    result = found.answers[answer].promises[promise].result
    assert not isinstance(result, CostCut)
    return result


def promised(found: Fitted, answer: int = 0, promise: int = 0) -> Certificate:
    """The same where the promise was reached."""
    result = result_of(found, answer, promise)
    assert isinstance(result, Certificate), result
    return result


def flags(pack: Pack, project: Project, bits: str, found: Fitted) -> dict[str, np.ndarray]:
    """Category -> which rows it flags."""
    kept = matrix(project, "d", pack, bits)
    answers, _ = arranged(pack, kept.logprobs, kept.floors)
    results = outcomes(pack, found.constants, score(pack, found.constants, answers))
    return {id: np.array([one.categories[id].flagged for one in results]) for id in pack.categories}


def truths(project: Project, target: str) -> np.ndarray:
    with project.open(write=False) as connection:
        found = connection.execute(
            "SELECT value = 'yes' FROM label JOIN item USING (dataset, row_id) WHERE target = ?"
            " ORDER BY number",
            [target],
        ).fetchall()
    return np.array([holds for (holds,) in found])


def test_every_target_has_its_cut_and_the_rows_show_it(made, whole):
    file, project, bits = made
    pack, found = loaded(file), whole
    assert found.met and (found.fit_rows, found.test_rows, found.report) == (COUNT, 0, None)
    flagged = flags(pack, project, bits, found)
    for name in ("spam", "late"):
        holds = truths(project, name)
        number = [one.wish.name for one in found.answers].index(name)
        made_of = promised(found, number)
        point = made_of.point
        assert (point.n, point.k) == (flagged[name].sum(), (flagged[name] & holds).sum())
        assert point.bound >= made_of.target.value
        cut = found.answers[number].promises[0].cut
        assert found.constants.categories[name].threshold == cut
    holds = truths(project, "rude")
    point = promised(found, 1).point
    assert (point.n, point.k) == (holds.sum(), (flagged["rude"] & holds).sum())
    left_out = found.answers[0].left_out
    assert left_out is not None and left_out.precision is not None and left_out.precision > 0.8


def test_bands_are_the_two_cuts_and_the_upper_one_flags(whole):
    found = whole
    act, review = found.answers[2].promises
    assert (act.name, review.name) == ("late/act", "late/review")
    # Both hold together: each takes half.
    assert {promised(found, 2, band).delta for band in (0, 1)} == {0.025}
    bands = found.constants.bands
    assert bands is not None and set(bands.categories) == {"late"}
    assert (bands.categories["late"].act, bands.categories["late"].review) == (act.cut, review.cut)
    assert act.cut == found.constants.categories["late"].threshold
    assert act.cut is not None and review.cut is not None and act.cut > review.cut


def test_a_pack_is_certified_when_each_cut_is_promised_and_else_provisional(made, whole, tmp_path):
    file = pack_file(tmp_path)
    pack = loaded(file)
    proof = whole.constants.proof
    assert proof is not None
    assert proof["constants"] == constants_digest(whole.constants)
    assert proof["asked"] == asked_digest(pack.body)
    assert (proof["model"], proof["fingerprint"]) == (whole.identity.model, made[2])
    assert (proof["data"], proof["rows"]) == (whole.data_digest, COUNT) and "open" not in proof
    assert list(proof["promises"]) == ["spam", "rude", "late/act", "late/review"]
    told = proof["promises"]["spam"]
    point = promised(whole).point
    assert (told["target"], told["value"], told["delta"]) == ("precision", 0.8, 0.05)
    assert (told["rows"], told["hits"], told["bound"]) == (point.n, point.k, point.bound)
    assert told["cut"] == whole.constants.categories["spam"].threshold
    assert told["interval"] == [point.interval.low, point.interval.high]
    save_constants(file, whole.constants, digest=pack.digest)
    again = loaded(file)
    assert again.fitted[whole.identity.served] == whole.constants
    assert state(again, again.fitted[whole.identity.served], whole.identity.model) == "certified"
    part = fitted(made, EVERY[:1])
    assert part.constants.proof is not None
    assert part.constants.proof["open"] == ["rude", "late"]
    assert state(pack, part.constants, whole.identity.model) == "provisional"
    assert fitted(made, []).constants.proof is None


def test_comments_stay_and_saving_again_changes_nothing(made, whole, tmp_path):
    file = pack_file(tmp_path)
    before = file.read_text()
    save_constants(file, whole.constants, digest=loaded(file).digest)
    text = file.read_text()
    assert text.startswith(before)
    save_constants(file, fitted(made, EVERY).constants)
    assert file.read_text() == text


def test_what_cannot_be_promised_says_why_and_leaves_the_cut_unpromised(made):
    found = fitted(made, [Wish("spam", (Target("precision", 0.9999),))])
    [given] = found.answers
    assert not given.met and not found.met
    result = result_of(found)
    assert isinstance(result, NotReachable) and "not reachable yet" in result.words
    # The best cut is one of the pack's scores.
    flagged = flags(loaded(made[0]), made[1], made[2], replace(found, constants=_cut_at(found)))
    assert result.point is not None and flagged["spam"].sum() == result.point.n
    assert found.constants.proof is None
    # The cut of highest J stays, as without a target.
    assert found.constants == fitted(made, []).constants


def _cut_at(found: Fitted) -> Constants:
    """The constants with the best cut of a target that was not reached in force."""
    point = result_of(found).point
    best = None if point is None else point.cut
    fit = replace(found.constants.categories["spam"], threshold=best)
    return replace(found.constants, categories={**found.constants.categories, "spam": fit})


def test_the_same_certification_spends_once_and_another_finds_nothing_left(made):
    file, project, bits = made
    pack = loaded(file)
    first = fitted(made, EVERY[:1])
    again = fit_pack(project, "d", pack, bits, EVERY[:1], by="bob")
    assert again.constants == first.constants
    [entry] = spent(project, "d", "spam", None)
    assert (entry.by, entry.delta, entry.kind, entry.split) == ("ada", 0.05, "precision:0.8", None)
    other = Wish("spam", (Target("precision", 0.7),))
    gone = result_of(fit_pack(project, "d", pack, bits, [other], by="ada"))
    assert isinstance(gone, NotReachable) and gone.why == "spent"


def test_planned_certifications_share_delta(made):
    file, project, bits = made
    pack = loaded(file)
    deltas = []
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM spent")
    for value in (0.7, 0.75, 0.8):
        wish = Wish("spam", (Target("precision", value),))
        found = fit_pack(project, "d", pack, bits, [wish], by="ada", planned=2)
        deltas.append(result_of(found).delta)
    assert deltas == [0.025, 0.025, 0.0]


def test_rows_that_were_not_drawn_at_random_promise_nothing(made):
    project = made[1]
    put_rows(project, "drawn", "queue")
    try:
        result = result_of(fitted(made, EVERY[:1]))
        assert isinstance(result, NotReachable) and result.why == "not_random"
    finally:
        put_rows(project, "drawn", "random")


def test_labels_out_of_a_queue_promise_nothing_whatever_their_rows_were_drawn_from(made):
    project = made[1]
    counted = result_of(fitted(made, EVERY[:1])).rows

    def drawn(how: str) -> None:
        with project.open(write=True) as connection:
            connection.execute("UPDATE label SET drawn = ? WHERE target = 'spam'", [how])

    drawn("queue")
    try:
        found = fitted(made, EVERY[:2])
        result = result_of(found)
        assert isinstance(result, NotReachable) and result.why == "not_random"
        # Those of another category are as they were; a share of flags needs no labels.
        assert result_of(found, 1).rows == COUNT
        shares = fitted(made, [Wish("spam", (Target("flag_rate", 0.5),))])
        assert result_of(shares).rows == COUNT
    finally:
        drawn("random")
    assert counted == COUNT


def test_a_group_counts_once(made):
    project = made[1]
    put_rows(project, "grp", "thread", upto=200)
    try:
        result = result_of(fitted(made, EVERY[:1]))
        assert result.rows == COUNT - 199
    finally:
        put_rows(project, "grp", None)


def test_a_stated_base_rate_weighs_the_promise_and_stands_in_the_proof(made):
    rare = result_of(fitted(made, [replace(EVERY[0], base_rate=0.01)]))
    # The rows would carry the promise for traffic like them, and do not where 1 % hold.
    assert isinstance(rare, NotReachable) and rare.base_rate == 0.01
    easy = fitted(made, [replace(EVERY[0], base_rate=0.6)]).constants.proof
    assert easy is not None and easy["promises"]["spam"]["base_rate"] == 0.6
    assert "re-weighted" in easy["promises"]["spam"]["method"]


def test_a_stated_base_rate_moves_the_map_of_its_category_alone(made):
    plain = fitted(made, EVERY[:2]).constants.categories
    found = fitted(made, [replace(EVERY[0], base_rate=0.01), EVERY[1]])
    moved = found.constants.categories
    assert moved["spam"].platt[0] == plain["spam"].platt[0]
    assert moved["spam"].platt[1] < plain["spam"].platt[1] - 1
    assert moved["rude"] == plain["rude"] and moved["late"] == plain["late"]
    assert any("moved to the stated base rate of 0.01" in note for note in found.notes)


def test_labels_of_a_question_are_told_to_take_no_part(made):
    _, project, _ = made
    put_labels(project, "d", [Label("r1", "question:rude", "true", "ada", now(), "random")])
    try:
        found = fitted(made, EVERY[1:2])
    finally:
        with project.open(write=True) as connection:
            connection.execute("DELETE FROM label WHERE target = 'question:rude'")
    assert any("labels of question:rude take no part" in note for note in found.notes)
    assert not any("question:" in note for note in fitted(made, EVERY[1:2]).notes)


def test_a_cost_sets_a_cut_and_promises_nothing(made):
    found = fitted(made, [Wish("spam", (Target("cost", 4.0),))])
    [promise] = found.answers[0].promises
    assert isinstance(promise.result, CostCut) and found.met
    assert found.constants.categories["spam"].threshold == promise.cut
    assert found.constants.proof is None and spent(made[1], "d", "spam", None) == []


def test_unlabelled_rows_are_fine_and_refused_ones_are_told(tmp_path):
    file = pack_file(tmp_path / "pack")
    pack = loaded(file)
    project, bits = world(tmp_path, pack, 60, labelled=["spam"])
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM label WHERE row_id IN ('r1', 'r2')")
        connection.execute(
            "INSERT INTO refusal SELECT model.id, content.id, prompt.id, 'content_too_long', 'x'"
            " FROM model, content, prompt WHERE content.id = 3 AND prompt.id = 1"
        )
        connection.execute("DELETE FROM score WHERE content = 3 AND prompt = 1")
    found = fit_pack(project, "d", pack, bits, by="ada")
    assert found.fit_rows == 59 and list(found.refused.values()) == ["content_too_long"]
    assert any("rude: no row is labelled" in note for note in found.notes)


def test_missing_scores_are_not_passed_over(tmp_path):
    file = pack_file(tmp_path / "pack")
    pack = loaded(file)
    project, bits = world(tmp_path, pack, 20)
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM score WHERE content = 5")
    with pytest.raises(Unusable, match="1 of 20 rows of d have no score"):
        fit_pack(project, "d", pack, bits, by="ada")


def test_too_few_rows_and_what_a_pack_cannot_be_asked(tmp_path):
    file = pack_file(tmp_path / "pack")
    pack = loaded(file)
    project, bits = world(tmp_path, pack, 9)
    with pytest.raises(Unusable, match="9 rows to fit on"):
        fit_pack(project, "d", pack, bits, by="ada")
    for wish, words in (
        (Wish("spm", (PRECISE,)), "no category 'spm'"),
        (Wish("decision", (PRECISE,)), "decides per category"),
    ):
        with pytest.raises(Unusable, match=words):
            fit_pack(project, "d", pack, bits, [wish], by="ada")
    with pytest.raises(Unusable, match="two targets"):
        fit_pack(project, "d", pack, bits, [EVERY[0], EVERY[0]], by="ada")


@pytest.mark.parametrize("mode", ["max", "micro_layer"])
def test_the_cut_of_a_decision_is_certified_on_rows_held_back(tmp_path, mode):
    file = pack_file(tmp_path / "pack", decision=f"decision: {{mode: {mode}, {mode}: {{}}}}")
    pack = loaded(file)
    project, bits = world(tmp_path, pack, 700, sharpness=20.0)
    wish = Wish("decision", (Target("precision", 0.8),))
    with pytest.raises(Unusable, match="no row is in split test"):
        fit_pack(project, "d", pack, bits, [wish], by="ada")
    with project.open(write=True) as connection:
        connection.execute("UPDATE item SET split = IF(number <= 300, 'fit', 'test')")
        connection.execute("DELETE FROM spent")
    found = fit_pack(project, "d", pack, bits, [wish], by="ada")
    assert found.met and (found.fit_rows, found.test_rows) == (300, 400)
    result = promised(found)
    assert result.rows == 400
    assert [one.split for one in spent(project, "d", "decision", None)] == ["test"]
    assert found.report is not None and found.constants.proof is not None
    assert found.report.verdict.precision == pytest.approx(result.point.k / result.point.n)
    assert found.constants.proof["open"] == ["spam", "rude", "late"]
    if mode == "micro_layer":
        layer = found.constants.layer
        assert layer is not None and layer.holds
        assert layer.weights[-1] == found.answers[0].promises[0].cut
    # The numbers are those that a file holds.
    save_constants(file, found.constants, digest=pack.digest)
    assert loaded(file).fitted[found.identity.served] == found.constants


def test_a_category_that_requires_another_is_certified_on_rows_held_back(tmp_path):
    lines = (
        "decision: {mode: per_category}\ncategories: {spam: {}, rude: {requires: [late]}, late: {}}"
    )
    file = pack_file(tmp_path / "pack", decision=lines)
    pack = loaded(file)
    project, bits = world(tmp_path, pack, 500, sharpness=20.0)
    with project.open(write=True) as connection:
        connection.execute("UPDATE item SET split = IF(number <= 200, 'fit', 'test')")
    labels = [
        Label(f"r{n}", "rude", "yes", "bob", now(), "random", False, True) for n in range(1, 501)
    ]
    put_labels(project, "d", labels[:440])
    wish = Wish("rude", (Target("precision", 0.6),))
    found = fit_pack(project, "d", pack, bits, [wish], by="ada")
    result = promised(found)
    assert result.rows == 300 and found.met
    flagged = flags(pack, project, bits, found)
    assert result.point.n == flagged["rude"][200:].sum()
    assert (flagged["late"] | ~flagged["rude"]).all()
