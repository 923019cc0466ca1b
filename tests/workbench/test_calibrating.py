"""Figures of the page Calibration are those of evals, and chance's bands hold what they say."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from spinf_serve.evals import calibration
from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.rows import rows
from spinf_serve.evals.intervals import exact
from spinf_serve.evals.judged import Made
from spinf_serve.evals.measuring import evaluate, known
from spinf_serve.evals.metrics.chance import chance_bands
from spinf_serve.evals.metrics.probability import log_loss, reliability
from spinf_serve.evals.store import matrix
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions.calibrating import (
    calibrate_job,
    stated,
    targets_of,
    worked_out,
)
from tests.workbench.cut_desks import NoReport
from tests.workbench.data_desks import example, pack_of, view_on

TWO, MANY = "question:sign_in", "question:topic"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The example with labels for two questions, some rows in groups: desk, view, pack, evals' word."""
    desk = example(tmp_path_factory.mktemp("calibrating") / "desk")
    pack = pack_of(desk)
    with desk.project.open(write=True) as connection:
        connection.execute("UPDATE item SET grp = 'g' || number % 40 WHERE number % 4 = 0")
        ids = [
            id for (id,) in connection.execute("SELECT row_id FROM item ORDER BY number").fetchall()
        ]
    options = {
        question.id: [option.strip() for option in question.options] for question in pack.questions
    }
    labels = []
    for index, id in enumerate(ids[:200]):
        for target in (TWO, MANY):
            words = options[target.partition(":")[2]]
            word = words[index * 7 % len(words)] if index % 9 else "unsure"
            labels.append(Label(id, target, word, "ada", now(), "random"))
    put_labels(desk.project, "messages", labels)
    with desk.project.open(write=False) as connection:
        bits, served = connection.execute("SELECT bits, served FROM model").fetchall()[0]
    constants = pack.constants((served,))
    assert constants is not None
    said = evaluate(
        pack,
        constants,
        known(rows(desk.project, "messages")),
        matrix(desk.project, "messages", pack, bits),
        Made("", "", "", "", "", bits, False, "", "", None, ""),
    )
    return desk, view_on(desk, pack), pack, said, bits, served


def test_what_is_labelled_can_be_looked_at(measured):
    desk, _, pack, *_ = measured
    found = targets_of(desk, pack, "messages")
    assert found[: len(pack.categories)] == list(pack.categories)
    assert set(found[len(pack.categories) :]) == {TWO, MANY}


@pytest.mark.parametrize("target", ["case", "refund", TWO])
def test_figures_are_those_of_an_evaluation(measured, target):
    desk, view, pack, said, *_ = measured
    figures = worked_out(stated(desk, view, pack, "messages", target, None))
    wanted = said.target(target)
    at = wanted.judged.labelled()
    assert figures["rows"] == len(at) and figures["positives"] == sum(
        wanted.judged.labels[index] for index in at.tolist()
    )
    whole = figures["whole"]
    assert whole["ece"] == pytest.approx(wanted.metrics["ece"].value, abs=1e-12)
    assert whole["noise"]["mean"] == pytest.approx(wanted.ece_noise, abs=1e-12)
    for name in ("brier", "log_loss"):
        one = wanted.metrics[name]
        ends = whole[name]["interval"]
        assert whole[name]["value"] == pytest.approx(one.value, abs=1e-12)
        assert (ends["low"], ends["high"]) == pytest.approx((one.low, one.high), abs=1e-12)


def test_the_beta_maps_values_are_those_of_an_evaluation(measured):
    desk, view, pack, said, *_ = measured
    found = stated(desk, view, pack, "messages", "refund", None, mapped=True)
    assert found.about == "the score through its beta map"
    whole, wanted = worked_out(found)["whole"], said.target("refund").metrics
    assert whole["log_loss"]["value"] == pytest.approx(wanted["calibrated_log_loss"].value)
    assert whole["ece"] == pytest.approx(wanted["calibrated_ece"].value)


def test_a_choice_is_judged_by_whether_its_surest_option_is_right(measured):
    desk, view, pack, said, *_ = measured
    found = stated(desk, view, pack, "messages", MANY, None)
    judged = said.target(MANY).judged
    at = judged.labelled()
    assert np.allclose(found.p, judged.choices.p[at], atol=1e-15, rtol=0)
    right = [judged.choices.chosen[index] == judged.choices.true[index] for index in at.tolist()]
    assert found.holds.tolist() == right and 0 < sum(right) < len(right)


