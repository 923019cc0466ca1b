"""Linear layers on the CPU: exact enough, and a row's bits are its own."""

import pytest
import torch
import torch.nn.functional as F

from spinf_serve.engine.kernels.linear import cpu, reference
from tests.support.oracles import assert_no_worse, nan_memory, threads

DTYPES = (torch.float32, torch.bfloat16)
ROWS = (1, 2, 3, 5, 9, 11, 63, 64, 65, 129, 513)
SHAPES = ((576, 960), (576, 576), (576, 3072), (1536, 576), (60, 84), (48, 24))


def _random(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", (0, *ROWS))
def test_it_is_the_product(dtype, rows):
    x, weight = _random(rows, 100, dtype=dtype), _random(63, 100, dtype=dtype, seed=1)
    with nan_memory():
        found = cpu.linear(x, weight)
    assert found.dtype == dtype
    exact = reference.linear(x.double(), weight.double())
    assert_no_worse(found, reference.linear(x, weight), exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_does_not_depend_on_how_many_there_are(dtype, shape):
    inner, outer = shape
    x, weight = _random(513, inner, dtype=dtype), _random(outer, inner, dtype=dtype, seed=1)
    whole = cpu.linear(x, weight)
    for count in (1, 2, 3):
        with threads(count):
            for rows in ROWS:
                assert torch.equal(cpu.linear(x[:rows], weight), whole[:rows])
                assert torch.equal(cpu.linear(x[-rows:], weight), whole[-rows:])


def test_a_nan_row_stays_alone():
    x, weight = _random(70, 576, dtype=torch.float32), _random(960, 576, dtype=torch.float32)
    clean = cpu.linear(x, weight)
    x[7] = torch.nan
    found = cpu.linear(x, weight)
    assert found[7].isnan().all()
    assert torch.equal(found[:7], clean[:7]) and torch.equal(found[8:], clean[8:])


def test_the_plain_call_depends_on_how_many_rows_there_are():
    """Shows that the tests above can fail: without the padding they do."""
    x, weight = _random(513, 576, dtype=torch.float32), _random(960, 576, dtype=torch.float32)
    whole = F.linear(x, weight)
    assert not all(torch.equal(F.linear(x[:rows], weight), whole[:rows]) for rows in ROWS)
