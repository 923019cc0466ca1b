"""Opening: what is picked and told, refusals before anything is loaded, and a card from end to end.

The card is made up; its operations run in Triton's interpreter, where there is no card.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spinf_serve.engine import opening, placement
from spinf_serve.engine.api import open_engine
from spinf_serve.engine.card import Card, NoCard
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.loading import locate as locate_module
from spinf_serve.engine.loading.manifest import parse_manifest
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.question import Prompt, Question
from tests.engine.loading.test_manifest import HUB
from tests.support.model_folders import save_tiny
from tests.support.quantized_folders import quantize_folder

GIB = 1 << 30
CARD = Card(0, "NVIDIA Example", (9, 0), 24 * GIB, 23 * GIB, 100, "580", True)
ASKED = (Question("q", (Prompt("\nAB:"), Prompt("\nCA:")), ("A", "B"), False),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tiny")
    save_tiny(made, "gemma3")
    return str(made)


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    made = tmp_path_factory.mktemp("coded")
    save_tiny(made, "gemma3")
    quantize_folder(made, "fp8", activations="static")
    return str(made)


@pytest.fixture
def on_card(monkeypatch):
    """A function that puts a card into the machine, with operations for the interpreter."""

    def put(card=CARD):
        def ops(device, scheme):
            assert device == torch.device("cuda", 0)
            return GpuOps(torch.float32, torch.device("cpu"), opening._SCHEMES[scheme])

        monkeypatch.setattr(opening, "find_card", lambda: card)
        monkeypatch.setattr(opening, "gpu_ops", ops)
        monkeypatch.setattr(opening, "self_check", lambda engine, tell: tell("self-check here"))

    return put


def opened(folder, said=None, limits=None, **settings):
    config = EngineConfig(model=folder, threads=1, offline=True, **settings)
    lines: list[str] = [] if said is None else said
    return open_engine(config, limits or Limits(), lines.append)


def test_without_a_card_the_cpu_is_told_and_the_engine_says_what_was_picked(folder, monkeypatch):
    monkeypatch.setattr(opening, "find_card", lambda: NoCard("none is here", "buy one"))
    said: list[str] = []
    engine = opened(folder, said)
    assert said[:2] == ["device cpu: none is here", f"opening model {folder}"]
    assert (engine.config.device, engine.config.token_budget) == ("cpu", 2048)
    assert engine.fingerprint.facts["backend"] == "cpu"


@pytest.mark.parametrize(
    ("settings", "scheme", "why"),
    [
        ({}, "fp8 weights, rows activations", "weights in fp8: compute capability 9.0 computes"),
        ({"quant": "int8"}, "int8 weights, 16bit activations", "weights in int8: as asked"),
        ({"quant": "bf16"}, "bf16 weights, 16bit activations", "weights in bf16: as asked"),
    ],
)
def test_a_card_answers_as_the_cpu_does_within_its_rounding(folder, on_card, settings, scheme, why):
    on_card()
    said: list[str] = []
    engine = opened(folder, said, token_budget=64, **settings)
    assert said[0].startswith("device cuda (a usable card is here): NVIDIA Example")
    assert any(line.startswith(why) for line in said)
    assert said[-1] == "self-check here"
    facts = engine.fingerprint.facts
    assert (facts["backend"], facts["card"], facts["capability"]) == (
        "cuda",
        "NVIDIA Example",
        "9.0",
    )
    assert facts["scheme"] == scheme
    assert engine.config.device == "cuda"
    if settings.get("quant") == "int8":
        # Its products take rows in 16 bits, which the interpreter has not.
        return
    work = Work("ABCABBA CAB", ASKED)
    [found] = engine.run([work])
    [expected] = opened(folder, device="cpu").run([work])
    for ours, theirs in zip(found.answers[0].prompts, expected.answers[0].prompts, strict=True):
        for one, other in zip(ours.options, theirs.options, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=0.5)
            if settings.get("quant") == "bf16":
                # Here unrounded: the interpreter computes in float32.
                assert one.logprob == pytest.approx(other.logprob, abs=1e-4)


def test_codes_of_a_checkpoint_are_served_as_they_are(coded, on_card):
    on_card()
    said: list[str] = []
    engine = opened(coded, said, token_budget=64)
    assert any("weights in fp8: the checkpoint stores them so" in line for line in said)
    assert engine.fingerprint.facts["scheme"] == "fp8 weights, static activations"
    [found] = engine.run([Work("ABCAB", ASKED)])
    assert sum(one.p for one in found.answers[0].prompts[0].options) == pytest.approx(1)


def test_refusals_come_before_anything_is_loaded(folder, coded, on_card, monkeypatch):
    on_card(replace(CARD, free_bytes=GIB))
    monkeypatch.setattr(opening, "build", lambda *parts: pytest.fail("loaded"))
    for settings in ({}, {"device": "cuda"}, {"quant": "int8"}):
        with pytest.raises(Unusable, match=r"too little memory on the card: .*1\.0 GiB are free"):
            opened(folder, **settings)
    on_card()
    with pytest.raises(Unusable, match="stored in fp8, and --quant int8 would round"):
        opened(coded, quant="int8")
    on_card(replace(CARD, capability=(8, 6), has_fp8=False))
    with pytest.raises(Unusable, match="--quant fp8: this card does not compute in fp8"):
        opened(folder, quant="fp8")
    with pytest.raises(Unusable, match="stored in fp8, which this card does not compute in"):
        opened(coded)


def test_a_card_that_fills_up_while_weights_are_loaded_is_told(folder, on_card, monkeypatch):
    on_card()

    def full(*parts):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(opening, "build", full)
    with pytest.raises(Unusable, match=r"ran out of memory while the model was loaded, although"):
        opened(folder)


def test_passes_beyond_what_the_kernels_take_are_refused_before_anything_is_loaded(
    folder, on_card, monkeypatch
):
    on_card()
    monkeypatch.setattr(opening, "build", lambda *parts: pytest.fail("loaded"))
    with pytest.raises(Unusable, match=r"--token-budget 1073741824: passes of this model have at"):
        opened(folder, token_budget=1 << 30)


def test_the_self_check_is_not_held_to_the_limits_of_requests(folder, on_card, monkeypatch):
    on_card()
    checked: list[Limits] = []
    monkeypatch.setattr(opening, "self_check", lambda engine, tell: checked.append(engine.limits))
    tight = Limits(max_content_tokens=10, max_query_tokens=5, max_options=1)
    engine = opened(folder, limits=tight, token_budget=64)
    assert checked == [Limits()] and engine.limits == tight


def test_a_card_that_fails_the_self_check_is_not_served(folder, on_card, monkeypatch):
    on_card()

    def failing(engine, tell):
        raise Unusable("NVIDIA Example does not give a score the same bits")

    monkeypatch.setattr(opening, "self_check", failing)
    with pytest.raises(Unusable, match="the same bits"):
        opened(folder)
    # The doctor looks at it all the same.
    config = EngineConfig(model=folder, threads=1, offline=True)
    assert opening.opened_engine(config, Limits(), lambda line: None, checked=False)


@pytest.fixture
def own_model(folder, monkeypatch):
    """A function that gives the tiny model a manifest with these limits."""

    def write(limits: str):
        text = HUB.replace('family = "llama"', 'family = "gemma3"').split("[limits]")[0]
        manifest = parse_manifest(f"{text}\n[limits]\n{limits}", "own.toml")
        monkeypatch.setattr(locate_module, "read_manifests", lambda: (manifest,))
        monkeypatch.setattr(
            locate_module, "_hub", lambda *names, offline: (Path(folder), "12" * 20)
        )

    return write


def test_a_manifests_limits_hold_where_nobody_set_one(own_model, monkeypatch):
    monkeypatch.setattr(opening, "find_card", lambda: NoCard("none is here", "buy one"))
    own_model("max_content_tokens = 77\nmax_options = 9\ntoken_budget = 512")
    given = Limits(max_options=1000, max_query_tokens=50)
    left_open = frozenset({"max_content_tokens", "max_option_tokens"})
    engine = opened("own", limits=given, open_limits=left_open)
    assert engine.limits == replace(given, max_content_tokens=77)
    # Its budget is for cards.
    assert engine.config.token_budget == 2048
    assert opened("own", limits=given).limits == given


@pytest.mark.parametrize(
    ("limits", "settings", "budget"),
    [
        ("token_budget = 512", {}, 512),
        ("max_options = 9", {}, 16_384),
        ("token_budget = 512", {"token_budget": 700}, 700),
    ],
)
def test_a_pass_on_a_card_is_as_long_as_the_user_else_the_manifest_says(
    own_model, on_card, limits, settings, budget
):
    own_model(limits)
    on_card()
    said: list[str] = []
    engine = opened("own", said, **settings)
    assert engine.config.token_budget == budget
    # The memory that is told is that of such passes.
    [line] = [line for line in said if line.startswith("weights in")]
    assert re.search(r"a pass \d", line)


def test_the_model_is_picked_by_the_card_where_none_is_named(on_card, monkeypatch):
    on_card()
    asked = []

    def missing(name, *, offline, say):
        asked.append(name)
        raise Unusable("not here")

    monkeypatch.setattr(opening, "open_checkpoint", missing)
    for obtainable, name in ((True, placement.LARGE_MODEL), (False, "embedded")):
        monkeypatch.setattr(opening, "obtainable", lambda name, *, offline, yes=obtainable: yes)
        said: list[str] = []
        with pytest.raises(Unusable, match="not here"):
            open_engine(EngineConfig(), Limits(), said.append)
        assert asked[-1] == name and said[1].startswith(f"model {name}: ")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_contents_stay_on_the_device_where_that_is_asked_for(folder, on_card, device):
    on_card(replace(CARD, free_bytes=GIB + (64 << 20)))
    engine = opened(folder, device=device, trunk_cache_bytes=None, token_budget=64)
    room_bytes = engine.config.trunk_cache_bytes
    assert room_bytes is not None
    # A quarter of what the tiny model leaves.
    assert room_bytes == 512 << 20 if device == "cpu" else 0 < room_bytes < 16 << 20
    engine.run([Work("ABC ABBA CAB", ASKED)])
    [again] = engine.run([Work("ABC ABBA CAB", ASKED)])
    assert again.counts.cached_tokens
    assert 0 < engine.stats.trunk_bytes <= room_bytes


def test_more_memory_for_contents_than_a_model_leaves_on_a_card_is_refused(folder, on_card):
    on_card()
    with pytest.raises(Unusable, match="trunk_cache_bytes is .* and the model leaves .* lower it"):
        opened(folder, trunk_cache_bytes=1 << 60)
