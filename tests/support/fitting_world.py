"""A pack, a project and labels that follow from the stub's own scores: a world that can be fitted."""

from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path
from random import Random
from typing import Any

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.project import Project
from spinf_serve.evals.runner import run
from spinf_serve.evals.scored import arranged, score, vectors
from spinf_serve.evals.store import matrix
from spinf_serve.packs.fit import fit
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.pack import Pack
from tests.support.kept_scores import Counting, project_with
from tests.support.stub_engine import SERVED

YAML = """\
# Mail of a shop.
pack: demo/mail
version: 1.0.0   # raise it

contexts:
  mail: "Mail:\\n{X}\\n"   # one {X}

scoring:
  queries:
    # Two views of one thing.
    - {id: sells, template: "\\nIt sells something. True or false?{?}", options: true/false,
       category: spam}
    - {id: offer, template: "\\nIt is an offer. True or false?{?}", options: true/false,
       category: spam}
    - {id: rude, template: "\\nIt is rude. True or false?{?}", options: true/false, category: rude}
    - {id: late, template: "\\nIt is about a delay. True or false?{?}", options: true/false,
       category: late}

# What decides.
decision: {mode: per_category}
"""


def pack_file(folder: Path, **replaced: str) -> Path:
    """The pack's file as a draft; `replaced` puts another line for `decision`, and categories."""
    text = YAML
    for key, value in replaced.items():
        line = next(one for one in text.splitlines() if one.startswith(f"{key}:"))
        text = text.replace(line, value)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mail.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def world(
    folder: Path,
    pack: Pack,
    count: int,
    *,
    test: int = 0,
    sharpness: float = 7.0,
    middle: float = 0.8,
    labelled: Sequence[str] | None = None,
    chance: Callable[[float], float] | None = None,
) -> tuple[Project, str]:
    """A project with dataset `d`, all of it scored by the stub, and the stub's bits.

    A category holds with the chance sigmoid(sharpness * (macro - middle)), by a seed, or with
    `chance` of its macro.

    Args:
        test: rows in split `test`, at the end; with 0 nothing is split.
        labelled: categories with labels; None for all.
    """
    texts = [f"Mail number {number}: hello there." for number in range(count)]
    project = project_with(folder, texts)
    scorer = Counting()
    run(project, "d", pack, scorer, lambda line: None)
    bits = scorer.identity.bits
    kept = matrix(project, "d", pack, bits)
    answers, _ = arranged(pack, kept.logprobs, kept.floors)
    fitted = fit(pack, vectors(pack, answers), [{}] * count, SERVED.id).constants
    macros = score(pack, fitted, answers).macros
    rng = Random(7)
    labels = []
    for id in pack.categories if labelled is None else labelled:
        for row, macro in zip(kept.rows, macros[id].tolist(), strict=True):
            share = chance(macro) if chance else 1 / (1 + exp(-sharpness * (macro - middle)))
            holds = rng.random() < share
            labels.append(Label(row, id, "yes" if holds else "no", "ada", now(), "random"))
    put_labels(project, "d", labels)
    if test:
        put_split(project, count - test)
    return project, bits


def put_split(project: Project, fit_rows: int) -> None:
    """The first rows are of split `fit`, the others of `test`."""
    with project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET split = CASE WHEN number <= ? THEN 'fit' ELSE 'test' END", [fit_rows]
        )


def put_rows(project: Project, column: str, value: Any, *, upto: int | None = None) -> None:
    """A column of the rows `r1` to `r<upto>`, or of all."""
    with project.open(write=True) as connection:
        connection.execute(
            f"UPDATE item SET {column} = ? WHERE number <= ?", [value, upto or 1 << 40]
        )


def loaded(file: Path) -> Pack:
    """The pack of a file."""
    return load_pack(file)
