"""On a card: what is read onto it is what the files hold, and a model is opened, checked and asked."""

import pytest
import torch

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.bench.passes import in_one_pass, works_of_many_lengths
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.loading.quantized import QuantizedCheckpoint
from spinf_serve.engine.loading.staged import StagedCheckpoint
from spinf_serve.engine.work import Limits
from tests.support.model_folders import save_tiny
from tests.support.quantized_folders import quantize_folder

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float32])
def test_tensors_arrive_on_the_card_as_they_are_stored(tmp_path, wanted):
    save_tiny(tmp_path, "gemma3")
    plain = open_checkpoint(str(tmp_path), offline=True).checkpoint
    device = torch.device("cuda", torch.cuda.current_device())
    # So small that each tensor goes over in many pieces, and buffers are filled while copies run.
    staged = StagedCheckpoint(plain, device, piece_bytes=4096)
    found = {}
    for name in staged.order():
        found[name] = torch.full(staged.shape(name), torch.nan, dtype=wanted, device=device)
        staged.read_into(name, found[name])
    for name, values in found.items():
        expected = torch.empty(plain.shape(name), dtype=wanted)
        plain.read_into(name, expected)
        assert torch.equal(values.cpu(), expected), name


def test_codes_arrive_on_the_card_as_they_are_stored(tmp_path):
    save_tiny(tmp_path, "gemma3")
    quantize_folder(tmp_path, "fp8", activations="static")
    plain = open_checkpoint(str(tmp_path), offline=True).checkpoint
    assert isinstance(plain, QuantizedCheckpoint)
    device = torch.device("cuda", torch.cuda.current_device())
    staged = StagedCheckpoint(plain, device, piece_bytes=4096)
    compared = 0
    for name in staged.order():
        ours, theirs = staged.read_quantized(name), plain.read_quantized(name)
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            compared += 1
            assert ours.values.device == ours.scale.device == device
            assert torch.equal(ours.values.view(torch.uint8).cpu(), theirs.values.view(torch.uint8))
            assert torch.equal(ours.scale.cpu(), theirs.scale)
    assert compared > 7


@pytest.mark.weights
@pytest.mark.parametrize("quant", ["auto", "int8", "bf16"])
def test_the_embedded_model_is_served_from_a_card(quant):
    """The self-check at load has passed then; on top, bits alone and in company once more."""
    said: list[str] = []
    config = EngineConfig(model="embedded", device="cuda", quant=quant, token_budget=4096)
    engine = open_engine(config, Limits(), said.append)
    assert said[-1].startswith("self-check: ")
    works = works_of_many_lengths(engine.tokenizer, (0, 1, 9, 130), questions=4)
    together = in_one_pass(engine, works)
    engine.forget()
    alone = [in_one_pass(engine, [work])[0] for work in works]
    assert [*map(answer_bits, together)] == [*map(answer_bits, alone)]
    on_cpu = open_engine(EngineConfig(model="embedded", device="cpu"), Limits()).run(works)
    worst = max(
        abs(one.logprob - other.logprob)
        for ours, theirs in zip(together, on_cpu, strict=True)
        for mine, yours in zip(ours.answers, theirs.answers, strict=True)
        for one, other in zip(mine.prompts[0].options, yours.prompts[0].options, strict=True)
    )
    # bfloat16 and 8 bits move log-probabilities of this model by tenths; another model by many.
    assert 0 < worst < 2.0
