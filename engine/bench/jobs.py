"""The jobs that are measured, by name: made-up contents with made-up questions, or those of a pack.

Knows no pack: whoever has read one hands its questions and its way to present a content over.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from spinf_serve.engine.bench.measure import BenchJob
from spinf_serve.engine.bench.workload import closed_questions, made_up_contents
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Work
from spinf_serve.packs.question import Question


@dataclass(frozen=True, slots=True)
class Asked:
    """A pack as the bench sees it.

    Attributes:
        questions: all of them.
        present: a text -> the content as the model reads it.
    """

    questions: tuple[Question, ...]
    present: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the jobs are.

    Attributes:
        contents, questions: of the main job.
        content_tokens, question_tokens: their mean lengths.
        rounds: how many times as many contents the sustained job has.
        messages, message_tokens: of the moderation job.
        stories, story_tokens: of the news job.
        growth_questions: questions on each content, one job a number.
        growth_contents: tokens of a content, one job a number.
        growth_tokens: about how many tokens a growth job has in all.
    """

    contents: int = 24
    questions: int = 56
    content_tokens: float = 466.0
    question_tokens: float = 14.5
    rounds: int = 5
    messages: int = 96
    message_tokens: float = 200.0
    stories: int = 48
    story_tokens: float = 466.0
    growth_questions: tuple[int, ...] = (7, 56, 448)
    growth_contents: tuple[int, ...] = (128, 512, 4096, 32_768)
    growth_tokens: int = 49_152

    @property
    def main(self) -> str:
        """Name of the main job."""
        return f"{self.contents}x{self.questions}"


GROUPS = ("main", "sustained", "packs", "growth")
"""What can be asked for; each is one job or several."""


def jobs(
    group: str, sizes: Sizes, tokenizer: Tokenizer, packs: Mapping[str, Asked]
) -> Iterator[BenchJob]:
    """The jobs of a group; `packs` holds `moderation` and `news` where the group is `packs`."""
    if group == "main":
        yield BenchJob(sizes.main, _made_up(tokenizer, sizes, sizes.contents))
    elif group == "sustained":
        yield BenchJob("sustained", _made_up(tokenizer, sizes, sizes.rounds * sizes.contents))
    elif group == "packs":
        for name, count, tokens in (
            ("moderation", sizes.messages, sizes.message_tokens),
            ("news", sizes.stories, sizes.story_tokens),
        ):
            pack = packs[name]
            texts = made_up_contents(tokenizer, count, tokens)
            works = [Work(pack.present(text), pack.questions) for text in texts]
            yield BenchJob(name, works)
    elif group == "growth":
        yield from _growth(sizes, tokenizer)
    else:
        raise AssertionError(f"{group} is none of {', '.join(GROUPS)}")


def _made_up(tokenizer: Tokenizer, sizes: Sizes, contents: int) -> list[Work]:
    return closed_questions(
        tokenizer, contents, sizes.questions, sizes.content_tokens, sizes.question_tokens
    )


def _growth(sizes: Sizes, tokenizer: Tokenizer) -> Iterator[BenchJob]:
    """Ever more questions on contents of one length, then ever longer contents."""
    points = [
        (f"growth-{count}-questions", count, sizes.content_tokens)
        for count in sizes.growth_questions
    ]
    points += [
        (f"growth-{tokens}-tokens", sizes.questions, float(tokens))
        for tokens in sizes.growth_contents
    ]
    for name, questions, tokens in points:
        tree = tokens + questions * sizes.question_tokens
        works = closed_questions(
            tokenizer,
            max(2, round(sizes.growth_tokens / tree)),
            questions,
            tokens,
            sizes.question_tokens,
            distinct=False,
        )
        yield BenchJob(name, works)
