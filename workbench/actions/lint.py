"""Lint of a pack's text, with the answers that are kept and without asking anybody."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from spinf_serve.evals.kept_answers import all_floors, kept_answers
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.lint import Report, asked, instructions, lint
from spinf_serve.packs.lint_rules import Limits
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.desk import Desk

CONTENTS: Final = 50
"""Rows whose answers are looked at."""


def rows_for(
    desk: Desk, pack: Pack, dataset: str | None, split: str | None, bits: str | None
) -> list[list[QuestionAnswer]]:
    """Kept answers to the pack's questions; none where nothing is kept for all of them.

    With lists turned around too, where these were asked.
    """
    if dataset is None or bits is None:
        return []
    all_questions = asked(pack)
    own = all_questions[: len(pack.questions)]
    found: list[list[QuestionAnswer]] = []
    for questions in (all_questions, own) if len(all_questions) > len(own) else (own,):
        found = kept_answers(
            desk.project, dataset, pack, bits, questions, most=CONTENTS, split=split
        )
        if found:
            break
    if found and not all_floors(found):
        # Floors of some prompts only would be told as a finding of the others.
        found = [[_without_floors(answer) for answer in row] for row in found]
    return found


def token_texts(pack: Pack) -> list[str]:
    """The texts whose tokens lint looks at."""
    texts: dict[str, None] = {}
    for question in pack.questions:
        text = question.prompts[0].text
        texts |= dict.fromkeys([text, *(text + option for option in question.options)])
    return list(texts)


def limits_of(lint_limits: Mapping[str, float | None]) -> Limits:
    """Limits of a model; general ones where it has none."""
    general = Limits()
    residual, floor = lint_limits.get("residual"), lint_limits.get("floor")
    return replace(
        general,
        residual=general.residual if residual is None else residual,
        floor=general.floor if floor is None else floor,
    )


def look(
    text: str,
    name: str,
    pack: Pack,
    rows: Sequence[Sequence[QuestionAnswer]],
    tokens: Mapping[str, Sequence[int]] | None,
    limits: Limits,
) -> Report:
    """Look at a pack's text.

    Args:
        rows: as from `rows_for`.
        tokens: of the texts of `token_texts`; None where they are not known.
    """
    say = instructions(text.encode(), name)
    return lint(pack, say, limits, rows, None if tokens is None else tokens.__getitem__)


def _without_floors(answer: QuestionAnswer) -> QuestionAnswer:
    return answer._replace(
        prompts=tuple(
            prompt._replace(
                floor_residual=None,
                options=tuple(
                    option._replace(floor_p=None, floor_logprob=None) for option in prompt.options
                ),
            )
            for prompt in answer.prompts
        )
    )
