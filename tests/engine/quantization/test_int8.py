"""8-bit whole numbers: ties to even, saturation, and the error against float64."""

import pytest
import torch

from spinf_serve.engine.quantization import int8
from spinf_serve.engine.quantization.tensor import dequantize
from tests.engine.quantization.test_fp8 import weights

ONE = torch.ones(())


def test_values_become_the_nearest_number_and_ties_the_even_one():
    numbers = torch.arange(-127, 128).float()
    assert torch.equal(int8.encode(numbers, ONE).float(), numbers)
    ties = int8.encode(numbers[:-1] + 0.5, ONE)
    assert (ties % 2 == 0).all()
    assert torch.equal(int8.encode(numbers[:-1] + 0.4999, ONE).float(), numbers[:-1])


def test_what_is_out_of_range_saturates_without_the_lowest_number():
    inf = float("inf")
    x = torch.tensor([127.4, 128.0, 1e30, inf, -127.6, -128.0, -1e30, -inf])
    assert int8.encode(x, ONE).tolist() == [127] * 4 + [-127] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 63), (65, 129)])
def test_the_error_is_that_of_half_a_step(shape, by_row, dtype):
    weight = weights(shape[0], shape[1], dtype)
    found = int8.quantize(weight, by_row=by_row)
    assert found.values.dtype == torch.int8
    assert found.scale.shape == ((shape[0], 1) if by_row else ())
    exact = weight.double()
    error = (dequantize(found, torch.float32).double() - exact).abs()
    bound = found.scale.double() / 2 + 3 * 2.0**-24 * exact.abs() + 2.0**-149
    assert (error <= bound).all()


def test_rows_of_zeros_stay_zero():
    found = int8.quantize(torch.zeros(2, 5), by_row=True)
    assert (found.scale > 0).all() and not found.values.any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="not finite"):
        int8.quantize(torch.tensor([[1.0, bad]]), by_row=True)
