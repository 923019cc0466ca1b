"""Faults noted while a pack's object is checked, by the path of the field; no place in a file yet."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

Path = tuple[str | int, ...]
"""Keys and indexes from the top of a file."""

_LISTED = 12
_COMPARED = 1000


@dataclass(frozen=True, slots=True)
class Note:
    """A fault.

    Attributes:
        path: the field at fault.
        message: what is wrong and what to write instead.
        first: the other field, of two that may not be the same.
        at_key: whether the field's name is at fault, not its value.
    """

    path: Path
    message: str
    first: Path | None = None
    at_key: bool = False


@dataclass(slots=True)
class Notes:
    """What was found so far.

    Attributes:
        broken: top-level keys under which something was unreadable and is left out.
        found: in the order of finding.
    """

    broken: set[str] = field(default_factory=set)
    found: list[Note] = field(default_factory=list)

    def __call__(self, path: Path, message: str, first: Path | None = None) -> None:
        """Note a fault."""
        self.found.append(Note(path, message, first))

    def missing(self, path: Path, message: str, *sections: str) -> None:
        """Note that something is not there, unless a section is broken where it might be."""
        if not self.broken.intersection(sections):
            self.found.append(Note(path, message))


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?`, or what there is."""
    known = list(names)
    # Comparing takes long, and a file with very many names has hardly been typed.
    close = get_close_matches(name, known[:_COMPARED], n=1, cutoff=0.6)
    if close:
        return f"; did you mean `{close[0]}`?"
    return f"; there is {listed(known)}" if known else ""


def listed(names: Iterable[str]) -> str:
    """Names for a message, a long list cut short with its length."""
    known = list(names)
    shown = ", ".join(f"`{name}`" for name in known[:_LISTED])
    return shown if len(known) <= _LISTED else f"{shown} and {len(known) - _LISTED} more"
