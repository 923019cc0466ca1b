"""Projects for the tests of Thresholds and Calibration: a small scored world, and a large one."""

import json
from pathlib import Path

import numpy as np

from spinf_serve.evals.asking import prompts
from spinf_serve.evals.project import create
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.present import wrapped
from spinf_serve.workbench.desk import PROJECT_FILE, Desk

BITS, SERVED = "b" * 64, "stub"
PACK = """\
# Mail of a shop.
pack: demo/mail
version: 1.0.0
contexts:
  mail: "Mail:\\n{X}\\n"
scoring:
  queries:
    - {id: sells, template: "\\nIt sells something. True or false?{?}", options: true/false,
       category: spam}
decision: {mode: per_category}
"""
FITTED = """\
# Numbers, as a fit writes them.
fitted:
  stub:
    reads:
      sells: {mean: 0.0, sd: 1.0}
    categories:
      spam: {platt: [1.0, 0.0], threshold: 0.7}
"""


def scored(
    folder: Path,
    rows: int,
    *,
    fitted: bool = True,
    labelled: bool = True,
    text: str = "Mail number {}.",
) -> Desk:
    """A project of rows with the dataset `d`, scored for one category `spam`.

    The score of row i is spread evenly over 0 to 1, and it holds where a fixed sequence is below it, so
    that scores are right as shares.

    Args:
        fitted: whether the pack has numbers; else it is a draft.
        text: of a row, its number in braces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mail.yaml").write_text(PACK + (FITTED if fitted else ""), encoding="utf-8")
    pack = load_pack(folder / "mail.yaml")
    project = create(folder / PROJECT_FILE)
    number = np.arange(1, rows + 1)
    p = (number * 0.6180339887 % 1) * 0.98 + 0.01
    holds = number * 0.7548776662 % 1 < p
    texts = [text.format(one) for one in number.tolist()]
    digests = np.array(
        [content_digest(wrapped(pack, one, None, {})) for one in texts], dtype=object
    )
    (prompt,) = prompts(pack.questions)
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO dataset VALUES ('d', now()::TIMESTAMP, 'made up', '')"
        ).fetchall()
        batch = {
            "n": number,
            "text": np.array(texts, dtype=object),
            "digest": digests,
            "yes": np.log(p),
            "no": np.log1p(-p),
            "holds": holds,
        }
        connection.register("given", batch)
        connection.execute(
            "INSERT INTO item SELECT 'd', 'r' || n, n, text, sha256(text), NULL, '{}',"
            " MAP {'language': CASE WHEN n % 3 = 0 THEN 'de' ELSE 'en' END}, NULL, NULL, 'random',"
            " NULL, NULL FROM given"
        )
        connection.execute(
            "INSERT INTO model VALUES (1, ?, ?, ?, false, ?)",
            [BITS, "m" * 64, SERVED, json.dumps({})],
        )
        connection.execute("INSERT INTO prompt VALUES (1, ?, 2)", [prompt])
        connection.execute("INSERT INTO content SELECT n, digest, sha256(text) FROM given")
        connection.execute("INSERT INTO score SELECT 1, n, 1, [yes, no] FROM given")
        if labelled:
            connection.execute(
                "INSERT INTO label SELECT 'd', 'r' || n, 'spam', CASE WHEN holds THEN 'yes' ELSE 'no'"
                " END, 'ada', now()::TIMESTAMP, 'random', false, false FROM given"
            )
        connection.unregister("given")
    return Desk(folder.resolve(), folder.resolve() / PROJECT_FILE)


class NoReport:
    """A job's report for a function that is called directly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []

    def progress(self, done: int, of: int, words: str = "", **more: object) -> None:
        self.said.append(words)

    def say(self, line: str) -> None:
        self.said.append(line)

    def stopped(self) -> bool:
        return False

    def check(self) -> None:
        pass
