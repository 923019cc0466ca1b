"""Device, scheme and default model by settings and card: what is picked, why, and what is refused."""

import pytest

from spinf_serve.engine.card import Card, NoCard
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.kernels.tiles import CAPABILITIES
from spinf_serve.engine.kernels.tree_attention.tiling import tiling
from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.engine.placement import LARGE_MODEL, check_on_card, default_model, place
from spinf_serve.packs.errors import Unusable

GIB = 1 << 30
NONE = NoCard("no NVIDIA driver is loaded", "install it")


def card(capability=(9, 0), total=139.0) -> Card:
    size = int(total * GIB)
    return Card(0, "NVIDIA Example", capability, size, size, 100, "580", capability >= (8, 9))


def refusal(config: EngineConfig, found) -> str:
    with pytest.raises(Unusable) as caught:
        place(config, lambda: found)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_usable_card_is_taken_and_told(device):
    found = place(EngineConfig(device=device), card)
    assert found.card == card() and found.quant is None
    assert (
        found.why.startswith("device cuda (") and "NVIDIA Example, compute capability" in found.why
    )
    assert ("as asked" in found.why) == (device == "cuda")


@pytest.mark.parametrize("quant", ["fp8", "int8", "bf16"])
def test_a_scheme_that_is_named_is_passed_on(quant):
    assert place(EngineConfig(quant=quant), card).quant == quant


def test_without_a_card_auto_is_the_cpu_and_says_why():
    found = place(EngineConfig(), lambda: NONE)
    assert found.card is None
    assert found.why == "device cpu: no NVIDIA driver is loaded"


def test_the_cpu_is_taken_without_a_look_at_the_card():
    found = place(EngineConfig(device="cpu"), lambda: pytest.fail("looked"))
    assert (found.card, found.why) == (None, "device cpu: as asked")


def test_a_wanted_card_that_is_not_there_is_told_with_the_remedy():
    assert refusal(EngineConfig(device="cuda"), NONE) == (
        "--device cuda: no NVIDIA driver is loaded; install it, or use --device cpu"
    )


@pytest.mark.parametrize("quant", ["fp8", "int8", "bf16"])
def test_a_scheme_on_the_cpu_is_refused(quant):
    asked = refusal(EngineConfig(device="cpu", quant=quant), NONE)
    assert asked.startswith(
        f"--quant {quant} is for a card and the device is the CPU: leave --quant"
    )
    found = refusal(EngineConfig(quant=quant), NONE)
    assert "as no NVIDIA driver is loaded: install it, or leave --quant out" in found


def test_the_cpus_dtype_on_a_card_is_refused_or_told():
    config = EngineConfig(device="cuda", dtype="bfloat16")
    assert refusal(config, card()).startswith(
        "--dtype bfloat16 is for the CPU and the device is cuda"
    )
    assert place(EngineConfig(dtype="bfloat16"), card).why.endswith(
        "; --dtype bfloat16 is for the CPU"
    )


@pytest.mark.parametrize(
    ("found", "obtainable", "model", "why"),
    [
        (None, True, "embedded", "the default on the CPU"),
        (card(total=23.5), True, LARGE_MODEL, "on a card of 23.5 GiB that computes in fp8"),
        (card((8, 9), total=47.4), True, LARGE_MODEL, "47.4 GiB"),
        (card(total=22.4), True, "embedded", "wants a card of 24 GB, this has 22.4 GiB"),
        (card((8, 6)), True, "embedded", "wants a card that computes in fp8"),
        (card(), False, "embedded", "may not be asked (offline)"),
    ],
)
def test_the_default_model_follows_from_the_card_and_says_why(found, obtainable, model, why):
    asked = []

    def can_be_had(name):
        asked.append(name)
        return obtainable

    name, line = default_model(found, can_be_had)
    assert name == model
    assert line.startswith(f"model {model}: ") and why in line
    assert set(asked) <= {LARGE_MODEL}


def one_layer(*, heads: int, kv_heads: int, head_dim: int) -> ModelSpec:
    layer = LayerSpec(None, Rope("default", 10_000.0), kv_heads, head_dim)
    return ModelSpec("gemma4", 64, 64, 512, heads, (layer,), 1e-6, 1.0, tied=True, context=8192)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_entry_has_tiles_for_the_heads_that_are_let_through(capability):
    spec = one_layer(heads=32, kv_heads=1, head_dim=512)
    check_on_card(spec, capability, 4096)
    assert tiling(capability, 512).tokens(32) >= 1


@pytest.mark.parametrize(
    ("sizes", "tokens", "message"),
    [
        ((2, 1, 576), 4096, "heads of 576 are not served on a GPU, whose kernels take at most 512"),
        ((256, 1, 512), 128, "256 query heads of 512 that share a key/value head"),
        ((16, 8, 256), 1 << 19, "--token-budget 524288: passes of this model have at most 524287"),
    ],
)
def test_what_the_kernels_have_no_tiles_for_is_refused_before_it_is_loaded(sizes, tokens, message):
    heads, kv_heads, head_dim = sizes
    spec = one_layer(heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    with pytest.raises(Unusable) as caught:
        check_on_card(spec, (9, 0), tokens)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_the_largest_pass_has_queries_within_32_bits():
    check_on_card(one_layer(heads=16, kv_heads=8, head_dim=256), (9, 0), (1 << 19) - 1)
