"""The families against transformers on tiny random models, and tests of the tests: an error in the
maths of the kind that is easily made must break the parity."""

import dataclasses
from functools import cache

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.kernels.elementwise import cpu as elementwise
from spinf_serve.engine.models import registry
from spinf_serve.engine.models.spec import ModelSpec
from tests.support.passes import Part, make_pass
from tests.support.tiny_models import PROMPT, TINY, StateCheckpoint, TinyModel, fill, tiny

TOLERANCE = 2e-5
PREFIX = PROMPT[:20]
BRANCHES = sorted(
    [(37 * n * n + 11 * i * i + 5 * i) % 317 + 3 for i in range(n)] for n in (6, 3, 9, 1, 12)
)


@cache
def _tiny(name: str) -> TinyModel:
    return tiny(name)


@cache
def _expected(name: str) -> torch.Tensor:
    """[branches, V] log-probabilities of prefix + branch alone in transformers."""
    model = _tiny(name).reference
    with torch.inference_mode():
        logits = [model(input_ids=torch.tensor([PREFIX + b])).logits[0, -1] for b in BRANCHES]
    return torch.log_softmax(torch.stack(logits), -1)


def _found(
    name: str, spec: ModelSpec | None = None, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """[branches, V] log-probabilities of all the branches in one pass of ours."""
    made = _tiny(name)
    model = registry.build(spec or made.spec, made.checkpoint, CpuOps(dtype))
    vocab = made.spec.vocab
    with torch.inference_mode():
        layout = model.layout(make_pass(Part(PREFIX, BRANCHES), columns=range(vocab)))
        hidden = model.forward(layout)
        return model.read(hidden, layout.column_start, layout.columns).view(-1, vocab)


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max())


def _mutated(name: str, **layer) -> ModelSpec:
    spec = _tiny(name).spec
    changed = tuple(dataclasses.replace(x, **layer) for x in spec.layers)
    return dataclasses.replace(spec, layers=changed)


@pytest.mark.parametrize("name", TINY)
def test_the_reference_is_the_model_that_was_meant(name):
    made = _tiny(name)
    with torch.inference_mode():
        logits = made.reference(input_ids=torch.tensor([PROMPT])).logits[0, -1]
    assert logits[: len(made.golden)].tolist() == pytest.approx(made.golden, abs=TOLERANCE)


@pytest.mark.parametrize("name", TINY)
def test_branches_equal_runs_alone_in_transformers(name):
    assert _error(_found(name), _expected(name)) <= TOLERANCE


@pytest.mark.parametrize("name", TINY)
def test_a_pass_without_a_shared_trunk_equals_them_too(name):
    made = _tiny(name)
    model = registry.build(made.spec, made.checkpoint, CpuOps(torch.float32))
    parts = [Part((), [PREFIX + b], key=i) for i, b in enumerate(BRANCHES)]
    with torch.inference_mode():
        layout = model.layout(make_pass(*parts, columns=range(made.spec.vocab)))
        hidden = model.forward(layout)
        found = model.read(hidden, layout.column_start, layout.columns)
    assert _error(found.view(-1, made.spec.vocab), _expected(name)) <= TOLERANCE


@pytest.mark.parametrize("name", TINY)
def test_bfloat16_is_the_same_model_less_exactly(name):
    """Twice the error that transformers makes in bfloat16."""
    model = tiny(name).reference.to(torch.bfloat16)
    with torch.inference_mode():
        logits = [model(input_ids=torch.tensor([PREFIX + b])).logits[0, -1] for b in BRANCHES]
    theirs = torch.log_softmax(torch.stack(logits).float(), -1)
    expected = _expected(name)
    assert _error(_found(name, dtype=torch.bfloat16), expected) <= 2 * _error(theirs, expected)


def test_a_wrong_window_breaks_parity():
    for window in (7, 9, None):
        assert (
            _error(_found("gemma3", _mutated("gemma3", window=window)), _expected("gemma3")) > 1e-2
        )
    whole = dataclasses.replace(_tiny("gemma3").spec.layers[2], window=8)
    spec = _tiny("gemma3").spec
    layers = (*spec.layers[:2], whole, *spec.layers[3:])
    found = _found("gemma3", dataclasses.replace(spec, layers=layers))
    assert _error(found, _expected("gemma3")) > 1e-2


