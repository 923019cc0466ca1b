"""Long work of a project: each job is a process of its own, which outlives the workbench.

A job's folder, `.workbench/jobs/<id>/`, holds all that is known of it:

    job.json      kind, title, who started it, arguments
    status.json   how far it is; written by its process only
    log.txt       what it said
    result.json   what came of it
    alive         locked by its process as long as that lives
    stop          there when it is to stop
    who.json      who answers it, with the token; only its owner reads it, gone when it is done

Knows no screen, and not what jobs do.
"""

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.answering import Who, keep_who
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk, read_object
from spinf_serve.workbench.job_kinds import KINDS

State = Literal["waiting", "running", "done", "stopped", "failed", "broken"]
ENDED: Final = ("done", "stopped", "failed", "broken")
AGAIN: Final = ("stopped", "failed", "broken")
"""States out of which a job can be resumed."""

JOB, STATUS, LOG, RESULT, ALIVE, STOP = (
    "job.json",
    "status.json",
    "log.txt",
    "result.json",
    "alive",
    "stop",
)
_TAKE_SECONDS: Final = 5.0
_COMMAND: Final = [sys.executable, "-m", "spinf_serve.workbench.job"]

_children: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that this one started: without being waited for they would stay as zombies."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stood when it was looked up.

    Attributes:
        id: sorts by time.
        subject: what it is about; one job of a subject runs at a time.
        started: ISO time, UTC.
        ended: ISO time; None while it runs, and when its process was killed.
        done, of: how far it is; `of` is 0 while that is not known.
        rate: of `done`, a second.
        words: what it does, or why it ended.
        more: further figures of its own.
        heartbeat: when its process last wrote, ISO time.
        pid: of its process, for people.
    """

    folder: Path
    id: str
    kind: str
    title: str
    user: str
    subject: str
    started: str
    arguments: Mapping[str, Any]
    state: State
    done: int = 0
    of: int = 0
    rate: float | None = None
    seconds_left: float | None = None
    words: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    heartbeat: str | None = None
    ended: str | None = None
    pid: int | None = None

    @property
    def is_live(self) -> bool:
        """Whether its process lives."""
        return self.state not in ENDED

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return min(1.0, self.done / self.of) if self.of else 0.0

    def result(self) -> dict[str, Any] | None:
        """What came of it; None while there is nothing."""
        return read_object(self.folder / RESULT)

    def log(self, most_bytes: int = 20_000) -> str:
        """The end of what it said."""
        try:
            with (self.folder / LOG).open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - most_bytes))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return text if size <= most_bytes else text.partition("\n")[2]


def new_folder(desk: Desk) -> Path:
    """A folder for a job to come, into which its input may be laid before `start`."""
    at = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = desk.below("jobs") / f"{at}-{secrets.token_hex(3)}"
    folder.mkdir(mode=0o700)
    return folder


def start(
    desk: Desk,
    user: str,
    kind: str,
    title: str,
    arguments: Mapping[str, Any],
    *,
    who: Who | None = None,
    subject: str | None = None,
    folder: Path | None = None,
) -> Job:
    """Start a job; when the very same one runs already, that one is returned.

    Args:
        arguments: for its function; can be written as JSON, hold no secret.
        who: who answers it; None for a job that asks nobody.
        subject: what it is about; None takes its kind and arguments.
        folder: from `new_folder`; None makes one.

    Raises `Unusable`: another job of the same subject runs, or no process can be started.
    """
    if kind not in KINDS:
        raise Unusable(f"there is no kind of job {kind!r}")
    about = json.dumps([kind, arguments], sort_keys=True) if subject is None else subject
    with _turn(desk):
        for other in jobs(desk):
            if other.is_live and other.subject == about:
                if other.kind == kind and other.arguments == dict(arguments):
                    if folder is not None:
                        shutil.rmtree(folder, ignore_errors=True)
                    return other
                raise Unusable(
                    f"{other.title}: this runs already, since {other.started[:16]} UTC; wait for it"
                    " or stop it first"
                )
        folder = folder or new_folder(desk)
        told = {
            "kind": kind,
            "title": title,
            "user": user,
            "subject": about,
            "started": _now(),
            "arguments": dict(arguments),
        }
        write_beside(folder / JOB, json.dumps(told, ensure_ascii=False, indent=1).encode())
        if who is not None:
            keep_who(who, folder)
        _launch(desk, folder)
    note(desk, user, f"start {kind}", title, job=folder.name)
    return job(desk, folder.name)


def resume(desk: Desk, user: str, id: str, *, who: Who | None = None) -> Job:
    """Start a job again that was stopped, failed or lost its process.

    Args:
        who: who answers it from now on; None leaves that as it was.

    Raises `Unusable`: it runs or is done, or another job of the same subject runs.
    """
    with _turn(desk):
        found = job(desk, id)
        if found.state not in AGAIN:
            raise Unusable(f"{found.title}: it is {found.state}, there is nothing to go on with")
        for other in jobs(desk):
            if other.is_live and other.subject == found.subject:
                raise Unusable(f"{other.title}: another run of it is at work; wait for it")
        (found.folder / STOP).unlink(missing_ok=True)
        if who is not None:
            keep_who(who, found.folder)
        _launch(desk, found.folder)
    note(desk, user, f"resume {found.kind}", found.title, job=id)
    return job(desk, id)


def stop(desk: Desk, user: str, id: str) -> None:
    """Ask a job to stop; it does so within a step, and keeps what is finished."""
    found = job(desk, id)
    if found.is_live:
        (found.folder / STOP).touch()
        note(desk, user, f"stop {found.kind}", found.title, job=id)


def remove(desk: Desk, user: str, id: str) -> None:
    """Take a job that has ended away, with what lies in its folder. Raises `Unusable` for others."""
    with _turn(desk):
        found = job(desk, id)
        if found.is_live:
            raise Unusable(f"{found.title}: it runs; stop it first")
        wait(desk, id, _TAKE_SECONDS)
        shutil.rmtree(found.folder)
    note(desk, user, f"remove {found.kind}", found.title, job=id)


def jobs(desk: Desk, kind: str | None = None, most: int = 1_000) -> list[Job]:
    """The project's jobs, newest first, of one kind or all."""
    found: list[Job] = []
    for folder in sorted(desk.below("jobs").iterdir(), reverse=True):
        one = _read(folder)
        if one is not None and kind in (None, one.kind):
            found.append(one)
            if len(found) == most:
                break
    return found


