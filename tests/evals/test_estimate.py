"""What decisions cost, by hand."""

import pytest

from spinf_serve.evals.estimate import Cost, Counted, estimate


def test_costs_by_hand():
    # 4 rows of 10 questions: 100 tokens read once, against 10 calls of 60 tokens.
    counted = Counted(4, 40, 200, 400, 2400)
    told = estimate(counted, rate=50.0, hour_price=1.8)
    assert (told.tree.tokens, told.tree.seconds) == (100_000.0, 2000.0)
    assert told.tree.money == pytest.approx(1.0)
    assert told.apart == Cost(600_000.0, 12_000.0, 12_000.0 / 3600 * 1.8)
    assert told.times == 6.0


def test_counts_add_up():
    assert Counted(1, 2, 3, 4, 5) + Counted(10, 20, 30, 40, 50) == Counted(11, 22, 33, 44, 55)


@pytest.mark.parametrize(("rows", "rate", "price"), [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, 1.0, -1.0)])
def test_what_makes_no_sense_is_refused(rows, rate, price):
    with pytest.raises(ValueError, match="rows"):
        estimate(Counted(rows, 1, 1, 1, 1), rate, price)
