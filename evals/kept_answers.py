"""Kept scores of some rows as answers, as if a model were asked again. Asks nobody."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.asking import digest_of, items
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import floors, identity_of
from spinf_serve.evals.scored import residual_of
from spinf_serve.evals.store import part
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.question import Question
from spinf_serve.packs.reads import shares

LOOKED_AT: Final = 1_000
"""Rows from a dataset's beginning among which those with all answers are looked for."""

Numbers = NDArray[np.float64]


def kept_answers(
    project: Project,
    dataset: str,
    pack: Pack,
    bits: str,
    questions: Sequence[Question],
    *,
    most: int,
    split: str | None = None,
) -> list[list[QuestionAnswer]]:
    """Answers of some rows to questions, of rows for which all of them are kept.

    Args:
        pack: presents the contents.
        bits: whose; the whole digest or the beginning of it.
        questions: any of the pack, or others about its contents.
        most: rows, spread over those that were found.

    Rows that were read in chunks are left out. Floors are None where they are not kept.
    Raises `Unusable`: there is nothing of that model.
    """
    asked = replace(pack, questions=tuple(questions))
    digests = [[digest_of(one, place) for place in range(len(one.prompts))] for one in questions]
    with project.open(write=False) as connection:
        identity = identity_of(connection, bits)
        window = items(connection, dataset, pack, split=split, count=LOOKED_AT)
        if not window:
            return []
        found = part(connection, identity, asked, window)
        if found.starts is not None:
            # Chunks stand among the rows: those of one row are no answer to it.
            whole = [item for item in window if isinstance(item.content, str)]
            lengths = np.diff([*found.starts, len(next(iter(found.logprobs.values())))])
            single = {id for id, n in zip(found.rows, lengths, strict=True) if n == 1}
            window = [item for item in whole if item.id in single]
            if not window:
                return []
            found = part(connection, identity, asked, window)
        empty = floors(connection, identity, {one for each in digests for one in each})
    there = np.all([~np.isnan(array).any(axis=1) for array in found.logprobs.values()], axis=0)
    rows = np.flatnonzero(there)
    if len(rows) > most:
        rows = rows[np.arange(most) * len(rows) // most]
    return [
        [
            QuestionAnswer(
                question.id,
                tuple(
                    _prompt(question, place, found.logprobs[digest][row], empty.get(digest))
                    for place, digest in enumerate(each)
                ),
                single_read=False,
            )
            for question, each in zip(questions, digests, strict=True)
        ]
        for row in rows.tolist()
    ]


def all_floors(rows: Sequence[Sequence[QuestionAnswer]]) -> bool:
    """Whether every answer has its floor."""
    return all(
        prompt.floor_residual is not None
        for answer in (rows[0] if rows else ())
        for prompt in answer.prompts
    )


def _prompt(
    question: Question, place: int, logprobs: Numbers, floor: Sequence[float] | None
) -> PromptAnswer:
    p = _shares(logprobs, question.id)
    empty = None if floor is None else np.asarray(floor, np.float64)
    floor_p = [None] * len(p) if empty is None else _shares(empty, question.id)
    floor_logs = [None] * len(p) if empty is None else empty.tolist()
    options = tuple(
        OptionAnswer(*one)
        for one in zip(question.options, logprobs.tolist(), p, floor_p, floor_logs, strict=True)
    )
    values: Mapping[str, str] = question.prompts[place].values
    return PromptAnswer(
        values, options, _residual(logprobs), None if empty is None else _residual(empty)
    )


def _shares(logprobs: Numbers, question: str) -> list[float]:
    return [float(one) for one in shares(logprobs.tolist(), question)]


def _residual(logprobs: Numbers) -> float:
    return float(residual_of(logprobs[None, :])[0])
