"""Whether the model still gives the bits that are kept: a sample of rows is asked again.

Scores are a function of model, machine, content and question; a difference means that the store was
damaged, or that something moves scores that the digest `bits` does not know. Changes nothing.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from spinf_serve.evals.asking import asked_about, by_options, count_rows, in_order, items, prompts
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import Identity, floors, identity_of, known, stored
from spinf_serve.evals.scorer import Scorer, Work
from spinf_serve.packs.answer import PromptAnswer
from spinf_serve.packs.chunks import chunks_of
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.errors import Fault, Refused, Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.recording import Logprobs

LOOKED_AT = 20
"""Rows that are looked at for each one wanted, as some may have no score."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer that is not what was kept.

    Attributes:
        row: its id; None for a floor.
        question: its id.
        kept: logprobs of the options.
        now: the same as asked again, or the message of the refusal.
    """

    row: str | None
    question: str
    kept: Logprobs
    now: Logprobs | str


@dataclass(frozen=True, slots=True)
class Verified:
    """What a sample showed: so many rows, answers and floors compared, and those that differ."""

    rows: int
    answers: int
    floors: int
    different: tuple[Difference, ...]


def verify(
    project: Project, dataset: str, pack: Pack, scorer: Scorer, *, rows: int = 20, seed: int = 0
) -> Verified:
    """Ask rows drawn at random again, as far as they were answered, and compare bits.

    Args:
        scorer: of the bits that the scores were kept under.
        rows: how many; fewer when not so many have scores.
        seed: draws others.

    Raises `Unusable`: there is no such dataset, or it has no scores of this pack and model.
    """
    places = prompts(pack.questions)
    with project.open(write=False) as connection:
        count_rows(connection, dataset, None)
        identity = identity_of(connection, scorer.identity.bits)
        drawn = connection.execute(
            "SELECT number FROM item WHERE dataset = $1 ORDER BY hash(number, $2::BIGINT) LIMIT $3",
            [dataset, seed, rows * LOOKED_AT],
        ).fetchall()
        chosen: list[tuple[str, str, dict[str, Logprobs]]] = []
        compared_rows: set[str] = set()
        for (number,) in drawn:
            (item,) = items(connection, dataset, pack, after=number - 1, count=1)
            if isinstance(item.content, Refused):
                continue
            contents = [item.content]
            if pack.on_long != "refuse" and scorer.reader is not None:
                contents = chunks_of(scorer.reader, *item.halved())
            for content in contents:
                held = _held(connection, identity, pack, content)
                if held:
                    chosen.append((item.id, content, held))
                    compared_rows.add(item.id)
            if len(compared_rows) == rows:
                break
        kept_floors = floors(connection, identity, places)
    if not chosen:
        raise Unusable(
            f"{dataset} has no scores of {pack.id} under {identity.served}: nothing to compare"
        )
    different: list[Difference] = []
    compared: set[str] = set()
    for row, content, held in chosen:
        of_floors = {prompt: kept_floors[prompt] for prompt in held if prompt in kept_floors}
        now = _asked(pack, scorer, content, in_order(places, held), floors=not identity.rounded)
        for prompt, kept in held.items():
            question = pack.questions[places[prompt][0]].id
            told = now if isinstance(now, str) else _logprobs(now[prompt])
            if not _same(kept, told):
                different.append(Difference(row, question, kept, told))
            if isinstance(now, str) or prompt in compared or prompt not in of_floors:
                continue
            compared.add(prompt)
            floor = tuple(
                option.floor_logprob
                for option in now[prompt].options
                if option.floor_logprob is not None
            )
            if not _same(of_floors[prompt], floor):
                different.append(Difference(None, question, of_floors[prompt], floor))
    answers = sum(len(held) for _, _, held in chosen)
    return Verified(len(compared_rows), answers, len(compared), tuple(different))


def _held(
    connection: duckdb.DuckDBPyConnection, identity: Identity, pack: Pack, content: str
) -> dict[str, Logprobs]:
    """Prompt digest -> kept logprobs on a content."""
    digest, places = content_digest(content), prompts(pack.questions)
    held: dict[str, Logprobs] = {}
    if not known(connection, identity, [digest], places).prompts:
        return held
    for size, asked in by_options(pack, places).items():
        found = stored(connection, identity, [digest], asked, size)
        values = map(tuple, found.values.tolist())
        held |= {
            found.prompt_digests[prompt]: one
            for prompt, one in zip(found.prompts.tolist(), values, strict=True)
        }
    return held


def _asked(
    pack: Pack, scorer: Scorer, content: str, wanted: Sequence[str], *, floors: bool
) -> Mapping[str, PromptAnswer] | str:
    """Prompt digest -> answer now; the message when it is refused."""
    work = Work(content, asked_about(pack, wanted, floors=floors))
    (outcome,) = scorer.run([work])
    if isinstance(outcome, Refused | Fault):
        return outcome.message
    told = [prompt for answer in outcome for prompt in answer.prompts]
    return dict(zip(wanted, told, strict=True))


def _logprobs(answer: PromptAnswer) -> Logprobs:
    return tuple(option.logprob for option in answer.options)


def _same(kept: Logprobs, now: Logprobs | str) -> bool:
    """Bit for bit: 0.0 is not -0.0."""
    if isinstance(now, str) or len(kept) != len(now):
        return False
    form = f"{len(kept)}d"
    return struct.pack(form, *kept) == struct.pack(form, *now)
