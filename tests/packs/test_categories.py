"""Categories: macros, scores, percentiles, requirements, bands."""

import math
from dataclasses import replace

import numpy as np
import pytest
import spinf_client.packs as client  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.categories import (
    calibrated,
    category_macros,
    category_scores,
    percentile,
    sigmoid,
)
from spinf_serve.packs.pack import Bands, CategoryFit, Constants, Cuts, Pack, Quantiles
from tests.support.packs import golden, made


def chain(*requires: tuple[str, ...]) -> tuple[Pack, Constants]:
    """Categories a, b, c, … of one read each; score = sigmoid(macro)."""
    ids = "abcdef"[: len(requires)]
    plain = golden(
        reads=[
            {"id": id, "query": "angry", "kind": "pair", "category": id, "mean": 0, "sd": 1}
            for id in ids
        ],
        categories={
            id: {"platt": [1, 0], "threshold": 0.5, "requires": list(needed)}
            for id, needed in zip(ids, requires, strict=True)
        },
        decision={"mode": "per_category"},
    )
    return made(plain)


def flags(pack: Pack, constants: Constants, macros: dict[str, float], **thresholds: float | None):
    every = dict.fromkeys(pack.categories, 0.5) | thresholds
    scores = category_scores(pack, constants, macros, every)
    return {id: score.flagged for id, score in scores.items()}


def test_views_count_once_each():
    plain = golden()
    plain["reads"].append({**plain["reads"][1], "id": "again"})
    pack, _ = made(plain)
    z = {"angry": 0.0, "refund": 1.0, "again": 3.0, "bill": 10.0, "notbill": 0.0}
    assert category_macros(pack, z)["money"] == (2 + 10) / 2
    del plain["categories"]["money"]["aggregate"]
    assert category_macros(made(plain)[0], z)["money"] == pytest.approx(14 / 3)


def test_a_read_without_view_takes_no_part_in_views():
    plain = golden()
    del plain["reads"][2]["view"]
    z = {"angry": 0.0, "refund": 1.0, "bill": 10.0, "notbill": 0.0}
    assert category_macros(made(plain)[0], z)["money"] == 1


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_score_rises_with_its_macro(one, other):
    pack, constants = chain(())
    low, high = sorted((one, other))
    scores = [
        category_scores(pack, constants, {"a": macro}, {"a": None})["a"].score
        for macro in (low, high)
    ]
    assert 0 <= scores[0] <= scores[1] <= 1


def test_sigmoid_does_not_overflow():
    assert [sigmoid(-1e6), sigmoid(0), sigmoid(1e6)] == [0, 0.5, 1]
    assert sigmoid(-2) == pytest.approx(1 - sigmoid(2), abs=1e-15)


def test_threshold_is_reached_at_its_value():
    pack, constants = chain(())
    assert flags(pack, constants, {"a": 0.0}) == {"a": True}
    assert flags(pack, constants, {"a": -1e-9}) == {"a": False}
    assert flags(pack, constants, {"a": 9.0}, a=None) == {"a": None}


def test_requirements_fall_in_file_order():
    pack, constants = chain((), ("a",), ("b",))
    up = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert flags(pack, constants, up) == {"a": True, "b": True, "c": True}
    assert flags(pack, constants, up | {"a": -1.0}) == {"a": False, "b": False, "c": False}


def test_a_requirement_written_later_counts_as_it_stands():
    # c falls after b was looked at: b stays, as the format's order says.
    pack, constants = chain((), ("c",), ("a",))
    up = {"a": -1.0, "b": 1.0, "c": 1.0}
    assert flags(pack, constants, up) == {"a": False, "b": True, "c": False}


def test_a_required_category_that_only_reports_is_not_flagged():
    pack, constants = chain((), ("a",))
    assert flags(pack, constants, {"a": 1.0, "b": 1.0}, a=None) == {"a": None, "b": False}


