import numpy as np
import pytest

from spinf_serve.evals.eligible import eligible
from spinf_serve.packs.errors import Unusable

ALL = np.ones(6, dtype=bool)


def test_all_rows_count_when_all_are_random_and_stand_alone():
    found = eligible(ALL)
    assert found.rows.tolist() == list(range(6))
    assert found.notes() == ()


def test_rows_without_a_label_or_a_known_draw_are_left_out_in_words():
    labelled = np.array([True, True, False, True, True, True])
    drawn = ["random", "queue", "random", "import", "random", "random"]
    found = eligible(labelled, drawn=drawn)
    assert found.rows.tolist() == [0, 4, 5]
    first, second = found.notes()
    assert first.startswith("1 row without a label")
    assert second.startswith("2 rows were not drawn and labelled at random")


def test_one_row_of_a_group_counts_and_rows_without_group_stand_alone():
    found = eligible(ALL, groups=["a", "a", None, "b", None, "a"])
    assert len(found.rows) == 4 and found.copies == 2
    assert {2, 3, 4} < set(found.rows.tolist())
    again = eligible(ALL, groups=["a", "a", None, "b", None, "a"])
    assert again.rows.tolist() == found.rows.tolist()


def test_which_row_of_a_group_counts_is_left_to_chance():
    """Not the first: rows may be sorted by score."""
    groups = np.repeat(np.arange(300), 4).tolist()
    found = eligible(np.ones(1200, dtype=bool), groups=groups).rows % 4
    counts = np.bincount(found, minlength=4)
    assert counts.sum() == 300 and counts.min() > 45


def test_rows_are_kept_in_proportion_to_their_weight():
    weights = np.repeat([1.0, 2.0, 8.0], 4000)
    found = eligible(np.ones(12_000, dtype=bool), weights=weights, drawn=["queue"] * 12_000)
    kept = np.bincount(found.rows // 4000, minlength=3) / 4000
    assert kept[2] == 1.0
    # Three standard errors of 4,000 rows.
    assert abs(kept[0] - 0.125) < 0.016 and abs(kept[1] - 0.25) < 0.021
    assert found.thinned == 12_000 - len(found.rows)


def test_random_rows_without_weight_count_beside_weighted_ones():
    weights = [np.nan, np.nan, 4.0, 4.0, np.nan, np.nan]
    drawn = ["random", "random", "queue", "queue", "queue", "random"]
    assert eligible(ALL, weights=weights, drawn=drawn).rows.tolist() == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf")])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(Unusable, match="row 3 has the weight"):
        eligible(ALL, weights=[1, 1, 1, weight, 1, 1])


def test_columns_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="groups are not as many as the 6 rows"):
        eligible(ALL, groups=["a"])
