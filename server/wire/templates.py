"""How a closed question is worded for a model: as a cloze, or as a turn of a chat.

A cloze is plain text that ends where the label goes; labels are not listed, so that none of them
stands nearer. A turn of a chat lists them, in an order that depends on them alone. Either way the
label is read as a whole text, and where one label begins another it is read to its end.
"""

import json
from collections.abc import Sequence
from itertools import pairwise

from spinf_serve.engine.work import PromptStyle
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.wire.closed_questions import FLOOR_WEIGHT, ClosedQuestion, Kind

YES, NO = "Yes", "No"
"""Labels of a question of yes or no."""

_UNSAID = {
    Kind.NOUL: "Does it hold?",
    Kind.CHOICE: "Which one fits?",
    Kind.SCORE: "Which level fits?",
}
_CLOSE = "\n"


def worded(question: ClosedQuestion, style: PromptStyle) -> Question:
    """The question as the engine gets it, its labels in canonical order."""
    shown = [spoken(question.labels[place]) for place in question.canonical]
    if style == "chat":
        text, options = _turn(question), shown
    else:
        text = _cloze(question)
        close = _CLOSE if _one_begins_another(shown) else ""
        options = [f" {label}{close}" for label in shown]
    return Question(
        id=question.key,
        prompts=(Prompt(text),),
        options=tuple(options),
        case_insensitive=False,
        empty_floor=FLOOR_WEIGHT[style, question.kind] > 0,
        any_length=True,
        any_option_length=True,
    )


def spoken(label: str) -> str:
    """A label on one line, from which no other label has the same text.

    One that holds a line end, begins with a quote, or begins or ends in a space is quoted as in
    JSON.
    """
    one_line = label.strip() == label and label.splitlines() == [label]
    plain = one_line and not label.startswith('"')
    return label if plain else json.dumps(label, ensure_ascii=False)


def _cloze(question: ClosedQuestion) -> str:
    meanings = _meanings(question, [spoken(label) for label in question.labels])
    asked = question.instructions or _UNSAID[question.kind]
    return f"\n\n{meanings}Question: {asked}\nAnswer:"


def _turn(question: ClosedQuestion) -> str:
    asked = question.instructions or _UNSAID[question.kind]
    labels = [spoken(label) for label in question.labels]
    if question.kind is Kind.NOUL:
        return f"\n\n{_meanings(question, labels)}{asked}\n\nAnswer with {YES} or {NO} only."
    lines = [
        f"- {labels[place]}: {question.descriptions[place]}"
        if question.descriptions[place]
        else f"- {labels[place]}"
        for place in _listed_places(question)
    ]
    listed = "\n".join(lines)
    what = "level" if question.kind is Kind.SCORE else "option"
    return f"\n\n{asked}\n\n{listed}\n\nAnswer with one {what} of this list only, word for word."


def _meanings(question: ClosedQuestion, labels: Sequence[str]) -> str:
    """A line for each label that has a description, and an empty line behind them."""
    lines = [
        f"{labels[place]}: {question.descriptions[place]}\n"
        for place in _listed_places(question)
        if question.descriptions[place]
    ]
    return "".join(lines) + "\n" if lines else ""


def _listed_places(question: ClosedQuestion) -> Sequence[int]:
    """Levels have an order of their own, and so have yes and no; labels have that of their texts."""
    choice = question.kind is Kind.CHOICE
    return question.canonical if choice else range(len(question.labels))


def _one_begins_another(labels: Sequence[str]) -> bool:
    # In sorted order a text stands directly before those that begin with it.
    ordered = sorted(labels)
    return any(b.startswith(a) for a, b in pairwise(ordered))
