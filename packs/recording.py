"""Recorded scores of a sample: what a model answered, so that nothing is scored again.

One gzip file of JSON lines. The first is the header; then lines `{"floor": {prompt: [logprob, …]}}`
and `{"content": content, "prompts": {prompt: {"logprob": [logprob, …]}}}`, where content and prompt
are digests (`spinf_serve.packs.digests`): an edited question or content is simply not found. Floors
depend on the prompt alone and stand once. Logprobs are natural logs in float64, written so that
they come back bit for bit. Knows no engine.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from spinf_serve.packs.answer import OptionAnswer, QuestionAnswer, rounded
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.digests import content_digest, prompt_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.question import Question
from spinf_serve.packs.reads import Vectors, shares

FORMAT = 1

MAX_BYTES = 512 << 20
"""Most bytes of a recording that are read, packed and unpacked."""

MAX_LINE_BYTES = 64 << 20
"""Most bytes of one of its lines: a content with every question of a large pack has a hundredth."""

MOST_LOGPROB = 1e-6
"""Above 0 by no more than rounding."""

Logprobs = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """What scores were made with.

    Attributes:
        model: id of the model.
        model_digest: of weights, scheme, dtype and numerics, 64 hex digits; scores of another are
            other scores.
        bits: digest that also tells machines apart, 64 hex digits; to know, not to compare.
        pack, version: what they were made for; to know, not to compare.
    """

    model: str
    model_digest: str
    bits: str
    pack: str
    version: str


@dataclass(slots=True)
class Recording:
    """Scores of one model, found by digests.

    Attributes:
        header: what they were made with.
        prompt_style: how the model wants its text put; part of a prompt's digest.
        scores: content digest -> prompt digest -> logprobs of the options, in order.
        floors: prompt digest -> the same on empty content.
    """

    header: Header
    prompt_style: str = "plain"
    scores: dict[str, dict[str, Logprobs]] = field(default_factory=dict)
    floors: dict[str, Logprobs] = field(default_factory=dict)

    def logprobs(self, wrapped: str, question: Question, prompt: int = 0) -> Logprobs | None:
        """Of one filled template on one content; None when it was not recorded.

        Args:
            wrapped: the content with the context around it.
            prompt: index into `question.prompts`.
        """
        found = self.scores.get(content_digest(wrapped))
        return None if found is None else found.get(self._digest(question, prompt))

    def floor(self, question: Question, prompt: int = 0) -> Logprobs | None:
        """Of one filled template on empty content; None when it was not recorded."""
        return self.floors.get(self._digest(question, prompt))

    def missing(self, wrapped: str, questions: Sequence[Question]) -> tuple[Question, ...]:
        """Those that have to be scored on this content, floors counted where they are wanted."""
        found = self.scores.get(content_digest(wrapped), {})
        return tuple(
            question
            for question in questions
            if any(
                digest not in found or (question.empty_floor and digest not in self.floors)
                for digest in self._digests(question)
            )
        )

    def add(
        self, wrapped: str, questions: Sequence[Question], answers: Sequence[QuestionAnswer]
    ) -> None:
        """Keep the answers to questions on one content; both in the same order.

        Raises ValueError when they do not belong together or a number is not finite.
        """
        kept = self.scores.setdefault(content_digest(wrapped), {})
        for question, answer in zip(questions, answers, strict=True):
            if question.id != answer.id or len(question.prompts) != len(answer.prompts):
                raise ValueError(
                    f"the answer {answer.id!r} is none to the question {question.id!r}"
                )
            for digest, prompt in zip(self._digests(question), answer.prompts, strict=True):
                if tuple(option.text for option in prompt.options) != question.options:
                    raise ValueError(f"{question.id!r} was answered over other options")
                kept[digest] = _finite([option.logprob for option in prompt.options], question.id)
                floor = _floor(prompt.options)
                if floor is not None:
                    self.floors[digest] = _finite(floor, question.id)

    def vectors(self, wrapped: str, pack: Pack) -> Vectors | None:
        """What the pack's reads need of this content; None when a question is missing.

        That is what `reads.vectors` makes of the answers that were recorded.
        """
        found = self.scores.get(content_digest(wrapped))
        if found is None:
            return None
        result = {}
        for question in pack.questions:
            pairs = zip(question.prompts, self._digests(question), strict=True)
            for prompt, digest in pairs:
                logprobs = found.get(digest)
                if logprobs is None:
                    return None
                p = shares(logprobs, question.id)
                if pack.answers == "p":
                    p = np.array([rounded(one) for one in p.tolist()])
                result[question.id, prompt.values.get("F")] = p
        return result

    def lengths(self, questions: Sequence[Question]) -> dict[str, int]:
        """Prompt digest -> number of options, of all filled templates of questions."""
        return {
            digest: len(question.options)
            for question in questions
            for digest in self._digests(question)
        }

    def _digest(self, question: Question, prompt: int) -> str:
        return prompt_digest(
            question.prompts[prompt].text,
            question.options,
            question.case_insensitive,
            self.prompt_style,
        )

    def _digests(self, question: Question) -> Iterator[str]:
        return (self._digest(question, index) for index in range(len(question.prompts)))


def write_recording(path: Path, recording: Recording) -> None:
    """Write a recording beside its place and rename it: a reader sees the old or the new one.

    Equal recordings make equal bytes.
    """
    data = io.BytesIO()
    # No file name and no time in the file: its bytes are its content's.
    with gzip.GzipFile(filename="", mode="wb", fileobj=data, mtime=0) as packed:
        for line in _lines(recording):
            text = json.dumps(line, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
            packed.write(text.encode() + b"\n")
    write_beside(path, data.getvalue())


def read_recording(
    path: Path,
    model_digest: str,
    say: Callable[[str], None],
    questions: Sequence[Question] = (),
) -> Recording | None:
    """The recording of a model.

    Args:
        model_digest: of the model that is served, 64 hex digits.
        say: told in one line why there is nothing, when the file was made with another model.
        questions: what is going to be looked up; their answers are checked to have as many numbers
            as there are options. Those of one prompt have equally many in any case.

    Returns:
        None when it was made with another model. Raises `Unusable` when the file is damaged, or
        not there.
    """
    try:
        # What is packed is read whole: a recording of any use is small beside its limit unpacked.
        with gzip.open(io.BytesIO(read_regular(path, MAX_BYTES)), "rb") as packed:
            lines = _parsed(path, packed)
            header, prompt_style = _header(path, next(lines, None))
            if header.model_digest != model_digest:
                say(
                    f"{_shown(path)} was recorded with {header.model} (digest"
                    f" {header.model_digest[:12]}), not with the served model (digest"
                    f" {model_digest[:12]}): none of it is used"
                )
                return None
            recording = Recording(header, prompt_style)
            lengths = recording.lengths(questions)
            for number, line in enumerate(lines, start=2):
                _take(path, number, line, recording, lengths)
    except FileNotFoundError:
        raise Unusable(f"{shown(path)}: there is no such file; record the sample first") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Unusable(f"{_shown(path)} is damaged ({error}); record the sample again") from None
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    return recording


def _lines(recording: Recording) -> Iterator[Mapping[str, Any]]:
    style = {"prompt_style": recording.prompt_style}
    yield {"format": FORMAT, **asdict(recording.header), **style}
    for prompt, logprobs in sorted(recording.floors.items()):
        yield {"floor": {prompt: logprobs}}
    for content, prompts in sorted(recording.scores.items()):
        listed = {prompt: {"logprob": logprobs} for prompt, logprobs in sorted(prompts.items())}
        yield {"content": content, "prompts": listed}


def _parsed(path: Path, packed: Any) -> Iterator[Any]:
    left = MAX_BYTES
    number = 0
    while line := packed.readline(min(left, MAX_LINE_BYTES) + 1):
        number += 1
        left -= len(line)
        if left < 0 or len(line) > MAX_LINE_BYTES:
            raise Unusable(
                f"{_shown(path)}: unpacked, line {number} or all up to it is larger than is read"
                f" ({MAX_LINE_BYTES:,} and {MAX_BYTES:,} bytes); record the sample again, in parts"
            )
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise _damaged(path, number) from None


def _header(path: Path, line: Any) -> tuple[Header, str]:
    if not isinstance(line, dict) or "format" not in line:
        raise _damaged(path, 1)
    # In Python true equals 1.
    if type(line["format"]) is not int:
        raise _damaged(path, 1)
    if line["format"] != FORMAT:
        raise Unusable(
            f"{_shown(path)} has the format {line['format']}; this version reads {FORMAT}:"
            " record the sample again"
        )
    names = ("model", "model_digest", "bits", "pack", "version", "prompt_style")
    texts = [text for name in names if isinstance(text := line.get(name), str)]
    if len(texts) < len(names):
        raise _damaged(path, 1)
    return Header(*texts[:-1]), texts[-1]


def _take(
    path: Path, number: int, line: Any, recording: Recording, lengths: dict[str, int]
) -> None:
    def numbers(prompt: str, given: Any) -> Logprobs:
        found = _numbers(path, number, given)
        if lengths.setdefault(prompt, len(found)) != len(found):
            raise _damaged(path, number)
        return found

    match line:
        case {"floor": dict(floors)}:
            for prompt, logprobs in floors.items():
                recording.floors[prompt] = numbers(prompt, logprobs)
        case {"content": str(content), "prompts": dict(prompts)}:
            kept = recording.scores.setdefault(content, {})
            for prompt, scores in prompts.items():
                logprobs = scores.get("logprob") if isinstance(scores, dict) else None
                kept[prompt] = numbers(prompt, logprobs)
        case _:
            raise _damaged(path, number)


def _numbers(path: Path, number: int, given: Any) -> Logprobs:
    if not isinstance(given, list) or not given:
        raise _damaged(path, number)
    if not all(
        isinstance(value, float) and isfinite(value) and value <= MOST_LOGPROB for value in given
    ):
        raise _damaged(path, number)
    return tuple(given)


def _shown(path: Path) -> str:
    return shown(path.name)


def _damaged(path: Path, number: int) -> Unusable:
    return Unusable(
        f"{_shown(path)}: line {number} is not one of a recording; record the sample again"
    )


def _floor(options: Sequence[OptionAnswer]) -> list[float] | None:
    found = [option.floor_logprob for option in options]
    floors = [value for value in found if value is not None]
    return floors if len(floors) == len(found) else None


def _finite(values: Sequence[float], question: str) -> Logprobs:
    if not all(map(isfinite, values)):
        raise ValueError(f"question {question!r}: {list(values)} are not all finite numbers")
    return tuple(map(float, values))
