"""The time of linear layers alone: which products are timed, and how they add up."""

import pytest
import torch

from spinf_serve.engine.bench import ceiling
from spinf_serve.engine.bench.ceiling import LinearsCeiling, PassSize, ProductTime
from spinf_serve.engine.kernels.elementwise.quant import Quant
from spinf_serve.engine.kernels.ops import Linear

CPU = torch.device("cpu")
LAYER = [("qkv", (48, 32)), ("out", (32, 32)), ("gate_up", (128, 32)), ("down", (32, 64))]


def linears(layers: int) -> list[tuple[str, Linear]]:
    return [(name, Linear(torch.ones(shape))) for _ in range(layers) for name, shape in LAYER]


def test_every_layer_counts_and_the_last_one_by_its_read_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ceiling, "_seconds", lambda work, device, launches=4: 1.0)
    found = LinearsCeiling(linears(3), torch.float32, CPU)
    # Two whole layers and the last one's qkv; of its other three products a quarter.
    assert found.seconds([PassSize(16, 4)]) == pytest.approx(4 + 4 + 1 + 3 * 0.25)
    assert len(found.products()) == len(LAYER)
    assert found.seconds([PassSize(16, 4), PassSize(8, 8)]) == pytest.approx(9.75 + 12)
    assert len(found.products()) == 2 * len(LAYER)


def test_the_better_way_counts(monkeypatch: pytest.MonkeyPatch):
    times = iter([3.0, 2.0])
    monkeypatch.setattr(ceiling, "_seconds", lambda work, device, launches=4: next(times))
    found = LinearsCeiling([("qkv", Linear(torch.ones(48, 32)))], torch.float32, CPU)
    assert found.seconds([PassSize(8, 8)]) == 2.0
    figures = found.products()[0].figures()
    assert (figures["own_ms"], figures["vendor_ms"]) == (3000.0, 2000.0)
    assert figures["best_tflops"] == pytest.approx(2 * 8 * 48 * 32 / 2.0 / 1e12)
    assert ProductTime("qkv", 8, 48, 32, 3.0, None).best_seconds == 3.0


def test_the_products_are_really_made():
    found = LinearsCeiling(linears(1), torch.float32, CPU)
    assert found.seconds([PassSize(8, 8)]) > 0
    assert all(one.own_seconds > 0 and one.vendor_seconds for one in found.products())
    assert found.sequence_seconds(PassSize(8, 4)) > 0


@pytest.mark.parametrize("static", [True, False])
def test_float8_products_are_made_with_both_kinds_of_scales(static: bool):
    weight = torch.ones(32, 64).to(torch.float8_e4m3fn)
    scale = torch.tensor(0.5) if static else torch.full((32, 1), 0.5)
    into = Quant(torch.float8_e4m3fn, torch.tensor(0.25) if static else None)
    x = ceiling._rows(8, Linear(weight, scale, into), torch.float32)
    own, vendor = ceiling._ways(x, Linear(weight, scale, into), torch.float32)
    assert vendor is None
    found = own()
    assert isinstance(found, torch.Tensor)
    expected = x.float() @ weight.float().t() * 0.5 * (0.25 if static else 1 / 56)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)
