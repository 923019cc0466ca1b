"""How this workbench was started: set once before its screens run, read by all of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinf_serve.packs.errors import Unusable


@dataclass(frozen=True, slots=True)
class Started:
    """What `spinf-serve workbench` was told.

    Attributes:
        folder: of the project.
        server: URL of the server that answers; None for the embedded model, in a process of its own.
        config: settings of the model that answers in a process of its own, as the command line has
            them; opaque here.
        token: sent to the server; None for none.
        user_header: HTTP header in which a proxy in front names the user; None without one.
        approvers: users who may publish and put cuts in force; empty when everybody may.
        user: who uses it where no proxy names anyone.
    """

    folder: Path
    server: str | None = None
    config: Any = None
    token: str | None = None
    user_header: str | None = None
    approvers: frozenset[str] = frozenset()
    user: str = "author"


_started: Started | None = None


def start_as(started: Started) -> None:
    """Note how it was started; before the first screen runs."""
    global _started
    _started = started


def approves(user: str) -> bool:
    """Whether a user may publish, and put cuts in force; everybody where no approver was named."""
    how = started()
    return not how.approvers or user in how.approvers


def speaks_for(user: str, name: str) -> bool:
    """Whether a user may say something in a name: only in their own where a proxy names users."""
    return _started is None or _started.user_header is None or name == user


def started() -> Started:
    """How it was started. Raises `Unusable` when a screen is run by hand."""
    if _started is None:
        raise Unusable("start the workbench with `spinf-serve workbench`")
    return _started
