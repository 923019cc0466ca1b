"""A read's bits are a function of model, trunk and path: alone, in a crowd, cut up, on any threads."""

import dataclasses
import random
from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.kernels.tree_attention import layout, reference
from spinf_serve.engine.models import registry
from spinf_serve.engine.models.registry import Model
from spinf_serve.engine.models.spec import ModelSpec
from spinf_serve.engine.tree.plan import Pass
from tests.support.oracles import nan_memory, threads
from tests.support.passes import Part, make_pass, random_paths
from tests.support.tiny_models import TINY, gemma4, random_checkpoint, smollm2_like

LENGTHS = (0, 1, 2, 3, 5, 9, 11, 63, 64, 65, 129)
COLUMNS = range(0, 320, 5)


def _wide_window(spec: ModelSpec) -> ModelSpec:
    """Windows that reach over a block border but not over a whole trunk."""
    layers = (dataclasses.replace(x, window=x.window and 70) for x in spec.layers)
    return dataclasses.replace(spec, layers=tuple(layers))


SPECS = {
    "llama": TINY["llama_tied"][0],
    "gemma3": TINY["gemma3"][0],
    "gemma3_wide_window": _wide_window(TINY["gemma3"][0]),
    "gemma4": _wide_window(TINY["gemma4"][0]),
    "smollm2_like": smollm2_like(layers=2, vocab=1000),
}
MODELS = [(name, dtype) for name in SPECS for dtype in (torch.float32, torch.bfloat16)]


@cache
def _model(name: str, dtype: torch.dtype) -> Model:
    return registry.build(SPECS[name], random_checkpoint(SPECS[name]), CpuOps(dtype))


def _read(model: Model, *plans: Pass) -> list[torch.Tensor]:
    """Log-probabilities [reads, columns] of passes that follow one another."""
    found = []
    with torch.inference_mode():
        for plan in plans:
            made = model.layout(plan)
            hidden = model.forward(made)
            logprobs = model.read(hidden, made.column_start, made.columns)
            found.append(logprobs.view(-1, len(COLUMNS)))
    for key in {part.key for plan in plans for part in plan.slices}:
        model.ops.release(key)
    return found


def _pass(*parts: Part) -> Pass:
    return make_pass(*parts, columns=COLUMNS)


def _alone(model: Model, part: Part) -> torch.Tensor:
    """Every path of a part in a pass of its own."""
    passes = [_read(model, _pass(Part(part.trunk, [path])))[0] for path in part.paths]
    return torch.cat(passes)


@cache
def _contents() -> tuple[Part, ...]:
    draw = random.Random(5)
    return tuple(
        Part(
            [draw.randrange(320) for _ in range(length)],
            random_paths(draw, 4, longest=40),
            key=key,
        )
        for key, length in enumerate(LENGTHS)
    )


