"""8-bit floats: the nearest code, ties to even, saturation, and the error against float64."""

import pytest
import torch

from spinf_serve.engine.quantization import fp8
from spinf_serve.engine.quantization.symmetric import SMALLEST_SCALE
from spinf_serve.engine.quantization.tensor import dequantize

ONE = torch.ones(())


def codes() -> torch.Tensor:
    """Every finite code, by value, float64."""
    every = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(fp8.DTYPE).double()
    return torch.tensor(sorted(set(every[every.isfinite()].tolist())), dtype=torch.float64)


def weights(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Magnitudes over many octaves, some rows of zeros, one tiny and one huge."""
    drawn = torch.randn(
        rows, columns, generator=torch.Generator().manual_seed(rows * 1000 + columns)
    )
    drawn *= torch.logspace(-6, 2, rows).unsqueeze(1)
    drawn[0] = 0
    drawn[-1] *= 1e30
    if rows > 2:
        drawn[1] *= 1e-38
    return drawn.to(dtype)


def test_values_become_the_nearest_code_and_ties_the_even_one():
    every = codes()
    between = (every[1:] + every[:-1]) / 2
    eps = between.abs() * 2.0**-20 + 2.0**-30
    for x, expected in ((every, every), (between - eps, every[:-1]), (between + eps, every[1:])):
        assert torch.equal(fp8.encode(x.float(), ONE).double(), expected)
    ties = fp8.encode(between.float(), ONE)
    assert ((ties.view(torch.uint8) & 1) == 0).all()


def test_what_is_out_of_range_saturates_and_only_nan_becomes_nan():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([448.0, 449.0, 463.9, 464.0, 500.0, 1e30, inf, -448.0, -465.0, -inf, nan])
    found = fp8.encode(x, ONE).float()
    assert torch.equal(found[:7], torch.full((7,), 448.0))
    assert torch.equal(found[7:10], torch.full((3,), -448.0))
    assert found[10].isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 63), (65, 129), (64, 64)])
def test_the_error_is_that_of_half_a_step(shape, by_row, dtype):
    weight = weights(shape[0], shape[1], torch.float32)
    if dtype == torch.float16:
        weight = weight.clamp(-60_000, 60_000)
    weight = weight.to(dtype)
    found = fp8.quantize(weight, by_row=by_row)
    assert found.values.dtype == fp8.DTYPE and found.scale.dtype == torch.float32
    assert found.scale.shape == ((shape[0], 1) if by_row else ())
    exact = weight.double()
    scale = found.scale.double()
    error = (dequantize(found, torch.float32).double() - exact).abs()
    step = torch.maximum(exact.abs() / 16, scale / 1024)
    # Scale, quotient and product are rounded to float32 once each; a product may be subnormal.
    assert (error <= step + 3 * 2.0**-24 * exact.abs() + 2.0**-149).all()


def test_the_largest_magnitude_becomes_the_largest_code():
    weight = weights(65, 129, torch.float32)[2:]
    found = fp8.quantize(weight, by_row=True)
    assert torch.equal(found.values.float().abs().amax(dim=1), torch.full((63,), 448.0))
    assert torch.equal(found.scale, weight.abs().amax(dim=1, keepdim=True) / 448)


def test_rows_of_zeros_stay_zero_and_their_scale_is_a_normal_number():
    for by_row in (True, False):
        found = fp8.quantize(torch.zeros(3, 5), by_row=by_row)
        assert (found.scale == SMALLEST_SCALE).all()
        assert torch.equal(dequantize(found, torch.float32), torch.zeros(3, 5))
    assert torch.finfo(torch.float32).tiny == SMALLEST_SCALE


def test_a_row_is_rounded_alike_alone_and_among_others():
    weight = weights(65, 129, torch.bfloat16)
    whole = fp8.quantize(weight, by_row=True)
    for row in (0, 1, 17, 64):
        alone = fp8.quantize(weight[row : row + 1], by_row=True)
        assert torch.equal(alone.scale[0], whole.scale[row])
        assert torch.equal(alone.values.view(torch.uint8)[0], whole.values.view(torch.uint8)[row])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("by_row", [True, False])
def test_weights_that_are_not_finite_are_refused(bad, by_row):
    weight = torch.ones(3, 4)
    weight[1, 2] = bad
    with pytest.raises(ValueError, match="not finite"):
        fp8.quantize(weight, by_row=by_row)


def test_nan_among_codes_is_seen():
    every = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(fp8.DTYPE)
    seen = [fp8.holds_nan(every[number : number + 1]) for number in range(256)]
    assert seen == every.float().isnan().tolist()
    assert sum(seen) == 2
