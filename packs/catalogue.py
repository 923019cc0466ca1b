"""All packs that are served: which source an id comes from, its versions, the default one.

A catalogue is a value. Readers hold one for as long as a request lasts; `refreshed` makes the next
one when files have changed. Knows neither models nor HTTP: whether a pack is fitted on the served
model is for its user to ask.
"""

import difflib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from spinf_serve.packs.cache import PackCache, cached_reader
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.manifest import Status
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.shelf import Offer, Reader, Shelf, look_again, read_shelf
from spinf_serve.packs.sources import Access, Opened, Say, open_source
from spinf_serve.packs.versions import version_order

OFFICIAL: Final = "official"
# Begins the fault of a source that could not be opened at the start.
_UNOPENED: Final = "not read: "
_TOLD_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a pack.

    Attributes:
        models: ids of the models that it is fitted on or meant for; may be empty.
        file: where it was read from.
        note: the publisher's words about it.
        pack: None when it is only announced.
    """

    version: str
    status: Status
    models: tuple[str, ...]
    file: Path
    note: str
    pack: Pack | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One pack with its versions.

    Attributes:
        status: `available` if any version is; else `deprecated`, else `coming_soon`.
        version: the default one: the first that is available; None without.
        source: label of the source.
        versions: in the listing's order, newest first without a listing; behind them what its author
            works on.
    """

    id: str
    name: str
    status: Status
    version: str | None
    description: str
    tags: tuple[str, ...]
    media: tuple[str, ...]
    source: str
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is served now.

    Attributes:
        entries: official packs first, then those of each source in the order given.
        sources: labels.
        faults: what is in the sources and not served, or served as it was before; a line each.
        shelves: what the sources held at the last look.
        read: parses a file's bytes, given its name.
    """

    entries: tuple[Entry, ...]
    sources: tuple[str, ...]
    faults: tuple[str, ...]
    shelves: tuple[Shelf, ...] = field(repr=False)
    read: Reader = field(repr=False, compare=False)

    def entry(self, pack_id: str) -> Entry:
        """A pack by its id. Raises `Refused` (unknown_pack)."""
        for entry in self.entries:
            if entry.id == pack_id:
                return entry
        known = [entry.id for entry in self.entries]
        close = difflib.get_close_matches(pack_id, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"served are {', '.join(known) or 'none'}"
        raise Refused("unknown_pack", f"no pack {pack_id!r} is served; {hint}", "id")

    def get(self, pack_id: str, version: str | None = None) -> Pack:
        """One version of a pack, the default one without a version.

        Raises:
            Refused: unknown_pack, unknown_pack_version or pack_not_available.
        """
        entry = self.entry(pack_id)
        wanted = entry.version if version is None else version
        if wanted is None:
            others = [one.version for one in entry.versions if one.pack is not None]
            remedy = f"ask for a version: {', '.join(others)}" if others else "it is announced only"
            raise Refused("pack_not_available", f"{pack_id} has no current version; {remedy}", "id")
        for one in entry.versions:
            if one.version == wanted:
                if one.pack is None:
                    raise Refused(
                        "pack_not_available",
                        f"{pack_id} {wanted} is coming soon and not served yet",
                        "version" if version else "id",
                    )
                return one.pack
        known = ", ".join(one.version for one in entry.versions)
        raise Refused(
            "unknown_pack_version",
            f"{pack_id} has no version {wanted!r}; it has {known}",
            "version",
        )

    def refreshed(self, warn: Say, tell: Say) -> "Catalogue":
        """The catalogue after another look at the folders on this machine, itself if nothing changed.

        Reads only files that changed. A file that is not valid leaves its pack as it was and stands
        in `faults`. When the sources contradict each other now, all packs stay as they were.

        Args:
            warn: is told what is not served as it stands now, a line each.
            tell: is told what was taken up, and which faults are gone.
        """
        shelves = tuple(
            look_again(shelf, self.read) if shelf.opened.watched else shelf
            for shelf in self.shelves
        )
        if all(new is old for new, old in zip(shelves, self.shelves, strict=True)):
            return self
        combined = _combined(shelves)
        # Of sources that could not be opened at the start there is no shelf to look at again.
        unopened = [line for line in self.faults if line.startswith(_UNOPENED)]
        faults = (*unopened, *_fault_lines(shelves), *combined.all_conflicts)
        entries = self.entries if combined.all_conflicts else combined.entries
        for line in faults:
            if line not in self.faults:
                warn(f"{line}; the last valid packs stay served")
        for line in _new_notes(self.shelves, shelves):
            warn(line)
        for line in (*_mended(self.shelves, shelves), *_changes(self.entries, entries)):
            tell(line)
        return replace(self, entries=entries, faults=faults, shelves=shelves)


def official_folder() -> Path:
    """The packs that come with this package; no network is needed for them."""
    return Path(__file__).resolve().parent / "spinf"


def load_catalogue(
    sources: Sequence[str],
    *,
    official: str | None,
    access: Access,
    say: Say,
    tell: Say | None = None,
    strict: bool = True,
    read: Reader | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Catalogue:
    """Read the packs of all sources.

    Args:
        sources: folders and `github:owner/repo[@ref][#folder]`, in their order.
        official: the source of official packs, usually `official_folder()`; None leaves them out.
        access: how sources elsewhere are reached; its cache keeps parsed packs too.
        say: is told what a person should know, a line each.
        tell: is told how many files were read, every two seconds.
        strict: whether a fault of a given source stops; else it stands in `faults`. One of the
            official source never stops.
        read: parses a file's bytes, given its name; None takes the loader, behind the cache.
        clock: seconds that only go up.

    Raises:
        Unusable: a given source cannot be read, holds a fault, or contradicts another one.
    """
    read = cached_reader(PackCache(access.cache, say), _loader) if read is None else read
    # Looks of later are at what changed.
    counted = read if tell is None else _counted(read, tell, clock)
    opening = _Opening(access, say, strict)
    given = opening.given(sources)
    shelves: list[Shelf] = []
    if official is not None and not any(_holds(one, official) for one in given):
        shelves += opening.official(official, counted)
    for opened in given:
        shelves += opening.shelf(opened, counted)
    combined = _combined(shelves)
    for line in combined.replaced:
        say(line)
    for shelf in shelves:
        for line in shelf.notes:
            say(line)
    if strict and combined.conflicts:
        raise Unusable(_first_of(combined.conflicts))
    faults = (*opening.faults, *_fault_lines(shelves), *combined.all_conflicts)
    for line in faults:
        say(line)
    labels = tuple(shelf.opened.label for shelf in shelves)
    return Catalogue(combined.entries, labels, faults, tuple(shelves), read)


def _counted(read: Reader, tell: Say, clock: Callable[[], float]) -> Reader:
    """The reader, which says how far it is."""
    begun = said = clock()
    files = 0

    def reading(data: bytes, name: str) -> Pack:
        nonlocal files, said
        now = clock()
        if now - said >= _TOLD_SECONDS:
            said = now
            tell(f"reading packs: {files} files in {now - begun:.0f} s so far")
        files += 1
        return read(data, name)

    return reading


def _loader(data: bytes, name: str) -> Pack:
    # Brings in YAML and the checks, which a start with a full cache should not wait for.
    from spinf_serve.packs.loader import read_pack

    return read_pack(data, name)


class _Opening:
    """Opens sources one by one and collects those that cannot be, unless that is an error."""

    def __init__(self, access: Access, say: Say, strict: bool) -> None:
        self._access = access
        self._say = say
        self._strict = strict
        self.faults: list[str] = []

    def given(self, sources: Sequence[str]) -> list[Opened]:
        found: dict[Path, Opened] = {}
        for spec in sources:
            try:
                opened = open_source(spec, self._access, self._say)
            except Unusable as error:
                self._refuse(error)
                continue
            if opened.folder in found:
                self._say(f"{opened.label} is the folder of {found[opened.folder].label} again")
            found.setdefault(opened.folder, opened)
        return list(found.values())

    def official(self, spec: str, read: Reader) -> list[Shelf]:
        try:
            opened = open_source(spec, self._access, self._say)
            return [read_shelf(replace(opened, label=OFFICIAL), read)]
        except Unusable as error:
            self.faults.append(f"{_UNOPENED}{OFFICIAL}: {error}")
            return []

    def shelf(self, opened: Opened, read: Reader) -> list[Shelf]:
        try:
            shelf = read_shelf(opened, read)
        except Unusable as error:
            self._refuse(error)
            return []
        if self._strict and shelf.faults:
            raise Unusable(_first_of([str(fault) for fault in shelf.faults]))
        return [shelf]

    def _refuse(self, error: Unusable) -> None:
        if self._strict:
            raise error
        self.faults.append(f"{_UNOPENED}{error}")


def _holds(opened: Opened, official: str) -> bool:
    """Whether the official packs lie in a given folder, and so are read with it."""
    folder = Path(official)
    return opened.watched and folder.is_dir() and folder.resolve().is_relative_to(opened.folder)


def _first_of(lines: Sequence[str]) -> str:
    more = len(lines) - 1
    return lines[0] if not more else f"{lines[0]} (and {more} more: see spinf-serve packs list)"


@dataclass(frozen=True, slots=True)
class _Combined:
    """The entries of all sources.

    Attributes:
        conflicts: where given sources contradict each other or themselves.
        official_conflicts: where the official source contradicts itself.
        replaced: which official packs gave way.
    """

    entries: tuple[Entry, ...]
    conflicts: tuple[str, ...]
    official_conflicts: tuple[str, ...]
    replaced: tuple[str, ...]

    @property
    def all_conflicts(self) -> tuple[str, ...]:
        return self.official_conflicts + self.conflicts


def _combined(shelves: Sequence[Shelf]) -> _Combined:
    entries: dict[str, Entry] = {}
    conflicts: list[str] = []
    official_conflicts: list[str] = []
    replaced: list[str] = []
    for shelf in shelves:
        label = shelf.opened.label
        own_conflicts = official_conflicts if label == OFFICIAL else conflicts
        by_id: dict[str, list[Offer]] = {}
        for offer in shelf.offers:
            by_id.setdefault(offer.id, []).append(offer)
        for pack_id, offers in by_id.items():
            before = entries.get(pack_id)
            if before is not None and before.source != OFFICIAL:
                conflicts.append(
                    f"{pack_id} comes from {before.source} and from {label}: an id must come from one "
                    f"source, leave one of them out"
                )
                continue
            if before is not None:
                # At the place of the source that it comes from now.
                del entries[pack_id]
                replaced.append(f"{pack_id} from {label} replaces the official pack")
            own_conflicts += _doubles(shelf, pack_id, offers)
            entries[pack_id] = _entry(pack_id, offers, shelf.opened)
    return _Combined(
        tuple(entries.values()), tuple(conflicts), tuple(official_conflicts), tuple(replaced)
    )


def _doubles(shelf: Shelf, pack_id: str, offers: Sequence[Offer]) -> list[str]:
    first: dict[str, Offer] = {}
    return [
        f"{pack_id} {offer.version} stands in {shelf.file(first[offer.version].file)} and in "
        f"{shelf.file(offer.file)}: give one of them another version, or take it away"
        for offer in offers
        if first.setdefault(offer.version, offer) is not offer
    ]


def _entry(pack_id: str, offers: Sequence[Offer], opened: Opened) -> Entry:
    newest = sorted(offers, key=lambda offer: version_order(offer.version), reverse=True)
    if any(offer.listed is not None for offer in offers):
        # In the order of the listing; an author's own versions come last.
        listing = [offer for offer in offers if offer.listed is not None]
        offers = [*listing, *(offer for offer in newest if offer.listed is None)]
    else:
        offers = newest
    unique = {offer.version: offer for offer in reversed(offers)}
    chosen = [unique.pop(offer.version) for offer in offers if offer.version in unique]
    available = [one for one in chosen if one.status == "available" and not one.working]
    statuses = {offer.status for offer in chosen}
    status: Status = "deprecated" if "deprecated" in statuses else "coming_soon"
    shown = (available or chosen)[0]
    listed, pack = shown.listed, shown.pack
    assert listed is not None or pack is not None, "an offer without a listing has a pack"
    of_pack = pack if listed is None else listed
    assert of_pack is not None
    return Entry(
        pack_id,
        of_pack.name or pack_id.split("/")[1],
        "available" if available else status,
        available[0].version if available else None,
        of_pack.description,
        of_pack.tags,
        of_pack.media if pack is None else pack.media,
        opened.label,
        tuple(
            Version(
                one.version, one.status, one.models, opened.folder / one.file, one.note, one.pack
            )
            for one in chosen
        ),
    )


def _fault_lines(shelves: Sequence[Shelf]) -> tuple[str, ...]:
    lost = [shelf.lost for shelf in shelves if shelf.lost is not None]
    return (*lost, *(str(fault) for shelf in shelves for fault in shelf.faults))


def _new_notes(before: Sequence[Shelf], after: Sequence[Shelf]) -> list[str]:
    known = {line for shelf in before for line in shelf.notes}
    return [line for shelf in after for line in shelf.notes if line not in known]


def _mended(before: Sequence[Shelf], after: Sequence[Shelf]) -> list[str]:
    """The files that had faults and have none now, a line each."""
    old, new = (
        dict.fromkeys(fault.file for shelf in shelves for fault in shelf.faults)
        for shelves in (before, after)
    )
    return [f"{file}: has no fault any more" for file in old if file not in new]


def _changes(before: Sequence[Entry], after: Sequence[Entry]) -> list[str]:
    """What differs, a line for each version."""
    old, new = _digests(before), _digests(after)
    lines = [f"pack {name}: no longer served" for name in old if name not in new]
    lines += [f"pack {name}: now served" for name in new if name not in old]
    lines += [
        f"pack {name}: its file changed, the new one is served"
        for name, digest in new.items()
        if name in old and old[name] != digest
    ]
    return lines


def _digests(entries: Sequence[Entry]) -> dict[str, str]:
    return {
        f"{entry.id}@{one.version}": one.pack.digest
        for entry in entries
        for one in entry.versions
        if one.pack is not None
    }
