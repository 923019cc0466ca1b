"""The cut of highest J against trying every cut."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.cuts import best_cut


def gain(cut, scores, holds):
    flagged = scores >= cut
    return flagged[holds].mean() - flagged[~holds].mean()


def test_between_two_kinds_that_do_not_overlap():
    scores = np.array([0.1, 0.2, 0.8, 0.9])
    assert best_cut(scores, scores > 0.5, float) == 0.5


def test_of_equal_cuts_the_highest():
    scores = np.array([0.1, 0.3, 0.5, 0.7])
    holds = np.array([False, True, False, True])
    assert best_cut(scores, holds, float) == (0.5 + 0.7) / 2


def test_nothing_to_tell_apart():
    scores = np.array([0.2, 0.4])
    for holds in ([True, True], [False, False]):
        assert best_cut(scores, np.array(holds), float) is None
    assert best_cut(np.array([0.3, 0.3]), np.array([True, False]), float) is None
    assert best_cut(np.array([0.9, 0.1]), np.array([False, True]), float) is None
    assert best_cut(np.array([]), np.array([], dtype=bool), float) is None


def test_counts_for_the_cut_as_it_is_written():
    # Halfway rounds down to a cut that flags all; J is counted for that, and nothing is left.
    scores = np.array([0.5000001, 0.5000002])
    holds = np.array([False, True])
    assert best_cut(scores, holds, float) is not None
    assert best_cut(scores, holds, lambda cut: round(cut, 3)) is None


def test_a_row_at_the_cut_is_taken_to_hold():
    scores = np.array([0.4, 0.5])
    # As written the cut falls on the score of the row that holds.
    assert best_cut(scores, np.array([False, True]), lambda cut: 0.5) == 0.5


@given(
    st.lists(
        st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.55, 0.6, 0.9]), st.booleans()),
        min_size=2,
        max_size=25,
    )
)
def test_no_cut_is_better(rows):
    scores = np.array([score for score, _ in rows])
    holds = np.array([mark for _, mark in rows])
    found = best_cut(scores, holds, float)
    if holds.all() or not holds.any():
        assert found is None
        return
    best = max(gain(cut, scores, holds) for cut in np.linspace(0, 1, 201))
    if found is None:
        assert best < 1e-9
    else:
        assert gain(found, scores, holds) > best - 1e-9
