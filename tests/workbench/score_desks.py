"""Projects for the tests of Scores: rows, labels and answers made up in SQL, as many as wanted."""

from pathlib import Path
from typing import Final

from spinf_serve.evals.asking import digest_of
from spinf_serve.evals.project import create
from spinf_serve.packs.loader import load_pack
from spinf_serve.workbench.desk import PROJECT_FILE, Desk

BITS: Final = "b" * 64
SERVED: Final = "stub"
QUESTIONS: Final = ("wants", "asks", "about", "tone", "urgency", "next", "needs", "type")

_QUESTION: Final = '    - {{id: {id}, template: "\\n{id}:{{?}}", options: [{id}yes, {id}no], category: {category}}}\n'
_HEAD: Final = """\
pack: demo/large
version: 1.0.0
name: Large
tags: [{tag}]
contexts:
  mail: "Mail: {{X}}\\n"
scoring:
  queries:
{queries}decision: {{mode: per_category}}
"""
_FITTED: Final = """\
fitted:
  stub:
    reads:
{reads}    categories:
      refund: {{platt: [1.0, 0.0], threshold: 0.7}}
      angry: {{platt: [1.0, 0.0], threshold: 0.8}}
"""


def pack_text(*, questions: int = 8, fitted: bool = True, tag: str = "support") -> str:
    """A pack of questions with two options each; the first half speak for `refund`, others `angry`."""
    names = QUESTIONS[:questions]
    half = len(names) // 2
    queries = "".join(
        _QUESTION.format(id=id, category="refund" if number < half else "angry")
        for number, id in enumerate(names)
    )
    text = _HEAD.format(tag=tag, queries=queries)
    if fitted:
        reads = "".join(f"      {id}: {{mean: 0.0, sd: 1.0}}\n" for id in names)
        text += _FITTED.format(reads=reads)
    return text


def scored(
    folder: Path,
    rows: int,
    *,
    questions: int = 8,
    fitted: bool = True,
    labelled: bool = True,
    refused: int = 0,
    asked: int | None = None,
    tag: str = "support",
) -> Desk:
    """A project with the dataset `d` and the pack `large/pack.yaml`.

    Args:
        refused: the first rows, which the model refused.
        asked: questions that have answers; None for all.
        tag: of the pack.
    """
    file = folder / "large" / "pack.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(pack_text(questions=questions, fitted=fitted, tag=tag), encoding="utf-8")
    pack = load_pack(file)
    context = next(iter(pack.contexts.values()))
    project = create(folder / PROJECT_FILE)
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO dataset VALUES ('d', now()::TIMESTAMP, 'made up', '')"
        ).fetchall()
        connection.execute(
            "INSERT INTO item SELECT 'd', 'r' || n, n, text, sha256(text), NULL, '{}',"
            " MAP {'language': CASE WHEN n % 3 = 0 THEN 'de' ELSE 'en' END}, NULL,"
            " CASE WHEN n % 2 = 0 THEN 'fit' ELSE 'test' END, 'random', NULL, NULL FROM"
            " (SELECT n, 'Mail number ' || n || ' about an order.' AS text FROM range(1, $1) AS t(n))",
            [rows + 1],
        )
        connection.execute(
            "INSERT INTO model VALUES (1, ?, ?, ?, false, '{}')", [BITS, "m" * 64, SERVED]
        )
        connection.execute(
            "INSERT INTO content SELECT number, sha256($1 || text || $2), content_digest FROM item",
            [context.before, context.after],
        )
        for number, question in enumerate(pack.questions[:asked], start=1):
            connection.execute("INSERT INTO prompt VALUES (?, ?, 2)", [number, digest_of(question)])
            connection.execute("INSERT INTO floor VALUES (1, ?, [-1.0, -1.5])", [number])
            connection.execute(
                "INSERT INTO score SELECT 1, n, $1, [ln(0.9 * p), ln(0.9 * (1 - p))] FROM (SELECT n,"
                " 0.01 + 0.98 * ((n * 0.6180339887 + 0.1 * sin(n * $1)) - floor(n * 0.6180339887 +"
                " 0.1 * sin(n * $1))) AS p FROM range($2, $3) AS t(n))",
                [number, refused + 1, rows + 1],
            )
            connection.execute(
                "INSERT INTO refusal SELECT 1, n, $1, 'content_too_long', 'too long'"
                " FROM range(1, $2) AS t(n)",
                [number, refused + 1],
            )
        if labelled:
            # Right for most, as the first question has it.
            connection.execute(
                "INSERT INTO label SELECT 'd', 'r' || n, target, CASE WHEN ((n * 0.6180339887) % 1 >"
                " 0.5) = (n % 10 > 0) THEN 'yes' ELSE 'no' END, 'ada', now()::TIMESTAMP, 'random',"
                " false, false FROM range(1, $1) AS t(n), (VALUES ('refund'), ('angry')) AS u(target)",
                [rows + 1],
            )
    return Desk(folder.resolve(), folder.resolve() / PROJECT_FILE)
