"""Slots on the GPU backend: continued rows and the best tokens have the bits of plain paths."""

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine.kernels.option_read.kernel import read_options
from spinf_serve.engine.kernels.option_read.top import read_top, read_with_top
from spinf_serve.engine.work import Work
from spinf_serve.packs.question import Prompt, Sampling, Slot
from spinf_serve.packs.template import SlotKind
from tests.engine.kernels.test_gpu_models import DEVICE, _model, rows_apart
from tests.engine.test_api import ask
from tests.engine.test_slot_bits import LONG, check_against_plain, engine_on, recorded
from tests.support.oracles import nan_memory

__all__ = ["rows_apart"]


def _slots() -> tuple[Slot, ...]:
    prompt = (Prompt("\nIt says:"),)
    drawn = Sampling(temperature=1.5, top_k=40, seed=5, n=2)
    return (
        Slot("found", prompt, SlotKind.TEXT, stop="!", max_tokens=2),
        Slot("drawn", prompt, SlotKind.TEXT, max_tokens=4, sampling=drawn),
    )


@pytest.mark.usefixtures("rows_apart")
@pytest.mark.parametrize("name", ("gemma4", pytest.param("llama_tied", marks=pytest.mark.slow)))
def test_what_a_slot_is_shown_is_what_an_option_gets(name):
    engine = engine_on(_model(name))
    work = Work(LONG[:80], (), slots=_slots())
    with nan_memory():
        [alone] = recorded(engine, [work])
        assert max(len(tokens) for _, tokens in alone) == 3
        check_against_plain(engine, work, alone)
        crowd = [
            Work("Short.", (ask("q", "\nLate?", floor=False),), slots=_slots()[:1]),
            Work(LONG[:80], (ask("q", "\nLate?", floor=False),), slots=_slots()),
        ]
        assert recorded(engine_on(_model(name), 90), crowd)[1] == alone


@pytest.mark.gpu
@pytest.mark.parametrize("rows", (1, 64, 300))
def test_on_a_card_the_best_tokens_have_the_bits_of_columns(rows):
    """In tiles of a card's matrix units, and where rows are read in two parts."""
    generator = torch.Generator().manual_seed(1)
    hidden, head = (
        (0.2 * torch.randn(n, 512, generator=generator)).to(DEVICE, torch.bfloat16)
        for n in (rows, 3000)
    )
    columns = torch.arange(3000, device=DEVICE).repeat(rows)
    starts = torch.arange(rows + 1, device=DEVICE) * 3000
    with nan_memory():
        row = read_options(hidden, head, starts, columns, soft_cap=30.0)
        every, ids, logprobs = read_with_top(hidden, head, starts, columns, 128, soft_cap=30.0)
    assert torch.equal(every, row)
    best = row.view(rows, 3000).sort(descending=True, stable=True)
    assert torch.equal(ids.long(), best.indices[:, :128])
    assert torch.equal(logprobs, best.values[:, :128])


@pytest.mark.parametrize("soft_cap", (None, 3.0))
def test_the_best_tokens_are_those_of_all_columns(soft_cap):
    generator = torch.Generator().manual_seed(1)
    hidden, head = (torch.randn(n, 48, generator=generator).to(DEVICE) for n in (5, 320))
    head[7] = head[300]
    with nan_memory():
        ids, logprobs = read_top(hidden, head, 30, soft_cap=soft_cap)
        every = torch.arange(320, device=DEVICE).repeat(5)
        starts = torch.arange(6, device=DEVICE) * 320
        row = read_options(hidden, head, starts, every, soft_cap=soft_cap).view(5, 320)
    best = row.sort(descending=True, stable=True)
    assert torch.equal(ids.long(), best.indices[:, :30])
    assert torch.equal(logprobs, best.values[:, :30])
