"""The audit trail of a project: a line for every change, only ever added to. Knows no screen."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from spinf_serve.packs.atomic import locked
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk

AUDIT_FILE: Final = "audit.jsonl"


@dataclass(frozen=True, slots=True)
class Event:
    """A change.

    Attributes:
        at: ISO time, UTC, to the second.
        user: who made it.
        action: what was done, in a few words such as `save pack`.
        subject: what it was done to: a file's name, a dataset, a row.
        details: what else is to be known; digests before and after where a file changed.
    """

    at: str
    user: str
    action: str
    subject: str
    details: dict[str, Any] = field(default_factory=dict)


def note(desk: Desk, user: str, action: str, subject: str, **details: Any) -> Event:
    """Add a change to the trail. Raises `Unusable` when it cannot be written."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    event = Event(at, user, action, subject, details)
    told = {"at": at, "user": user, "action": action, "subject": subject, **details}
    path = desk.folder / AUDIT_FILE
    try:
        with locked(path, LOCK_SECONDS):
            _append(path, (json.dumps(told, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise Unusable(
            f"{AUDIT_FILE} cannot be written: {error.strerror}. The change itself ({action[:40]}, {subject[:80]})"
            " was made; see to it that the project's folder can be written"
        ) from None
    return event


def _append(path: Path, line: bytes) -> None:
    """Adds a whole line or nothing: behind half of one, the next would be lost as well."""
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, 2)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                # A process was killed, or the machine stopped, in the midst of a line.
                line = b"\n" + line
        try:
            written = 0
            while written < len(line):
                written += file.write(line[written:])
        except OSError:
            file.truncate(end)
            raise


def events(desk: Desk, *, newest: int = 200, word: str = "") -> list[Event]:
    """The newest changes, newest first.

    Args:
        newest: at most so many.
        word: only those with it in user, action or subject, in any case.
    """
    wanted = word.casefold()
    found: list[Event] = []
    for line in _backwards(desk.folder / AUDIT_FILE):
        try:
            told = json.loads(line)
            at, user, action, subject = (
                str(told.pop(name)) for name in ("at", "user", "action", "subject")
            )
        except (ValueError, KeyError, AttributeError):
            # A line that was cut when the disk was full.
            continue
        if wanted in f"{user}\n{action}\n{subject}".casefold():
            found.append(Event(at, user, action, subject, told))
            if len(found) == newest:
                break
    return found


def _backwards(path: Path) -> Iterator[bytes]:
    """Lines of a file from its end, without reading all of it."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            rest = b""
            while end > 0:
                size = min(1 << 16, end)
                end -= size
                file.seek(end)
                lines = (file.read(size) + rest).split(b"\n")
                rest = lines[0]
                yield from (line for line in reversed(lines[1:]) if line)
            if rest:
                yield rest
    except FileNotFoundError:
        return
