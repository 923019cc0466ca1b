"""The answers that a project keeps of a row, put together as if they had just been asked. Asks nobody."""

import json
from collections.abc import Mapping, Sequence
from math import exp

from spinf_serve.evals.asking import by_options, cuts_for, digest_of, items, prompts
from spinf_serve.evals.score_tables import Identity, floors, stored
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.recording import Logprobs
from spinf_serve.workbench.actions.trying import Asked, Content
from spinf_serve.workbench.desk import Desk


def first_kept(
    desk: Desk, pack: Pack, identity: Identity, dataset: str, split: str | None
) -> tuple[str, Content, Asked] | None:
    """Id, content and kept answers of a dataset's first row.

    None where an answer of the pack's questions is missing, or the row was read in chunks.
    """
    wanted = prompts(pack.questions)
    with desk.project.open(write=False) as connection:
        found = items(connection, dataset, pack, split=split, count=1)
        if not found or not isinstance(found[0].content, str):
            return None
        (item,) = found
        digest, whole = item.digest, str(item.content)
        assert digest is not None
        if item.parts(digest, cuts_for(connection, identity, pack, {digest})) != (digest,):
            return None
        held: dict[str, Logprobs] = {}
        for options, group in by_options(pack, wanted).items():
            part = stored(connection, identity, {digest}, group, options)
            for place, values in zip(part.prompts, part.values, strict=True):
                held[part.prompt_digests[place]] = tuple(values.tolist())
        empty = floors(connection, identity, wanted)
        row = connection.execute(
            "SELECT text, context, parameters FROM item WHERE dataset = ? AND row_id = ?",
            [dataset, item.id],
        ).fetchone()
    if row is None or len(held) < len(wanted):
        return None
    text, context, parameters = row
    content = Content(text, context, tuple(json.loads(parameters).items()))
    return item.id, content, Asked(identity, (whole,), (_answers(pack, held, empty),))


def _answers(
    pack: Pack, held: Mapping[str, Logprobs], empty: Mapping[str, Logprobs]
) -> tuple[QuestionAnswer, ...]:
    answers = []
    for question in pack.questions:
        filled = []
        for place, prompt in enumerate(question.prompts):
            digest = digest_of(question, place)
            logprobs, floor = held[digest], empty.get(digest)
            ps = _shares(logprobs)
            floor_ps: Sequence[float | None] = [None] * len(ps) if floor is None else _shares(floor)
            told = map(OptionAnswer, question.options, logprobs, ps, floor_ps, floor or floor_ps)
            filled.append(
                PromptAnswer(
                    dict(prompt.values),
                    tuple(told),
                    _residual(logprobs),
                    None if floor is None else _residual(floor),
                )
            )
        answers.append(QuestionAnswer(question.id, tuple(filled), True))
    return tuple(answers)


def _shares(logprobs: Logprobs) -> list[float]:
    most = max(logprobs)
    parts = [exp(one - most) for one in logprobs]
    return [part / sum(parts) for part in parts]


def _residual(logprobs: Logprobs) -> float:
    return max(0.0, 1.0 - sum(map(exp, logprobs)))
