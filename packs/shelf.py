"""What one folder offers: finds its packs, reads them, and looks again cheaply for what changed.

A file that has become invalid keeps offering the pack it was; the reason stands in `faults`. Values
only: looking again makes a new shelf. Knows one folder; which of several sources counts is
`spinf_serve.packs.catalogue`.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final, Literal

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import MAX_BYTES, read_start
from spinf_serve.packs.look import Signature, look, shown_path
from spinf_serve.packs.manifest import (
    MANIFEST,
    ListedPack,
    ListedVersion,
    Manifest,
    Status,
    listing_faults,
    models_of,
    read_manifest,
)
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.sources import Opened

Reader = Callable[[bytes, str], Pack]

_HEAD: Final = 4096
# A file system may give two writes within this time the same mtime.
_SETTLED_NS: Final = 2_000_000_000
_JSON_KEY: Final = re.compile(r'"pack"\s*:(?:\s*"([^"]*)")?')
_YAML_KEY: Final = re.compile(
    r"""^(?:pack|"pack"|'pack')[ \t]*:(?:[ \t]+["']?([^\s"'#]+))?""", re.MULTILINE
)

_Role = Literal["manifest", "listed", "unlisted", "loose"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One version of a pack that a folder offers.

    Attributes:
        pack: None only for a version that is coming soon.
        models: ids of the models that it is fitted on or meant for.
        file: path from the folder, `/` between parts.
        manifest: folder of the manifest that lists it, from the folder; None without one.
        listed: the manifest's entry for the pack.
        working: a manifest lists the pack, but not this version: to be tried, never the default.
    """

    id: str
    version: str
    status: Status
    models: tuple[str, ...]
    note: str
    file: str
    pack: Pack | None
    manifest: str | None = None
    listed: ListedPack | None = None
    working: bool = False


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was last read.

    Attributes:
        read_ns: when.
        digest: sha256 of its bytes; empty when they could not be read.
        pack, manifest: what it last was while valid.
        named: the id that its text names, empty when that is unclear; None when it is no pack.
        faults: why what stands in it now is not offered.
        missing: it was not there at the last look; at the next one it is forgotten.
    """

    signature: Signature
    read_ns: int
    role: _Role
    digest: str = ""
    pack: Pack | None = None
    manifest: Manifest | None = None
    named: str | None = None
    faults: tuple[PackFault, ...] = ()
    missing: bool = False

    @property
    def unlisted(self) -> bool:
        """Whether it lies below a manifest that leaves it out."""
        return self.role == "unlisted"


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder as it was last looked at.

    Attributes:
        opened: which folder, and how messages call it.
        offers: what can be served, listed versions in the manifest's order.
        faults: what cannot, one a fault.
        notes: what a person may wonder about, one a line.
        lost: why the folder could not be looked at the last time; None when it could.
    """

    opened: Opened
    offers: tuple[Offer, ...] = ()
    faults: tuple[PackFault, ...] = ()
    notes: tuple[str, ...] = ()
    lost: str | None = None
    files: Mapping[str, _File] = field(default_factory=dict)

    def file(self, path: str) -> str:
        """How messages call one of its files."""
        return shown_path(self.opened, path)


def read_shelf(opened: Opened, read: Reader, before: Shelf | None = None) -> Shelf:
    """Look at a folder, reading only what changed since `before`, which is returned if nothing did.

    Raises:
        Unusable: the folder itself cannot be read.
    """
    found = look(opened)
    now = time.time_ns()
    known: Mapping[str, _File] = {} if before is None else before.files
    files = _files(opened, found, known, read, now)
    if before is not None and files == known:
        return before
    return _offers(Shelf(opened, files=files), () if before is None else before.offers)


def look_again(shelf: Shelf, read: Reader) -> Shelf:
    """Like `read_shelf`, but a folder that cannot be read keeps offering what it did, as `lost`."""
    try:
        found = read_shelf(shelf.opened, read, shelf)
    except Unusable as error:
        return shelf if shelf.lost == str(error) else replace(shelf, lost=str(error))
    return found if found.lost is None else replace(found, lost=None)


def _files(
    opened: Opened,
    found: Mapping[str, Signature],
    known: Mapping[str, _File],
    read: Reader,
    now: int,
) -> dict[str, _File]:
    """Every file as it is now, and for one look longer every file that is gone."""

    def at(path: str, role: _Role) -> _File:
        return _file(opened, path, found[path], role, known.get(path), read, now)

    files = {path: at(path, "manifest") for path in found if _name(path) == MANIFEST}
    # An editor may take a file away for a moment before it puts the new one in its place.
    for path, file in known.items():
        if path not in found and not file.missing:
            files[path] = replace(file, missing=True)
    manifests = {
        _folder(path): file.manifest for path, file in files.items() if file.role == "manifest"
    }
    for path in found:
        if path not in files:
            files[path] = at(path, _role(path, manifests))
    return dict(sorted(files.items()))


def _role(path: str, manifests: Mapping[str, Manifest | None]) -> _Role:
    ruling = _ruling(path, manifests)
    if ruling is None:
        return "loose"
    manifest = manifests[ruling]
    listed = manifest is not None and path.removeprefix(ruling) in _served(manifest)
    return "listed" if listed else "unlisted"


def _served(manifest: Manifest) -> set[str]:
    return {
        version.file
        for pack in manifest.packs
        for version in pack.versions
        if version.status != "coming_soon"
    }


def _ruling(path: str, manifests: Mapping[str, Manifest | None]) -> str | None:
    """The nearest folder above a file that has a manifest."""
    above = _folder(path)
    while above not in manifests:
        if not above:
            return None
        above = _folder(above.rstrip("/"))
    return above


def _folder(path: str) -> str:
    """`a/b/` for `a/b/c`, an empty text at the top."""
    return path[: path.rfind("/") + 1]


def _name(path: str) -> str:
    return PurePosixPath(path).name


def _file(
    opened: Opened,
    path: str,
    signature: Signature,
    role: _Role,
    before: _File | None,
    read: Reader,
    now: int,
) -> _File:
    same = before is not None and before.signature == signature and before.role == role
    if same and before is not None and not before.missing and _settled(before):
        return before
    shown = shown_path(opened, path)
    try:
        data = read_start(opened.folder / path, MAX_BYTES + 1)
    except OSError as error:
        why = PackFault(f"cannot be read ({error.strerror or error})", shown)
        return _File(signature, now, role, *_past(before), faults=(why,))
    fresh = _File(signature, now, role, hashlib.sha256(data).hexdigest())
    if same and before is not None and before.digest == fresh.digest:
        # Read again only because its mtime was fresh; looked at once more until it no longer is.
        settled = replace(before, read_ns=now, missing=False)
        return settled if before.missing or _settled(settled) else before
    return _read(fresh, data, path, shown, before, read)


def _settled(file: _File) -> bool:
    return file.read_ns - file.signature[0] > _SETTLED_NS


def _past(before: _File | None) -> tuple[str, Pack | None, Manifest | None]:
    """What remains of a file whose present bytes are not valid: no digest, the last good values."""
    return ("", None, None) if before is None else ("", before.pack, before.manifest)


def _read(
    fresh: _File, data: bytes, path: str, shown: str, before: _File | None, read: Reader
) -> _File:
    held = None if before is None else before.pack
    if fresh.role == "manifest":
        try:
            return replace(fresh, manifest=read_manifest(data, shown))
        except InvalidPack as error:
            last = None if before is None else before.manifest
            return replace(fresh, manifest=last, faults=error.faults)
    fresh = replace(fresh, named=_named(data, path))
    if fresh.named is None and fresh.role != "listed":
        return replace(fresh, pack=held, faults=() if held is None else (_no_pack(shown),))
    try:
        return replace(fresh, pack=read(data, shown))
    except InvalidPack as error:
        if fresh.role != "listed" and held is None and _is_other_json(data, path):
            return replace(fresh, named=None)
        return replace(fresh, pack=held, faults=error.faults)


def _no_pack(shown: str) -> PackFault:
    return PackFault(
        "was a pack and has no top-level `pack` any more: mend it, or delete the file", shown
    )


def _named(data: bytes, path: str) -> str | None:
    """The id that a pack's text names, empty when that is unclear; None when it is no pack."""
    head = data[: 4 * _HEAD].decode("utf-8-sig", errors="replace")[:_HEAD]
    key = _JSON_KEY if path.lower().endswith(".json") else _YAML_KEY
    found = key.search(head.replace("\r\n", "\n").replace("\r", "\n"))
    return None if found is None else found[1] or ""


def _is_other_json(data: bytes, path: str) -> bool:
    """Whether this is a JSON file of some other kind, with the word `pack` in it by chance."""
    if not path.lower().endswith(".json"):
        return False
    try:
        top = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return not (isinstance(top, dict) and "pack" in top and "scoring" in top)


def _offers(shelf: Shelf, before: tuple[Offer, ...]) -> Shelf:
    """The shelf with what its files offer; `before` is what it offered until now."""
    offers: list[Offer] = []
    notes: list[str] = []
    manifests = {
        _folder(path): file.manifest
        for path, file in shelf.files.items()
        if file.role == "manifest"
    }
    faults = [fault for file in shelf.files.values() if not file.unlisted for fault in file.faults]
    for below, manifest in manifests.items():
        for listed in () if manifest is None else manifest.packs:
            for version in listed.versions:
                offer = _listed_offer(shelf, below, listed, version, before, faults)
                if offer is not None:
                    offers.append(offer)
    # A link and what it leads to are one file.
    places: set[str] = set()
    for path, file in shelf.files.items():
        if file.role == "loose" and file.pack is not None:
            place = os.path.realpath(shelf.opened.folder / path)
            if place not in places:
                places.add(place)
                offers.append(_loose_offer(path, file.pack))
        elif file.unlisted:
            ruling = _ruling(path, manifests)
            manifest = None if ruling is None else manifests[ruling]
            if ruling is not None and manifest is not None:
                _unlisted(shelf, path, file, _Ruling(ruling, manifest), offers, faults, notes)
            else:
                # The manifest cannot be read; what was served before it came stays.
                offers += [one for one in before if one.file == path and one.listed is None]
    return replace(shelf, offers=tuple(offers), faults=tuple(faults), notes=tuple(notes))


def _loose_offer(path: str, pack: Pack, *, working: bool = False) -> Offer:
    return Offer(
        pack.id, pack.version, "available", models_of(pack), "", path, pack, working=working
    )


@dataclass(frozen=True, slots=True)
class _Ruling:
    """A manifest and its folder; it rules the ids that it lists."""

    below: str
    manifest: Manifest

    def lists(self, pack_id: str) -> bool:
        return any(pack.id == pack_id for pack in self.manifest.packs)

    def version(self, pack: Pack) -> ListedVersion | None:
        return next(
            (
                version
                for listed in self.manifest.packs
                if listed.id == pack.id
                for version in listed.versions
                if version.version == pack.version
            ),
            None,
        )


def _unlisted(
    shelf: Shelf,
    path: str,
    file: _File,
    ruling: _Ruling,
    offers: list[Offer],
    faults: list[PackFault],
    notes: list[str],
) -> None:
    """What comes of a file that the manifest above it does not list: an offer, a fault or a note."""
    shown = shown_path(shelf.opened, path)
    pack = file.pack
    named = pack.id if pack is not None else file.named
    if named is None or not ruling.lists(named):
        # As without a manifest.
        faults.extend(file.faults)
        offers.extend([] if pack is None else [_loose_offer(path, pack)])
        return
    # Of a published pack: what its author works on must not stand in the way of what is published.
    notes.extend(f"not served: {fault}" for fault in file.faults)
    if pack is None:
        return
    version = ruling.version(pack)
    if version is None:
        rival = _rival(pack, offers)
        if rival is None:
            offers.append(_loose_offer(path, pack, working=True))
        elif rival.pack is not None and rival.pack.digest != pack.digest:
            other = shown_path(shelf.opened, rival.file)
            notes.append(f"{shown}: not served, {other} is {pack.id} {pack.version} too")
        return
    published = shelf.files.get(f"{ruling.below}{version.file}")
    command = f"spinf-serve packs publish {shown}"
    if version.status == "coming_soon":
        notes.append(
            f"{shown}: not served, {pack.id} {pack.version} is announced as coming soon; publish it "
            f"with `{command}`"
        )
    elif published is None or published.digest != pack.digest:
        notes.append(
            f"{shown}: not served, it differs from the published {pack.id} {pack.version} "
            f"({shown_path(shelf.opened, ruling.below + version.file)}), which never changes: write "
            f"a higher version into the file, or publish it with `{command} --bump patch`"
        )


def _rival(pack: Pack, offers: list[Offer]) -> Offer | None:
    for one in offers:
        if one.working and (one.id, one.version) == (pack.id, pack.version):
            return one
    return None


def _listed_offer(
    shelf: Shelf,
    below: str,
    listed: ListedPack,
    version: ListedVersion,
    before: tuple[Offer, ...],
    faults: list[PackFault],
) -> Offer | None:
    path = f"{below}{version.file}"
    offer = Offer(
        listed.id,
        version.version,
        version.status,
        version.models,
        version.note,
        path,
        None,
        below,
        listed,
    )
    if version.status == "coming_soon":
        return offer
    shown = shown_path(shelf.opened, path)
    file = shelf.files.get(path)
    if file is None:
        faults.append(PackFault(f"is missing, and {MANIFEST} lists it as {version.status}", shown))
        return None
    if file.pack is None:
        # Its own faults say why.
        return None
    wrong = listing_faults(listed, version, file.pack, shown)
    if not wrong:
        return replace(offer, models=version.models or models_of(file.pack), pack=file.pack)
    faults.extend(wrong)
    kept = [
        one
        for one in before
        if (one.id, one.version, one.manifest) == (listed.id, version.version, below)
    ]
    return kept[0] if kept and kept[0].pack is not None else None
