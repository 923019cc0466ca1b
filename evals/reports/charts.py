"""Charts as SVG elements, written by hand: numbers in, text out, nothing from elsewhere.

Colours come from the page's classes, so that a chart follows a dark or a light page.
"""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from spinf_serve.evals.judged import Lifts
from spinf_serve.evals.metrics.probability import Bin, RiskCoverage

_WIDE, _HIGH = 340, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 20, 40
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_SHARES = [(tick, f"{tick:g}") for tick in _TICKS]


def noise_band(p: float, rows: int) -> tuple[float, float]:
    """Where the share of so many rows lies in 95 % of cases if they hold with probability p."""
    low, high = binom.interval(0.95, rows, p)
    return float(low) / rows, float(high) / rows


def reliability_chart(bins: Sequence[Bin]) -> str:
    """Observed share over mean score, with each bin's rows; grey is where chance alone puts it.

    Empty bins have no mark.
    """
    marks = [_line((0, 0), (1, 1), "guide")]
    for one in bins:
        if one.p is None or one.rate is None or one.interval is None:
            continue
        low, high = noise_band(one.p, one.rows)
        marks.append(_line((one.p, low), (one.p, high), "band"))
        marks.append(_line((one.p, one.interval.low), (one.p, one.interval.high), "whisker"))
        title = f"{one.rows} rows: score {one.p:.3f}, holds {one.rate:.3f}"
        marks.append(_dot(one.p, one.rate, "dot", title, 4))
        marks.append(_text(_x(one.p), _y(one.rate) - 7, str(one.rows), "count", "middle"))
    return _chart("Reliability", "score", "share that holds", "".join(marks))


def curve_chart(
    title: str,
    x_title: str,
    y_title: str,
    x: Sequence[float],
    y: Sequence[float],
    area: str,
    *,
    area_at: float = 0.05,
) -> str:
    """A curve through points in the unit square, such as ROC or PR, with its area in words.

    Args:
        area_at: height of these, 0 to 1, where the curve is not.
    """
    points = " ".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in _thinned(x, y))
    drawn = f'<polyline class="curve" points="{points}"/>'
    drawn += _text(_x(0.97), _y(area_at), area, "count", "end")
    return _chart(title, x_title, y_title, drawn)


def risk_chart(x_title: str, curve: RiskCoverage, area: str) -> str:
    """Share of wrong answers among those kept, over the share kept."""
    title = "Wrong among the kept"
    return curve_chart(title, x_title, "wrong", curve.coverage, curve.risk, area, area_at=0.92)


def lift_chart(lifts: Lifts) -> str:
    """Each answer's p against the same question's p on empty content; above the line it rose."""
    marks = [_line((0, 0), (1, 1), "guide")]
    order = np.argsort(lifts.holds, kind="stable")
    for floor_p, p, holds in zip(
        lifts.floor_p[order].tolist(),
        lifts.p[order].tolist(),
        lifts.holds[order].tolist(),
        strict=True,
    ):
        marks.append(_dot(floor_p, p, "yes" if holds else "no", "", 2))
    marks.append(_legend((("yes", "holds"), ("no", "does not"))))
    left_out = f", {lifts.left_out:,} points not drawn" if lifts.left_out else ""
    return _chart(
        f"p against floor p ({len(lifts.p):,} answers{left_out})", "floor p", "p", "".join(marks)
    )


