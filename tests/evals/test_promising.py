"""Cuts put on a pack's own scale, what a pack can be asked, and how many wrong promises there are."""

from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.evals import promising
from spinf_serve.evals.certificates import Certificate
from spinf_serve.evals.cuts import Target
from spinf_serve.evals.promising import (
    CUTS,
    Sight,
    answer,
    any_holds,
    own_cut,
    sight,
    with_cuts,
)
from spinf_serve.evals.proof import open_cuts
from spinf_serve.evals.scored import Scored
from spinf_serve.evals.wishes import Rows, Wish, check_wishes
from spinf_serve.packs.categories import sigmoid
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.logistic import platt
from spinf_serve.packs.pack import Bands, CategoryFit, Cuts
from tests.support.packs import golden, made

PRECISE = Target("precision", 0.9)


def seen(own: np.ndarray, truths=None, cuts=None) -> Sight:
    free = np.ones(len(own), dtype=bool)
    known = tuple([None] * len(own) if truths is None else truths)
    return Sight(own, own, free, known, cuts)


def rows_of(count: int) -> Rows:
    ids = tuple(f"r{n}" for n in range(count))
    drawn = tuple(["random"] * count)
    return Rows(ids, tuple([{}] * count), tuple([None] * count), drawn, np.full(count, np.nan))


def test_a_cut_keeps_its_rows_and_lies_between_scores():
    pack, _ = made(golden())
    own = np.array([0.05, 0.2, 0.5, 0.6, 0.98])
    for cut in (0.01, 0.1, 0.3, 0.55, 0.9):
        held = own_cut("anger", pack, seen(own), cut)
        assert held is not None
        assert ((own >= held) == (own >= cut)).all() and held not in own.tolist()
    # On a score itself the cut moves off it: the last bit of another machine would turn it.
    assert own_cut("anger", pack, seen(own), 0.5) == pytest.approx(0.35)
    nothing = own_cut("anger", pack, seen(own), 0.99)
    assert nothing is not None and (own < nothing).all()


def test_a_cut_that_no_number_between_scores_can_hold_is_none():
    pack, _ = made(golden())
    # Nothing can be written above a score of 1, which is flagged at every cut.
    assert own_cut("anger", pack, seen(np.array([0.1, 1.0])), 1.5) is None
    neighbours = np.array([0.5, np.nextafter(0.5, 1)])
    assert own_cut("anger", pack, seen(neighbours), neighbours[1]) == neighbours[1]


def test_a_cut_of_the_macro_flags_the_same_rows_on_any_map():
    pack, constants = made(golden())
    rng = np.random.default_rng(2)
    macro = rng.normal(size=500)
    labels = [{"anger": bool(one)} for one in rng.random(500) < 0.4]
    flagged = []
    for slope, shift in ((0.4, -2.0), (5.0, 1.5)):
        fit = CategoryFit((slope, shift), 0.5)
        mapped = replace(constants, categories={**constants.categories, "anger": fit})
        scores = np.array([sigmoid(slope * one + shift) for one in macro.tolist()])
        scored = Scored(500, {}, {"anger": macro}, {"anger": scores})
        view = sight(pack, mapped, scored, labels, "anger")
        assert view.label_free and view.cuts is not None and len(view.cuts) == CUTS
        flagged.append([(view.own >= cut).tolist() for cut in view.cuts.tolist()])
    assert flagged[0] == flagged[1]


def test_a_layers_cut_is_a_float32_value():
    pack, constants = made(golden())
    assert pack.decision.mode == "micro_layer" and constants.layer is not None
    own = np.array([-3.7, 0.1, 0.1 + 1e-12, 12.5])
    view = seen(own)
    held = own_cut("decision", pack, view, 5.3)
    assert held == float(np.float32(5.3))
    # No float32 value lies between these two.
    assert own_cut("decision", pack, view, 0.1 + 5e-13) is None
    wish = Wish("decision", (PRECISE,))
    given = answer(wish, pack, view, view, rows_of(4), 0.05)
    assert not given.met and with_cuts(pack, constants, given) == constants


