"""Reads of the head on the CPU: exact enough, a row's bits are its own, a NaN stays alone."""

import pytest
import torch

from spinf_serve.engine.kernels.option_read import cpu, reference
from tests.support.oracles import assert_no_worse, nan_memory, threads

DTYPES = (torch.float32, torch.bfloat16)
VOCAB = 10_007


def _head(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (0.3 * torch.randn(VOCAB, 96, generator=torch.Generator().manual_seed(1))).to(dtype)


def _hidden(rows: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(rows, 96, generator=torch.Generator().manual_seed(2)).to(dtype)


def _columns(counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    start = torch.tensor([0, *counts]).cumsum(0)
    return start, torch.randint(VOCAB, (sum(counts),), generator=generator)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cap", (None, 5.0))
@pytest.mark.parametrize("rows", (0, 1, 2, 63, 64, 65, 129))
def test_it_is_the_log_softmax(dtype, cap, rows):
    head, hidden = _head(dtype), _hidden(rows, dtype)
    start, columns = _columns([i % 4 for i in range(rows)])
    with nan_memory():
        found = cpu.read_options(hidden, head, start, columns, cap)
    assert found.dtype == torch.float32
    plain = reference.read_options(hidden.float(), head.float(), start, columns, cap)
    exact = reference.read_options(hidden.double(), head.double(), start, columns, cap)
    assert_no_worse(found, plain, exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_the_others(dtype):
    head, hidden = _head(dtype), _hidden(200, dtype)
    start, columns = _columns([1 + i % 3 for i in range(200)])
    whole = cpu.read_options(hidden, head, start, columns, None)
    for count in (1, 2, 3):
        with threads(count):
            for first, last in ((0, 1), (0, 11), (63, 65), (64, 200), (199, 200), (5, 134)):
                own = slice(int(start[first]), int(start[last]))
                part = start[first : last + 1] - start[first]
                found = cpu.read_options(hidden[first:last], head, part, columns[own], None)
                assert torch.equal(found, whole[own])


def test_the_whole_vocabulary_has_probability_one():
    start = torch.tensor([0, VOCAB])
    logprobs = cpu.read_options(_hidden(1), _head(), start, torch.arange(VOCAB), 5.0)
    assert float(logprobs.double().exp().sum()) == pytest.approx(1, abs=1e-6)


def test_a_nan_row_stays_alone():
    head, hidden = _head(), _hidden(70)
    start, columns = _columns([2] * 70)
    clean = cpu.read_options(hidden, head, start, columns, 5.0)
    hidden[7, 3] = torch.nan
    found = cpu.read_options(hidden, head, start, columns, 5.0)
    assert found[14:16].isnan().all()
    assert torch.equal(found[:14], clean[:14]) and torch.equal(found[16:], clean[16:])