def histogram_chart(
    scores: NDArray[np.float64],
    labels: Sequence[bool | None],
    threshold: float | None,
    bins: int = 20,
) -> str:
    """Rows by score, by label, with the threshold."""
    kinds = (("no", False), ("yes", True), ("unknown", None))
    counts = {
        name: np.histogram(
            scores[np.array([label is kind for label in labels], dtype=bool)], bins, (0.0, 1.0)
        )[0]
        for name, kind in kinds
    }
    most = max(1, int(sum(counts.values(), np.zeros(bins, dtype=int)).max()))
    # Even, so that the tick at half of it is a number of rows.
    most += most % 2
    marks = []
    for index in range(bins):
        base = 0
        for name, _ in kinds:
            count = int(counts[name][index])
            if count:
                left, right = _x(index / bins), _x((index + 1) / bins)
                top, bottom = _y((base + count) / most), _y(base / most)
                marks.append(
                    f'<rect class="{name}" x="{left + 0.5:.1f}" y="{top:.1f}"'
                    f' width="{right - left - 1:.1f}" height="{bottom - top:.1f}">'
                    f"<title>{count} rows</title></rect>"
                )
            base += count
    if threshold is not None and 0 <= threshold <= 1:
        marks.append(_line((threshold, 0), (threshold, 1), "cut"))
        # On the side away from the legend.
        aside, anchor = (3, "start") if threshold < 0.5 else (-3, "end")
        marks.append(_text(_x(threshold) + aside, _y(0.96), f"{threshold:.4g}", "count", anchor))
    words = (("yes", "holds"), ("no", "does not"), ("unknown", "no label"))
    marks.append(_legend([one for one in words if counts[one[0]].any()]))
    y_ticks = [(tick, f"{tick * most:.0f}") for tick in (0.0, 0.5, 1.0)]
    return _chart("Scores", "score", "rows", "".join(marks), y_ticks)


def _legend(kinds: Sequence[tuple[str, str]]) -> str:
    """What the colours mean, in the upper right corner, readable over what lies there."""
    high = 14 * len(kinds) + 8
    marks = [f'<rect class="back" x="{_x(1) - 72}" y="{_TOP + 2}" width="70" height="{high}"/>']
    for index, (kind, word) in enumerate(kinds):
        y = _TOP + 8 + 14 * index
        marks.append(f'<rect class="{kind}" x="{_x(1) - 66}" y="{y}" width="9" height="9"/>')
        marks.append(_text(_x(1) - 53, y + 9, word, "count", "start"))
    return "".join(marks)


def _thinned(x: Sequence[float], y: Sequence[float], most: int = 600) -> list[tuple[float, float]]:
    """As many points as can be told apart, the ends among them."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), most)).round().astype(int))
    return [(x[index], y[index]) for index in keep.tolist()]


def _chart(
    title: str,
    x_title: str,
    y_title: str,
    inside: str,
    y_ticks: Sequence[tuple[float, str]] = _SHARES,
) -> str:
    axes = []
    for tick in _TICKS:
        axes.append(_line((tick, 0), (tick, 1), "grid"))
        axes.append(_text(_x(tick), _y(0) + 14, f"{tick:g}", "tick", "middle"))
    for place, shown in y_ticks:
        axes.append(_line((0, place), (1, place), "grid"))
        axes.append(_text(_x(0) - 5, _y(place) + 4, shown, "tick", "end"))
    middle = (_TOP + _HIGH - _BOTTOM) / 2
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDE} {_HIGH}"'
        f' role="img" aria-label="{escape(title)}">{"".join(axes)}{inside}'
        f"{_text(_x(0.5), _HIGH - 6, x_title, 'title', 'middle')}"
        f'<text class="title" text-anchor="middle" transform="rotate(-90 12 {middle:.0f})"'
        f' x="12" y="{middle:.0f}">{escape(y_title)}</text></svg></figure>'
    )


def _x(value: float) -> float:
    return _LEFT + value * (_WIDE - _LEFT - _RIGHT)


def _y(value: float) -> float:
    return _HIGH - _BOTTOM - value * (_HIGH - _BOTTOM - _TOP)


def _line(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    return (
        f'<line class="{kind}" x1="{_x(start[0]):.1f}" y1="{_y(start[1]):.1f}"'
        f' x2="{_x(end[0]):.1f}" y2="{_y(end[1]):.1f}"/>'
    )


def _dot(x: float, y: float, kind: str, title: str, radius: int) -> str:
    told = f"<title>{escape(title)}</title>" if title else ""
    return f'<circle class="{kind}" cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="{radius}">{told}</circle>'


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
