"""Projects, packs and scorers for tests of the score store; run as a program, it scores a project.

`python -m tests.support.kept_scores PROJECT SECONDS` asks a stub that takes so long for a batch.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spinf_serve.engine.work import Limits
from spinf_serve.evals.project import Project, create
from spinf_serve.evals.runner import run
from spinf_serve.evals.scorer import Outcome, Work, in_process
from spinf_serve.packs.pack import Pack
from tests.support.packs import golden, made
from tests.support.stub_engine import StubEngine


def put(project: Project, texts: Sequence[str], dataset: str = "d", **columns: Any) -> None:
    """Adds a dataset of rows `r1`, `r2`, …; `columns` are the same for all, such as `split`."""
    values = {"context": None, "parameters": "{}", "split": None, **columns}
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO dataset VALUES ($1, now()::TIMESTAMP, 'test', '')", [dataset]
        )
        connection.execute(
            "INSERT INTO item (dataset, row_id, number, text, content_digest, context, parameters,"
            " slices, split, drawn) SELECT $1, 'r' || n, n, text, sha256(text), $3, $4, MAP {}, $5, 'random'"
            " FROM (SELECT unnest($2::VARCHAR[]) AS text, generate_subscripts($2::VARCHAR[], 1) AS n)",
            [dataset, list(texts), *values.values()],
        )


def project_with(folder: Path, texts: Sequence[str], **columns: Any) -> Project:
    """A new project with the dataset `d`."""
    project = create(folder / "project.duckdb")
    put(project, texts, **columns)
    return project


def golden_pack() -> Pack:
    """Three questions in four filled templates, two contexts and a parameter."""
    return made(golden())[0]


def pack_with(questions: int, edited: int | None = None) -> Pack:
    """A pack that asks so many questions of one template each; one may be edited."""
    body = golden()
    body["scoring"]["queries"] = [
        {
            "id": f"q{number}",
            "template": f"\nIs it {number}{', really' if number == edited else ''}?{{?}}",
            "options": [" yes", " no"],
        }
        for number in range(questions)
    ]
    return made(body)[0]


class Counting:
    """The stub as a scorer that counts what it is asked.

    Attributes:
        asked: filled templates on contents.
        works: contents of every call.
        seconds: how long a call takes.
        reader: how much the stub reads at once: `most_tokens` tokens, where that is given.
    """

    def __init__(self, seconds: float = 0.0, most_tokens: int | None = None) -> None:
        limits = None if most_tokens is None else Limits(max_content_tokens=most_tokens)
        self._scorer = in_process(StubEngine(limits).as_engine())
        self.identity = self._scorer.identity
        self.reader = self._scorer.reader
        self.asked = 0
        self.works: list[int] = []
        self.seconds = seconds

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        self.asked += sum(len(one.prompts) for work in works for one in work.questions)
        self.works.append(len(works))
        time.sleep(self.seconds)
        return self._scorer.run(works)


def _main(project: str, seconds: str) -> None:
    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    print(run(Project(Path(project)), "d", golden_pack(), Counting(float(seconds)), say))


if __name__ == "__main__":
    _main(*sys.argv[1:])
