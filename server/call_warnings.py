"""What callers should know about answers that were given all the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from spinf_serve.engine.work import Result
from spinf_serve.server.calls import Call, shown_answers

LOW_MASS_RESIDUAL = 0.9
"""Mean residual above which a question is too poor to rely on, and the answer says so."""


@dataclass(frozen=True, slots=True)
class Warning:
    """Something the caller should know about an answer that was given all the same.

    Attributes:
        code: what kind of thing.
        message: in words, with a remedy.
        param: path of the field it is about, if it is about one.
        input_id, question_id: what it is about, if it is about a question.
    """

    code: str
    message: str
    param: str | None = None
    input_id: str | None = None
    question_id: str | None = None


def warnings_of(call: Call, results: Sequence[Result]) -> list[Warning]:
    """What the caller should know about the answers."""
    found = [*_spaced(call), *_drafts(call), *_doubts(call), *_cut_contents(call)]
    for entry, result in zip(call.inputs, results, strict=True):
        if not result.join_merged:
            found.append(
                Warning(
                    "join_not_merged",
                    "content and question were tokenised apart: no clean cut between them was "
                    "found",
                    param=entry.path,
                )
            )
        for _, answer in shown_answers(call, entry, result):
            if not answer.single_read:
                continue
            residual = sum(prompt.residual for prompt in answer.prompts) / len(answer.prompts)
            if residual > LOW_MASS_RESIDUAL:
                found.append(
                    Warning(
                        "low_option_mass",
                        f"{residual:.1%} of the probability lies outside the options of this "
                        "question; its p compares unlikely answers: check how the template ends "
                        "and whether the options need a leading space",
                        input_id=entry.id,
                        question_id=answer.id,
                    )
                )
    return found


def _spaced(call: Call) -> list[Warning]:
    """Questions whose text ends in a space: models were taught to begin an answer with it."""
    found: dict[str, Warning] = {}
    for entry in call.inputs:
        own = zip(entry.questions[: entry.own], entry.question_paths, strict=False)
        for question, path in own:
            if path not in found and any(p.text.endswith(" ") for p in question.prompts):
                found[path] = Warning(
                    "template_ends_in_space",
                    "the template ends in a space before {?}, which changes which spellings of an "
                    "option count: take the space off and put it in front of the options",
                    param=f"{path}.template",
                    question_id=question.id,
                )
        for slot, path in zip(entry.slots, entry.slot_paths, strict=True):
            if path not in found and any(p.text.endswith(" ") for p in slot.prompts):
                found[path] = Warning(
                    "template_ends_in_space",
                    f"the template ends in a space before {{{slot.kind.value}}}, with which most "
                    "answers begin: take the space off",
                    param=f"{path}.template",
                    question_id=slot.id,
                )
    return list(found.values())


def _drafts(call: Call) -> list[Warning]:
    return [
        Warning(
            "pack_draft",
            f"nothing was fitted on the served model for {used.pack.id} {used.pack.version}: its "
            "answers are given and nothing is decided; fit it, or serve one of "
            f"{', '.join(used.pack.fitted) or 'no model so far'}",
            param=used.path,
        )
        for used in call.packs
        if used.fit.constants is None
    ]


def _doubts(call: Call) -> list[Warning]:
    return [
        Warning("pack_other_model", used.fit.doubt, param=used.path)
        for used in call.packs
        if used.fit.doubt is not None
    ]


def _cut_contents(call: Call) -> list[Warning]:
    return [
        Warning(
            "content_chunked",
            f"the content is longer than {call.limits.max_content_tokens} tokens and was read in "
            f"{entry.parts} chunks, as on_long of its packs says; raw answers are left out",
            param=entry.path,
            input_id=entry.id,
        )
        for entry in call.inputs
        if entry.parts > 1 and entry.part == 0
    ]
