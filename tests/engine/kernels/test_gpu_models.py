"""Whole tiny models on the GPU backend: on a card where there is one, else under the interpreter."""

import dataclasses
import random
from functools import cache

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine.kernels import gpu
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.kernels.elementwise.quant import LIMITS, Quant
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.linear.gate_up import separate_gate_up
from spinf_serve.engine.kernels.ops import LayerShape, Linear, Rows, WeightScheme
from spinf_serve.engine.models import registry
from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.tensor import QuantizedTensor, dequantize
from spinf_serve.packs.errors import Unusable
from tests.support.oracles import nan_memory
from tests.support.passes import Part, make_pass, random_paths
from tests.support.tiny_models import TINY, StateCheckpoint, random_checkpoint

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PLAIN = WeightScheme()
FP8 = WeightScheme("fp8", "rows")
INT8 = WeightScheme("int8", "rows")
COLUMNS = range(0, 320, 40)
NAMES = ("llama_tied", "gemma3", "gemma4")


def _spec(name, window=20):
    """Two layers, of both kinds where a family has two."""
    spec = TINY[name][0]
    windowed = next(x for x in spec.layers if x.window or name == "llama_tied")
    whole = next(x for x in spec.layers if x.window is None)
    layers = (dataclasses.replace(windowed, window=windowed.window and window), whole)
    return dataclasses.replace(spec, layers=layers)


class StaticCheckpoint(StateCheckpoint):
    """Linear weights in fp8 with one scale a tensor, and a static scale of the input."""

    def read_quantized(self, name):
        if ".layers." not in name or not name.endswith("_proj.weight"):
            return None
        found = fp8.quantize(self._found(name), by_row=False)
        step = 0.02 if "down" in name else 0.01 + 0.001 * len(name)
        return QuantizedTensor(found.values, found.scale, torch.tensor(step))


def _checkpoint(name, static):
    plain = random_checkpoint(_spec(name))
    return StaticCheckpoint(plain.state, tied=False) if static else plain


@cache
def _model(name, scheme=PLAIN, static=False, dtype=torch.float32):
    ops = GpuOps(dtype, DEVICE, scheme)
    return registry.build(_spec(name), _checkpoint(name, static), ops)


def _read(model, *plans, release=True):
    """Log-probabilities [reads, columns] of passes that follow one another."""
    found = []
    with torch.inference_mode():
        for plan in plans:
            made = model.layout(plan)
            hidden = model.forward(made)
            logprobs = model.read(hidden, made.column_start, made.columns)
            found.append(logprobs.view(-1, len(COLUMNS)).cpu())
    if release:
        for key in {part.key for plan in plans for part in plan.slices}:
            model.ops.release(key)
    return found


def _pass(*parts):
    return make_pass(*parts, columns=COLUMNS)


