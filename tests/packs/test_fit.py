"""Constants from labelled rows: formulas, what is kept, and rows that tell little."""

from dataclasses import fields, is_dataclass, replace
from math import isfinite
from random import Random
from typing import Any

import numpy as np
import pytest

from spinf_serve.packs.cuts import best_cut
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.evaluate import evaluate
from spinf_serve.packs.fit import LAYER_RIDGE, LEAST_SD, LEVELS, Fitting, rounded
from spinf_serve.packs.fit import fit as fit_chunks
from spinf_serve.packs.layer import encode_weights
from spinf_serve.packs.logistic import platt
from spinf_serve.packs.metrics import auc
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.plain import inlined, lock_of, split
from spinf_serve.packs.reads import log_shares, read_value, shares
from tests.support.packs import golden, made


def fit(pack: Pack, rows: Any, labels: Any, model: str, **more: Any) -> Fitting:
    """A fit on rows that were each read at once."""
    return fit_chunks(pack, [[row] for row in rows], labels, model, **more)


def draft(**changes: Any) -> Pack:
    """The golden pack before anything was fitted; its topic decides nothing."""
    plain = golden(**changes)
    plain["categories"]["topic"]["decides"] = False
    body, _ = split(plain)
    pack, _ = made(plain)
    return replace(pack, fitted={}, body=body)


def rows_of(count: int, seed: int = 0, strength: float = 2.0):
    """Answers that follow hidden labels: anger moves `angry`, money moves `about` and `kind`."""
    rng = Random(seed)
    rows, labels = [], []
    for _ in range(count):
        anger, money = rng.random() < 0.4, rng.random() < 0.3
        push = [strength if mark else 0.0 for mark in (anger, money)]

        def pair(push: float) -> Any:
            return shares([rng.gauss(push - 1, 1), 0.0], "q")

        rows.append(
            {
                ("angry", None): pair(push[0]),
                ("about", "a refund"): pair(push[1]),
                ("about", "a bug"): pair(0),
                ("kind", None): shares([rng.gauss(push[1], 1), rng.gauss(0, 1), 0.0], "q"),
            }
        )
        labels.append({"anger": anger, "money": money, "topic": not money})
    return rows, labels


def fit_drawn(pack: Pack, drawn: tuple[Any, Any], model: str) -> Fitting:
    rows, labels = drawn
    return fit(pack, rows, labels, model)


def numbers(value: Any) -> list[float]:
    """Every number inside a value."""
    if isinstance(value, (int, float)):
        return [value]
    if is_dataclass(value):
        return [n for f in fields(value) for n in numbers(getattr(value, f.name))]
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, (list, tuple)):
        return [n for item in value for n in numbers(item)]
    return []


def test_reads_are_centred_and_scaled_over_the_rows():
    pack = draft()
    rows, labels = rows_of(120)
    constants = fit(pack, rows, labels, "m").constants
    for read in pack.reads:
        fitted = constants.reads[read.id]
        z = [
            (read_value(read, fitted.mu, row[read.query, read.value]) - fitted.mean) / fitted.sd
            for row in rows
        ]
        assert np.mean(z) == pytest.approx(0, abs=1e-4)
        assert np.std(z) == pytest.approx(1, abs=1e-4)


def test_mu_is_the_mean_log_share():
    pack = draft()
    rows, labels = rows_of(50)
    constants = fit(pack, rows, labels, "m").constants
    kind = np.mean([log_shares(row["kind", None]) for row in rows], axis=0)
    assert constants.reads["bill"].mu == pytest.approx(kind, abs=1e-5)
    refund = np.mean([log_shares(row["about", "a refund"])[0] for row in rows])
    assert constants.reads["refund"].mu == pytest.approx([refund], abs=1e-5)
    assert constants.reads["angry"].mu == ()
    # The mean of ln p - mu is the rounding of mu, and is left out.
    assert constants.reads["refund"].mean == 0


def test_every_number_is_one_that_a_file_holds():
    constants = fit_drawn(draft(), rows_of(120), "m").constants
    assert constants.layer is not None
    for value in numbers(replace(constants, layer=None)):
        assert value == rounded(value)
    # Not raised: all of them are float32.
    encode_weights(constants.layer.weights)


