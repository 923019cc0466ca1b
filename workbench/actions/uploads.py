"""Files on their way into a project: kept in its folder until they are imported or dropped.

    .workbench/uploads/<id>/about.json     name, path, who brought it
    .workbench/uploads/<id>/plan.json      what its columns were said to mean
    .workbench/uploads/<id>/preview.json   what a trial found
    .workbench/uploads/<id>/<name>         the file, unless it is read where it lies

Knows no screen and not what is in a file.
"""

import io
import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from spinf_serve.evals.data.decision_log import is_decision_log
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, shown
from spinf_serve.workbench.desk import Desk, read_object

ENDINGS: Final = ("csv", "tsv", "txt", "jsonl", "ndjson", "parquet", "xlsx")
"""Of files that can be imported."""

MOST_PASTED_CHARS: Final = 20_000_000

_TOLD: Final = ("name", "path", "by", "at")
_ABOUT, _PLAN, _PREVIEW = "about.json", "plan.json", "preview.json"


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that is to be imported.

    Attributes:
        name: for people.
        path: absolute.
        by, at: who brought it, and when, ISO time.
    """

    id: str
    name: str
    path: Path
    by: str
    at: str

    @property
    def is_log(self) -> bool:
        """Whether it is a server's decision log."""
        return is_decision_log(self.path)

    @property
    def state(self) -> tuple[int, int]:
        """Changes when the file does. Raises `Unusable` when it is gone."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise Unusable(
                f"{shown(self.path)} cannot be read: {error.strerror}; bring it again"
            ) from None
        return found.st_size, found.st_mtime_ns


def keep_file(desk: Desk, user: str, name: str, data: BinaryIO) -> Upload:
    """Keep a file that was uploaded. Raises `Unusable`: nothing can be read of that kind."""
    name = _file_name(name)
    if name.rpartition(".")[2].lower() not in (*ENDINGS, "sqlite", "db"):
        raise Unusable(
            f"{name}: a file to import ends in {', '.join('.' + one for one in ENDINGS)}"
        )
    with _keeping(desk, name) as folder:
        path = folder / name
        with path.open("wb") as file:
            shutil.copyfileobj(data, file)
        return _kept(folder, name, path, user)


def keep_pasted(desk: Desk, user: str, text: str, *, has_names: bool) -> Upload:
    """Keep cells that were pasted from a spreadsheet.

    Args:
        has_names: whether the first line names the columns; else they are named `column 1` and so
            on.

    Raises `Unusable`: there is nothing in it, or too much.
    """
    if len(text) > MOST_PASTED_CHARS:
        raise Unusable(
            f"{len(text):,} characters are more than the {MOST_PASTED_CHARS:,} that can be pasted;"
            " save the sheet as a file and upload that"
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not text.strip():
        raise Unusable("nothing was pasted; copy cells of a spreadsheet, with their column names")
    first = text.partition("\n")[0]
    mark = "\t" if "\t" in first else max(";,", key=first.count)
    # Without names, a comma is more likely part of a text than the end of a cell.
    is_csv = mark != "\t" and has_names and mark in first
    if not has_names:
        names = (f"column {place + 1}" for place in range(first.count("\t") + 1))
        text = "\t".join(names) + "\n" + text
    name = "pasted.csv" if is_csv else "pasted.tsv"
    return keep_file(desk, user, name, io.BytesIO((text + "\n").encode()))


def keep_path(desk: Desk, user: str, written: str, *, anywhere: bool) -> Upload:
    """A file on this machine, to be read where it lies.

    Args:
        written: its path; a relative one is below the project's folder.
        anywhere: whether it may lie outside the project's folder.

    Raises `Unusable`: it is not there, or may not be read from here.
    """
    try:
        path = desk.folder / Path(written.strip().strip("'\"")).expanduser()
        inside = path.resolve().is_relative_to(desk.folder.resolve())
    except (RuntimeError, ValueError, OSError):
        raise Unusable(f"{written[:200]!r} is no path on this machine") from None
    if not anywhere and not inside:
        raise Unusable(
            f"{shown(path)} lies outside the project's folder, from which alone files are read while"
            " several people share this workbench; upload it instead"
        )
    if not written.strip() or not is_regular(path):
        raise Unusable(f"{shown(path)} is no file on the machine that runs this workbench")
    if path.resolve().is_relative_to(desk.private.resolve()):
        raise Unusable(f"{shown(path)} is the workbench's own")
    with _keeping(desk, path.name) as folder:
        return _kept(folder, path.name, path.resolve(), user)


def upload(desk: Desk, id: str) -> Upload:
    """A file that is kept. Raises `Unusable` when it is gone."""
    found = None
    if re.fullmatch(r"[0-9a-f-]{8,40}", id):
        found = _read(desk.below("uploads") / id)
    if found is None:
        raise Unusable("this file was imported or dropped meanwhile; bring it again")
    return found


def uploads(desk: Desk) -> list[Upload]:
    """All files that wait to be imported, the latest first."""
    folders = sorted(desk.below("uploads").iterdir(), reverse=True)
    return [one for folder in folders if (one := _read(folder)) is not None]


def drop(desk: Desk, id: str) -> None:
    """Take a file away that was kept; one that is read where it lies stays there."""
    shutil.rmtree(desk.below("uploads") / upload(desk, id).id, ignore_errors=True)


def keep_plan(desk: Desk, id: str, plan: dict[str, Any]) -> None:
    """Keep what a file's columns mean, so that a reload loses nothing."""
    folder = desk.below("uploads") / upload(desk, id).id
    write_beside(folder / _PLAN, json.dumps(plan, ensure_ascii=False).encode())


