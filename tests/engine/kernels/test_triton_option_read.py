"""Reads of the head in Triton: exact enough, a row's bits are its own, a NaN stays alone."""

import math

import pytest
import torch

from spinf_serve.engine.kernels.option_read import reference
from spinf_serve.engine.kernels.tiles import Tile
from tests.support.oracles import assert_no_worse, nan_memory

pytest.importorskip("triton", reason="Triton has no wheel for this system")

from spinf_serve.engine.kernels.option_read import kernel
from spinf_serve.engine.kernels.option_read.kernel import read_options

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VOCAB = 1003
WIDTH = 96
DTYPES = (torch.float32, torch.bfloat16) if DEVICE == "cuda" else (torch.float32,)


def _head(dtype: torch.dtype = torch.float32, scale: float = 0.3) -> torch.Tensor:
    values = torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(1))
    return (scale * values).to(dtype).to(DEVICE)


def _hidden(rows: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    values = torch.randn(129, WIDTH, generator=torch.Generator().manual_seed(2))
    return values[:rows].to(dtype).to(DEVICE)


def _columns(counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    start = torch.tensor([0, *counts]).cumsum(0)
    generator = torch.Generator().manual_seed(3)
    columns = torch.randint(VOCAB, (int(start[-1]),), generator=generator)
    return start.to(DEVICE), columns.to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cap", (None, 5.0))
@pytest.mark.parametrize("rows", (0, 1, 2, 63, 64, 65, 129))
def test_it_is_the_log_softmax(dtype, cap, rows):
    head, hidden = _head(dtype), _hidden(rows, dtype)
    # Many per row: of a few, the definition's own may be right by luck.
    start, columns = _columns([30 * (i % 4) for i in range(1, rows + 1)])
    with nan_memory():
        found = read_options(hidden, head, start, columns, soft_cap=cap)
    assert found.dtype == torch.float32
    plain = reference.read_options(hidden.float(), head.float(), start, columns, cap)
    exact = reference.read_options(hidden.double(), head.double(), start, columns, cap)
    assert_no_worse(found, plain, exact)


def test_many_columns_of_a_row_and_a_column_wanted_twice():
    head, hidden = _head(), _hidden(3)
    start = torch.tensor([0, 300, 301, 303], device=DEVICE)
    columns = torch.cat((torch.arange(700, 1000), torch.tensor([4, 9, 9]))).to(DEVICE)
    found = read_options(hidden, head, start, columns, soft_cap=None)
    plain = reference.read_options(hidden, head, start, columns, None)
    exact = reference.read_options(hidden.double(), head.double(), start, columns, None)
    assert_no_worse(found, plain, exact)
    assert found[301] == found[302]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_the_others(dtype):
    head, hidden = _head(dtype), _hidden(129, dtype)
    start, columns = _columns([1 + i % 3 for i in range(129)])
    whole = read_options(hidden, head, start, columns, soft_cap=5.0)
    spans = [(0, 1), (0, 11), (0, 63), (32, 129), (96, 97)]
    if DEVICE == "cuda":
        # The interpreter's products are numpy's, where a row's bits depend on its place in a tile.
        spans += [(63, 65), (64, 129), (128, 129), (5, 127)]
    for first, last in spans:
        own = slice(int(start[first]), int(start[last]))
        part = start[first : last + 1] - start[first]
        rows = hidden[first:last].contiguous()
        assert torch.equal(read_options(rows, head, part, columns[own], soft_cap=5.0), whole[own])


def test_columns_that_blocks_share_have_the_same_bits(monkeypatch):
    head, hidden = _head(), _hidden(5)
    start, columns = _columns([40, 0, 1, 16, 17])
    shared = read_options(hidden, head, start, columns, soft_cap=5.0)
    monkeypatch.setattr(kernel, "_FEW_ROWS", 4)
    with nan_memory():
        assert torch.equal(read_options(hidden, head, start, columns, soft_cap=5.0), shared)


def test_options_do_not_move_one_another():
    """A row's other wanted columns, and other rows' counts, are no part of a result."""
    head, hidden = _head(), _hidden(2)
    many = torch.arange(0, VOCAB, 7, device=DEVICE)
    start = torch.tensor([0, len(many), len(many) + 1], device=DEVICE)
    columns = torch.cat((many, many[-1:]))
    whole = read_options(hidden, head, start, columns, soft_cap=None)
    few = torch.tensor([0, 1, 2], device=DEVICE)
    alone = read_options(hidden, head, few, columns[[3, -1]], soft_cap=None)
    assert torch.equal(alone, whole[[3, -1]])


@pytest.mark.parametrize("cap", (None, 30.0))
def test_the_whole_vocabulary_has_probability_one(cap):
    start = torch.tensor([0, VOCAB], device=DEVICE)
    tokens = torch.arange(VOCAB, device=DEVICE)
    hidden, head = _hidden(1), _head(scale=2)
    logprobs = read_options(hidden, head, start, tokens, soft_cap=cap)
    largest = float((hidden.double() @ head.double().T).abs().max())
    log_total = math.log(VOCAB) + (largest if cap is None else min(largest, cap))
    # Half a step of the logarithm of the sum as float32 holds it; half a step of each logarithm and
    # of each exponent, up to log(VOCAB) on average where exponentials matter; four of a card's
    # exponentials and logarithms, two steps each; and ten levels of a sum. A logit is summed twice,
    # in two orders, each time a random walk of half steps of at most its terms' sum.
    steps = log_total / 2 + math.log(VOCAB) + 4 * 2 + 10 / 2 + largest * math.sqrt(WIDTH)
    budget = steps * torch.finfo(torch.float32).eps
    assert budget < 1e-4
    assert float(logprobs.double().exp().sum()) == pytest.approx(1, abs=budget)


@pytest.mark.parametrize("cap", (None, 5.0))
def test_a_nan_row_stays_alone(cap):
    head, hidden = _head(), _hidden(70)
    start, columns = _columns([2] * 70)
    clean = read_options(hidden, head, start, columns, soft_cap=cap)
    hidden[7, 3] = torch.nan
    found = read_options(hidden, head, start, columns, soft_cap=cap)
    assert found[14:16].isnan().all()
    assert torch.equal(found[:14], clean[:14]) and torch.equal(found[16:], clean[16:])


@pytest.mark.parametrize("descriptors", (False, True))
def test_a_large_tile_reads_the_same(descriptors):
    head, hidden = _head(), _hidden(65)
    start, columns = _columns([1] * 65)
    tile = Tile(128, 256, 32, 8, 3, descriptors=descriptors)
    found = read_options(hidden, head, start, columns, soft_cap=5.0, tile=tile)
    plain = reference.read_options(hidden, head, start, columns, 5.0)
    exact = reference.read_options(hidden.double(), head.double(), start, columns, 5.0)
    assert_no_worse(found, plain, exact)