def test_platt_is_that_of_the_rounded_macros():
    pack = draft()
    rows, labels = rows_of(120)
    constants = fit(pack, rows, labels, "m").constants
    macros = [evaluate(pack, constants, [row], DecisionCall()).macros["anger"] for row in rows]
    found = platt(np.array(macros), np.array([one["anger"] for one in labels]))
    assert constants.categories["anger"].platt == (rounded(found.slope), rounded(found.shift))
    assert found.slope > 0.5


def test_scores_tell_the_labels_apart_on_other_rows():
    pack = draft()
    constants = fit_drawn(pack, rows_of(300, seed=1), "m").constants
    rows, labels = rows_of(300, seed=2)
    results = [evaluate(pack, constants, [row], DecisionCall()) for row in rows]
    for id in ("anger", "money"):
        area = auc([one.categories[id].score for one in results], [one[id] for one in labels])
        assert area is not None and area.value > 0.85
    # A probability, not just an order: the mean score is near the share that holds.
    mean = np.mean([one.categories["anger"].score for one in results])
    assert mean == pytest.approx(np.mean([one["anger"] for one in labels]), abs=0.06)


def test_all_modes_decide_better_than_chance():
    pack = draft(categories__money__requires=[])
    constants = fit_drawn(pack, rows_of(300, seed=1), "m").constants
    rows, labels = rows_of(300, seed=2)
    truth = [one["anger"] or one["money"] for one in labels]
    for mode in ("max", "per_category", "micro_layer"):
        call = DecisionCall(mode=mode, critical=())
        verdicts = [evaluate(pack, constants, [row], call).verdict for row in rows]
        assert {verdict.mode for verdict in verdicts} == {mode}
        right = np.mean([v.unsafe == t for v, t in zip(verdicts, truth, strict=True)])
        assert right > 0.75


def test_the_layers_lock_is_that_of_the_exported_file():
    pack = draft()
    constants = fit_drawn(pack, rows_of(120), "m").constants
    assert constants.layer is not None and constants.layer.holds
    assert constants.layer.inputs == ("c:anger", "c:money", "r:refund")
    again, known = made(inlined(pack.body, constants))
    assert known.layer is not None and known.layer.holds
    assert constants.layer.lock == lock_of(inlined(pack.body, constants), constants.layer.inputs)
    assert known == constants
    assert again.reads == pack.reads


def test_a_larger_ridge_holds_the_layers_weights_down():
    pack = draft()
    rows, labels = rows_of(120)
    sizes = []
    for ridge in (1e-3, 1e-2, 1.0):
        layer = fit(pack, rows, labels, "m", ridge=ridge).constants.layer
        assert layer is not None and layer.holds
        sizes.append(sum(weight**2 for weight in layer.weights[: len(layer.inputs)]))
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 4 * sizes[2]
    default = fit(pack, rows, labels, "m").constants
    assert default == fit(pack, rows, labels, "m", ridge=LAYER_RIDGE).constants


def test_modes_that_the_pack_lacks_are_not_fitted():
    pack = draft(decision={"mode": "per_category"})
    constants = fit_drawn(pack, rows_of(60), "m").constants
    assert (constants.max_threshold, constants.layer, constants.proof) == (None, None, None)


def test_quantiles_are_of_the_normal_rows():
    pack = draft()
    rows, labels = rows_of(200)
    for one in labels:
        one["topic"] = False
    constants = fit(pack, rows, labels, "m").constants
    quantiles = constants.categories["anger"].quantiles
    assert quantiles is not None and quantiles.levels == LEVELS
    scores = [
        evaluate(pack, constants, [row], DecisionCall()).categories["anger"].score
        for row, one in zip(rows, labels, strict=True)
        if not any(one.values())
    ]
    assert quantiles.values == pytest.approx(np.quantile(scores, LEVELS), abs=1e-5)
    marked = fit(pack, rows, labels, "m", normal=[True] * 200).constants.categories["anger"]
    assert marked.quantiles is not None
    assert marked.quantiles.values[-1] > quantiles.values[-1]


