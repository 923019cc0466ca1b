"""A pack's questions asked of labelled rows: in this process, or of a server.

Fills recordings (`spinf_serve.packs.recording`). Fits nothing and judges nothing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from spinf_serve.engine.work import Work
from spinf_serve.evals.pace import next_batch
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import wrapped
from spinf_serve.packs.question import Question
from spinf_serve.packs.recording import Header, Recording
from spinf_serve.packs.sample import SampleRow

BATCH_ROWS = 32
"""Most rows that are asked together: they share passes, and are lost together at worst."""

BATCH_SECONDS = 5.0
"""How long a batch may take before the next one is smaller, so that progress is seen."""

SAVE_SECONDS = 60.0
"""How often what was scored is kept."""

SAY_SECONDS = 5.0
"""How often progress is told."""

QUIET_SECONDS = 2.0
"""Nothing is told of what takes less."""


class Answers(Protocol):
    """What came back for one content."""

    @property
    def answers(self) -> tuple[QuestionAnswer, ...]:
        """One per question, in order."""
        ...


class Asked(Protocol):
    """Whoever answers: an `Engine`, or a server through `spinf_serve.evals.remote`."""

    def run(self, works: Sequence[Work]) -> Sequence[Answers]:
        """Answers to works in order. Raises `SpinfError`: the first refusal or fault."""
        ...


class Identified(Protocol):
    """What is known of the model that answers; see `spinf_serve.engine.fingerprint`."""

    @property
    def model(self) -> str:
        """Digest of the model, 64 hex digits."""
        ...

    @property
    def bits(self) -> str:
        """Digest of the model on its machine, 64 hex digits."""
        ...


def new_recording(model: str, fingerprint: Identified, pack: Pack) -> Recording:
    """An empty recording for a pack; `model` is the served model's id."""
    return Recording(Header(model, fingerprint.model, fingerprint.bits, pack.id, pack.version))


def presented(pack: Pack, row: SampleRow) -> str:
    """A row's content as the model reads it: with its context, filled, around it."""
    return wrapped(pack, row.text, row.context, row.parameters)


def score_rows(
    engine: Asked,
    pack: Pack,
    rows: Sequence[SampleRow],
    recording: Recording,
    say: Callable[[str], None],
    save: Callable[[Recording], None] | None = None,
    *,
    floors: bool = True,
) -> int:
    """Ask the pack's questions of every row, as far as the recording does not hold the answers.

    Args:
        engine: an engine on this thread, or a server; its model is the recording's.
        recording: filled in place; whatever was answered is in it also when this is broken off.
        say: gets a line now and then: rows done, rate, time left.
        save: keeps the recording; called about every `SAVE_SECONDS` and at the end, also of a run
            that is broken off, when there is something new.
        floors: whether the recording is to hold floors; a server does not tell their logprobs.

    Returns:
        How many rows were asked. Raises `Unusable` when a row or question is refused, with the
        row's id, and `Fault` when the model fails.
    """
    questions = pack.questions if floors else tuple(map(_without_floor, pack.questions))
    open_rows = []
    for row in rows:
        content = presented(pack, row)
        missing = recording.missing(content, questions)
        if missing:
            open_rows.append((row, Work(content, missing)))
    pace = _Pace(len(open_rows), say)
    saved_at = time.monotonic()
    unsaved = False
    try:
        while pace.left:
            batch = open_rows[pace.count : pace.count + pace.batch]
            for (_, work), result in zip(batch, _run(engine, batch), strict=True):
                recording.add(work.content, work.questions, result.answers)
            unsaved = True
            pace.done(len(batch))
            if save is not None and time.monotonic() - saved_at > SAVE_SECONDS:
                save(recording)
                saved_at, unsaved = time.monotonic(), False
    finally:
        if save is not None and unsaved:
            save(recording)
    return len(open_rows)


def ask(
    engine: Asked,
    contents: Sequence[str],
    questions: Sequence[Question],
    say: Callable[[str], None],
) -> list[tuple[QuestionAnswer, ...]]:
    """The answers of each content, whole, floors where they are wanted.

    Raises `Unusable` for the first refusal, with the question's id, and `Fault`.
    """
    asked = tuple(questions)
    pace = _Pace(len(contents), say)
    found: list[tuple[QuestionAnswer, ...]] = []
    while pace.left:
        batch = contents[pace.count : pace.count + pace.batch]
        works = [Work(text, asked) for text in batch]
        try:
            found += [one.answers for one in engine.run(works)]
        except Refused as refused:
            raise Unusable(f"{_which(refused, works[0])}{refused.message}") from None
        pace.done(len(batch))
    return found


def _without_floor(question: Question) -> Question:
    return replace(question, empty_floor=False)


def _run(engine: Asked, batch: Sequence[tuple[SampleRow, Work]]) -> Sequence[Answers]:
    try:
        return engine.run([work for _, work in batch])
    except Refused as refused:
        if len(batch) == 1:
            row, work = batch[0]
            raise Unusable(f"row {row.id}: {_which(refused, work)}{refused.message}") from None
    # One by one, to find the row that is refused; nothing was answered yet.
    return [_run(engine, [one])[0] for one in batch]


def _which(refused: Refused, work: Work) -> str:
    """The question that a refusal is about, if it is about one."""
    head, _, rest = (refused.param or "").partition(".")
    number = rest.partition(".")[0]
    if head != "questions" or not number:
        return ""
    return f"question {work.questions[int(number)].id}: "


class _Pace:
    """How far a run is, how many contents go into the next batch, and what is told of it.

    Attributes:
        count: contents done.
        batch: contents of the next batch.
    """

    def __init__(self, of: int, say: Callable[[str], None]) -> None:
        self.count = 0
        self.batch = 1
        self._of = of
        self._say = say
        self._begun = self._batch_begun = time.monotonic()
        self._tell_at = self._begun + QUIET_SECONDS

    @property
    def left(self) -> int:
        """Contents that are not done."""
        return self._of - self.count

    def done(self, count: int) -> None:
        """Counts a batch; tells rate and time left now and then."""
        self.count += count
        now = time.monotonic()
        seconds = now - self._batch_begun
        self.batch = next_batch(self.batch, seconds, most=BATCH_ROWS, most_seconds=BATCH_SECONDS)
        self._batch_begun = now
        if now < self._tell_at:
            return
        self._tell_at = now + SAY_SECONDS
        rate = self.count / (now - self._begun)
        self._say(
            f"scored {self.count} of {self._of} contents, {rate:.2g} a second,"
            f" {self.left / rate:.0f} s left"
        )
