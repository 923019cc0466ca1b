"""Faults noted while a pack's object is checked, by the path of the field; no place in a file yet."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice

Path = tuple[str | int, ...]
"""Keys and indexes from the top of a file."""

MAX_FAULTS = 100
"""Most faults told of one file."""

_LISTED = 12
_SHOWN_CHARS = 64
# Comparing takes long, and a file with very many or very long names has hardly been typed.
_COMPARED = 1000
_COMPARED_CHARS = 128
# Character pairs that are compared for one file; a second goes through many millions.
_COMPARED_PAIRS = 3_000_000


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
    _left: int = _COMPARED_PAIRS

    def __call__(self, path: Path, message: str, first: Path | None = None) -> None:
        """Note a fault."""
        self.found.append(Note(path, message, first))

    def near(self, name: str, names: Collection[str]) -> str:
        """As the function `near`; nothing once more is noted than is told."""
        if len(self.found) >= MAX_FAULTS:
            return ""
        known = _compared(names)
        pairs = len(name) * sum(map(len, known))
        if pairs > self._left:
            return _hint(None, names)
        self._left -= pairs
        return near(name, names)

    def missing(self, path: Path, message: str, *sections: str) -> None:
        """Note that something is not there, unless a section is broken where it might be."""
        if not self.broken.intersection(sections):
            self.found.append(Note(path, message))


def near(name: str, names: Collection[str]) -> str:
    """`; did you mean …?`, or what there is."""
    return _hint(closest(name, names), names)


def closest(name: str, names: Collection[str], cutoff: float = 0.6) -> str | None:
    """The name that may have been meant; very long names and those behind the first 1,000 are none."""
    if len(name) > _COMPARED_CHARS:
        return None
    known = _compared(names)
    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def quoted(name: str) -> str:
    """A name for a message, a long one cut short."""
    return repr(cut(name))


def cut(name: str) -> str:
    """The beginning of a long name."""
    return name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}…"


def listed(names: Collection[str]) -> str:
    """Names for a message, a long list cut short with its length."""
    shown = ", ".join(f"`{cut(name)}`" for name in islice(names, _LISTED))
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def _compared(names: Collection[str]) -> Sequence[str]:
    return [name for name in islice(names, _COMPARED) if len(name) <= _COMPARED_CHARS]


def _hint(close: str | None, names: Collection[str]) -> str:
    if close is not None:
        return f"; did you mean `{close}`?"
    return f"; there is {listed(names)}" if names else ""
