"""Answers of slots without a model: words and numbers of the content, by checksum."""

import re
import zlib
from collections.abc import Sequence

from spinf_serve.engine.extraction.answers import Finish, FoundAnswer, GeneratedAnswer, SlotAnswers
from spinf_serve.engine.extraction.numbers.reader import read
from spinf_serve.packs.question import Sampling, Slot
from spinf_serve.packs.template import SlotKind

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\(?-?\d[\d.,]*\d%?\)?|\(?-?\d%?\)?")
_AMOUNT = re.compile(r"[$€£]\s?\d[\d.,]*\d|[$€£]\s?\d|\d[\d.,]*\s?(?:EUR|USD|CHF)")


def slot_answers(content: str, slot: Slot, prompt: str) -> SlotAnswers:
    """What a slot gives on a content; a function of these three alone."""
    if slot.sampling is not None:
        texts = tuple(
            written(content, prompt, slot.max_tokens, slot.sampling, number)
            for number in range(slot.sampling.n)
        )
        return SlotAnswers("text", generated=texts, tokens=sum(text.tokens for text in texts))
    if slot.kind is SlotKind.TEXT:
        found = [FoundAnswer(text, p) for text, p in _weighed(_WORD.findall(content), prompt)]
        return _searched("text", found)
    pattern, kind = (_NUMBER, "number") if slot.kind is SlotKind.NUMBER else (_AMOUNT, "amount")
    numbers = []
    for text, p in _weighed(pattern.findall(content), prompt):
        reading = read(text, "number" if kind == "number" else "amount")
        if reading is not None:
            numbers.append(FoundAnswer(text, p, reading.values, reading.currency, reading.unit))
    return _searched("number" if kind == "number" else "currency", numbers)


def _weighed(texts: list[str], prompt: str) -> list[tuple[str, float]]:
    """Distinct texts with probabilities that sum to less than 1, best first."""
    distinct = list(dict.fromkeys(texts))
    ranked = sorted(distinct, key=lambda text: zlib.crc32((prompt + text).encode()))
    return [(text, 0.55 * 0.4**place) for place, text in enumerate(ranked)]


def _searched(kind, found: list[FoundAnswer]) -> SlotAnswers:
    mass = sum(one.p for one in found)
    first = next((one.values[0] for one in found if one.values), None)
    negative = None if kind == "text" or first is None else float(first < 0)
    return SlotAnswers(kind, tuple(found), mass, len(found), negative, (), 3 * len(found) + 1)


def written(
    content: str, prompt: str, max_tokens: int, sampling: Sampling, number: int = 0
) -> GeneratedAnswer:
    """A text of the content's words, rotated by seed and number where it is sampled."""
    words = _WORD.findall(content)
    turn = sampling.seed + number if sampling.temperature > 0 else 0
    turned = words[turn % len(words) :] + words[: turn % len(words)] if words else []
    kept = turned[:max_tokens]
    finish: Finish = "length" if len(turned) > max_tokens else "stop"
    return GeneratedAnswer(" ".join(kept), finish, len(kept))


def stopped(text: GeneratedAnswer, stop: Sequence[str]) -> GeneratedAnswer:
    """A text up to the first of some texts."""
    places = [at for one in stop if (at := text.text.find(one)) >= 0]
    if not places:
        return text
    kept = text.text[: min(places)]
    return GeneratedAnswer(kept, "stop", len(kept.split()))
