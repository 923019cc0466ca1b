"""docs/promises.md shows what was counted, and what was counted holds."""

import json

from scipy.stats import binom

from tests.support.documents import NOTE, RESULTS
from tests.support.promise_documents import page

FIGURES = json.loads((RESULTS / "promises.json").read_text(encoding="utf-8"))


def test_the_counted_promises_hold():
    cells = {(one["world"], one["labels"], one["way"]): one for one in FIGURES["cells"]}
    assert {one["runs"] for one in cells.values()} == {1000}
    # What one table in a thousand would pass in one of its honest cells.
    most = binom.isf(0.001 / len(cells), 1000, FIGURES["delta"])
    for (world, labels, way), one in cells.items():
        if way in ("rules", "ranks"):
            assert one["missed"] <= most, (world, labels)
        if world == "coin":
            assert one["promised"] <= 50
    for way in ("rules", "ranks"):
        assert abs(cells["plain", 500, way]["coverage"] - 0.38) <= 0.05
        assert abs(cells["plain", 1000, way]["coverage"] - 0.45) <= 0.05


def test_the_page_shows_every_cell():
    text = page(NOTE, RESULTS)
    assert text.startswith(NOTE)
    for one in FIGURES["cells"]:
        missed, none = one["missed"] / one["runs"], 1 - one["promised"] / one["runs"]
        shown = f"{100 * missed:.1f} % / {100 * none:.0f} %"
        assert shown in text
    assert "| 90 % | 29 | 46 | 61 | 76 | 103 | 167 |" in text