@cache
def _parts(lengths=(0, 3, 37)):
    draw = random.Random(5)
    return tuple(
        Part([draw.randrange(320) for _ in range(n)], random_paths(draw, 2, longest=9), key=key)
        for key, n in enumerate(lengths)
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_what_the_cpu_backend_reads(name):
    plan = _pass(*_parts())
    cpu = registry.build(_spec(name), random_checkpoint(_spec(name)), CpuOps(torch.float32))
    with nan_memory():
        (found,) = _read(_model(name), plan)
    (expected,) = _read(cpu, plan)
    # Two orders of summation in float32; parity with transformers is granted as much.
    assert float((found - expected).abs().max()) < 2e-5


class RoundingOps(CpuOps):
    """The definition of a model in 8 bits: weights and inputs rounded, everything else in float32."""

    gate_block = GpuOps.gate_block

    def __init__(self, scheme):
        super().__init__(torch.float32)
        self.scheme = scheme

    def norm(self, x, norm, into):
        return self._rounded(super().norm(x, norm, None), into)

    def linear(self, x, weight):
        if weight.scale is None:
            return super().linear(x, weight)
        step = x.scale if x.scale is not None else weight.input.scale
        wide = dequantize(QuantizedTensor(weight.values, weight.scale), torch.float32)
        return super().linear(Rows(x.values.float() * step), Linear(wide))

    def gated_linear(self, x, weight, activation, into):
        gate, up = separate_gate_up(self.linear(x, weight).T.contiguous())
        both = torch.cat((gate, up)).T
        plain = super().gated_linear(Rows(both), Linear(torch.eye(both.shape[1])), activation, into)
        return self._rounded(plain, into)

    def attend(self, *args, into, **how):
        return self._rounded(super().attend(*args, into=into, **how), into)

    @staticmethod
    def _rounded(rows, into):
        if into is None or into.input is None:
            return rows
        x, quant = rows.values, into.input
        scale = quant.scale
        if scale is None:
            scale = x.abs().amax(1, keepdim=True).clamp_min(1e-30) / LIMITS[quant.dtype]
        coder = fp8 if quant.dtype == fp8.DTYPE else int8
        return Rows(coder.encode(x, scale), None if quant.scale is not None else scale)


@pytest.mark.parametrize(
    ("name", "scheme", "static"),
    (
        ("llama_tied", FP8, False),
        ("gemma3", FP8, True),
        ("gemma4", FP8, False),
        ("gemma4", FP8, True),
        ("gemma4", INT8, False),
    ),
)
def test_in_8_bits_it_reads_what_rounded_weights_and_inputs_give(name, scheme, static):
    plan = _pass(*_parts())
    exact = registry.build(_spec(name), _checkpoint(name, static), RoundingOps(scheme))
    plain = registry.build(_spec(name), random_checkpoint(_spec(name)), CpuOps(torch.float32))
    with nan_memory():
        (found,) = _read(_model(name, scheme, static), plan)
    (expected,), (unrounded,) = _read(exact, plan), _read(plain, plan)
    error = (found - expected).abs()
    # A sum in another order may move an input over the border between two codes: rarely, and by
    # less than the rounding itself moved. A card sums products of 8-bit floats with some 13 bits, so
    # there it is no longer rare.
    moved = float((expected - unrounded).abs().mean())
    on_card = DEVICE.type == "cuda" and scheme == FP8
    assert float(error.mean()) < (0.7 if on_card else 0.1) * moved
    assert float(error.median()) < (0.5 if on_card else 0.02) * moved


@pytest.fixture
def rows_apart(monkeypatch):
    """A product whose rows do not depend on one another, as on the card, in the interpreter."""

    def matmul(a, b, dtype):
        out = np.zeros((len(a), b.shape[1]), dtype)
        for column, row in zip(a.T.astype(dtype), b.astype(dtype), strict=True):
            out += column[:, None] * row
        return out

    if DEVICE.type == "cpu":
        monkeypatch.setattr(np, "matmul", matmul)


@pytest.mark.usefixtures("rows_apart")
@pytest.mark.parametrize(
    ("name", "scheme", "static"),
    (("gemma4", PLAIN, False), ("gemma4", FP8, True), ("llama_tied", FP8, False)),
)
def test_alone_is_in_a_crowd(name, scheme, static):
    model, parts = _model(name, scheme, static), _parts()
    with nan_memory():
        (crowd,) = _read(model, _pass(*parts))
        alone = [_read(model, _pass(Part(p.trunk, [path])))[0] for p in parts for path in p.paths]
        (reverse,) = _read(model, _pass(*parts[::-1]))
    assert torch.equal(crowd, torch.cat(alone))
    assert torch.equal(reverse, torch.cat(crowd.split([len(p.paths) for p in parts])[::-1]))


@pytest.mark.usefixtures("rows_apart")
def test_a_small_pass_has_tiles_of_its_own_and_the_bits_of_a_large_one(monkeypatch):
    model, plan = _model("gemma4"), _pass(*_parts())

    def rows():
        return [kind.kind.tiling.rows for kind in model.ops.arranged(plan, model.shapes).kinds]

    small, few = _read(model, plan)[0], rows()
    monkeypatch.setattr(gpu, "_FEW_ROWS", len(plan.tokens) - 1)
    assert max(few) < min(rows())
    assert torch.equal(_read(model, plan)[0], small)


def test_heads_that_no_small_tile_holds_have_large_ones_in_small_passes_too():
    ops, plan = GpuOps(torch.float32, DEVICE, PLAIN), _pass(*_parts())
    shapes = [LayerShape(heads, 1, 32, None) for heads in (16, 32)]
    few, many = (kind.kind.tiling.rows for kind in ops.arranged(plan, shapes).kinds)
    assert few == 16 and many >= 32


@pytest.mark.usefixtures("rows_apart")
def test_a_trunk_over_several_passes_reads_the_same():
    """Two trees go on at a time, so the pools grow while they hold something."""
    model, (part,) = _model("gemma4"), _parts((70,))
    other = dataclasses.replace(part, trunk=part.trunk[::-1], key=9)
    (whole,) = _read(model, _pass(part, other))
    cut = [
        _pass(dataclasses.replace(p, paths=(), trunk_start=start, trunk_end=end, keep=True))
        for start, end in ((0, 64), (64, 70))
        for p in (part, other)
    ]
    last = _pass(*(dataclasses.replace(p, trunk_start=70) for p in (part, other)))
    with nan_memory():
        found = _read(model, *cut, last)[-1]
    assert torch.equal(found, whole)


def test_what_was_released_is_missed():
    model, (part,) = _model("gemma4"), _parts((70,))
    start = dataclasses.replace(part, paths=(), trunk_end=64, keep=True)
    _read(model, _pass(start), release=False)
    model.ops.release(part.key)
    with pytest.raises(AssertionError, match="has no room"):
        _read(model, _pass(dataclasses.replace(part, trunk_start=64)))


@pytest.mark.usefixtures("rows_apart")
@pytest.mark.parametrize("scheme", (PLAIN, FP8))
def test_a_nan_token_spoils_the_reads_behind_it_alone(scheme):
    checkpoint = random_checkpoint(_spec("gemma4"))
    checkpoint.state["model.embed_tokens.weight"] = checkpoint.state[
        "model.embed_tokens.weight"
    ].clone()
    checkpoint.state["model.embed_tokens.weight"][311] = torch.nan
    untied = dataclasses.replace(_spec("gemma4"), tied=False)
    checkpoint = StateCheckpoint(
        {**checkpoint.state, "lm_head.weight": checkpoint.state["model.embed_tokens.weight"]},
        tied=False,
    )
    checkpoint.state["lm_head.weight"] = checkpoint.state["lm_head.weight"].nan_to_num(0.1)
    model = registry.build(untied, checkpoint, GpuOps(torch.float32, DEVICE, scheme))
    half = Part([5, 6], [[1, 2, 3], [1, 2, 311], [4, 5]], key=2)
    healthy = Part([9] * 20, [[1], [2, 3]], key=3)
    sick = Part([5, 311, 7], [[1], [2, 3]], key=1)
    (found,) = _read(model, _pass(healthy, sick, half))
    assert found[2:4].isnan().all() and found[5].isnan().all()
    (clean,) = _read(model, _pass(healthy, dataclasses.replace(half, paths=half.paths[::2])))
    assert torch.equal(found[[0, 1, 4, 6]], clean)


def test_weights_are_rounded_as_a_file_would_be():
    """On the device the codes and scales of a weight are those made on the host."""
    spec, checkpoint = _spec("llama_tied"), random_checkpoint(_spec("llama_tied"))
    for scheme, coder in ((FP8, fp8), (INT8, int8)):
        found = dict(_model("llama_tied", scheme).linears())["down"]
        name = f"model.layers.{len(spec.layers) - 1}.mlp.down_proj.weight"
        expected = coder.quantize(checkpoint.state[name], by_row=True)
        assert torch.equal(found.values.cpu().view(torch.uint8), expected.values.view(torch.uint8))
        assert torch.equal(found.scale.cpu(), expected.scale)
        assert found.input == Quant(coder.DTYPE, None) or found.input.scale is None


@pytest.mark.parametrize(("scheme", "static"), ((PLAIN, False), (FP8, False), (FP8, True)))
def test_gate_and_up_alternate_with_their_scales(scheme, static):
    """The definition above reads its weights as the backend does, so it would not see this."""
    spec, checkpoint = _spec("llama_tied"), _checkpoint("llama_tied", static)
    found = dict(_model("llama_tied", scheme, static).linears())["gate_up"]
    values = found.values.float()
    if found.scale is not None:
        values = values * found.scale
    name = f"model.layers.{len(spec.layers) - 1}.mlp"
    for kind, rows in zip(("gate", "up"), separate_gate_up(values.cpu()), strict=True):
        expected = checkpoint.state[f"{name}.{kind}_proj.weight"]
        if scheme == FP8:
            rounded = fp8.quantize(expected, by_row=not static)
            expected = dequantize(rounded, torch.float32)
        assert torch.equal(rows, expected)


def test_what_the_kernels_lack_is_refused():
    spec = dataclasses.replace(_spec("llama_tied"), mlp_bias=True)
    with pytest.raises(Unusable, match="biases in the MLP .* --device cpu"):
        registry.build(spec, random_checkpoint(spec), GpuOps(torch.float32, DEVICE, PLAIN))
    spec = dataclasses.replace(_spec("llama_tied"), intermediate=100)
    with pytest.raises(Unusable, match="an MLP of 100 columns .* multiples of 32"):
        registry.build(spec, random_checkpoint(spec), GpuOps(torch.float32, DEVICE, PLAIN))
