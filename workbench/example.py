"""The example that a first visit opens: the triage pack, 600 labelled messages, recorded scores.

Texts, labels and scores are those of the official pack's sample and recording, so that nothing is
asked and nothing is fetched. Two labels are wrong on purpose, for the tour to find. Knows no screen.
"""

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.project import create
from spinf_serve.evals.recorded_scores import keep_recording
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.catalogue import official_folder
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.recording import read_recording
from spinf_serve.packs.sample import SampleRow, read_sample

PACK: Final = "example/triage"
PACK_FILE: Final = "packs/triage/pack.yaml"
OFFICIAL: Final = "official:spinf/triage"
"""The published pack that it was made from, as choices name it."""

DATASET: Final = "messages"
LABELLED: Final = 600
"""Rows of the sample that are labelled in the example; the others make `SHEET`."""

SHEET: Final = "new-messages.csv"

CASE: Final = "case"
DESKS: Final = ("billing", "refund", "shipping", "technical", "account", "cancel")
"""A message of any of these is one that `CASE` holds for."""

WRONG: Final[Mapping[str, tuple[str, str]]] = {
    # "Dear team, our pupils finished the science boxes yesterday … Thank you …"
    "t0196": ("praise", "no"),
    # "Since yesterday's update the export button does nothing …"
    "t0126": ("case", "no"),
}
"""Row -> target and the wrong label that it carries in the example; its score says the opposite.

With both, a precision of 90 % can still be promised for `CASE`: rows of still higher scores cannot be
among them, since an error at the top ends the walk over the cuts.
"""


def make_example(folder: Path, project_file: Path) -> None:
    """Make the example: a pack's file, a project with its data and scores, a sheet without labels.

    Args:
        folder: there already; gets `packs/triage/pack.yaml` and `sheets/`.
        project_file: of the project, not there yet; comes last, so that a broken start is made anew.

    Raises `Unusable` when something cannot be written.
    """
    home = official_folder() / "triage"
    text = (Path(__file__).parent / "example" / "pack.yaml").read_bytes()
    file = folder / PACK_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            write_beside(file, text)
        pack = load_pack(Path(__file__).parent / "example" / "pack.yaml")
        rows = read_sample(home / "sample.csv", load_pack(home / "pack.yaml"))
        sheet = folder / "sheets" / SHEET
        sheet.parent.mkdir(exist_ok=True)
        write_beside(sheet, _csv(("id", "message"), ([r.id, r.text] for r in rows[LABELLED:])))
        with tempfile.TemporaryDirectory(prefix=".example-", dir=folder) as scratch:
            made = Path(scratch) / "project.duckdb"
            project = create(made)
            targets = tuple(pack.categories)
            source = Path(scratch) / "messages.csv"
            source.write_bytes(_labelled(rows[:LABELLED], targets))
            import_rows(
                project,
                DATASET,
                Source(source),
                Columns(
                    "text", "id", labels={name: name for name in targets}, slices=("language",)
                ),
                Origin("example", "random"),
            )
            digest = json.loads((home / "fit.json").read_text())["model_digest"]
            recording = read_recording(
                home / "scores.jsonl.gz", digest, lambda _: None, pack.questions
            )
            if recording is not None:
                keep_recording(project, DATASET, pack, recording)
            made.rename(project_file)
    except OSError as error:
        raise Unusable(f"the example cannot be made in {folder}: {error.strerror}") from None


def _labelled(rows: Sequence[SampleRow], targets: Sequence[str]) -> bytes:
    table = []
    for row in rows:
        labels = dict(row.labels)
        desks = [labels[desk] for desk in DESKS]
        labels[CASE] = True if True in desks else None if None in desks else False
        words = [{True: "yes", False: "no", None: "unsure"}[labels[name]] for name in targets]
        if row.id in WRONG:
            target, word = WRONG[row.id]
            words[targets.index(target)] = word
        table.append([row.id, row.text, row.language, *words])
    return _csv(("id", "text", "language", *targets), table)


def _csv(header: Sequence[str], rows: object) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()
