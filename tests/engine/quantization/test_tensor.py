"""A stack of weights keeps every value of its parts, and rounds its input once."""

import pytest
import torch

from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.tensor import QuantizedTensor, dequantize, stack
from tests.engine.quantization.test_fp8 import weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [fp8, int8])
def test_a_stack_has_the_values_of_its_parts(kind, dtype):
    parts = [
        kind.quantize(weights(rows, 33, torch.float32), by_row=by_row)
        for rows, by_row in ((1, False), (64, True), (5, False))
    ]
    whole = stack(parts)
    assert whole.scale.shape == (70, 1) and whole.values.shape == (70, 33)
    expected = torch.cat([dequantize(part, dtype) for part in parts])
    assert torch.equal(dequantize(whole, dtype), expected)
    assert whole.input_scale is None
    assert stack(parts[:1]) is parts[0]


def scaled(input_scale: float | None, dtype=fp8.DTYPE) -> QuantizedTensor:
    inputs = None if input_scale is None else torch.tensor(input_scale)
    return QuantizedTensor(torch.zeros(2, 3).to(dtype), torch.ones(()), inputs)


def test_a_stack_has_the_largest_input_scale_of_its_parts():
    found = stack([scaled(0.5), scaled(2.0), scaled(1.0)]).input_scale
    assert found is not None and found.shape == () and float(found) == 2.0


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "at least one part"),
        ([scaled(None), scaled(None, torch.int8)], "float8 and int8"),
        ([scaled(1.0), scaled(None)], "some parts"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        stack(parts)