@cache
def _expected(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """For each content its paths alone, on one thread."""
    with threads(1):
        return tuple(_alone(_model(name, dtype), part) for part in _contents())


@pytest.mark.parametrize("count", (1, 2, 3))
@pytest.mark.parametrize(("name", "dtype"), MODELS)
def test_alone_is_in_a_crowd(name, dtype, count):
    model, contents, expected = _model(name, dtype), _contents(), _expected(name, dtype)
    with threads(count), nan_memory():
        (crowd,) = _read(model, _pass(*contents))
        assert torch.equal(crowd, torch.cat(expected))
        (reverse,) = _read(model, _pass(*reversed(contents)))
        assert torch.equal(reverse, torch.cat(expected[::-1]))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_heads_of_the_published_sizes_read_alone_what_they_read_in_a_crowd(dtype):
    spec = gemma4(heads=4, sliding=(2, 256), full=(1, 512), window=70)
    model = registry.build(spec, random_checkpoint(spec), CpuOps(dtype))
    parts = [
        dataclasses.replace(_contents()[i], paths=_contents()[i].paths[:2]) for i in (0, 5, 10)
    ]
    alone = torch.cat([_alone(model, part) for part in parts])
    with threads(2), nan_memory():
        assert torch.equal(_read(model, _pass(*parts))[0], alone)


@pytest.mark.parametrize(("name", "dtype"), MODELS)
def test_alone_is_among_its_siblings_and_on_two_threads(name, dtype):
    model = _model(name, dtype)
    with threads(2):
        for part, alone in zip(_contents(), _expected(name, dtype), strict=True):
            assert torch.equal(_read(model, _pass(part))[0], alone)
            one = dataclasses.replace(part, paths=part.paths[-1:])
            assert torch.equal(_read(model, _pass(one))[0], alone[-1:])


@pytest.mark.parametrize(("name", "dtype"), MODELS)
def test_what_else_is_read_moves_nothing(name, dtype):
    """The last layer computes the read rows alone: reads of the stems must not move the ends."""
    model, contents, expected = _model(name, dtype), _contents(), _expected(name, dtype)
    for part, alone in zip(contents, expected, strict=True):
        plan = _pass(dataclasses.replace(part, reads="all"))
        ends = plan.path_rows[range(len(plan.path_len)), plan.path_len - 1]
        (found,) = _read(model, plan)
        assert torch.equal(found[torch.from_numpy(ends - plan.slices[0].branch_start)], alone)


@pytest.mark.parametrize(("name", "dtype"), MODELS)
def test_paths_in_later_passes_are_the_same(name, dtype):
    model, contents, expected = _model(name, dtype), _contents(), _expected(name, dtype)
    first, second = [], []
    for part in contents:
        has_trunk = len(part.trunk) > 0
        first.append(dataclasses.replace(part, paths=part.paths[:1], keep=has_trunk))
        second.append(dataclasses.replace(part, paths=part.paths[1:], trunk_start=len(part.trunk)))
    before, after = _read(model, _pass(*first), _pass(*second))
    assert torch.equal(before, torch.cat([alone[:1] for alone in expected]))
    assert torch.equal(after, torch.cat([alone[1:] for alone in expected]))


@pytest.mark.parametrize(("name", "dtype"), MODELS)
def test_a_trunk_cut_into_passes_is_the_same(name, dtype):
    model, (part, *_) = _model(name, dtype), _contents()[::-1]
    neighbour = _contents()[5]
    head = dataclasses.replace(part, paths=[], trunk_end=64, keep=True)
    middle = dataclasses.replace(part, paths=[], trunk_start=64, trunk_end=128, keep=True)
    tail = dataclasses.replace(part, trunk_start=128)
    found = _read(model, _pass(neighbour, head), _pass(middle), _pass(neighbour, tail))
    alone = _expected(name, dtype)
    assert torch.equal(found[0], alone[5])
    assert torch.equal(found[2], torch.cat((alone[5], alone[-1])))
    whole = dataclasses.replace(part, trunk_start=64)
    assert torch.equal(_read(model, _pass(head), _pass(whole))[1], alone[-1])


@st.composite
def _forests(draw):
    """Trees with trunks up to two blocks and more, and for each the trunk or path that it is cut at."""
    trees = []
    for key in range(draw(st.integers(1, 4))):
        length = draw(st.one_of(st.sampled_from(LENGTHS), st.integers(0, 200)))
        rng = random.Random(draw(st.integers(0, 1000)))
        trunk = [rng.randrange(320) for _ in range(length)]
        paths = random_paths(rng, draw(st.integers(1, 6)), longest=draw(st.integers(1, 50)))
        cut_trunk = draw(st.booleans()) and length > 64
        cut = draw(st.integers(1, (length - 1) // 64)) * 64 if cut_trunk else length
        path_cut = 0 if cut_trunk else draw(st.integers(0, len(paths)))
        trees.append((Part(trunk, paths, key=key), cut, path_cut))
    return draw(st.permutations(trees))


@pytest.mark.parametrize("name", ("llama", "gemma3_wide_window", "gemma4"))
@settings(max_examples=15, deadline=None)
@given(forest=_forests(), count=st.integers(1, 3))
def test_any_forest_cut_anyhow_reads_as_its_paths_alone(name, forest, count):
    model = _model(name, torch.float32)
    first, second = [], []
    expected: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for part, cut, path_cut in forest:
        alone = _alone(model, part)
        rest = part.paths[path_cut:]
        first.append(
            dataclasses.replace(
                part,
                paths=part.paths[:path_cut],
                trunk_end=cut,
                keep=bool(rest) and len(part.trunk) > 0,
            )
        )
        expected[0].append(alone[:path_cut])
        if rest:
            second.append(dataclasses.replace(part, paths=rest, trunk_start=cut))
            expected[1].append(alone[path_cut:])
    with threads(count):
        first = [x for x in first if len(x.trunk[: x.trunk_end]) or x.paths]
        plans = [_pass(*parts) for parts in (first, second) if parts]
        found = torch.cat(_read(model, *plans))
    assert torch.equal(found, torch.cat([*expected[0], *expected[1]]))


@pytest.mark.parametrize("trunk", (0, 30, 100))
def test_a_thousand_options_behind_a_long_stem_are_gathered_in_steps(trunk, monkeypatch):
    model = _model("llama", torch.float32)
    stem = [(7 * i) % 320 for i in range(150)]
    part = Part([5] * trunk, [[*stem, i // 32, i % 32] for i in range(1000)])
    monkeypatch.setattr(layout, "MOST_KEYS", 1000)
    made = model.layout(_pass(part))
    assert isinstance(made, layout.CpuLayout)
    assert max(len(tiles.key_rows) for tiles in made.every.indexed) <= 1000
    (found,) = _read(model, _pass(part))
    for place in (0, 1, 499, 999):
        alone = _alone(model, dataclasses.replace(part, paths=[part.paths[place]]))
        assert torch.equal(found[place], alone[0])


def test_a_nan_token_spoils_the_reads_behind_it_alone():
    spec = TINY["llama_scaled_untied"][0]
    checkpoint = random_checkpoint(spec)
    checkpoint.state["model.embed_tokens.weight"][311] = torch.nan
    model = registry.build(spec, checkpoint, CpuOps(torch.float32))
    sick = Part([5, 311, 7], [[1], [2, 3]], key=1)
    half = Part([5, 6], [[1, 2, 3], [1, 2, 311], [4, 5]], key=2)
    healthy = Part([9] * 70, [[1], [2, 3]], key=3)
    (found,) = _read(model, _pass(healthy, sick, half, healthy))
    expected = torch.cat([_alone(model, part) for part in (healthy, half, healthy)])
    assert found[2:4].isnan().all() and found[5].isnan().all()
    kept = [0, 1, 4, 6, 7, 8]
    assert torch.equal(found[kept], expected[[0, 1, 2, 4, 5, 6]])


class _PlainOps(CpuOps):
    """What one would write first: products of just the rows there are, the library's attention."""

    def layout(self, plan, layers):
        index = {
            name: torch.from_numpy(getattr(plan, name)).long()
            for name in ("tokens", "positions", "read_rows", "column_start", "columns")
        }
        return SimpleNamespace(**index, longest=int(plan.positions.max()) + 1, plan=plan)

    def linear(self, x, weight):
        return F.linear(x.values, weight.values)

    def attention(self, layout, layer, q, k, v, *, scale, window, reads_only=False):
        mask = reference.visible(layout.plan, window)
        mask = mask[layout.read_rows] if reads_only else mask
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=True)
        return out[0].transpose(0, 1).flatten(1)


def test_the_plain_forward_fails_the_tests_above():
    """Shows that they can fail: with the obvious operations bits depend on the company."""
    spec = SPECS["smollm2_like"]
    model = registry.build(spec, random_checkpoint(spec), _PlainOps(torch.float32))
    contents = _contents()
    with threads(1):
        alone = torch.cat([_alone(model, part) for part in contents])
        (crowd,) = _read(model, _pass(*contents))
    assert not torch.equal(alone, crowd)
    ours = torch.cat(_expected("smollm2_like", torch.float32))
    torch.testing.assert_close(crowd, ours, rtol=0, atol=1e-4)
