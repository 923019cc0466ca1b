"""What a pack says of one row of a sheet, as added columns, and the file that keeps it meanwhile.

The kept file lies beside the sheet that is being made, a line per finished row in the order of
the rows, so that a run that was killed goes on behind them. Knows no engine.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from spinf_serve.evals.sheets import Cell, Column
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.evaluate import Evaluation
from spinf_serve.packs.files import shown
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.reason import reason

FORMAT = 1

ERROR = "error"
"""Column of a refused row: code and message."""


def columns_of(pack: Pack, prefix: str) -> tuple[Column, ...]:
    """The columns that are added for a pack, their names behind a prefix."""
    texts = ["decision", "band", "reason", "flagged", ERROR]
    if pack.route is not None:
        texts.insert(1, "route")
    return (
        *(Column(prefix + name) for name in texts),
        *(Column(f"{prefix}score_{id}", is_number=True) for id in pack.categories),
    )


def cells_of(pack: Pack, constants: Constants, found: Evaluation) -> list[Cell]:
    """The cells of a row that was answered, in the order of `columns_of`. Scores are unrounded.

    `found` was made with nothing said about the decision, as everywhere in evals.
    """
    verdict = found.verdict
    flagged = " ".join(id for id, one in found.categories.items() if one.flagged)
    texts: list[Cell] = [
        "unsafe" if verdict.unsafe else "safe",
        verdict.band,
        reason(pack, constants, DecisionCall(), found),
        flagged,
        None,
    ]
    if found.route is not None:
        texts.insert(1, found.route.choice)
    return [*texts, *(one.score for one in found.categories.values())]


def refused_cells(pack: Pack, code: str, message: str) -> list[Cell]:
    """The cells of a row that got no answer."""
    names = [column.name for column in columns_of(pack, "")]
    return [f"{code}: {message}" if name == ERROR else None for name in names]


class Kept:
    """Finished rows of a sheet that is being made, in a file beside it.

    Attributes:
        path: the file.
    """

    def __init__(self, out: Path, header: Mapping[str, Any]) -> None:
        """Open what an earlier run left, or nothing.

        Args:
            out: the sheet that is being made.
            header: everything besides the texts that a row's cells depend on.

        Raises `Unusable` when what lies there was made with another header.
        """
        self.path = out.with_name(f"{out.name}.part.jsonl")
        self._header = json.dumps({"format": FORMAT, **header}, sort_keys=True).encode() + b"\n"
        self._file: BinaryIO | None = None
        try:
            with self.path.open("rb") as file:
                found = file.readline()
        except FileNotFoundError:
            found = b""
        except OSError as error:
            raise Unusable(f"{shown(self.path)} cannot be read: {error.strerror}") from None
        if found.endswith(b"\n") and found != self._header:
            raise Unusable(
                f"{shown(self.path)} holds rows of an earlier run with another pack, model or"
                " setting; take it away, or write to another file with --out"
            )

    def resume(self, digests: Iterable[str]) -> int:
        """How many rows from the first on are kept; those behind the first that differs are not.

        Args:
            digests: of what each row asks, in order; read as far as rows are kept.
        """
        good, count = 0, 0
        self.path.touch()
        with self.path.open("rb") as file:
            if file.readline() == self._header:
                good = file.tell()
                expected = iter(digests)
                for line in file:
                    row = _row(line)
                    if row is None or row[0] != next(expected, None):
                        break
                    good += len(line)
                    count += 1
        self._file = self.path.open("rb+")
        self._file.truncate(good)
        self._file.seek(good)
        if not good:
            self._file.write(self._header)
        return count

    def add(self, rows: Iterable[tuple[str, Sequence[Cell]]]) -> None:
        """Keep finished rows, digest and cells; they are on the disk when this returns."""
        if self._file is None:
            raise ValueError("rows are added behind those of `resume`")
        for digest, cells in rows:
            line = json.dumps([digest, list(cells)], allow_nan=False)
            self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def cells(self) -> Iterator[Sequence[Cell]]:
        """The cells of every kept row, in order."""
        with self.path.open("rb") as file:
            file.readline()
            for line in file:
                row = _row(line)
                if row is None:
                    raise AssertionError(f"{self.path} changed while it was read")
                yield row[1]

    def close(self) -> None:
        """Close the file and leave it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Close the file and take it away: its rows stand in the sheet."""
        self.close()
        self.path.unlink(missing_ok=True)


def _row(line: bytes) -> tuple[str, list[Cell]] | None:
    """Digest and cells of a line; None for one that was cut off."""
    if not line.endswith(b"\n"):
        return None
    try:
        digest, cells = json.loads(line)
    except ValueError:
        return None
    return digest, cells
