"""How far off a perfectly calibrated score looks in each bin of a reliability diagram, by chance."""

from collections.abc import Sequence

from scipy.stats import binom

from spinf_serve.evals.intervals import Interval
from spinf_serve.evals.metrics.probability import Bin


def chance_bands(bins: Sequence[Bin], level: float = 0.95) -> tuple[Interval | None, ...]:
    """For each bin the rates that its rows show where every one holds with its own probability.

    Quantiles of the binomial with the rows' mean p. They lie no closer together than those of the sum
    of unequal chances (W. Hoeffding, "On the distribution of the number of successes in independent
    trials", Annals of Mathematical Statistics 27, 1956), so the band is a cautious one.

    Returns:
        None for a bin without rows.
    """
    found: list[Interval | None] = []
    for one in bins:
        if one.p is None:
            found.append(None)
            continue
        p = min(max(one.p, 0.0), 1.0)
        low, high = binom.ppf([(1 - level) / 2, (1 + level) / 2], one.rows, p) / one.rows
        found.append(Interval(max(0.0, float(low)), min(1.0, float(high))))
    return tuple(found)