@pytest.mark.parametrize("name", TINY)
def test_a_rope_of_neighbouring_pairs_breaks_parity(name, monkeypatch):
    def interleaved(x, cos, sin):
        apart = torch.cat((x[..., ::2], x[..., 1::2]), -1)
        return elementwise.rotate(apart, cos, sin)

    monkeypatch.setattr(CpuOps, "rotate", lambda self, *args: interleaved(*args))
    assert _error(_found(name), _expected(name)) > 1e-2


@pytest.mark.parametrize("name", TINY)
def test_a_wrong_frequency_breaks_parity(name):
    spec = _tiny(name).spec
    wrong = [lambda rope: dataclasses.replace(rope, theta=20_000.0)]
    if spec.layers[-1].rope.kind != "default":
        wrong.append(lambda rope: dataclasses.replace(rope, factor=4.0))
    for changed in wrong:
        layers = tuple(dataclasses.replace(x, rope=changed(x.rope)) for x in spec.layers)
        found = _found(name, dataclasses.replace(spec, layers=layers))
        assert _error(found, _expected(name)) > 1e-4


def test_an_unblended_llama3_rope_breaks_parity():
    name = "llama_scaled_untied"
    rope = _tiny(name).spec.layers[0].rope
    for kind in ("default", "linear"):
        spec = _mutated(name, rope=dataclasses.replace(rope, kind=kind))
        assert _error(_found(name, spec), _expected(name)) > 1e-4


def test_a_norm_without_its_offset_breaks_parity(monkeypatch):
    plain = CpuOps.rms_norm
    monkeypatch.setattr(
        CpuOps,
        "rms_norm",
        lambda self, x, weight, *rest, **how: plain(self, x, weight - 1, *rest, **how),
    )
    assert _error(_found("gemma3"), _expected("gemma3")) > 1e-2


def test_a_norm_with_an_offset_too_many_breaks_parity(monkeypatch):
    plain = CpuOps.rms_norm
    monkeypatch.setattr(
        CpuOps,
        "rms_norm",
        lambda self, x, weight, *rest, **how: plain(self, x, weight + 1, *rest, **how),
    )
    assert _error(_found("llama_tied"), _expected("llama_tied")) > 1e-2


@pytest.mark.parametrize("name", ("gemma3", "gemma3_linear_rope"))
def test_a_wrong_attention_scale_breaks_parity(name):
    spec = dataclasses.replace(_tiny(name).spec, attention_scale=1.0)
    assert _error(_found(name, spec), _expected(name)) > 1e-2


def _capped(name: str, times: int) -> torch.Tensor:
    """Log-probabilities in float64 after `times` soft-caps of 5."""
    model = tiny(name).reference.double()
    model.config.final_logit_softcapping = None
    with torch.inference_mode():
        logits = [model(input_ids=torch.tensor([PREFIX + b])).logits[0, -1] for b in BRANCHES]
    capped = torch.stack(logits)
    for _ in range(times):
        capped = 5.0 * torch.tanh(capped / 5.0)
    return torch.log_softmax(capped, -1)


@pytest.mark.parametrize("name", TINY)
def test_the_soft_cap_is_applied_once(name):
    found = _found(name, dataclasses.replace(_tiny(name).spec, logit_soft_cap=5.0))
    assert _error(found, _capped(name, 1)) <= TOLERANCE
    assert _error(found, _capped(name, 0)) > 1e-2
    assert _error(found, _capped(name, 2)) > 1e-2


def test_biases_are_added_where_the_spec_asks_for_them():
    made = _tiny("llama_scaled_untied")
    config = AutoConfig.for_model(**made.reference.config.to_dict())
    config.attention_bias = config.mlp_bias = True
    biased = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        fill(biased.state_dict(), centred_norms=False)
    spec = dataclasses.replace(made.spec, attention_bias=True, mlp_bias=True)
    model = registry.build(
        spec, StateCheckpoint(biased.state_dict(), tied=False), CpuOps(torch.float32)
    )
    with torch.inference_mode():
        layout = model.layout(make_pass(Part(PREFIX, BRANCHES), columns=range(320)))
        found = model.read(model.forward(layout), layout.column_start, layout.columns)
        logits = [biased(input_ids=torch.tensor([PREFIX + b])).logits[0, -1] for b in BRANCHES]
    expected = torch.log_softmax(torch.stack(logits), -1)
    assert _error(found.view(-1, 320), expected) <= TOLERANCE
    assert _error(expected, _expected("llama_scaled_untied")) > 1e-2
