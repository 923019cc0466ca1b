"""A project's folder as the workbench keeps it: packs, labelled data, and what was done to them.

    project.duckdb       rows, labels, kept scores (`spinf_serve.evals.project`)
    packs/…/*.yaml       the packs, as their authors' tools see them
    audit.jsonl          every change: when, who, what
    .workbench/          drafts, runs, tables for charts: can be deleted, except for unsaved drafts

Knows no screen and no model.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.project import Project, create
from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_there, shown
from spinf_serve.packs.files import read_regular as read_bytes
from spinf_serve.workbench.example import make_example

PROJECT_FILE: Final = "project.duckdb"
LOCK_SECONDS: Final = 10.0
_SETTINGS: Final = "settings.json"
_KINDS: Final[Mapping[str, Any]] = {
    "per_day": int | float,
    "hour_price": int | float,
    "mask": bool,
    "mask_orders": bool,
    "open_texts": bool,
    "user": str,
    "other_server": str,
    "rules": dict,
    "tour": dict,
    "wizard": dict,
}
"""Settings of which a kind is asked -> the kind."""
_PACK_LINE: Final = re.compile(rb"^[\"']?pack[\"']?\s*:", re.MULTILINE)
MOST_PACKS: Final = 1_000
"""Files that are looked at for packs."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A project's folder; nothing is open between calls.

    Attributes:
        folder: absolute.
        file: of the DuckDB project.
    """

    folder: Path
    file: Path

    @property
    def project(self) -> Project:
        """Rows, labels and kept scores."""
        return Project(self.file, wait_seconds=15.0)

    @property
    def private(self) -> Path:
        """The workbench's own folder, made when it is not there."""
        folder = self.folder / ".workbench"
        folder.mkdir(exist_ok=True)
        return folder

    def below(self, *names: str) -> Path:
        """A folder of the workbench's own, made when it is not there."""
        folder = self.private.joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def pack_files(self) -> list[Path]:
        """Files of packs in the folder, sorted; copies of published versions left out.

        Files are known by their line `pack:`, valid or not, so that a broken one can be mended.
        """
        found = []
        looked = 0
        for path in sorted(self.folder.rglob("*")):
            parts = path.relative_to(self.folder).parts
            hidden = any(part.startswith(".") or part == "versions" for part in parts)
            if hidden or path.suffix not in (".yaml", ".yml", ".json") or not path.is_file():
                continue
            if not has_name(path):
                continue
            if path.name in ("prompt-packs.json", "pack.schema.json"):
                continue
            looked += 1
            if looked > MOST_PACKS:
                raise Unusable(
                    f"{shown(self.folder)} holds more than {MOST_PACKS:,} YAML and JSON files; open"
                    " the folder of the packs"
                )
            try:
                data = read_bytes(path)
            except OSError:
                continue
            if _is_pack(path, data):
                found.append(path)
        return found

    def name_of(self, file: Path) -> str:
        """How a file of the folder is named in addresses and in the audit trail."""
        return file.relative_to(self.folder).as_posix()

    def file_named(self, name: str) -> Path:
        """The file of that name. Raises `Unusable` for one outside the folder, or not there."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
            raise Unusable(f"the project has no file {name[:200]!r}")
        return path

    def settings(self) -> dict[str, Any]:
        """What was set for the project; empty at first."""
        found = read_object(self.private / _SETTINGS) or {}
        # A file that was written by hand, or half: what cannot be is as if it were not set.
        return {
            name: value
            for name, value in found.items()
            if value is None or isinstance(value, _KINDS.get(name, object))
        }

    @property
    def per_day(self) -> float | None:
        """Messages a day, where somebody said."""
        value = self.settings().get("per_day")
        return float(value) if isinstance(value, int | float) and value > 0 else None

    def set(self, **values: Any) -> None:
        """Change settings; the others stay, also those that another tab sets meanwhile."""
        self.change(lambda settings: values)

    def change(self, how: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Change settings by what they are: nothing comes between looking and writing.

        Args:
            how: all settings -> those that change; what it raises leaves everything as it is.

        Raises `Unusable` when they cannot be written.
        """
        try:
            path = self.private / _SETTINGS
            with locked(path, LOCK_SECONDS):
                settings = self.settings()
                told = json.dumps(settings | dict(how(settings)), indent=1)
                write_beside(path, told.encode())
        except OSError as error:
            raise Unusable(
                f"the project's settings cannot be kept: {error.strerror or error}; see to it"
                " that the project's folder can be written, then try again"
            ) from None


def open_desk(folder: Path, say: Callable[[str], None] = lambda _: None) -> Desk:
    """The project in a folder; one is made, with the example, where the folder is empty or not there.

    Args:
        folder: or a project's DuckDB file, whose folder is meant.
        say: told before what takes some seconds.

    Raises `Unusable`: the folder cannot be made, or holds several DuckDB files and no
    `project.duckdb`.
    """
    if folder.suffix == ".duckdb" and folder.is_file():
        return Desk(folder.resolve().parent, folder.resolve())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"{shown(folder)} cannot be made: {error.strerror}") from None
    folder = folder.resolve()
    file = folder / PROJECT_FILE
    try:
        with locked(folder / ".start", 60.0):
            if not is_there(file):
                others = sorted(folder.glob("*.duckdb"))
                if len(others) == 1:
                    return Desk(folder, others[0])
                if others:
                    names = ", ".join(one.name for one in others)
                    raise Unusable(
                        f"{shown(folder)} holds {names}: name the one to open, or call it"
                        f" {PROJECT_FILE}"
                    )
                if _is_new(folder):
                    say(f"making the example in {shown(folder)}, once")
                    make_example(folder, file)
                    _measure(Desk(folder, file))
                else:
                    create(file)
    except (OSError, TimeoutError) as error:
        raise Unusable(f"{shown(folder)} cannot be written: {error}") from None
    return Desk(folder, file)


def _measure(desk: Desk) -> None:
    # What measures works on a desk itself.
    from spinf_serve.workbench.actions.first_visit import measure_example

    measure_example(desk)


def has_name(path: Path) -> bool:
    """Whether a file's name is text: pages cannot show one that is not."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_pack(path: Path, data: bytes) -> bool:
    if path.suffix != ".json":
        return _PACK_LINE.search(data[:4096]) is not None
    try:
        told = json.loads(data)
    except ValueError:
        return b'"pack"' in data and b'"scoring"' in data
    return isinstance(told, dict) and "pack" in told and "scoring" in told


def _is_new(folder: Path) -> bool:
    """Whether nothing lies there but what a start that was broken off left."""
    return all(
        path.name.startswith(".") or path.name in ("packs", "sheets") for path in folder.iterdir()
    ) and not any(
        path.suffix in (".yaml", ".yml", ".json") and "triage" not in path.parts
        for path in folder.rglob("*")
    )


def key_of(*parts: object) -> str:
    """A short name for what such parts make, for files and widgets: 16 hex digits."""
    told = json.dumps([str(part) for part in parts])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object as the workbench's files hold it; None where there is none, or half of one."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def as_json(value: Mapping[str, Any]) -> bytes:
    """An object as the workbench's files hold it."""
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()
