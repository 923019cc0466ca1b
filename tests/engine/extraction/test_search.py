import math

import pytest

from spinf_serve.engine.extraction.merging import number_key, text_key
from spinf_serve.engine.extraction.numbers.grammar import AUTOMATA, Kind
from spinf_serve.engine.extraction.numbers.reader import read
from spinf_serve.engine.extraction.search import Effort, NumberSearch, TextSearch
from spinf_serve.engine.extraction.vocabulary import Vocabulary
from tests.engine.extraction.toy_model import (
    ToyModel,
    ToyTokenizer,
    numbers_by_enumeration,
    run,
    texts_by_enumeration,
)

EVERYTHING = Effort(beams=10**9, continuations=10**9, least=0.0, share=0.0)
MOST = 4
WORDS = ("a", " the", "C", "++", '"', '."', "\n", "\u201d", b"\xc3", b"\xa4")
DIGITS = ("1", "00", ",", ".", "-", "(", ")", "%", " million")
MONEY = ("1", "00", ".", "-", "$", b"\xe2\x82", b"\xac", " EUR", ")")


def text_oracle(model: ToyModel, pieces: list[bytes], stop: str) -> dict[str, float]:
    marks = [mark.encode() for mark in {'"': '"\u201d', "'": "'\u2019"}.get(stop, stop)]
    return texts_by_enumeration(model, pieces, MOST, [*marks, b"\n"])


def merged(found: dict[str, float], key) -> list[tuple[str, float]]:
    """Shown text and probability of each answer, best first."""
    groups: dict[object, list[str]] = {}
    for text in sorted(found, key=lambda text: (-found[text], text)):
        groups.setdefault(key(text), []).append(text)
    answers = [(texts[0], math.fsum(found[text] for text in texts)) for texts in groups.values()]
    return sorted(answers, key=lambda answer: -answer[1])


def number_key_of(text: str, kind: Kind) -> object:
    reading = read(text, kind)
    assert reading is not None
    return number_key(text, reading)


def is_viable(kind: Kind):
    """Whether bytes begin a number: whole characters that the grammar follows, then a part of one."""

    def viable(spelled: bytes) -> bool:
        for cut in range(3):
            head, tail = spelled[: len(spelled) - cut], spelled[len(spelled) - cut :]
            try:
                state = AUTOMATA[kind].start.after(head.decode())
            except UnicodeDecodeError:
                continue
            if state is None:
                return False
            return not tail or any(c.encode().startswith(tail) for c in state.next_chars)
        return False

    return viable


@pytest.mark.parametrize("stop", ['"', "", "b"])
@pytest.mark.parametrize("seed", range(2))
def test_texts_are_exactly_those_that_the_model_can_write(stop, seed):
    tokenizer = ToyTokenizer(WORDS)
    model = ToyModel(tokenizer.vocab_size, seed)
    effort = Effort(10**9, 10**9, 0.0, 0.0, spare=10**6)
    slot = TextSearch(Vocabulary(tokenizer), stop, max_tokens=MOST, effort=effort)
    assert run(slot, model) == MOST + 1
    answers = slot.answers()
    found = text_oracle(model, tokenizer.pieces, stop)
    expected = merged(found, text_key)
    assert [answer.text for answer in answers.found[:50]] == [text for text, _ in expected[:50]]
    assert [answer.p for answer in answers.found] == pytest.approx([p for _, p in expected])
    assert answers.mass == pytest.approx(math.fsum(found.values()), abs=1e-9)
    assert answers.spellings == len(found)


