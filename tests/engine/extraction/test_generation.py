import math
from collections import Counter

import numpy as np
import pytest

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.generation import Generation
from spinf_serve.engine.extraction.vocabulary import Vocabulary
from spinf_serve.packs.question import Sampling
from tests.engine.extraction.toy_model import ToyModel, ToyTokenizer, run

PIECES = ("a", " b", "C", "\n", '"', '!"', b"\xc3", b"\xa4")
TOKENIZER = ToyTokenizer(PIECES)
VOCABULARY = Vocabulary(TOKENIZER)


def generated(seed: int, sampling: Sampling, max_tokens: int = 6, stop: str = '"') -> SlotAnswers:
    slot = Generation(VOCABULARY, stop, max_tokens, sampling)
    run(slot, ToyModel(TOKENIZER.vocab_size, seed, sharpness=1.0))
    return slot.answers()


@pytest.mark.parametrize("seed", range(20))
def test_greedy_takes_the_most_probable_event_each_time(seed):
    model = ToyModel(TOKENIZER.vocab_size, seed, sharpness=1.0)
    tokens: tuple[int, ...] = ()
    spelled, finish = b"", "length"
    while len(tokens) < 6:
        p = np.exp(model.logprobs(tokens))
        ends = p[[3, 4, 8]].sum()
        best = max((0, 1, 2, 5, 6, 7), key=lambda token: p[token])
        if ends >= p[best]:
            finish = "stop"
            break
        tokens = (*tokens, best)
        spelled += b"!" if best == 5 else TOKENIZER.pieces[best]
        if best == 5:
            finish = "stop"
            break
    [answer] = generated(seed, Sampling()).generated
    assert (answer.text, answer.finish, answer.tokens) == (
        spelled.decode(errors="ignore").strip(),
        finish,
        len(tokens),
    )


def test_one_seed_gives_one_text_and_others_give_others():
    drawn = Sampling(temperature=1.0, top_k=8, seed=11, n=5)
    first = generated(1, drawn)
    assert first == generated(1, drawn)
    assert len({answer.text for answer in first.generated}) > 1
    other = generated(1, Sampling(temperature=1.0, top_k=8, seed=12, n=5))
    assert other.generated != first.generated


def test_a_sequence_does_not_depend_on_how_many_there_are():
    alone = generated(2, Sampling(temperature=1.0, top_k=8, seed=3, n=1)).generated
    many = generated(2, Sampling(temperature=1.0, top_k=8, seed=3, n=6)).generated
    assert many[:1] == alone


def first_events(sampling: Sampling, draws: int = 4000) -> dict[str, float]:
    """Shares of the first token's event over many seeds."""
    model = ToyModel(TOKENIZER.vocab_size, 5, sharpness=1.0)
    counts: Counter[str] = Counter()
    for seed in range(draws):
        slot = Generation(
            VOCABULARY,
            '"',
            1,
            Sampling(sampling.temperature, sampling.top_k, sampling.top_p, seed=seed),
        )
        run(slot, model)
        [answer] = slot.answers().generated
        counts[answer.text if answer.tokens else "<end>"] += 1
    return {event: count / draws for event, count in counts.items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_probabilities(temperature):
    p = np.exp(ToyModel(TOKENIZER.vocab_size, 5, sharpness=1.0).logprobs(()))
    events = {"a": p[0], "b": p[1], "C": p[2], "!": p[5], "<end>": p[3] + p[4] + p[8]}
    events |= {"": p[6] + p[7] if temperature == 1 else 0.0}
    if temperature != 1:
        halves = p[6] ** (1 / temperature) + p[7] ** (1 / temperature)
        events = {name: value ** (1 / temperature) for name, value in events.items() if name}
        events[""] = halves
    total = math.fsum(events.values())
    found = first_events(Sampling(temperature=temperature, top_k=100))
    for name, weight in events.items():
        assert found.get(name, 0.0) == pytest.approx(weight / total, abs=0.04), name


def test_top_k_and_top_p_leave_out_what_is_less_probable():
    p = np.exp(ToyModel(TOKENIZER.vocab_size, 5, sharpness=1.0).logprobs(()))
    best = max((0, 1, 2, 5, 6, 7), key=lambda token: p[token])
    name = {5: "!", 6: "", 7: ""}.get(best, TOKENIZER.pieces[best].decode().strip())
    found = first_events(Sampling(temperature=1.0, top_k=1), draws=300)
    assert set(found) == {name, "<end>"}
    assert len(first_events(Sampling(temperature=1.0, top_k=100, top_p=1e-6), draws=50)) == 1


def test_half_a_character_is_not_shown():
    class Halves(ToyModel):
        def logprobs(self, tokens):
            values = np.full(TOKENIZER.vocab_size, -20.0)
            values[6] = 0.0
            return values

    slot = Generation(VOCABULARY, '"', 3, Sampling())
    run(slot, Halves(TOKENIZER.vocab_size, 0))
    [answer] = slot.answers().generated
    assert (answer.text, answer.finish, answer.tokens) == ("", "length", 3)
