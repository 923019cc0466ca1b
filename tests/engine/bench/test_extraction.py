"""What slots cost, measured on a made-up model."""

import json

import pytest

from spinf_serve.engine.bench.extraction import Slots, measured
from tests.engine.test_api import engine_of
from tests.support.toy_tokenizers import regex_bpe


def test_prices_are_differences_of_jobs_that_take_turns(tmp_path):
    said: list[str] = []
    engine = engine_of(regex_bpe(), token_budget=512)
    out = tmp_path / "figures.json"
    slots = Slots(contents=2, content_tokens=40, max_tokens=3, repeats=3)
    found = measured(engine, slots, out=out, say=said.append)
    assert all(len(times) == 3 and min(times) > 0 for times in found.seconds.values())
    each = zip(*(found.seconds[name] for name in ("searched", "scored")), strict=True)
    spent = sorted((more - less) / 2 / less for more, less in each)
    rows = sorted(found.seconds["scored"])[1] / found.token_seconds
    assert found.searched == pytest.approx(spent[1] * rows)
    assert found.rows > 0
    assert found.searched > 0
    assert found.slowdown > 1
    assert json.loads(out.read_text())["searched"] == found.searched
    assert any("alone on one content" in line for line in said)
    assert not engine.pending
