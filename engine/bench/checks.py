"""Checks that a score is a pure function on this machine: the same works, laid out differently.

Every check compares bits. The works are read through the engine as anyone else's; nothing is faked.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Result, Work

Bits = tuple[bytes, ...]
"""Bits of every prompt's answer on one content: logprobs, p, residual, floors."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: what was compared, answers compared, answers whose bits differ.

    `sizes` are those of the passes, contents or questions at which they did, where there are many.
    """

    name: str
    compared: int
    different: int
    sizes: tuple[int, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether something was compared and no bit differed."""
        return self.compared > 0 and self.different == 0


def answer_bits(result: Result) -> Bits:
    """Bits of a result, one entry per filled template, in order."""
    return tuple(
        b"".join(
            struct.pack("<dd", *_numbers(option.logprob, option.p))
            + struct.pack("<dd", *_numbers(option.floor_logprob, option.floor_p))
            for option in prompt.options
        )
        + struct.pack("<dd", *_numbers(prompt.residual, prompt.floor_residual))
        for answer in result.answers
        for prompt in answer.prompts
    )


def digest_of(results: Sequence[Result]) -> str:
    """sha256 over the bits of all answers, 64 hex digits; equal digests mean equal scores."""
    digest = hashlib.sha256()
    for result in results:
        for bits in answer_bits(result):
            digest.update(bits)
    return digest.hexdigest()


def invariance_checks(engine: Engine, works: Sequence[Work]) -> Iterator[Check]:
    """Runs works together, then in other company, and compares the bits of every answer.

    Args:
        works: at least two, all with the same questions.
    """
    together = [answer_bits(result) for result in engine.run(works)]
    yield compare("run again", together, _each(engine, works))

    alone = [answer_bits(engine.run([work])[0]) for work in works]
    yield compare("each content alone", together, alone)

    turned = [answer_bits(result) for result in engine.run(works[::-1])][::-1]
    yield compare("contents in reverse order", together, turned)

    first = works[0]
    single = [
        answer_bits(engine.run([Work(first.content, (question,))])[0])
        for question in first.questions
    ]
    joined = tuple(bits for part in single for bits in part)
    yield compare("each question alone", together[:1], [joined])

    backwards = Work(first.content, first.questions[::-1])
    mirrored = answer_bits(engine.run([backwards])[0])
    per_question = [len(question.prompts) for question in backwards.questions]
    yield compare("questions in reverse order", together[:1], [_unreversed(mirrored, per_question)])

    if engine.fingerprint.facts["backend"] == "cpu":
        yield from _other_threads(engine, works, together)


def _each(engine: Engine, works: Sequence[Work]) -> list[Bits]:
    return [answer_bits(result) for result in engine.run(works)]


def _other_threads(engine: Engine, works: Sequence[Work], expected: list[Bits]) -> Iterator[Check]:
    threads = torch.get_num_threads()
    try:
        for other in sorted({1, 2, max(1, threads - 1)} - {threads}):
            torch.set_num_threads(other)
            name = f"{other} thread{'s' if other > 1 else ''} instead of {threads}"
            yield compare(name, expected, _each(engine, works))
    finally:
        torch.set_num_threads(threads)


def _unreversed(bits: Bits, sizes: Sequence[int]) -> Bits:
    """Puts the answers of reversed questions back in the questions' own order."""
    parts: list[Bits] = []
    at = 0
    for size in sizes:
        parts.append(bits[at : at + size])
        at += size
    return tuple(one for part in reversed(parts) for one in part)


def compare(name: str, expected: Sequence[Bits], got: Sequence[Bits]) -> Check:
    """Two runs of the same works, answer by answer."""
    pairs = [(a, b) for x, y in zip(expected, got, strict=True) for a, b in zip(x, y, strict=True)]
    return Check(name, len(pairs), sum(a != b for a, b in pairs))


def _numbers(*values: float | None) -> tuple[float, ...]:
    """None as a number that no probability, log-probability or residual can be."""
    return tuple(7.0 if value is None else value for value in values)