def test_few_normal_rows_give_no_quantiles_and_a_note():
    fitting = fit_drawn(draft(), rows_of(60), "m")
    # Topic is the opposite of money here, so no row is without a label.
    assert all(one.quantiles is None for one in fitting.constants.categories.values())
    assert any("0 normal rows" in note for note in fitting.notes)


def test_unknown_labels_take_no_part():
    pack = draft()
    rows, labels = rows_of(100)
    extra, _ = rows_of(40, seed=9)
    unknown = [{"anger": None, "topic": None}] * 40
    more = fit(pack, rows + extra, [*labels, *unknown], "m").constants
    guessed = fit(pack, rows + extra, [*labels, *[{"anger": True}] * 40], "m").constants
    alone = fit(pack, rows, labels, "m").constants
    slope, shift = more.categories["anger"].platt
    assert slope == pytest.approx(alone.categories["anger"].platt[0], rel=0.1)
    assert guessed.categories["anger"].platt != (slope, shift)
    # A threshold lies between two scores of labelled rows.
    scores = [evaluate(pack, more, [row], DecisionCall()).categories["anger"].score for row in rows]
    holds = np.array([one["anger"] for one in labels])
    assert more.categories["anger"].threshold == best_cut(np.array(scores), holds, rounded)


def test_reads_that_run_against_the_labels_are_held_flat_with_a_note():
    rows, labels = rows_of(120)
    turned = [{**one, "anger": not one["anger"]} for one in labels]
    fitting = fit(draft(), rows, turned, "m")
    anger = fitting.constants.categories["anger"]
    assert anger.platt[0] == 0 and anger.threshold is None
    assert any(n.startswith("categories.anger: its reads run against") for n in fitting.notes)


def test_constant_reads_are_held_at_the_least_sd():
    rows, labels = rows_of(60)
    for row in rows:
        row["angry", None] = np.array([0.3, 0.7])
    fitting = fit(draft(), rows, labels, "m")
    assert fitting.constants.reads["angry"].sd == LEAST_SD
    assert fitting.constants.categories["anger"].platt[0] == 0
    assert any(note.startswith("reads.angry: its value hardly moves") for note in fitting.notes)
    assert any("anger: its reads do not move" in note for note in fitting.notes)


@pytest.mark.parametrize("value", [True, False, None])
def test_rows_of_one_kind(value):
    rows, _ = rows_of(40)
    labels = [dict.fromkeys(("anger", "money", "topic"), value)] * 40
    fitting = fit(draft(), rows, labels, "m")
    constants = fitting.constants
    assert all(isfinite(number) for number in numbers(constants))
    assert constants.layer is None and constants.max_threshold == 0.5
    assert all(one.threshold is None for one in constants.categories.values())
    says = {True: "all of 40", False: "none of 40", None: "no row is labelled"}[value]
    assert sum(says in note for note in fitting.notes) == 3
    assert any(note.startswith("decision.micro_layer: the rows are all") for note in fitting.notes)


def test_separable_rows_stay_finite():
    rows, labels = rows_of(60)
    for row, one in zip(rows, labels, strict=True):
        row["angry", None] = np.array([1.0, 0.0] if one["anger"] else [0.0, 1.0])
    constants = fit(draft(), rows, labels, "m").constants
    assert all(isfinite(number) for number in numbers(constants))
    anger = constants.categories["anger"]
    assert anger.platt[0] > 1
    assert anger.threshold == pytest.approx(0.5, abs=0.2)


def test_two_rows_are_enough_and_one_is_not():
    rows, labels = rows_of(2)
    constants = fit(draft(), rows, labels, "m").constants
    assert all(isfinite(number) for number in numbers(constants))
    with pytest.raises(ValueError, match="1 rows; a fit needs at least 2"):
        fit(draft(), rows[:1], labels[:1], "m")


def test_a_category_that_only_reports_stays_so():
    plain = golden()
    pack, constants = made(plain)
    pack = replace(pack, body=split(plain)[0])
    rows, labels = rows_of(120)
    again = fit(pack, rows, labels, constants.model).constants
    assert again.categories["topic"].threshold is None
    assert again.categories["anger"].threshold not in (None, 0.5)
    # The rows would tell topic apart well.
    assert again.categories["topic"].platt[0] > 1
    elsewhere = fit(pack, rows, labels, "another/model").constants
    assert elsewhere.categories["topic"].threshold is None


