"""Columns: what does not belong is refused with its place, and how many rows rows are worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.evals.columns import (
    effective_count,
    group_codes,
    numbers,
    probabilities,
    same_length,
    truths,
    weights_of,
)
from spinf_serve.packs.errors import Refused

NAN = float("nan")


def test_a_value_that_is_not_finite_is_refused_with_its_positions():
    with pytest.raises(Refused) as caught:
        numbers("scores", [0.1, NAN, 0.3, float("inf")])
    assert caught.value.code == "invalid_field"
    assert "2 of 4 rows: 1 (nan), 3 (inf)" in caught.value.message


def test_row_ids_are_named_and_long_lists_cut_with_their_count():
    with pytest.raises(Refused, match=r"6 of 6 rows: 'a' .*, 'e' \(nan\) and 1 more"):
        numbers("scores", [NAN] * 6, rows=list("abcdef"))


@pytest.mark.parametrize("wrong", [-1e-9, 1 + 1e-9, NAN])
def test_a_number_that_is_no_probability_is_refused(wrong):
    with pytest.raises(Refused, match=r"in 1 of 3 rows: 2 "):
        probabilities("p", [0, 1, wrong])


def test_a_text_among_numbers_is_refused():
    with pytest.raises(Refused, match="not all values are numbers"):
        numbers("scores", ["high"])


@pytest.mark.parametrize("labels", [[True, None], [0, 2], ["TRUE", "false"], [0.5, 1.0]])
def test_a_label_that_is_not_known_true_or_false_is_refused(labels):
    with pytest.raises(Refused, match="labels"):
        truths("labels", labels)


@pytest.mark.parametrize(
    "labels", [[True, False], [1, 0], [1.0, 0.0], np.array([1, 0], object) > 0]
)
def test_labels_are_bools_or_ones_and_zeros(labels):
    assert truths("labels", labels).tolist() == [True, False]


def test_an_empty_column_is_a_column():
    assert numbers("scores", []).shape == (0,)
    assert truths("labels", []).shape == (0,)
    assert effective_count(weights_of(None, 0), group_codes(None, 0)) == 0


@pytest.mark.parametrize("weight", [0.0, -1.0, NAN])
def test_a_weight_is_above_0(weight):
    with pytest.raises(Refused, match="weights"):
        weights_of([1.0, weight], 2)


def test_groups_count_by_appearance_and_none_is_a_group_of_its_own():
    assert group_codes(["b", None, "a", "b", None], 5).tolist() == [0, 1, 2, 0, 3]


@given(st.lists(st.integers(-3, 3)))
def test_numbered_groups_count_as_named_ones_do(groups):
    numbered = group_codes(np.array(groups, dtype=np.int64), len(groups))
    assert numbered.tolist() == group_codes([str(one) for one in groups], len(groups)).tolist()


def test_lengths_that_differ_are_a_fault_of_the_program():
    with pytest.raises(ValueError, match="2 rows but 3 in labels"):
        same_length(2, labels=[1, 2, 3])
    with pytest.raises(ValueError, match="2 rows but 1 groups"):
        group_codes(["a"], 2)


def test_rows_of_one_group_are_worth_one_row():
    assert effective_count(np.ones(30), np.repeat(np.arange(3), 10)) == pytest.approx(3)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40), st.floats(1e-2, 1e2))
def test_effective_count_is_at_most_n_and_free_of_the_weights_scale(weights, factor):
    column = np.array(weights)
    codes = np.arange(len(column))
    found = effective_count(column, codes)
    assert 1 - 1e-9 <= found <= len(column) + 1e-9
    assert effective_count(column * factor, codes) == pytest.approx(found)
    assert found == pytest.approx(column.sum() ** 2 / (column**2).sum())
