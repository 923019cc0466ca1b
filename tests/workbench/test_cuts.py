"""Looking at cuts, planning and certifying them, and putting them in force, without a screen."""

import dataclasses
import hashlib
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from spinf_serve.evals import fitting
from spinf_serve.evals.data.rows import data_digest
from spinf_serve.evals.eligible import eligible
from spinf_serve.evals.intervals import exact
from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.ledger import spent
from spinf_serve.evals.promising import sight
from spinf_serve.evals.scored import score, vectors
from spinf_serve.evals.store import matrix
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.fit import fit
from spinf_serve.packs.loader import load_pack, read_pack
from spinf_serve.packs.publish import publish
from spinf_serve.packs.save import save_constants
from spinf_serve.targets import wishes as command_wishes
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import drafts
from spinf_serve.workbench.actions.certifying import (
    after_of,
    arguments_of,
    change,
    last_fits,
    refusals,
    save_fit,
    subject_of,
)
from spinf_serve.workbench.actions.cut_plans import (
    BANDS,
    Plan,
    PlannedCut,
    budgets,
    command,
    keep_plan,
    plan_of,
    wishes_of,
)
from spinf_serve.workbench.actions.cut_rows import (
    costs,
    curve,
    cut_rows,
    false_alarms,
    look,
    misses,
    texts_of,
    three_bands,
)
from spinf_serve.workbench.audit import events
from spinf_serve.workbench.desk import PROJECT_FILE, Desk
from spinf_serve.workbench.views import View, view_of
from tests.support.fitting_world import loaded, pack_file, put_split, world
from tests.support.stub_engine import SERVED
from tests.workbench.cut_desks import BITS, scored

NAME = "mail.yaml"
PLAN = (
    Plan()
    .with_cut(PlannedCut("spam", "precision", 0.8))
    .with_cut(PlannedCut("rude", "cost", 5.0))
    .with_cut(PlannedCut("late", BANDS, 0.9, 0.97))
)
REQUIRES = "categories: {spam: {}, rude: {}, late: {requires: [rude]}}"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A draft's folder, scored and labelled, after one certification by a real job."""
    folder = tmp_path_factory.mktemp("cuts")
    file = pack_file(folder)
    project, bits = world(folder, loaded(file), 600, sharpness=20.0)
    desk = Desk(folder, project.path)
    plan = keep_plan(desk, "ada", NAME, "d", PLAN)
    given = arguments_of(desk, file, loaded(file), "d", bits, plan, "ada")
    job = jobs.start(desk, "ada", "fit", "Certify", given, subject=subject_of(NAME, "d"))
    assert jobs.wait(desk, job.id, 300).state == "done", jobs.job(desk, job.id).log()
    return folder, bits


@pytest.fixture
def ready(template, tmp_path):
    """A copy that a test may change: desk, file, bits, the job of the certification."""
    folder, bits = template
    shutil.copytree(folder, tmp_path / "desk")
    desk = Desk(tmp_path / "desk", tmp_path / "desk" / PROJECT_FILE)
    (job,) = last_fits(desk, NAME, "d", bits)
    return desk, desk.folder / NAME, bits, job


def after_rows(desk, bits, job, name):
    made = after_of(job)
    assert made is not None
    view = view_of(desk, made.pack, made.constants, "d", bits)
    assert isinstance(view, View) and view.is_current
    return made, cut_rows(desk, view, made.pack, made.constants, "d", name)


def target_of(job, name):
    return next(one for one in job.result()["report"]["targets"] if one["name"] == name)


def test_a_certified_cut_looks_as_its_certificate_says(ready):
    desk, _, bits, job = ready
    promise = target_of(job, "spam")["promises"][0]
    point = promise["result"]["point"]
    made, rows = after_rows(desk, bits, job, "spam")
    assert made.constants.categories["spam"].threshold == promise["cut"]
    found = look(rows, promise["cut"])
    assert (found.precision.k, found.precision.n) == (point["k"], point["n"])
    assert found.precision.value == point["estimate"]
    ends = exact(point["k"], point["n"])
    assert ends is not None
    assert (found.precision.low, found.precision.high) == pytest.approx((ends.low, ends.high))
    assert found.recall.value == pytest.approx(point["recall"])
    assert found.flagged.value == pytest.approx(point["coverage"])
    assert found.tp + found.fp + found.fn + found.tn == len(rows.counted) == 600
    alarms, missed = false_alarms(rows, promise["cut"]), misses(rows, promise["cut"])
    assert (len(alarms), len(missed)) == (found.fp, found.fn)
    assert (np.diff(rows.own[alarms]) <= 0).all() and (np.diff(rows.own[missed]) >= 0).all()
    ids = [id for id, _ in texts_of(desk, "d", rows.numbers[alarms].tolist())]
    assert ids == [f"r{number}" for number in rows.numbers[alarms].tolist()]


