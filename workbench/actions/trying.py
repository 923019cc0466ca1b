"""One text asked about, right now: what is asked, what comes back, and which texts were tried last.

The same function asks a server from the workbench's own process, and the model in that of
`workbench.model_child`. Knows no screen.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd

from spinf_serve.evals.deciding import context_of, parts_of, presented
from spinf_serve.evals.score_tables import Identity
from spinf_serve.evals.scorer import Scorer, Work
from spinf_serve.evals.sheets import Row
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.decision import DecisionCall, thresholds
from spinf_serve.packs.errors import Fault, SpinfError, Unusable
from spinf_serve.packs.evaluate import Evaluation, evaluate, state
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.reads import vectors
from spinf_serve.packs.reason import reason
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk, as_json

RECENT: Final = "tried.json"
MOST_RECENT: Final = 30
MOST_FOUND: Final = 30


@dataclass(frozen=True, slots=True)
class Content:
    """A text with what goes around it.

    Attributes:
        context: None for the pack's first.
        parameters: fill the context; those that a pack has not are left out.
        id: names it among the recent ones; empty for one that is not.
    """

    text: str
    context: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    id: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came back for one content.

    Attributes:
        chunks: what was read, one behind the other; one unless the content was cut.
        answers: of each chunk, one per question.
        stopped: code and message of why there are none.
    """

    identity: Identity
    chunks: tuple[str, ...] = ()
    answers: tuple[tuple[QuestionAnswer, ...], ...] = ()
    stopped: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What a pack makes of it.

    Attributes:
        reason: why, in words.
        state: `provisional` or `certified` on this model.
        limits: category -> the threshold in force.
    """

    found: Evaluation
    reason: str
    state: str
    limits: Mapping[str, float | None]


def ask(scorer: Scorer, pack: Pack, content: Content) -> Asked:
    """Ask all of a pack's questions about a content, with floors.

    Raises `Unusable` when nobody answers.
    """
    identity = replace(scorer.identity, facts=dict(scorer.identity.facts))
    known = {name: value for name, value in content.parameters if name in pack.parameters}
    context = content.context if content.context in pack.contexts else None
    row = presented(Row("the text", content.text, {}), pack, context_of(pack, context), known)
    if row.refused is not None:
        return Asked(identity, stopped=(row.refused.code, row.refused.message))
    chunks = tuple(parts_of(pack, row, scorer.reader))
    questions = tuple(replace(one, empty_floor=True) for one in pack.questions)
    answers = []
    for outcome in scorer.run([Work(chunk, questions) for chunk in chunks]):
        if isinstance(outcome, SpinfError):
            return Asked(identity, chunks, stopped=(outcome.code, _told(pack, outcome)))
        answers.append(tuple(_plain(one) for one in outcome))
    return Asked(identity, chunks, tuple(answers))


def _plain(answer: QuestionAnswer) -> QuestionAnswer:
    """The answer with mappings that can go from one process to another."""
    prompts = tuple(one._replace(values=dict(one.values)) for one in answer.prompts)
    return answer._replace(prompts=prompts)


def _told(pack: Pack, stop: SpinfError) -> str:
    head, _, rest = (stop.param or "").partition(".")
    number = rest.partition(".")[0]
    if head == "questions" and number.isdecimal():
        return f"question {pack.questions[int(number)].id}: {stop.message}"
    if stop.code == "content_too_long" and pack.on_long != "refuse":
        return (
            f"{stop.message}; the pack has long texts cut, which takes the model on this machine:"
            " a server asked in this way does not cut"
        )
    return stop.message


def judged(pack: Pack, asked: Asked) -> Judged | None:
    """The decision; None for a draft on that model, or without answers. Raises `Fault`."""
    constants = pack.constants((asked.identity.served,))
    if constants is None or not asked.answers:
        return None
    call = DecisionCall()
    try:
        read = [vectors(pack, each) for each in asked.answers]
        found = evaluate(pack, constants, read, call)
    except Fault as fault:
        raise Unusable(f"the pack decides nothing here: {fault.message}") from None
    return Judged(
        found,
        reason(pack, constants, call, found),
        state(pack, constants, asked.identity.model),
        thresholds(pack, constants, call),
    )


def rows_of(pack: Pack, answers: tuple[QuestionAnswer, ...]) -> pd.DataFrame:
    """Every option of every filled template, a row each.

    Columns: number (of the template), question, filled, template, option, place, options (how many
    there are), p, floor, lift, residual, floor_residual. Floors and lifts are NaN where a server
    gives none.
    """
    found: list[dict[str, Any]] = []
    number = 0
    for question, answer in zip(pack.questions, answers, strict=True):
        for prompt, told in zip(question.prompts, answer.prompts, strict=True):
            filled = ", ".join(told.values.values())
            for place, option in enumerate(told.options):
                found.append(
                    {
                        "number": number,
                        "question": question.id,
                        "filled": filled,
                        "template": prompt.text,
                        "option": option.text,
                        "place": place,
                        "options": len(told.options),
                        "p": option.p,
                        "floor": option.floor_p,
                        "lift": None if option.floor_p is None else option.p - option.floor_p,
                        "residual": told.residual,
                        "floor_residual": told.floor_residual,
                    }
                )
            number += 1
    frame = pd.DataFrame(found)
    numbers = ["p", "floor", "lift", "residual", "floor_residual"]
    frame[numbers] = frame[numbers].astype(float)
    return frame


def recent(desk: Desk) -> list[Content]:
    """The texts that were tried last, newest first."""
    try:
        told = json.loads((desk.private / RECENT).read_bytes())["tried"]
        return [
            Content(
                one["text"],
                one["context"],
                tuple(map(tuple, one["parameters"])),
                one["id"],
                one["at"],
            )
            for one in told
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def note_tried(desk: Desk, content: Content) -> Content:
    """Put a text to the front of the recent ones; the same one is not listed twice."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with locked(desk.private / RECENT, LOCK_SECONDS):
        before = recent(desk)
        same = next((one for one in before if _is_same(one, content)), None)
        id = secrets.token_hex(4) if same is None else same.id
        noted = replace(content, id=id, at=at)
        _write(desk, [noted, *(one for one in before if one.id != id)][:MOST_RECENT])
    return noted


