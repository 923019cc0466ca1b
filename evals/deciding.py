"""A sheet decided row by row: what is asked of the model, what is kept meanwhile, what is told.

Opens no model: who answers is given.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from spinf_serve.evals.decided import Kept, cells_of, refused_cells
from spinf_serve.evals.scorer import Outcome, Scorer, Work
from spinf_serve.evals.sheets import Cell, Row, Sheet, Wanted
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.ask import check_unicode
from spinf_serve.packs.atomic import locked
from spinf_serve.packs.chunks import Reader, chunks_of
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.digests import constants_digest, content_digest
from spinf_serve.packs.errors import Fault, Refused, SpinfError, Unusable
from spinf_serve.packs.evaluate import evaluate, state
from spinf_serve.packs.files import shown
from spinf_serve.packs.pack import Constants, Context, Pack
from spinf_serve.packs.present import filled
from spinf_serve.packs.question import Question
from spinf_serve.packs.reads import vectors

Report = Callable[[int, int], None]

PARAMETER = "parameters."
"""What the name of a column begins with that fills a parameter of the pack."""

BATCH_ROWS = 256
"""Most rows that are asked together, and lost together at worst."""

BATCH_SECONDS = 5.0
"""How long a batch may take before the next one is smaller."""

_LOCK_SECONDS = 1.0
_ERROR = "error"


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked of every row.

    Attributes:
        constants: of the pack on the model that answers.
        context: how contents are presented.
        parameters: what fills the context where a row has no column for it.
        scorer: who answers.
    """

    pack: Pack
    constants: Constants
    context: Context
    parameters: Mapping[str, str]
    scorer: Scorer


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a sheet.

    Attributes:
        rows: rows that are not blank.
        reused: of these, kept by an earlier run that was broken off.
        verdicts: `safe` or `unsafe` -> rows.
        refused: error code -> rows without an answer.
        seconds: what asking took.
    """

    rows: int
    reused: int
    verdicts: Mapping[str, int]
    refused: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Presented:
    """A row as it is asked: its text between the two halves of the context; or why it is not."""

    before: str
    text: str
    after: str
    refused: Refused | None = None

    @property
    def wrapped(self) -> str:
        """What the model reads."""
        return self.before + self.text + self.after

    @property
    def digest(self) -> str:
        """Of everything of the row that its cells depend on."""
        if self.refused is None:
            return content_digest(self.wrapped)
        return content_digest(f"{self.refused.code}: {self.refused.message}")


def asking(
    pack: Pack,
    scorer: Scorer,
    names: tuple[str, ...],
    context: str | None,
    parameters: Mapping[str, str],
) -> Asking:
    """What to ask of every row, checked. Raises `Unusable`.

    Args:
        names: those under which the pack's numbers may stand for the model that answers.
    """
    constants = pack.constants(names)
    if constants is None:
        model = scorer.identity.served
        fitted = f"it is fitted on {', '.join(pack.fitted)}" if pack.fitted else "it is a draft"
        raise Unusable(
            f"{pack.id} has no numbers for {model}, so it decides nothing there; {fitted}: fit"
            " it with `spinf-serve packs fit`"
        )
    for name in parameters:
        if name not in pack.parameters:
            has = ", ".join(pack.parameters) or "none"
            raise Unusable(f"{pack.id} has no parameter {name!r}; it has {has}")
    return Asking(pack, constants, context_of(pack, context), parameters, scorer)


def doubt(asked: Asking) -> str | None:
    """Why the pack's thresholds promise nothing on this model, in a line; None when they do."""
    identity = asked.scorer.identity
    if state(asked.pack, asked.constants, identity.model) == "certified":
        return None
    proof = asked.constants.proof
    why = "no proof of them holds there"
    if proof is not None and proof.get("model") == identity.model and proof.get("open"):
        why = f"nothing is promised of {', '.join(proof['open'])}"
    return (
        f"the thresholds of {asked.pack.id} {asked.pack.version} are provisional on"
        f" {identity.served}: {why}"
    )