def test_percentile_between_and_beyond_the_values():
    given_ = Quantiles((0.1, 0.5, 0.9), (0.2, 0.4, 0.8))
    at = [percentile(given_, score) for score in (0, 0.2, 0.3, 0.4, 0.6, 0.8, 1)]
    assert at == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 0.9])


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.8]), min_size=2, max_size=6),
    st.sampled_from([0.0, 0.1, 0.15, 0.2, 0.5, 0.6, 0.8, 1.0]),
)
def test_percentile_is_the_clients_also_where_values_repeat(values, score):
    values = sorted(values)
    levels = np.linspace(0, 1, len(values)).tolist()
    ours = percentile(Quantiles(tuple(levels), tuple(values)), score)
    assert ours == pytest.approx(client.interp(score, values, levels), abs=1e-12)


def test_bands_of_categories():
    pack, constants = chain((), ("a",))
    cuts = Bands(None, {"a": Cuts(0.9, 0.6), "b": Cuts(0.9, 0.6)})
    banded = replace(constants, bands=cuts)

    def bands(a: float, b: float) -> list[str | None]:
        scores = category_scores(pack, banded, {"a": a, "b": b}, {"a": 0.5, "b": 0.5})
        return [score.band for score in scores.values()]

    assert bands(3.0, 1.0) == ["act", "review"]
    # Flagged at 0.5, below both cuts: somebody looks.
    assert bands(0.1, 3.0) == ["review", "act"]
    # What b requires is not flagged: b is not to be acted on.
    assert bands(-0.1, 3.0) == ["pass", "pass"]


def test_a_flagged_category_is_never_passed():
    pack, constants = chain((), ())
    banded = replace(constants, bands=Bands(None, {"a": Cuts(0.9, 0.8)}))

    def band(threshold: float | None) -> str | None:
        scores = category_scores(pack, banded, {"a": 0.5, "b": 0.5}, {"a": threshold, "b": 0.5})
        assert 0.6 < scores["a"].score < 0.8
        return scores["a"].band

    assert (band(0.5), band(0.7), band(None)) == ("review", "pass", "pass")


def test_only_categories_with_cuts_have_a_band():
    pack, constants = chain((), ())
    banded = replace(constants, bands=Bands(None, {"b": Cuts(0.9, 0.6)}))
    scores = category_scores(pack, banded, {"a": 9.0, "b": 9.0}, {"a": 0.5, "b": None})
    assert [score.band for score in scores.values()] == [None, "act"]


def test_a_percentile_follows_the_score_and_not_the_threshold():
    pack, constants = chain(())
    fit = CategoryFit((1, 0), 0.5, Quantiles((0, 1), (0, 1)))
    known = replace(constants, categories={"a": fit})
    for threshold in (None, 0.1, 0.9):
        score = category_scores(pack, known, {"a": 1.0}, {"a": threshold})["a"]
        assert score.percentile == pytest.approx(score.score)


@given(
    beta=st.tuples(st.floats(0, 20), st.floats(0, 20), st.floats(-20, 20)),
    scores=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_beta_map_never_falls_and_takes_every_score(beta, scores):
    low, high = (calibrated(beta, one) for one in sorted(scores))
    assert 0 <= low <= high <= 1


def test_a_beta_map_is_that_of_its_formula():
    # sigmoid(0.5 ln 0.2 - 2 ln 0.8 + 1) = 0.2 ** 0.5 * 0.8 ** -2 * e over 1 more than that.
    odds = 0.2**0.5 * 0.8**-2 * math.e
    assert calibrated((0.5, 2.0, 1.0), 0.2) == pytest.approx(odds / (1 + odds), abs=1e-15)
    assert calibrated((1.0, 1.0, 0.0), 0.3) == pytest.approx(0.3, abs=1e-15)
    ends = [calibrated((1.0, 1.0, 0.0), one) for one in (0.0, 1.0)]
    assert ends == pytest.approx([2.0**-53, 1.0], abs=1e-15)
    assert 0 < ends[0] and ends[1] < 1
