"""Cuts put on a pack's own scale, what a pack can be asked, and how many wrong promises there are."""

from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.evals import promising
from spinf_serve.evals.certificates import Certificate
from spinf_serve.evals.cuts import Target
from spinf_serve.evals.promising import Sight, answer, any_holds, own_cut, with_cuts
from spinf_serve.evals.proof import open_cuts
from spinf_serve.evals.wishes import Rows, Wish, check_wishes
from spinf_serve.packs.categories import sigmoid
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Bands, CategoryFit, Cuts
from tests.support.packs import golden, made

PRECISE = Target("precision", 0.9)


def seen(walked: np.ndarray, own: np.ndarray, truths=None, label_free: bool = True) -> Sight:
    free = np.ones(len(walked), dtype=bool)
    known = tuple([None] * len(walked) if truths is None else truths)
    return Sight(walked, own, free, known, label_free)


def rows_of(count: int) -> Rows:
    ids = tuple(f"r{n}" for n in range(count))
    drawn = tuple(["random"] * count)
    return Rows(ids, tuple([{}] * count), tuple([None] * count), drawn, np.full(count, np.nan))


def test_a_cut_keeps_its_rows_and_lies_between_scores():
    pack, constants = made(golden())
    slope, shift = constants.categories["anger"].platt
    walked = np.array([-2.0, -0.5, 0.25, 0.75, 3.0])
    own = np.array([sigmoid(slope * one + shift) for one in walked.tolist()])
    for cut in (-3.0, -1.0, 0.0, 0.5, 1.0):
        held = own_cut("anger", pack, constants, seen(walked, own), cut)
        assert held is not None
        assert ((own >= held) == (walked >= cut)).all() and held not in own.tolist()
    # On a score itself the cut moves off it: the last bit of another machine would turn it.
    held = own_cut("anger", pack, constants, seen(walked, own), 0.25)
    assert held is not None and own[1] < held < own[2]
    everything_below = own_cut("anger", pack, constants, seen(walked, own), 9.0)
    assert everything_below is not None and (own < everything_below).all()


def test_scores_that_rounding_made_one_have_no_cut_between_them():
    pack, constants = made(golden())
    saturated = seen(np.array([-1.0, 40.0, 50.0]), np.array([0.1, 1.0, 1.0]))
    assert own_cut("anger", pack, constants, saturated, 45.0) is None
    held = own_cut("anger", pack, constants, saturated, 30.0)
    assert held is not None and 0.1 < held <= 1.0
    neighbours = np.array([0.5, np.nextafter(0.5, 1)])
    assert (
        own_cut("anger", pack, constants, seen(np.array([0.0, 1.0]), neighbours), 0.5)
        == (neighbours[1])
    )


def test_a_layers_cut_is_a_float32_value():
    pack, constants = made(golden())
    assert pack.decision.mode == "micro_layer" and constants.layer is not None
    own = np.array([-3.7, 0.1, 0.1 + 1e-12, 12.5])
    view = seen(own, own, label_free=False)
    held = own_cut("decision", pack, constants, view, 5.3)
    assert held == float(np.float32(5.3))
    # No float32 value lies between these two.
    assert own_cut("decision", pack, constants, view, 0.1 + 5e-13) is None
    wish = Wish("decision", (PRECISE,))
    given = answer(wish, pack, constants, view, view, rows_of(4), 0.05)
    assert not given.met and with_cuts(pack, constants, given) == constants


def test_a_flat_map_carries_no_information():
    pack, constants = made(golden())
    flat = CategoryFit((0.0, -1.0), 0.5)
    constants = replace(constants, categories={**constants.categories, "anger": flat})
    walked = np.linspace(-2, 2, 400)
    view = seen(walked, np.full(400, sigmoid(-1.0)), (walked > 1).tolist())
    [promise] = answer(
        Wish("anger", (PRECISE,)), pack, constants, view, view, rows_of(400), 0.05
    ).promises
    assert getattr(promise.result, "why", None) == "no_information" and promise.cut is None


def test_what_a_pack_cannot_be_asked_is_said_before_anything_is_done():
    pack, _ = made(golden())
    check_wishes(pack, [Wish("anger", (PRECISE,)), Wish("money", (PRECISE,))])
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
        own = 1 / (1 + np.exp(-(2 * macro - 1)))
        view = seen(macro, own, holds.tolist())
        result = answer(wish, pack, constants, view, view, rows_of(500), 0.05).promises[0].result
        if isinstance(result, Certificate):
            promised += 1
            true = reference_holds[(reference - x.mean()) / x.std() >= result.cut].mean()
            missed += true < 0.9
    # A tool that promises nothing never misses.
    assert promised > 150
    # 300 x 5 % are 15; more than 24 come with a chance of 1 % at most.
    assert missed <= 24