def test_the_review_load_and_the_cheapest_cut_are_those_of_evals(ready):
    desk, _, bits, job = ready
    bands = target_of(job, "late")
    _, rows = after_rows(desk, bits, job, "late")
    act, review = (one["cut"] for one in bands["promises"])
    upper, middle, lower = three_bands(rows, review, act)
    assert middle.load.value is not None and middle.load.k > 0
    assert middle.load.value * 1000 == pytest.approx(bands["review_per_1000"])
    assert upper.load.k + middle.load.k + lower.load.k == len(rows.traffic)
    # By hand, from the scores and labels of the rows.
    scores, holds = rows.scores, rows.holds
    inside = (scores >= review) & (scores < act)
    assert (middle.holds, middle.not_holds) == (holds[inside].sum(), (~holds[inside]).sum())
    assert (upper.holds, upper.not_holds) == (look(rows, act).tp, look(rows, act).fp)
    assert (lower.holds, lower.not_holds) == (look(rows, review).fn, look(rows, review).tn)
    assert upper.right is not None and upper.right.n == upper.holds + upper.not_holds
    assert lower.right is not None and lower.right.k == lower.not_holds and middle.right is None
    told = target_of(job, "rude")["promises"][0]["result"]
    _, rude = after_rows(desk, bits, job, "rude")
    cheapest, every = costs(rude, 5.0)
    assert cheapest.cost == pytest.approx(told["cost"])
    assert cheapest.cost_interval.low == pytest.approx(told["cost_interval"]["low"])
    assert every.cost.min() >= cheapest.cost - 1e-12
    # Flagging none costs every miss, and so does the curve's last point.
    assert every.cost[-1] == pytest.approx(5.0 * rude.holds.mean())
    assert (every.low <= every.cost + 0.2).all() and (every.low <= every.high).all()


@pytest.mark.parametrize(
    ("line", "name", "split"),
    [
        ("decision: {mode: per_category}", "late", "fit"),
        ("decision: {mode: max, critical: [rude]}", DECISION, "test"),
        (f"{REQUIRES}\ndecision: {{mode: per_category}}", "late", "test"),
    ],
)
def test_the_rows_that_count_are_those_that_evals_counts(tmp_path, line, name, split):
    file = pack_file(tmp_path, decision=line)
    project, bits = world(tmp_path, loaded(file), 300, sharpness=20.0)
    put_split(project, 200)
    with project.open(write=True) as connection:
        for change_of in (
            "grp = 'g' || number % 7 WHERE number % 5 = 0",
            "drawn = 'queue', weight = 1 + number % 4 WHERE number % 3 = 0",
            "drawn = 'import' WHERE number % 11 = 0",
        ):
            connection.execute(f"UPDATE item SET {change_of}")
        connection.execute("UPDATE label SET drawn = 'queue' WHERE row_id IN ('r1', 'r2', 'r4')")
        connection.execute("DELETE FROM label WHERE row_id IN ('r7', 'r208')")
        connection.execute("UPDATE label SET value = 'unsure' WHERE row_id IN ('r8', 'r209')")
    desk, draft = Desk(tmp_path, project.path), loaded(file)
    kept = matrix(project, "d", draft, bits)
    part, held, _ = fitting._parts(project, "d", draft, kept)
    labels = list(part.rows.labels)
    constants = fit(draft, vectors(draft, part.answers), labels, SERVED.id).constants
    save_constants(file, constants)
    pack = loaded(file)
    view = view_of(desk, pack, constants, "d", bits)
    assert isinstance(view, View)
    rows = cut_rows(desk, view, pack, constants, "d", name)
    carrier = held if rows.split == fitting.TEST else part
    assert rows.split == split
    seen = sight(
        pack, constants, score(pack, constants, carrier.answers), carrier.rows.labels, name
    )
    counted = carrier.rows.counted_for(name)
    known = np.array([truth is not None for truth in seen.truths])
    wanted = eligible(known, counted.groups, counted.weights, counted.drawn)
    ids = [carrier.rows.ids[index] for index in wanted.rows.tolist()]
    assert [f"r{number}" for number in rows.numbers[rows.counted].tolist()] == ids
    assert 20 < len(ids) < len(carrier.rows.ids) - 20 and rows.notes == wanted.notes()
    assert rows.holds.tolist() == [seen.truths[index] for index in wanted.rows.tolist()]
    for cut in np.quantile(seen.own, [0, 0.2, 0.5, 0.8, 1]).tolist():
        flagged = seen.walked[wanted.rows] >= cut
        assert ((rows.scores >= cut) == flagged).all()
    # Something else decides of some rows wherever labels have a part in the score.
    assert seen.free.all() == (split == "fit")


