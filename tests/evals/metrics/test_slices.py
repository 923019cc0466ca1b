"""Slices: every row in one slice of each column, small ones told."""

import numpy as np

from spinf_serve.evals.metrics.slices import LEAST_ROWS, MISSING, by, masks

ROWS = [{"lang": "de"}, {"lang": "en", "source": "mail"}, {"lang": "de"}, {}]


def test_rows_without_a_column_are_a_slice_of_their_own_and_last():
    found = masks(ROWS)
    assert list(found) == ["lang", "source"]
    assert list(found["lang"]) == ["de", "en", MISSING]
    assert found["lang"]["de"].tolist() == [True, False, True, False]
    assert found["source"][MISSING].tolist() == [True, False, True, True]


def test_every_row_is_in_one_slice_of_each_column():
    for values in masks(ROWS).values():
        assert (np.sum(list(values.values()), axis=0) == 1).all()


def test_a_small_slice_warns_and_is_judged_all_the_same():
    rows = [{"lang": "de"}] * LEAST_ROWS + [{"lang": "en"}]
    large, small = by(rows, lambda mask: int(mask.sum()))
    assert (large.name, large.value, large.rows, large.warning) == ("lang", "de", LEAST_ROWS, None)
    assert (small.rows, small.result) == (1, 1)
    assert (small.warning or "").startswith("1 rows, fewer than 30")


def test_no_rows_and_no_columns_have_no_slices():
    assert by([], lambda mask: 0) == ()
    assert by([{}, {}], lambda mask: 0) == ()
