"""Confidence and expected levels, against the published examples and figures."""

import pytest

from spinf_serve.server.wire.confidence import (
    choice_confidence,
    expected_level,
    score_confidence,
)


def test_the_published_examples():
    assert choice_confidence([0.81, 0.13, 0.06]) == pytest.approx(0.715)
    assert score_confidence([0.08, 0.27, 0.65]) == pytest.approx(0.355)
    assert expected_level([0.08, 0.27, 0.65]) == pytest.approx(1.57)


@pytest.mark.parametrize(("levels", "spread"), [(2, 0.5), (3, 2 / 3), (5, 1.2), (10, 2.5)])
def test_the_spread_of_equal_levels(levels, spread):
    """All but a little on the lowest level, the rest on the highest: distance 0.01 (n - 1)."""
    p = [0.99] + [0.0] * (levels - 2) + [0.01]
    assert score_confidence(p) == pytest.approx(1 - 0.01 * (levels - 1) / spread)


@pytest.mark.parametrize("confidence", [choice_confidence, score_confidence])
def test_a_lone_answer_is_sure_and_equal_ones_are_not(confidence):
    assert confidence([1.0]) == 1
    assert confidence([0.0, 1.0, 0.0]) == 1
    assert choice_confidence([0.25] * 4) == 0
    assert score_confidence([0.5, 0.0, 0.5]) == 0


def test_of_equal_levels_the_lowest_counts():
    assert score_confidence([0.5, 0.5, 0.0]) == score_confidence([0.5, 0.5, 0.0][:2] + [0.0])
    assert score_confidence([0.4, 0.2, 0.4]) == pytest.approx(max(0, 1 - 1.0 / (2 / 3)))


def test_rounding_leads_over_no_end():
    assert expected_level([0.0, 1.0000000000000002]) == 1
    assert choice_confidence([1.0000000000000002, 0.0]) == 1