def test_looking_around_spends_nothing_and_certifying_spends_once(ready):
    desk, file, bits, job = ready
    with desk.project.open(write=True) as connection:
        connection.execute("DELETE FROM spent")
    _, rows = after_rows(desk, bits, job, "spam")
    for cut in (0.1, 0.5, 0.9):
        look(rows, cut)
    curve(rows)
    pack, digest = loaded(file), data_digest(desk.project, "d")
    plan = plan_of(desk, NAME, "d")
    before = budgets(desk, "d", pack, bits, plan, wishes_of(plan, pack), digest)
    assert {name: one.delta for name, one in before.items()} == {
        "spam": 0.05,
        "rude": 0.0,
        "late": 0.05,
    }
    assert spent(desk.project, "d", "spam", None) == []
    for _ in range(2):
        wishes = wishes_of(plan, pack)
        fitting.fit_pack(desk.project, "d", pack, bits, wishes, by="ada", planned=plan.planned)
        assert [one.delta for one in spent(desk.project, "d", "spam", None)] == [0.05]
    after = budgets(desk, "d", pack, bits, plan, wishes_of(plan, pack), digest)
    assert after["spam"].made is not None and after["spam"].made.by == "ada"
    other = plan.with_cut(PlannedCut("spam", "precision", 0.7))
    assert budgets(desk, "d", pack, bits, other, wishes_of(other, pack), digest)["spam"].delta == 0


def test_planned_certifications_share_the_chance(ready):
    desk, file, bits, _ = ready
    with desk.project.open(write=True) as connection:
        connection.execute("DELETE FROM spent")
    plan = dataclasses.replace(PLAN, planned=2, revision=0)
    pack, digest = loaded(file), data_digest(desk.project, "d")
    found = budgets(desk, "d", pack, bits, plan, wishes_of(plan, pack), digest)
    assert found["spam"].delta == 0.025


def test_the_command_asks_the_same(ready):
    desk, file, bits, _ = ready
    plan = Plan((*PLAN.cuts, PlannedCut("late", "npv", 0.97, None, 0.05)), 3, 0.1)
    plan = plan.without("late").with_cut(PlannedCut("late", BANDS, 0.9, 0.97, 0.05))
    words = shlex.split(command(desk, file, "d", bits, plan, "ada b"))
    assert words[:5] == ["spinf-serve", "fit", NAME, "--data", f"{PROJECT_FILE}:d"]
    options = list(zip(words[5:-1:2], words[6::2], strict=True))
    given = {
        name: [value for key, value in options if key == f"--{name}"]
        for name in ("target", "base-rate", "delta", "planned", "bits", "by")
    }
    asked = command_wishes(given["target"], given["base-rate"], float(given["delta"][0]))
    assert asked == wishes_of(plan, loaded(file))
    assert (given["planned"], given["bits"], given["by"]) == (["3"], [bits], ["ada b"])
    assert words[-1] == "--save"


def test_two_tabs_never_overwrite_each_others_targets(tmp_path):
    desk = scored(tmp_path / "desk", 30)
    first = plan_of(desk, NAME, "d")
    kept = keep_plan(
        desk, "ada", NAME, "d", first.with_cut(PlannedCut("spam", "recall", 0.7, None, 0.2))
    )
    assert plan_of(desk, NAME, "d") == kept
    assert kept.of("spam") == PlannedCut("spam", "recall", 0.7, None, 0.2)
    with pytest.raises(Unusable, match="changed in another tab"):
        keep_plan(desk, "ada", NAME, "d", first.with_cut(PlannedCut("spam", "recall", 0.8)))
    assert plan_of(desk, NAME, "d") == kept
    assert plan_of(desk, NAME, "other") == Plan()
    (event,) = [one for one in events(desk) if one.action == "change targets"]
    assert event.user == "ada" and event.details["targets"] == ["spam=recall:0.7"]