@pytest.mark.parametrize(
    ("kind", "pieces", "seed"), [("number", DIGITS, 0), ("number", DIGITS, 1), ("amount", MONEY, 0)]
)
def test_numbers_are_exactly_those_that_the_model_can_write(kind, pieces, seed):
    tokenizer = ToyTokenizer(pieces)
    model = ToyModel(tokenizer.vocab_size, seed)
    slot = NumberSearch(Vocabulary(tokenizer), kind, max_tokens=MOST, effort=EVERYTHING)
    run(slot, model)
    answers = slot.answers()
    found = numbers_by_enumeration(
        model, tokenizer.pieces, MOST, is_viable(kind), lambda text: read(text, kind) is not None
    )
    assert len(found) > 20
    expected = merged(found, lambda text: number_key_of(text, kind))
    assert [answer.p for answer in answers.found] == pytest.approx([p for _, p in expected])
    assert [answer.text for answer in answers.found] == [text for text, _ in expected]
    assert answers.mass == pytest.approx(math.fsum(found.values()), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_usual_search_finds_the_best_answers_and_no_more_than_their_probability(seed):
    tokenizer = ToyTokenizer(WORDS)
    model = ToyModel(tokenizer.vocab_size, seed, sharpness=4.0)
    slot = TextSearch(Vocabulary(tokenizer), '"', max_tokens=MOST)
    run(slot, model)
    whole = dict(merged(text_oracle(model, tokenizer.pieces, '"'), text_key))
    by_key = {text_key(text): p for text, p in whole.items()}
    answers = slot.answers().found
    best = max(whole, key=lambda text: whole[text])
    assert text_key(answers[0].text) == text_key(best)
    assert answers[0].p == pytest.approx(whole[best], rel=0.05)
    for answer in answers:
        assert answer.p <= by_key[text_key(answer.text)] + 1e-12


@pytest.mark.parametrize("sharpness", (1.0, 4.0, 12.0))
@pytest.mark.parametrize("seed", range(6))
def test_what_a_usual_search_has_not_found_is_no_more_than_its_mass_leaves(seed, sharpness):
    """An answer's own probability lies between what is told and that with all that was not found."""
    tokenizer = ToyTokenizer(WORDS)
    model = ToyModel(tokenizer.vocab_size, seed, sharpness=sharpness)
    slot = TextSearch(Vocabulary(tokenizer), '"', max_tokens=MOST)
    run(slot, model)
    answers = slot.answers()
    whole = {
        text_key(text): p for text, p in merged(text_oracle(model, tokenizer.pieces, '"'), text_key)
    }
    told = {text_key(answer.text): answer.p for answer in answers.found}
    everything = math.fsum(whole.values())
    missing = everything - answers.mass
    assert answers.mass == pytest.approx(math.fsum(told.values()))
    # A sharp model leaves little, and its answers are exact but for that.
    assert missing < {1.0: 0.15, 4.0: 0.03, 12.0: 0.01}[sharpness]
    for key, p in whole.items():
        assert told.get(key, 0.0) <= p + 1e-12
        assert p <= told.get(key, 0.0) + missing + 1e-12
    # A spelling is given up below two hundredths of the best answer, and an answer has several.
    best = max([0.02, *told.values()])
    assert all(p < 0.12 * best for key, p in whole.items() if key not in told)


def test_no_answer_is_longer_than_its_tokens_and_none_ends_in_half_a_character():
    tokenizer = ToyTokenizer((b"\xc3", b"\xa4", "a", '"'))
    model = ToyModel(tokenizer.vocab_size, 7, sharpness=0.1)
    slot = TextSearch(Vocabulary(tokenizer), '"', max_tokens=2, effort=EVERYTHING)
    run(slot, model)
    texts = {answer.text for answer in slot.answers().found}
    assert texts <= {"a", "aa", "ä"}
    assert "ä" in texts


def test_a_model_that_has_nothing_to_say_gives_no_answer():
    tokenizer = ToyTokenizer(('"', "a"))

    class Silent(ToyModel):
        def logprobs(self, tokens):
            import numpy as np

            return np.log(np.array([0.999, 0.0005, 0.0005]))

    slot = TextSearch(Vocabulary(tokenizer), '"', max_tokens=4)
    run(slot, Silent(3, 0))
    answers = slot.answers()
    assert answers.found == ()
    assert answers.mass == 0.0


def test_the_share_of_negative_answers_is_of_those_as_large_as_the_best():
    tokenizer = ToyTokenizer(("5", "-", "7"))
    model = ToyModel(tokenizer.vocab_size, 3)
    slot = NumberSearch(Vocabulary(tokenizer), "number", max_tokens=2, effort=EVERYTHING)
    run(slot, model)
    answers = slot.answers()
    size = abs(answers.found[0].values[0])
    alike = [a for a in answers.found if a.values and abs(a.values[0]) == size]
    below = math.fsum(a.p for a in alike if a.values[0] < 0)
    assert answers.p_negative == pytest.approx(below / math.fsum(a.p for a in alike))
    assert answers.p_negative is not None and 0 < answers.p_negative < 1


def test_an_ambiguous_number_keeps_both_readings():
    tokenizer = ToyTokenizer(("1", ",", "234", " x"))
    model = ToyModel(tokenizer.vocab_size, 0, sharpness=0.5)
    slot = NumberSearch(Vocabulary(tokenizer), "number", max_tokens=3, effort=EVERYTHING)
    run(slot, model)
    [answer] = [a for a in slot.answers().found if a.text == "1,234"]
    assert [str(value) for value in answer.values] == ["1234", "1.234"]
