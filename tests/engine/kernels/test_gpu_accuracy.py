"""Gemma 4 on a card in bfloat16 and fp8: how far its logits are from transformers' in float64."""

import pytest
import torch

from spinf_serve.engine.models import registry
from tests.support.passes import Part, make_pass
from tests.support.tiny_models import PROMPT, random_checkpoint, tiny

pytestmark = pytest.mark.gpu

BRANCHES = [
    [(37 * n * n + 11 * i * i + 5 * i) % 317 + 3 for i in range(n)] for n in (1, 3, 6, 9, 12)
]


def _off(found, exact):
    """Relative error of log-probabilities, less each row's mean: that of logits."""
    found, exact = (x - x.mean(1, keepdim=True) for x in (found.double(), exact))
    return float((found - exact).norm() / exact.norm())


def _reference(model):
    with torch.inference_mode():
        rows = [model(input_ids=torch.tensor([PROMPT + b])).logits[0, -1] for b in BRANCHES]
    return torch.log_softmax(torch.stack(rows).double(), -1)


@pytest.mark.parametrize("name", ("gemma4", "gemma3", "llama_tied"))
def test_relative_errors_of_logits(name, capsys):
    gpu = pytest.importorskip("spinf_serve.engine.kernels.gpu")
    ops = pytest.importorskip("spinf_serve.engine.kernels.ops")
    made = tiny(name)
    exact = _reference(made.reference.double())
    theirs = _off(_reference(made.reference.bfloat16()), exact)
    errors = {}
    for kind, activations in ((None, "16bit"), ("fp8", "rows"), ("int8", "16bit")):
        backend = gpu.GpuOps(
            torch.bfloat16, torch.device("cuda"), ops.WeightScheme(kind, activations)
        )
        model = registry.build(made.spec, random_checkpoint(made.spec), backend)
        plan = make_pass(Part(PROMPT, sorted(BRANCHES)), columns=range(made.spec.vocab))
        with torch.inference_mode():
            layout = model.layout(plan)
            read = model.read(model.forward(layout), layout.column_start, layout.columns)
        order = sorted(range(len(BRANCHES)), key=lambda n: BRANCHES[n])
        errors[kind or "bf16"] = _off(read.cpu().view(-1, made.spec.vocab), exact[order])
    with capsys.disabled():
        print(f"\n{name}: transformers bf16 {theirs:.2e}", errors)
    assert errors["bf16"] < max(2 * theirs, 1e-2)
    assert errors["int8"] < 4e-2
    assert errors["fp8"] < 1.5e-1
