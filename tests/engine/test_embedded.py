"""The embedded model, end to end through the engine's door, against transformers in float64."""

import math
from collections import deque

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.against import TransformersReference
from spinf_serve.engine.bench.checks import answer_bits, invariance_checks
from spinf_serve.engine.bench.passes import works_of_many_lengths
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.tree.packing import Reads, new_tree, next_pass
from spinf_serve.engine.tree.trie import build_trie
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import Prompt, Question

pytestmark = pytest.mark.weights

CONTENTS = (
    "Order 8841 came two days late in a crushed box. $12 went back to the card.",
    "La commande est arrivée à l'heure, merci ! 😀 Ich bin sehr zufrieden.",
    "def total(rows):\n    return sum(row.price * 1.19 for row in rows)\n\nWhy is it   wrong?",
)
TEMPLATES = (
    "\nThis message is about",
    "\nThe customer is asking for",
    "\nSentiment:",
    "\nTopic:",
    "\nThe writer feels",
    "\nLanguage:",
    "\nThis text is",
    "\n\nQuestion: Is it late? Answer:",
    "\nUrgency:",
    "\nThe tone is",
)
OPTIONS = (" refund", " question", " good", " bad")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return open_engine(EngineConfig(model="embedded", device="cpu"), Limits())


def ask(*texts, options=OPTIONS, case=False, floor=False, name="q"):
    return Question(name, tuple(Prompt(text) for text in texts), options, case, floor)


def logprobs(result):
    return torch.tensor(
        [
            [option.logprob for option in prompt.options]
            for answer in result.answers
            for prompt in answer.prompts
        ],
        dtype=torch.float64,
    )


def test_errors_against_float64_are_at_most_twice_those_of_transformers(engine):
    works = [Work(content, (ask(*TEMPLATES),)) for content in CONTENTS]
    opened = open_checkpoint("embedded", offline=True)
    exact, single = (TransformersReference(opened, d) for d in (torch.float64, torch.float32))
    truth = torch.cat([exact.one_by_one(work) for work in works])
    theirs = torch.cat([single.one_by_one(work).double() for work in works])
    ours = torch.cat([logprobs(result) for result in engine.run(works)])
    assert (ours - truth).abs().max() <= 2 * (theirs - truth).abs().max()


def passes_checks(engine: Engine) -> bool:
    works = works_of_many_lengths(engine.tokenizer, (0, 1, 2, 3, 5, 9, 11, 90), questions=5)
    found = list(invariance_checks(engine, works))
    assert len(found) >= 6
    return all(one.passed for one in found)


def test_every_layout_gives_the_same_bits(engine):
    assert passes_checks(engine)


def test_every_layout_gives_the_same_bits_in_bfloat16():
    assert passes_checks(
        open_engine(EngineConfig(model="embedded", device="cpu", dtype="bfloat16"), Limits())
    )


words = st.lists(
    st.sampled_from(["late", "box", "refund", "the", "a", "42", "🙂", "né", ","]), max_size=12
)


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(words, min_size=2, max_size=4), st.sampled_from(TEMPLATES))
def test_a_score_is_a_function_of_content_and_question(engine, texts, template):
    works = [Work(" ".join(text), (ask(*TEMPLATES, floor=True),)) for text in texts]
    together = engine.run(works)
    engine.forget()
    [alone] = engine.run([Work(works[-1].content, (ask(template, floor=True),))])
    place = TEMPLATES.index(template)
    assert answer_bits(alone) == answer_bits(together[-1])[place : place + 1]


def test_a_small_budget_moves_no_bit(engine):
    content = " ".join(CONTENTS * 12)
    work = Work(content, (ask(*TEMPLATES, floor=True),))
    small = Engine(
        served=engine.served,
        tokenizer=engine.tokenizer,
        forward=engine._forward,
        fingerprint=engine.fingerprint,
        config=EngineConfig(token_budget=512),
        limits=engine.limits,
        context_tokens=8192,
    )
    [wide], [narrow] = engine.run([work]), small.run([work])
    assert wide.counts.content_tokens > 512
    assert small.stats.passes > 1
    assert answer_bits(wide) == answer_bits(narrow)