def test_a_flat_map_carries_no_information():
    pack, _ = made(golden())
    view = seen(np.full(400, 0.3), [n % 3 == 0 for n in range(400)], np.full(CUTS, 0.3))
    [promise] = answer(Wish("anger", (PRECISE,)), pack, view, view, rows_of(400), 0.05).promises
    assert getattr(promise.result, "why", None) == "no_information" and promise.cut is None


def test_what_a_pack_cannot_be_asked_is_said_before_anything_is_done():
    pack, _ = made(golden())
    check_wishes(pack, [Wish("anger", (PRECISE,)), Wish("money", (PRECISE,))])
    with pytest.raises(Unusable, match="no place for numbers of a single question"):
        check_wishes(pack, [Wish("question:angry", (PRECISE,))])
    bands = (PRECISE, Target("npv", 0.99))
    with pytest.raises(Unusable, match="has a critical list"):
        check_wishes(pack, [Wish("decision", bands)])
    chain = golden()
    chain["categories"]["topic"]["requires"] = ["money"]
    with pytest.raises(Unusable, match="topic requires money, which requires another"):
        check_wishes(made(chain)[0], [Wish("topic", (PRECISE,)), Wish("money", (PRECISE,))])


def test_every_cut_in_force_needs_a_promise():
    pack, constants = made(golden())
    assert open_cuts(pack, constants, {}) == ["anger", "money", "decision"]
    assert open_cuts(pack, constants, dict.fromkeys(["anger", "money/act", "decision"])) == []
    banded = replace(constants, bands=Bands(None, {"anger": Cuts(0.9, 0.4)}))
    given = dict.fromkeys(["anger", "money", "decision"])
    assert open_cuts(pack, banded, given) == ["anger/act", "anger/review"]


def test_any_holds_is_known_from_one_yes_or_from_every_no():
    assert any_holds(["a", "b"], {"a": True}) is True
    assert any_holds(["a", "b"], {"a": False}) is None
    assert any_holds(["a", "b"], {"a": False, "b": False}) is False
    assert any_holds([], {}) is None


def test_promised_cuts_miss_their_target_in_at_most_delta_of_the_runs(monkeypatch):
    """Cuts of a macro that is standardised on the very rows, mapped by a fit on the same labels."""
    monkeypatch.setattr(promising, "_left_out", lambda *_: None)
    pack, constants = made(golden())
    wish = Wish("anger", (PRECISE,))
    rng = np.random.default_rng(11)
    # Of this world, exact to a tenth of a point.
    reference = rng.normal(size=200_000)
    reference_holds = rng.random(200_000) < 1 / (1 + np.exp(-4 * reference))
    missed = promised = 0
    for _ in range(300):
        x = rng.normal(size=500)
        holds = rng.random(500) < 1 / (1 + np.exp(-4 * x))
        macro = (x - x.mean()) / x.std()
        fitted = platt(macro, holds)
        own = 1 / (1 + np.exp(-(fitted.slope * macro + fitted.shift)))
        fit = CategoryFit((fitted.slope, fitted.shift), 0.5)
        mapped = replace(constants, categories={**constants.categories, "anger": fit})
        scored = Scored(500, {}, {"anger": macro}, {"anger": own})
        view = sight(pack, mapped, scored, [{"anger": bool(one)} for one in holds], "anger")
        result = answer(wish, pack, view, view, rows_of(500), 0.05).promises[0].result
        if isinstance(result, Certificate):
            promised += 1
            shown = fitted.slope * (reference - x.mean()) / x.std() + fitted.shift
            true = reference_holds[1 / (1 + np.exp(-shown)) >= result.cut].mean()
            missed += true < 0.9
    # A tool that promises nothing never misses.
    assert promised > 150
    # 300 x 5 % are 15; more than 24 come with a chance of 1 % at most.
    assert missed <= 24
