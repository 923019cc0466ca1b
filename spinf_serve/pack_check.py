"""`packs validate` and the contents of `packs lint`: what lies in files, checked and read."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from spinf_serve.pack_files import SAMPLE, Given, sample_of
from spinf_serve.pack_pages import counted
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import is_there, read_regular, shown
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import filled
from spinf_serve.packs.sample import MAX_BYTES, read_sample
from spinf_serve.packs.shelf import read_shelf
from spinf_serve.packs.sources import Opened
from spinf_serve.scoring import presented

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, and every fault in the order of files and lines."""

    packs: int
    samples: int
    faults: tuple[PackFault, ...]

    @property
    def summary(self) -> str:
        """One line."""
        checked = f"{counted(self.packs, 'valid pack')} and {counted(self.samples, 'sample')}"
        files = len({fault.file for fault in self.faults})
        if not self.faults:
            return f"{checked}, no fault"
        return f"{checked}, {counted(len(self.faults), 'fault')} in {counted(files, 'file')}"

    def told(self) -> dict[str, Any]:
        """As a JSON object."""
        faults = [asdict(fault) for fault in self.faults]
        return {"packs": self.packs, "samples": self.samples, "faults": faults}


def check_paths(paths: Sequence[Path]) -> Checked:
    """Check files, and folders with all the packs in them. Raises `Unusable` for what is not there."""
    packs: list[tuple[Path, Pack]] = []
    faults: list[PackFault] = []
    for path in paths:
        found, wrong = _folder(path) if os.path.isdir(path) else _file(path)
        packs += found
        faults += wrong
    samples = 0
    for file, pack in packs:
        faults += _lock_faults(pack, file)
        sample = file.parent / SAMPLE
        if is_there(sample):
            samples += 1
            faults += _sample_faults(sample, pack)
    return Checked(len(packs), samples, tuple(dict.fromkeys(faults)))


def _file(path: Path) -> tuple[list[tuple[Path, Pack]], Sequence[PackFault]]:
    try:
        data = read_regular(path)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    try:
        return [(path, read_pack(data, str(path)))], ()
    except InvalidPack as invalid:
        return [], invalid.faults


def _folder(path: Path) -> tuple[list[tuple[Path, Pack]], Sequence[PackFault]]:
    shelf = read_shelf(Opened(path.resolve(), f"local:{path}", str(path), False), read_pack)
    found = [(path / offer.file, offer.pack) for offer in shelf.offers if offer.pack is not None]
    faults = list(shelf.faults)
    # Working files of listed versions, of which the listing offers published copies only.
    offered = {offer.file for offer in shelf.offers} | {
        name for name, file in shelf.files.items() if not file.unlisted
    }
    told = {fault.file for fault in faults}
    for name, file in shelf.files.items():
        if name not in offered and file.named is not None and shelf.file(name) not in told:
            more, wrong = _file(path / name)
            found += more
            faults += wrong
    if not found and not faults:
        raise Unusable(f"{path} holds no pack: a .json, .yaml or .yml file with `pack:` in it")
    return found, faults


def _lock_faults(pack: Pack, file: Path) -> Iterator[PackFault]:
    for model, constants in pack.fitted.items():
        if constants.layer is not None and not constants.layer.holds:
            yield PackFault(
                "the micro layer was fitted on other questions, reads or maps than the file has, so"
                f" {pack.decision.fallback} decides instead; fit again",
                str(file),
                param=f"fitted.{model}.decision.micro_layer.lock",
            )


def _sample_faults(sample: Path, pack: Pack) -> Sequence[PackFault]:
    try:
        read_sample(sample, pack)
    except InvalidPack as invalid:
        # The sample's reader knows the file's name, not where it lies.
        return [
            PackFault(one.message, str(sample), one.line, one.column, one.param)
            for one in invalid.faults
        ]
    return ()


def lint_contents(given: Given, texts: Sequence[str], file: Path | None, most: int) -> list[str]:
    """What lint asks about, as the model reads it: the texts, else rows of a file.

    Args:
        file: a `.csv` sample, or any other text file with a content a line; None takes the sample
            beside the pack, or above the folder of its published copy.
        most: rows taken of a file, spread over it.

    Raises:
        InvalidPack: a sample is not valid.
        Unusable: there is nothing to ask about, or the pack needs parameters.
    """
    if file is None and not texts:
        file = sample_of(given.file)
        if file is None:
            raise Unusable(
                f"no {SAMPLE} lies beside {given.file}; give contents with --content or --contents"
            )
    if file is not None and file.suffix.lower() == ".csv":
        rows = read_sample(file, given.pack)
        own = [presented(given.pack, row) for row in _spread(rows, most)]
    elif file is not None:
        own = [_wrapped(given.pack, line) for line in _spread(_lines(file), most)]
    else:
        own = []
    return [*(_wrapped(given.pack, text) for text in texts), *own]


def _spread(rows: Sequence[T], most: int) -> list[T]:
    count = min(most, len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]


def _lines(file: Path) -> list[str]:
    try:
        text = read_regular(file, MAX_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise Unusable(f"{shown(file)} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Unusable(f"{shown(file)} is not UTF-8: {error.reason}") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise Unusable(f"{file} has no content in it")
    return lines


def _wrapped(pack: Pack, text: str) -> str:
    try:
        before, after = filled(pack, next(iter(pack.contexts.values())), {})
    except Refused as refused:
        raise Unusable(f"{refused.message}; give a sample with it: --contents FILE.csv") from None
    return before + text + after