def job(desk: Desk, id: str) -> Job:
    """One job. Raises `Unusable` when there is none of that id."""
    name = id if id and id == Path(id).name and not id.startswith(".") else None
    found = None if name is None else _read(desk.below("jobs") / name)
    if found is None:
        raise Unusable(f"there is no job {id[:80]!r} any more")
    return found


def known(desk: Desk, id: str) -> bool:
    """Whether there is a job of that id; before `start`, a folder alone is none."""
    return (desk.below("jobs") / Path(id).name / JOB).is_file()


def wait(desk: Desk, id: str, seconds: float) -> Job:
    """The job once its process has ended. Raises `TimeoutError` when that takes longer."""
    until = time.monotonic() + seconds
    while (found := job(desk, id)).is_live or _lives(found.folder):
        if time.monotonic() > until:
            raise TimeoutError(f"{found.title}: {found.state} after {seconds:.0f} s: {found.log()}")
        time.sleep(0.05)
    return found


def _turn(desk: Desk) -> Any:
    return locked(desk.below("jobs") / "start", LOCK_SECONDS)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _launch(desk: Desk, folder: Path) -> None:
    """Starts the job's process, which holds the lock of `alive` from its first moment on."""
    descriptor = os.open(folder / ALIVE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor)
        _reap(folder.name)
        waiting = {"state": "waiting", "words": "starting", "heartbeat": _now()}
        write_beside(folder / STATUS, json.dumps(waiting).encode())
        with (folder / LOG).open("ab") as log:
            _children[folder.name] = subprocess.Popen(
                [*_COMMAND, str(desk.file), folder.name, str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Neither Ctrl-C nor the end of a terminal's session reach it.
                start_new_session=True,
                pass_fds=(descriptor,),
            )
    except OSError as error:
        raise Unusable(f"no process can be started: {error.strerror or error}") from None
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    """Takes the lock; whoever only looks whether the process lives holds it for a moment."""
    until = time.monotonic() + _TAKE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise Unusable("its last process has not ended yet; try again") from None
            time.sleep(0.02)


def _lives(folder: Path) -> bool:
    """Whether the job's process lives: the system frees its lock however it ends."""
    try:
        descriptor = os.open(folder / ALIVE, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    _reap(folder.name)
    return False


def _reap(id: str) -> None:
    """Waits for a process that has let its lock go, and so is at its end."""
    child = _children.pop(id, None)
    if child is not None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_TAKE_SECONDS)


def _read(folder: Path) -> Job | None:
    told = read_object(folder / JOB)
    if told is None:
        return None
    # In this order: what it wrote last counts, and it writes nothing after its end.
    lives = _lives(folder)
    status = read_object(folder / STATUS) or {}
    state = cast(State, status.pop("state", "broken"))
    words = status.pop("words", "")
    if not lives and state not in ENDED:
        state, words = "broken", "its process ended without a word; it can be resumed"
    try:
        found = Job(folder, folder.name, **told, state=state, words=words, **status)
        datetime.fromisoformat(found.started)
    except (TypeError, ValueError):
        return None
    is_whole = isinstance(found.arguments, Mapping) and all(
        isinstance(one, str) for one in (found.kind, found.title, found.user, found.subject)
    )
    is_whole = is_whole and all(isinstance(one, int) for one in (found.done, found.of))
    return found if is_whole else None
