"""What an import found: what was read, refused, missing, doubled, contradictory, and how balanced.

Refusing is said with line numbers, and counted whole where examples are cut. Knows no SQL.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from spinf_serve.evals.data.labels import NO, UNSURE, YES

EXAMPLES: Final = 100
"""Most examples that are kept of anything; counts are always whole."""

_FEW: Final = 30


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that was not taken.

    Attributes:
        line: where it begins, from 1.
        row_id: its id where it has one that could be read, else empty.
        reason: what is wrong, and what to write instead.
    """

    line: int
    row_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One text with different labels, whose rows are all kept; mend them before fitting.

    Attributes:
        target: on what they differ.
        said: (row id, value), by row id; the first 20.
    """

    target: str
    said: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """The labels of one target.

    Attributes:
        values: `yes`, `no`, `unsure` or a class -> its rows, the most frequent first.
        missing: rows without a label, which count as nothing, not as no.
    """

    values: Mapping[str, int]
    missing: int


@dataclass(frozen=True, slots=True)
class Doubles:
    """Texts that are there more than once.

    Attributes:
        exact: rows whose text an earlier row has.
        near: rows near to an earlier one without being the same.
        groups: how many groups of rows belong together, exact or near.
        parted: of these, groups that the given group column puts apart.
        examples: row ids of the first groups, the first 20 of each.
    """

    exact: int
    near: int
    groups: int
    parted: int
    examples: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import found.

    Attributes:
        dataset, source: names.
        encoding: of a text file, else the kind of file.
        notes: what was found out about the file, a sentence each.
        rows_read: rows that are not blank.
        rows_taken: of these, rows now in the dataset; 0 after a dry run.
        refused: reasons of the first refused rows.
        refused_count: of all.
        missing: column -> rows in which it is blank.
        unknown: target -> (value -> rows) of labels that are none of the words.
        doubles: of the rows taken together with those there before.
        contradictions: the first ones.
        contradiction_count: of all.
        balance: target -> its labels.
        warnings: what to look at before fitting.
        digest: of the dataset as it is now.
    """

    dataset: str
    source: str
    encoding: str
    notes: tuple[str, ...]
    rows_read: int
    rows_taken: int
    refused: tuple[Refusal, ...]
    refused_count: int
    missing: Mapping[str, int]
    unknown: Mapping[str, Mapping[str, int]]
    doubles: Doubles
    contradictions: tuple[Contradiction, ...]
    contradiction_count: int
    balance: Mapping[str, Balance]
    warnings: tuple[str, ...]
    digest: str


@dataclass(slots=True)
class Tally:
    """What is counted while rows go by.

    Attributes:
        read: rows so far.
        refused: the first ones.
        refused_count: of all.
        missing: column -> blank cells.
        unknown: target -> value -> rows.
    """

    read: int = 0
    refused: list[Refusal] = field(default_factory=list)
    refused_count: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    unknown: dict[str, Counter[str]] = field(default_factory=dict)

    def refuse(self, line: int, row_id: str, reason: str) -> None:
        """Count a row that is not taken."""
        self.refused_count += 1
        if len(self.refused) < EXAMPLES:
            self.refused.append(Refusal(line, row_id, reason))


def warnings_of(balance: Mapping[str, Balance], missing: Mapping[str, int], rows: int) -> list[str]:
    """What to look at before fitting: one class only, few of one, spellings, empty columns."""
    found = [
        f"column {column!r} is blank in every row"
        for column, count in missing.items()
        if rows and count == rows
    ]
    for target, labels in balance.items():
        found += _warned(target, labels)
    return found


def _warned(target: str, labels: Balance) -> Iterator[str]:
    known = {value: count for value, count in labels.values.items() if value != UNSURE}
    if not known:
        yield f"{target}: no row has a label"
    elif len(known) == 1:
        value, count = next(iter(known.items()))
        yield f"{target}: one class only, all {count:,} labels are {value!r}; nothing can be fitted"
    else:
        value, count = min(known.items(), key=lambda found: found[1])
        if count < _FEW:
            yield f"{target}: only {count:,} rows are {value!r}; what is fitted will be uncertain"
    if not set(known) <= {YES, NO}:
        yield from _alike(f"{target}: the classes", known)


def alike(names: Iterable[str]) -> list[str]:
    """Warnings of labels in a list that differ only in case or blanks."""
    return list(_alike("labels: the names", dict.fromkeys(names, 0)))


def _alike(what: str, names: Mapping[str, int]) -> Iterator[str]:
    spelled: dict[str, list[str]] = {}
    for name in names:
        spelled.setdefault(" ".join(name.casefold().split()), []).append(name)
    for same in spelled.values():
        if len(same) > 1:
            shown = " and ".join(f"{name!r}" for name in sorted(same))
            yield f"{what} {shown} differ only in case or blanks, and count as different"
