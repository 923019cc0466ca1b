"""Passes filled up to the shape of a recorded one: what fills them up moves no bit of what was asked.

Recording itself needs a card: tests/engine/test_opening_gpu.py.
"""

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine import graphs
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.ops import WeightScheme
from spinf_serve.engine.kernels.tree_attention.words import in_words, out_of_words
from spinf_serve.engine.models import registry
from tests.engine.kernels.test_gpu_models import COLUMNS, DEVICE, _spec
from tests.support.oracles import nan_memory
from tests.support.passes import Part, make_pass
from tests.support.tiny_models import random_checkpoint


@pytest.fixture
def model(monkeypatch):
    def matmul(a, b, dtype):
        out = np.zeros((len(a), b.shape[1]), dtype)
        for column, row in zip(a.T.astype(dtype), b.astype(dtype), strict=True):
            out += column[:, None] * row
        return out

    if DEVICE.type == "cpu":
        # Rows of the interpreter's products depend on one another; a card's do not.
        monkeypatch.setattr(np, "matmul", matmul)
    spec = _spec("gemma4")
    return registry.build(
        spec, random_checkpoint(spec), GpuOps(torch.float32, DEVICE, WeightScheme("fp8", "rows"))
    )


def _read(model, inner, longest):
    with torch.inference_mode(), nan_memory():
        layout = model.ops.placed(inner, longest)
        return model.read(model.forward(layout), layout.column_start, layout.columns).cpu()


def test_a_filled_pass_reads_what_the_pass_reads(model):
    parts = (Part([5, 7, 9, 11], [[1, 2, 3], [1, 2, 4, 5]]), Part([], [[8, 9]], key=1))
    plan = make_pass(*parts, columns=COLUMNS)
    arranged = model.ops.arranged(plan, model.shapes)
    shaped = graphs._filled(arranged, 64)
    assert shaped is not None
    found = []
    for inner in (arranged, shaped):
        words = in_words(inner, DEVICE).to(DEVICE)
        found.append(_read(model, out_of_words(words, inner), 64))
    plain, filled = found
    assert len(filled) == 64 > len(plain) == len(plan.columns)
    assert torch.equal(filled[: len(plain)], plain)
    assert plain.isfinite().all()


def test_a_pass_fits_the_shapes_that_hold_its_rows_reads_and_columns(model):
    def fits(plan, rows):
        return graphs._filled(model.ops.arranged(plan, model.shapes), rows) is not None

    questions = [[n, 3] for n in range(16)]
    assert fits(make_pass(Part([1] * 32, questions), columns=range(4)), 64)
    assert not fits(make_pass(Part([1] * 33, questions), columns=range(4)), 64)
    assert not fits(make_pass(Part([1] * 32, questions), columns=range(5)), 64)
    assert not fits(make_pass(Part([1], [[n] for n in range(17)]), columns=(1,)), 64)
    assert not fits(make_pass(*(Part([1], [[2]], key=n) for n in range(17))), 64)


@pytest.mark.parametrize("rows", graphs.SHAPES)
def test_every_shape_holds_a_trunk_of_its_length(model, rows):
    plan = graphs._trivial(rows)
    filled = graphs._filled(model.ops.arranged(plan, model.shapes), rows)
    assert filled is not None
    assert len(filled.tokens) == rows
