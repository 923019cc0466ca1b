"""What the model is given of a pack: filled templates, contents in their context, the whole grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spinf_serve.evals.asking import items
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import halves
from spinf_serve.workbench.desk import Desk


@dataclass(frozen=True, slots=True)
class Filled:
    """One question about one content, as the model reads it.

    Attributes:
        before, content, after: the context's two halves around the content.
        template: the filled template, which follows at once.
        options: what may stand behind it, leading spaces included.
    """

    before: str
    content: str
    after: str
    template: str
    options: tuple[str, ...]

    @property
    def text(self) -> str:
        """All that the model reads before the answer."""
        return self.before + self.content + self.after + self.template


@dataclass(frozen=True, slots=True)
class Line:
    """One filled template of the grid."""

    question: str
    values: Mapping[str, str]
    text: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """A row of a dataset as a pack presents it.

    Attributes:
        number: its place in the dataset, from 1.
        context: of the row, None for the pack's first.
    """

    number: int
    id: str
    text: str
    before: str
    after: str

    @property
    def whole(self) -> str:
        """With the context around it."""
        return self.before + self.text + self.after


def filled(
    pack: Pack,
    question: str,
    place: int,
    content: str,
    context: str | None = None,
    given: Mapping[str, str] | None = None,
) -> Filled:
    """A question about a text.

    Args:
        question: its id.
        place: of the filled template among the question's.
        context: its name; None for the first.
        given: the context's parameters.

    Raises `Refused` for a parameter that is missing or a context that is not there.
    """
    before, after = halves(pack, context, given or {})
    asked = next(one for one in pack.questions if one.id == question)
    return Filled(before, content, after, asked.prompts[place].text, asked.options)


def around(pack: Pack, question: str, place: int, content: Content) -> Filled:
    """The same about a row of a dataset, in the row's own context."""
    asked = next(one for one in pack.questions if one.id == question)
    text = asked.prompts[place].text
    return Filled(content.before, content.text, content.after, text, asked.options)


def count(pack: Pack) -> int:
    """Filled templates of all questions."""
    return sum(len(question.prompts) for question in pack.questions)


def lines(pack: Pack, first: int = 0, most: int | None = None, word: str = "") -> list[Line]:
    """Filled templates in order, from the `first` on, at most so many.

    Args:
        word: only those with it in the question's id, the text or an option, in any case.
    """
    end = None if most is None else first + most
    found: list[Line] = []
    wanted = word.casefold()
    at = 0
    for question in pack.questions:
        for prompt in question.prompts:
            if wanted and not _holds(wanted, question.id, prompt.text, question.options):
                continue
            if at >= first:
                found.append(Line(question.id, prompt.values, prompt.text, question.options))
            at += 1
            if end is not None and at >= end:
                return found
    return found


def matching(pack: Pack, word: str) -> list[int]:
    """Places in the grid of the filled templates with a word, see `lines`."""
    wanted = word.casefold()
    prompts = ((question, prompt) for question in pack.questions for prompt in question.prompts)
    return [
        place
        for place, (question, prompt) in enumerate(prompts)
        if not wanted or _holds(wanted, question.id, prompt.text, question.options)
    ]


def _holds(wanted: str, id: str, text: str, options: Sequence[str]) -> bool:
    return wanted in id.casefold() or wanted in text.casefold() or wanted in str(options).casefold()


def contents(
    desk: Desk, pack: Pack, dataset: str, split: str | None, *, first: int = 1, most: int = 1
) -> list[Content]:
    """Rows of a dataset as the pack presents them, from a number on; unpresentable ones left out."""
    with desk.project.open(write=False) as connection:
        found = items(connection, dataset, pack, split=split, after=first - 1, count=most)
    return [
        Content(item.number, item.id, text, before, after)
        for item in found
        if not isinstance(item.content, Refused)
        for text, before, after in [item.halved()]
    ]


def sample(desk: Desk, pack: Pack, dataset: str, split: str | None, most: int) -> list[Content]:
    """Rows spread over a dataset, at most so many: what a cost is told from."""
    with desk.project.open(write=False) as connection:
        last = connection.execute(
            "SELECT coalesce(max(number), 0) FROM item WHERE dataset = ?", [dataset]
        ).fetchall()[0][0]
        found = []
        for step in range(min(most, last)):
            after = step * last // most if last > most else step
            found += items(connection, dataset, pack, split=split, after=after, count=1)
    by_number = {item.number: item for item in found if not isinstance(item.content, Refused)}
    return [
        Content(item.number, item.id, text, before, after)
        for item in by_number.values()
        for text, before, after in [item.halved()]
    ]
