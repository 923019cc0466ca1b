"""The measure of how fast an engine reads."""

import pytest

from spinf_serve.server.pace import Pace


def test_the_latest_passes_count_most():
    pace = Pace()
    assert pace.tokens_per_second is None
    pace.add(0, 5.0)
    assert pace.tokens_per_second is None
    for _ in range(100):
        pace.add(1000, 1.0)
    assert pace.tokens_per_second == pytest.approx(1000)
    for _ in range(30):
        pace.add(200, 1.0)
    assert pace.tokens_per_second == pytest.approx(225, abs=25)
