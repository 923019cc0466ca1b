"""Synthetic works of a chosen shape: made-up texts and questions, the same for the same seed."""

import random
from collections.abc import Iterator
from itertools import cycle

from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Work
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.question import Prompt, Question

OPTIONS = (" yes", " no")


def _words(text: str) -> list[str]:
    return text.split()


_SUBJECTS = _words(
    "order invoice parcel refund customer account password delivery message ticket driver store "
    "payment contract warehouse engineer manager battery screen update server garden river market "
    "doctor school teacher train station harbour council museum farmer bakery orchestra reporter"
)
_VERBS = _words(
    "arrived changed opened closed moved failed worked waited called wrote asked answered found "
    "lost paid returned cancelled repaired measured painted followed reported started stopped"
)
_DETAILS = _words(
    "late early yesterday twice again quietly slowly without notice before noon after lunch near "
    "the old bridge with a broken seal for the third time in a small box under the new rules at "
    "the front desk from another city during the storm by mistake on Monday in good order"
)
_OPENERS = _words(
    "Does Is Was Were Are Did Has Have Could Would Should Can May Might Will Do Had Must Shall "
    "Why What When Where Which Who How Judging Reading Considering Given Overall Briefly Honestly "
    "Clearly Today Later First Second Third Finally Perhaps Maybe Surely Really Still Also Then "
    "Now Here There Before After While Since Until Because Although Unless Whether Among Between "
    "Beyond Despite During Except Inside Outside"
)


def closed_questions(
    tokenizer: Tokenizer,
    contents: int = 24,
    questions: int = 56,
    content_tokens: float = 466.0,
    question_tokens: float = 14.5,
    seed: int = 0,
    *,
    distinct: bool = True,
) -> list[Work]:
    """Works of two-option questions, all with the same questions tuple.

    Args:
        contents: number of works.
        questions: questions on each.
        content_tokens: mean tokens of a content; lengths vary by a fifth around it.
        question_tokens: mean tokens of a question that it shares with no other question.
        seed: of the texts.
        distinct: no two questions share a token behind the newline they start with; without that
            there may be any number of them.

    Raises `Unusable` for more questions than there are words to start with, where that counts.
    """
    draw = random.Random(seed)
    asked = tuple(_questions(tokenizer, questions, question_tokens, draw, distinct))
    texts = _contents(tokenizer, contents, content_tokens, draw)
    return [Work(content=text, questions=asked) for text in texts]


def made_up_contents(
    tokenizer: Tokenizer, count: int, mean_tokens: float, seed: int = 0
) -> list[str]:
    """Texts of about `mean_tokens` tokens; lengths vary by a fifth around it."""
    return list(_contents(tokenizer, count, mean_tokens, random.Random(seed)))


def _sentence(draw: random.Random) -> Iterator[str]:
    while True:
        subject, other = draw.sample(_SUBJECTS, 2)
        yield from ("The", subject, draw.choice(_VERBS), *draw.sample(_DETAILS, 3))
        yield from ("and", "the", other, draw.choice(_VERBS), draw.choice(_DETAILS) + ".")


def _contents(
    tokenizer: Tokenizer, count: int, mean_tokens: float, draw: random.Random
) -> Iterator[str]:
    """Texts whose token counts add up to count x mean, each within one word of its target."""
    owed = 0.0
    for n in range(count):
        owed += mean_tokens * (1 + 0.2 * (1 if n % 2 else -1) * (n < count - count % 2))
        words, tokens = [], 0
        source = _sentence(draw)
        while tokens < owed:
            word = next(source)
            words.append(word)
            tokens += len(tokenizer.encode((" " if len(words) > 1 else "") + word))
        owed -= tokens
        yield " ".join(words)


def _questions(
    tokenizer: Tokenizer, count: int, mean_tokens: float, draw: random.Random, distinct: bool
) -> Iterator[Question]:
    used: set[int] = set()
    texts: set[str] = set()
    openers = iter(_OPENERS) if distinct else cycle(_OPENERS)
    newline = len(tokenizer.encode("\n"))
    owed = 0.0
    for n in range(count):
        opener = next(
            (word for word in openers if tokenizer.encode(f"\n{word}")[newline] not in used), None
        )
        if opener is None:
            raise Unusable(f"no more than {n} questions without a common first token; ask for less")
        if distinct:
            used.add(tokenizer.encode(f"\n{opener}")[newline])
        owed += mean_tokens
        words, source, tokens, text = [opener], _sentence(draw), 0, ""
        while tokens < owed or text in texts:
            text = f"\n{' '.join(words)}? Answer:"
            tokens = len(tokenizer.encode(text)) - newline
            words.append(next(source).removesuffix("."))
        owed -= tokens
        texts.add(text)
        yield Question(id=f"q{n}", prompts=(Prompt(text),), options=OPTIONS)