def kept_plan(desk: Desk, id: str) -> dict[str, Any] | None:
    """What was kept by `keep_plan`; None for nothing yet."""
    return read_object(desk.below("uploads") / id / _PLAN)


def keep_preview(desk: Desk, id: str, key: str, report: dict[str, Any]) -> None:
    """Keep what a trial found; `key` says of what."""
    folder = desk.below("uploads") / upload(desk, id).id
    told = {"key": key, "report": report}
    write_beside(folder / _PREVIEW, json.dumps(told, ensure_ascii=False).encode())


def kept_preview(desk: Desk, id: str, key: str) -> dict[str, Any] | None:
    """What was kept by `keep_preview` of the same; None for nothing, or something else."""
    told = read_object(desk.below("uploads") / id / _PREVIEW)
    if told is None or told.get("key") != key:
        return None
    report: dict[str, Any] = told["report"]
    return report


@contextmanager
def _keeping(desk: Desk, name: str) -> Iterator[Path]:
    """A new folder; gone again when not all can be kept, since nobody would see half of it."""
    folder = None
    try:
        folder = _new(desk)
        yield folder
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise Unusable(
            f"{shown(name)} cannot be kept: {error.strerror or error}; make room on the disk of the"
            " project, then bring it again"
        ) from None


def _new(desk: Desk) -> Path:
    at = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = desk.below("uploads") / f"{at}-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    return folder


def _kept(folder: Path, name: str, path: Path, user: str) -> Upload:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    told = {"name": name, "path": str(path), "by": user, "at": at}
    write_beside(folder / _ABOUT, json.dumps(told, ensure_ascii=False).encode())
    return Upload(folder.name, name, path, user, at)


def _read(folder: Path) -> Upload | None:
    told = read_object(folder / _ABOUT)
    if told is None or not all(isinstance(told.get(name), str) for name in _TOLD):
        return None
    return Upload(folder.name, told["name"], Path(told["path"]), told["by"], told["at"])


def _file_name(name: str) -> str:
    """The last part of a name, without signs that file systems mind."""
    kept = re.sub(r"[^\w .()-]", "-", name.replace("\\", "/").rpartition("/")[2]).strip(". ")
    return kept[-120:] if kept not in (_ABOUT, _PLAN, _PREVIEW, "") else f"file-{kept}"