def decide_sheet(
    sheet: Sheet, source: Path, wanted: Wanted, out: Path, asked: Asking, report: Report
) -> Decided:
    """Score every row of a sheet and write it with the pack's columns.

    Rows are kept in a file beside `out` as they are finished; a run that is broken off goes on
    there when it is started again.

    Args:
        source: the sheet's file.
        out: written beside its place at the end.
        report: gets rows done, and rows in all; what it raises ends the run, of which no finished
            row is lost.

    Raises `Unusable`, for instance when another process makes the same sheet.
    """
    try:
        with locked(out, _LOCK_SECONDS):
            return _decide(sheet, source, wanted, out, asked, report)
    except TimeoutError:
        raise Unusable(f"another process is making {shown(out)}; wait for it") from None


def _decide(
    sheet: Sheet, source: Path, wanted: Wanted, out: Path, asked: Asking, report: Report
) -> Decided:
    stamp = _stamp(source)
    # All of it before anything is asked: what is wrong with a row stops the whole.
    total = sum(1 for _ in sheet.rows(wanted))
    kept = Kept(out, _header(asked, wanted))
    begun = time.monotonic()
    try:
        reused = kept.resume(one.digest for one in _contents(sheet, wanted, asked))
        done = reused
        report(done, total)
        size = 1
        open_rows = islice(_contents(sheet, wanted, asked), reused, None)
        while batch := list(islice(open_rows, size)):
            before = time.monotonic()
            cells = _cells(asked, batch)
            kept.add(zip((one.digest for one in batch), cells, strict=True))
            done += len(batch)
            report(done, total)
            seconds = time.monotonic() - before
            if seconds < BATCH_SECONDS / 2:
                size = min(2 * size, BATCH_ROWS)
            elif seconds > BATCH_SECONDS:
                size = max(1, size // 2)
        took = time.monotonic() - begun
        if done != total or _stamp(source) != stamp:
            raise Unusable(
                f"{shown(source)} changed while it was read; start again, rows that are the same"
                " are not asked again"
            )
        sheet.write(out, wanted, kept.cells())
        told = _told(wanted, kept.cells())
    except BaseException:
        kept.close()
        raise
    kept.remove()
    return Decided(total, reused, *told, took)


def _header(asked: Asking, wanted: Wanted) -> dict[str, object]:
    """What a row's cells depend on besides its content."""
    identity, reader = asked.scorer.identity, asked.scorer.reader
    return {
        "pack": [asked.pack.id, asked.pack.version, asked.pack.digest],
        "constants": constants_digest(asked.constants),
        "model": [identity.served, identity.bits, identity.rounded],
        "columns": [column.name for column in wanted.added],
        "chunk_tokens": None if reader is None else reader.most_tokens,
    }


def _stamp(source: Path) -> tuple[int, int]:
    found = source.stat()
    return found.st_size, found.st_mtime_ns


def _contents(sheet: Sheet, wanted: Wanted, asked: Asking) -> Iterator[Presented]:
    rows = sheet.rows(wanted)
    return (presented(row, asked.pack, asked.context, asked.parameters) for row in rows)


def context_of(pack: Pack, name: str | None) -> Context:
    """A context by its name; None is the first. Raises `Unusable`."""
    if name is not None and name not in pack.contexts:
        raise Unusable(f"{pack.id} has no context {name!r}; it has {', '.join(pack.contexts)}")
    return pack.contexts[name or next(iter(pack.contexts))]


def questions_of(pack: Pack) -> tuple[Question, ...]:
    """The pack's questions without floors, which take no part in a decision."""
    return tuple(replace(one, empty_floor=False) for one in pack.questions)


def presented(row: Row, pack: Pack, context: Context, parameters: Mapping[str, str]) -> Presented:
    """A row as it is asked; refused when it has no text or does not fill the pack's context.

    Args:
        parameters: what fills the context where the row has no column for it.
    """
    try:
        if row.text is None or not row.text.strip():
            raise Refused("missing_value", "the row has no text", "text")
        own = {name.removeprefix(PARAMETER): cell for name, cell in row.more.items()}
        before, after = filled(pack, context, {**parameters, **own})
        check_unicode(before + row.text + after, "the text")
        return Presented(before, row.text, after)
    except Refused as refused:
        return Presented("", "", "", refused)


def _cells(asked: Asking, batch: Sequence[Presented]) -> list[Sequence[Cell]]:
    """The added cells of some rows, in order."""
    questions = questions_of(asked.pack)
    works = [
        []
        if one.refused
        else [Work(part, questions) for part in parts_of(asked.pack, one, asked.scorer.reader)]
        for one in batch
    ]
    outcomes = iter(asked.scorer.run([work for each in works for work in each]))
    return [
        _refused(asked, one.refused)
        if one.refused
        else _decided(asked, [next(outcomes) for _ in each])
        for one, each in zip(batch, works, strict=True)
    ]


def _decided(asked: Asking, chunks: Sequence[Outcome]) -> list[Cell]:
    """The cells of a row from the outcome of each of its chunks."""
    pack, constants = asked.pack, asked.constants
    answers: list[tuple[QuestionAnswer, ...]] = []
    for outcome in chunks:
        if isinstance(outcome, SpinfError):
            return _refused(asked, outcome)
        answers.append(outcome)
    try:
        found = [vectors(pack, each) for each in answers]
        return cells_of(pack, constants, evaluate(pack, constants, found, DecisionCall()))
    except Fault as fault:
        return _refused(asked, fault)


def _refused(asked: Asking, stop: SpinfError) -> list[Cell]:
    if (stop.param or "").startswith("questions"):
        # Of no row in particular: the next ones would all be refused.
        raise Unusable(
            f"{asked.scorer.identity.served} cannot be asked the pack {asked.pack.id}:"
            f" {stop.message}"
        )
    return refused_cells(asked.pack, stop.code, stop.message)


def parts_of(pack: Pack, one: Presented, reader: Reader | None) -> list[str]:
    """What is asked about for a row: its content, or its chunks where the pack has long ones cut.

    A server's tokenizer is not here, so that it refuses what is too long.
    """
    if pack.on_long == "refuse" or reader is None:
        return [one.wrapped]
    return chunks_of(reader, one.text, one.before, one.after)


def _told(wanted: Wanted, rows: Iterator[Sequence[Cell]]) -> tuple[dict[str, int], dict[str, int]]:
    """Verdicts and codes of refusals, counted."""
    verdicts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    error = next(at for at, one in enumerate(wanted.added) if one.name.endswith(_ERROR))
    for cells in rows:
        verdict, refusal = cells[0], cells[error]
        if isinstance(verdict, str):
            verdicts[verdict] += 1
        else:
            refused[str(refusal).partition(":")[0]] += 1
    return dict(verdicts), dict(refused)


def parameter_columns(pack: Pack) -> tuple[str, ...]:
    """The columns of a sheet, besides the text, that fill a pack's parameters."""
    return tuple(PARAMETER + name for name in pack.parameters)


def summary(decided: Decided, out: Path) -> Iterator[str]:
    """What became of a sheet, in lines."""
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(decided.verdicts.items()))
    yield f"{decided.rows} rows: {verdicts or 'none decided'}"
    if decided.refused:
        listed = ", ".join(f"{count} {code}" for code, count in sorted(decided.refused.items()))
        yield f"{sum(decided.refused.values())} rows without an answer: {listed}"
    asked = decided.rows - decided.reused
    if decided.reused:
        yield f"{decided.reused} rows were finished by an earlier run"
    yield f"{asked} rows asked in {decided.seconds:.0f} s; the sheet is {shown(out)}"
