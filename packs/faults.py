"""What is wrong with a pack's file: each fault with its place, all of them at once."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackFault:
    """One thing that is wrong with a file.

    Attributes:
        message: what is wrong and what to write instead.
        file: the file's name as the author gave it.
        line, column: where, counted from 1; 0 when the place is not known (JSON, whole file).
        param: dotted path of the field, for instance `scoring.queries.3.options`; empty when the
            text could not be read as far as that.
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    param: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        where = f"{self.param}: " if self.param else ""
        return f"{place}: {where}{self.message}" if place else f"{where}{self.message}"


class InvalidPack(Exception):
    """A file that is no valid pack. Printed one line a fault, in the order of the file."""

    def __init__(self, faults: Iterable[PackFault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.line, fault.column)))
        super().__init__("\n".join(map(str, self.faults)))