def test_thresholds_that_a_draft_writes_stay():
    pack = draft()
    body = {**pack.body, "categories": {**pack.body["categories"]}}
    body["categories"]["anger"] = {**body["categories"]["anger"], "threshold": 0.77}
    body["categories"]["money"] = {**body["categories"]["money"], "threshold": None}
    constants = fit_drawn(replace(pack, body=body), rows_of(120), "m").constants
    assert constants.categories["anger"].threshold == 0.77
    assert constants.categories["money"].threshold is None


def test_the_packs_bands_hold_and_fitted_ones_go():
    plain = golden(bands={"decision": {"act": 0.9, "review": 0.6}})
    pack, constants = made(plain)
    pack = replace(pack, body=split(plain)[0])
    fitting = fit_drawn(pack, rows_of(60), constants.model)
    assert fitting.constants.bands == constants.bands
    assert not any(note.startswith("bands") for note in fitting.notes)
    bare = replace(pack, body={k: v for k, v in pack.body.items() if k != "bands"})
    fitting = fit_drawn(bare, rows_of(60), constants.model)
    assert fitting.constants.bands is None
    assert any(note.startswith("bands: those fitted") for note in fitting.notes)


def test_inputs_that_do_not_go_together():
    rows, labels = rows_of(4)
    with pytest.raises(ValueError, match="4 rows but 3 labels"):
        fit(draft(), rows, labels[:3], "m")
    with pytest.raises(ValueError, match="2 marks of normal rows"):
        fit(draft(), rows, labels, "m", normal=[True, False])
    with pytest.raises(ValueError, match="row 3: the pack demo/support has no category 'x'"):
        fit(draft(), rows, [*labels[:3], {"x": True}], "m")


def test_chunks_of_a_row_are_contents_to_its_reads_and_one_row_to_its_categories():
    pack = replace(draft(), on_long="max")
    contents, labels = rows_of(240)
    rows = [contents[at : at + 2] for at in range(0, 240, 2)]
    constants = fit_chunks(pack, rows, labels[::2], "m").constants
    assert constants.reads == fit(pack, contents, labels, "m").constants.reads
    call = DecisionCall()
    scores = [evaluate(pack, constants, row, call).categories["anger"].score for row in rows]
    holds = np.array([one["anger"] for one in labels[::2]])
    assert constants.categories["anger"].threshold == best_cut(np.array(scores), holds, rounded)


def test_a_base_rate_moves_the_map_and_leaves_the_flags():
    pack = draft()
    rows, labels = rows_of(400)
    plain = fit(pack, rows, labels, "m").constants
    fitting = fit(pack, rows, labels, "m", base_rates={"anger": 0.02})
    moved = fitting.constants
    own = sum(one["anger"] for one in labels) / 400
    odds = np.log(0.02 / 0.98) - np.log(own / (1 - own))
    before, after = (one.categories["anger"] for one in (plain, moved))
    assert after.platt == (before.platt[0], rounded(before.platt[1] + odds))
    assert moved.categories["money"] == plain.categories["money"]
    call = DecisionCall()
    pairs = [
        [evaluate(pack, one, [row], call).categories["anger"] for one in (plain, moved)]
        for row in rows
    ]
    assert all(one.flagged == other.flagged for one, other in pairs)
    # Re-weighted to the traffic, the mean score is the base rate.
    weights = [0.02 / own if one["anger"] else 0.98 / (1 - own) for one in labels]
    assert np.average([other.score for _, other in pairs], weights=weights) == pytest.approx(
        0.02, abs=0.004
    )
    assert any("moved to the stated base rate of 0.02" in note for note in fitting.notes)


def test_a_base_rate_does_not_move_a_map_of_one_class():
    rows, labels = rows_of(40)
    same = [{**one, "anger": True} for one in labels]
    given = fit(draft(), rows, same, "m", base_rates={"anger": 0.02}).constants
    assert given == fit(draft(), rows, same, "m").constants