def forget_tried(desk: Desk, id: str | None) -> None:
    """Take one text out of the recent ones; None takes all."""
    with locked(desk.private / RECENT, LOCK_SECONDS):
        kept = [] if id is None else [one for one in recent(desk) if one.id != id]
        _write(desk, kept)


def _is_same(one: Content, other: Content) -> bool:
    return replace(one, id="", at="") == replace(other, id="", at="")


def _write(desk: Desk, contents: list[Content]) -> None:
    told = [
        {
            "text": one.text,
            "context": one.context,
            "parameters": one.parameters,
            "id": one.id,
            "at": one.at,
        }
        for one in contents
    ]
    write_beside(desk.private / RECENT, as_json({"tried": told}))


def found_rows(desk: Desk, dataset: str, words: str) -> list[tuple[str, Content]]:
    """Rows of a dataset with some words in text or id, as (id, content); the first ones without."""
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            "SELECT row_id, text, context, parameters FROM item WHERE dataset = $1 AND media IS NULL"
            " AND ($2 = '' OR contains(lower(text), lower($2)) OR row_id = $2)"
            " ORDER BY number LIMIT $3",
            [dataset, words.strip(), MOST_FOUND],
        ).fetchall()
    return [
        (id, Content(text, context, tuple(json.loads(parameters).items())))
        for id, text, context, parameters in found
    ]


def found_in_sheet(table: Path, words: str) -> list[tuple[str, Content]]:
    """The same of a decided sheet, flagged rows first; see `actions.sheets.table_of`."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT row, text FROM read_parquet($1) WHERE text IS NOT NULL"
            " AND ($2 = '' OR contains(lower(text), lower($2))) ORDER BY rank, number LIMIT $3",
            [str(table), words.strip(), MOST_FOUND],
        ).fetchall()
    return [(place, Content(text)) for place, text in found]