def test_mass_and_softmax_add_up(engine):
    asked = ask(*TEMPLATES, options=(" refund", " question", "\n", " the", " zebra qx"), floor=True)
    [result] = engine.run([Work(CONTENTS[0], (asked,))])
    for prompt in result.answers[0].prompts:
        assert sum(option.p for option in prompt.options) == pytest.approx(1, abs=1e-6)
        mass = sum(math.exp(option.logprob) for option in prompt.options)
        assert mass + prompt.residual == pytest.approx(1, abs=1e-6)
        assert all(math.isfinite(option.logprob) for option in prompt.options)


def test_slices_of_the_vocabulary_add_up_to_one(engine):
    """Every token id read once, in 48 slices of one row: a distribution over the vocabulary."""
    trie = build_trie([tuple(engine.tokenizer.encode("Order 8841 came late.\nTopic:"))])
    empty = np.zeros(0, np.int32)
    slices = np.array_split(np.arange(engine.tokenizer.vocab_size, dtype=np.int32), 48)
    trees = [
        new_tree(-n, empty, empty, trie, Reads(trie.end, np.array([0, len(ids)], np.int32), ids))
        for n, ids in enumerate(slices, 1)
    ]
    packed = next_pass(deque(trees), 2048)
    assert packed is not None
    columns = engine._forward.finish(engine._forward.start(packed)).logprobs
    assert len(columns) == engine.tokenizer.vocab_size
    assert np.exp(columns.astype(np.float64)).sum() == pytest.approx(1, abs=1e-4)


def test_an_option_added_moves_no_logprob_of_the_others(engine):
    content = "The light changed and the lorry moved off."
    template = "\n\nNext the driver decided to"
    two = ask(template, options=(" go", " going"))
    three = ask(template, options=(" go", " going", " go ahead"))
    [a], [b] = engine.run([Work(content, (two,))]), engine.run([Work(content, (three,))])
    before = [option.logprob for option in a.answers[0].prompts[0].options]
    after = [option.logprob for option in b.answers[0].prompts[0].options]
    assert after[:2] == before
    assert after[2] < after[0]


def test_empty_content_is_its_own_floor(engine):
    [result] = engine.run([Work("", (ask(*TEMPLATES, floor=True),))])
    for prompt in result.answers[0].prompts:
        assert [o.p for o in prompt.options] == [o.floor_p for o in prompt.options]
        assert prompt.residual == prompt.floor_residual


def test_a_space_before_the_slot_or_before_the_options_is_the_same_question(engine):
    inside = ask("\nIs it late? Answer: ", options=("Yes", "No"))
    outside = ask("\nIs it late? Answer:", options=(" Yes", " No"))
    [result] = engine.run([Work(CONTENTS[0], (inside, outside))])
    a, b = ([o.p for o in answer.prompts[0].options] for answer in result.answers)
    assert a == pytest.approx(b, abs=1e-3)


def test_a_thousand_options_and_sixty_that_share_their_beginning(engine):
    numbers = tuple(f" {n}" for n in range(1000))
    gates = tuple(f" north gate {n}" if n % 2 else f" hall {n}" for n in range(60))
    engine_limits = ask("\nNumber:", options=numbers), ask("\nMeet at", options=gates, name="g")
    [result] = engine.run([Work(CONTENTS[0], engine_limits)])
    for answer in result.answers:
        [prompt] = answer.prompts
        assert sum(option.p for option in prompt.options) == pytest.approx(1, abs=1e-6)
        assert len({option.logprob for option in prompt.options}) == len(prompt.options)


def test_control_token_strings_in_a_content_stay_text(engine):
    tokenizer = engine.tokenizer
    for text in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        tokens = tokenizer.encode(f"before {text} behind")
        assert not tokenizer.control_ids & set(tokens)
        assert b"".join(map(tokenizer.token_bytes, tokens)) == f"before {text} behind".encode()
    assert engine.run([Work("<|im_start|>system\n{?} {{", (ask(*TEMPLATES),))])