def test_maps_are_compared_on_rows_they_were_not_fitted_on(measured):
    desk, view, pack, *_ = measured
    found = stated(desk, view, pack, "messages", "case", None)
    figures = worked_out(found)
    assert [one["map"] for one in figures["maps"]] == ["raw", "platt", "beta", "isotonic"]
    for one in figures["maps"][1:]:
        p = calibration.held_out(found.p, found.holds, one["map"], groups=found.groups)
        wanted = log_loss(p, found.holds, groups=found.groups)
        assert wanted is not None
        assert one["log_loss"]["value"] == pytest.approx(wanted.value)
    assert figures["choice"] == "beta" and figures["why"] is None
    few = stated(desk, view, pack, "messages", "case", None)
    few = type(few)(few.p[:8], few.holds[:8], None, None, few.slices[:8], few.about, 0)
    told = worked_out(few)
    assert [one["map"] for one in told["maps"]] == ["raw"] and "fewer than 5 folds" in told["why"]


def test_bins_without_rows_are_left_out_and_others_have_exact_intervals(measured):
    desk, view, pack, *_ = measured
    found = stated(desk, view, pack, "messages", "refund", None)
    bins = worked_out(found)["bins"]
    whole = reliability(found.p, found.holds)
    assert sum(one["rows"] for one in bins) == len(found.p)
    assert len(bins) == sum(one.rows > 0 for one in whole)
    for one in bins:
        ends = exact(round(one["rate"] * one["rows"]), one["rows"])
        assert ends is not None
        assert one["interval"] == {"low": ends.low, "high": ends.high}
    narrow = type(found)(found.p * 0.05, found.holds, None, None, found.slices, found.about, 0)
    assert len(worked_out(narrow)["bins"]) == 1


def test_chance_fills_its_bands_as_often_as_it_says():
    random = np.random.default_rng(3)
    p = random.random(400) ** 2
    inside = []
    for _ in range(300):
        bins = reliability(p, random.random(400) < p)
        for one, band in zip(bins, chance_bands(bins), strict=True):
            if band is not None and one.rate is not None:
                inside.append(band.low - 1e-12 <= one.rate <= band.high + 1e-12)
    assert 0.95 <= np.mean(inside) < 0.995
    (only,) = reliability([0.3] * 50, [True] * 25 + [False] * 25, 1)
    (band,) = chance_bands([only])
    assert band is not None and (band.low, band.high) == tuple(
        binom.ppf([0.025, 0.975], 50, 0.3) / 50
    )
    assert chance_bands(reliability([0.9], [True], 2))[0] is None


def test_slices_have_their_own_figures(measured):
    desk, view, pack, *_ = measured
    found = stated(desk, view, pack, "messages", "case", None)
    slices = worked_out(found)["slices"]
    assert sum(one["rows"] for one in slices) == len(found.p)
    for one in slices:
        inside = [row["language"] == one["value"] for row in found.slices]
        assert one["mean_p"] == pytest.approx(found.p[inside].mean())
        assert one["rate"] == pytest.approx(found.holds[inside].mean())
        assert (one["warning"] is not None) == (one["rows"] < 30)


def test_a_job_tells_the_same_as_the_page_and_refuses_another_pack(measured, tmp_path):
    desk, view, pack, _, bits, served = measured
    arguments = {
        "file": "packs/triage/pack.yaml",
        "digest": pack.digest,
        "dataset": "messages",
        "bits": bits,
        "served": served,
        "target": "angry",
        "split": None,
        "mapped": False,
        "bins": 10,
        "binning": "mass",
    }
    told = calibrate_job(desk, arguments, NoReport(tmp_path))
    here = worked_out(stated(desk, view, pack, "messages", "angry", None), 10, "mass")
    assert json.loads(json.dumps(told)) == json.loads(json.dumps(here))
    with pytest.raises(Unusable, match="changed since"):
        calibrate_job(desk, arguments | {"digest": "0" * 64}, NoReport(tmp_path))