def test_saving_keeps_all_else_byte_for_byte(ready):
    desk, file, _, job = ready
    before = file.read_bytes()
    made = after_of(job)
    assert made is not None
    assert refusals(desk, file, job) == []
    digest = save_fit(desk, "ada", approver=True, file=file, job=job)
    after = file.read_bytes()
    assert after.startswith(before)
    assert after.decode() == made.text and hashlib.sha256(after).hexdigest() == digest
    lines = change(before.decode(), made.text, NAME)
    assert not [line for line in lines if line.startswith("-") and not line.startswith("---")]
    assert "\n" not in "".join(lines)
    constants = load_pack(file).constants((SERVED.id,))
    assert constants is not None and constants.proof is not None
    assert constants.proof["promises"].keys() == {"spam", "late/act", "late/review"}
    assert constants.proof["open"] == ["rude"]
    (event,) = [one for one in events(desk) if one.action == "put cuts in force"]
    assert event.subject == NAME and event.user == "ada"
    assert event.details["before"] == hashlib.sha256(before).hexdigest()
    assert event.details["after"] == digest
    with desk.project.open(write=False) as connection:
        ((report, by),) = connection.execute('SELECT report, "by" FROM fitted').fetchall()
    assert json.loads(report) == job.result()["report"] and by == "ada"


def refused(desk, file, job, *, approver=True) -> str:
    before = file.read_bytes()
    with pytest.raises(Unusable) as refusal:
        save_fit(desk, "ada", approver=approver, file=file, job=job)
    assert file.read_bytes() == before
    assert not [one for one in events(desk) if one.action == "put cuts in force"]
    return str(refusal.value)


def test_what_may_not_be_saved_is_refused_and_changes_nothing(ready):
    desk, file, _, job = ready
    assert "approver" in refused(desk, file, job, approver=False)
    text = file.read_text()
    drafts.keep(desk, file, text + "# more\n", drafts.draft_of(desk, file).revision, user="ada")
    assert "draft that is not saved" in refused(desk, file, job)
    drafts.undo(desk, file, drafts.draft_of(desk, file).revision, user="ada")
    assert refusals(desk, file, job) == []
    file.write_text(text + "# by another tool\n")
    assert "changed since" in refused(desk, file, job)
    file.write_text(text)
    assert refusals(desk, file, job) == []


def test_a_published_version_is_never_changed(tmp_path):
    desk = scored(tmp_path / "desk", 200)
    file = desk.folder / NAME
    publish(file, read=read_pack)
    given = arguments_of(desk, file, load_pack(file), "d", BITS, Plan(), "ada")
    job = jobs.start(desk, "ada", "fit", "Fit", given, subject=subject_of(NAME, "d"))
    job = jobs.wait(desk, job.id, 300)
    assert job.state == "done", job.log()
    assert "Version 1.0.0 is published" in refused(desk, file, job)


def test_a_target_that_is_not_reached_is_not_saved(tmp_path):
    desk = scored(tmp_path / "desk", 60)
    file = desk.folder / NAME
    plan = Plan().with_cut(PlannedCut("spam", "precision", 0.99))
    given = arguments_of(desk, file, load_pack(file), "d", BITS, plan, "ada")
    job = jobs.start(desk, "ada", "fit", "Certify", given, subject=subject_of(NAME, "d"))
    job = jobs.wait(desk, job.id, 300)
    result = job.result()
    assert job.state == "done" and result is not None and not result["met"]
    (promise,) = result["report"]["targets"][0]["promises"]
    assert promise["kind"] == "NotReachable" and promise["cut"] is None
    assert "not reachable yet" in result["words"]["spam"]
    assert "no cut yet" in refused(desk, file, job)


def test_a_pack_that_changed_before_the_job_ran_is_not_certified(ready, tmp_path):
    desk, file, bits, _ = ready
    given = arguments_of(desk, file, loaded(file), "d", bits, PLAN, "ada")
    file.write_text(file.read_text() + "# another text\n")
    with desk.project.open(write=True) as connection:
        connection.execute("DELETE FROM spent")
    job = jobs.start(desk, "ada", "fit", "Certify", given, subject="again")
    job = jobs.wait(desk, job.id, 300)
    assert job.state == "failed" and "changed since" in job.words
    assert spent(desk.project, "d", "spam", None) == []
    assert Path(job.folder).is_dir()
