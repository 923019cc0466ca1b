"""Publishes a version of a pack: a copy that never changes, and its line in `prompt-packs.json`.

Every file is written beside its place and renamed, the manifest last: a publication that is broken
off leaves files that nobody lists, and doing it again finishes it.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, is_there, read_regular, shown
from spinf_serve.packs.manifest import (
    FORMAT,
    MANIFEST,
    ListedPack,
    ListedVersion,
    Manifest,
    json_object,
    models_of,
    read_manifest,
)
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.versions import Part, bumped, newest_first, version_order
from spinf_serve.packs.yaml_edit import set_value
from spinf_serve.packs.yaml_nodes import source_text

Reader = Callable[[bytes, str], Pack]

VERSIONS: Final = "versions"
"""Folder of published copies, beside the working file."""

_LOCK_SECONDS: Final = 10.0
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Publication:
    """What a call did.

    Attributes:
        version: the version that the working file has now, which is published.
        file: the published copy.
        manifest: the listing.
        changed: False when exactly this was published before.
        bumped_from: the version that the working file had, when it was raised.
    """

    id: str
    version: str
    file: Path
    manifest: Path
    changed: bool
    bumped_from: str | None = None


def publish(
    file: Path,
    *,
    read: Reader,
    bump: Part | None = None,
    root: Path | None = None,
    note: str = "",
) -> Publication:
    """Publish a working file as it is, or under the next version.

    Args:
        file: the working file. Its copy is `versions/<version>` beside it, and
            `versions/<name>-<version>` when the file is not called `pack`.
        read: parses and checks a file's bytes, given its name.
        bump: which part of the last published version is raised when the file differs from it; the
            file's `version` is changed in its place. None takes the version that the file has.
        root: folder of the manifest; None takes the nearest one above the file that has one, else
            the file's own.

    Raises:
        InvalidPack: the file or the manifest is not valid.
        Unusable: the version is published with other content, or cannot be raised, or a file cannot
            be written.
    """
    place = _Place(file.resolve(), _root(file.resolve(), root))
    try:
        os.stat(place.file)
        with locked(place.manifest, _LOCK_SECONDS):
            return _published(place, file, read, bump, note)
    except OSError as error:
        raise Unusable(
            f"{shown(error.filename or file)}: {error.strerror or error}; nothing is published, mend "
            f"it and publish again"
        ) from error


def _published(
    place: "_Place", file: Path, read: Reader, bump: Part | None, note: str
) -> Publication:
    data = read_regular(place.file)
    pack = read(data, str(file))
    manifest = place.manifest_now()
    before = _listed(manifest, pack.id)
    same = _version(before, pack.version)
    if same is not None and same.digest == pack.digest:
        return Publication(pack.id, pack.version, place.listed_file(same), place.manifest, False)
    version = _next_version(pack, before, bump)
    if version != pack.version:
        data = _with_version(data, str(file), version)
        old, pack = pack, read(data, str(file))
        _check_only_version_changed(old, pack, version)
    else:
        old = None
    return _write(place, manifest, pack, data, old, note)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the files of a publication are."""

    file: Path
    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST

    def manifest_now(self) -> Manifest | None:
        try:
            return read_manifest(read_regular(self.manifest), str(self.manifest))
        except FileNotFoundError:
            return None

    def copy_of(self, version: str) -> Path:
        stem = self.file.stem
        name = version if stem == "pack" else f"{stem}-{version}"
        return self.file.parent / VERSIONS / f"{name}{self.file.suffix}"

    def listed_file(self, version: ListedVersion) -> Path:
        return self.root / version.file


def _root(file: Path, given: Path | None) -> Path:
    if given is not None:
        root = given.resolve()
        if not file.is_relative_to(root):
            raise Unusable(f"{file} is not below {given}: the manifest must be above what it lists")
        return root
    above = [folder for folder in file.parents if is_regular(folder / MANIFEST)]
    return above[0] if above else file.parent


def _listed(manifest: Manifest | None, pack_id: str) -> ListedPack | None:
    packs = () if manifest is None else manifest.packs
    return next((pack for pack in packs if pack.id == pack_id), None)


def _version(listed: ListedPack | None, version: str) -> ListedVersion | None:
    """A listed version that is out; one that is only announced may still be published."""
    versions = () if listed is None else listed.versions
    return next(
        (one for one in versions if one.version == version and one.status != "coming_soon"), None
    )


def _next_version(pack: Pack, listed: ListedPack | None, bump: Part | None) -> str:
    out = () if listed is None else listed.versions
    published = newest_first(one.version for one in out if one.status != "coming_soon")
    if bump is None or not published:
        if pack.version in published:
            raise Unusable(
                f"{pack.id} {pack.version} is published with other content, and a published version "
                f"never changes: publish with --bump patch, minor or major, or write another version"
            )
        return pack.version
    last = published[0]
    raised = bumped(last, bump)
    if raised is None:
        raise Unusable(
            f"{pack.id}: the last published version {last!r} is not major.minor.patch, so it cannot be "
            f"raised: write the new version into the file and publish without --bump"
        )
    ahead = version_order(pack.version) > version_order(last)
    if ahead and pack.version != raised:
        raise Unusable(
            f"{pack.id}: the file already says {pack.version}, --bump {bump} would make it {raised}: "
            f"publish without --bump, or write {last} into the file"
        )
    return raised


def _with_version(data: bytes, name: str, version: str) -> bytes:
    """The file's bytes with another version, everything else as it was."""
    changed = set_value(source_text(data, name), name, ("version",), version)
    return (_BOM if data.startswith(_BOM) else b"") + changed.encode()


def _check_only_version_changed(old: Pack, new: Pack, version: str) -> None:
    rest = [{**pack.body, "version": version} for pack in (old, new)]
    if new.version != version or rest[0] != rest[1]:
        raise AssertionError(f"{old.id}: writing version {version} changed something else")


def _write(
    place: _Place, manifest: Manifest | None, pack: Pack, data: bytes, old: Pack | None, note: str
) -> Publication:
    copy = place.copy_of(pack.version)
    if is_there(copy) and read_regular(copy) != data:
        raise Unusable(
            f"{copy} exists with other content and is not listed: take it away, or publish another "
            f"version"
        )
    listing = _listing(place, manifest, pack, copy, note)
    copy.parent.mkdir(exist_ok=True)
    write_beside(copy, data)
    if old is not None:
        write_beside(place.file, data)
    write_beside(place.manifest, listing)
    was = None if old is None else old.version
    return Publication(pack.id, pack.version, copy, place.manifest, True, was)


def _listing(place: _Place, manifest: Manifest | None, pack: Pack, copy: Path, note: str) -> bytes:
    """The manifest's bytes with the version in it; what stands in it else stays."""
    namespace = pack.id.split("/")[0]
    if manifest is None:
        body: dict[str, Any] = {"format": FORMAT, "namespace": namespace, "packs": []}
    else:
        body = json_object(read_regular(place.manifest), str(place.manifest))
        if manifest.namespace != namespace:
            raise Unusable(
                f"{place.manifest} lists packs of {manifest.namespace!r}, not {namespace!r}: give the "
                f"folder of another manifest, or rename the pack"
            )
    entry = next((one for one in body["packs"] if one["id"] == pack.id), None)
    if entry is None:
        entry = {"id": pack.id, "versions": []}
        body["packs"].append(entry)
    _keep_old_kinds(entry, pack, manifest)
    entry.update(_described(pack))
    entry["versions"] = _with_listed(
        entry.pop("versions"), _listed_version(place, pack, copy, note)
    )
    data = (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode()
    read_manifest(data, str(place.manifest))
    return data


def _described(pack: Pack) -> dict[str, Any]:
    found: dict[str, Any] = {"name": pack.name or pack.id.split("/")[1]}
    if pack.description:
        found["description"] = pack.description
    if pack.tags:
        found["tags"] = list(pack.tags)
    found["media"] = list(pack.media)
    found["parameters"] = list(pack.parameters)
    return found


def _keep_old_kinds(entry: dict[str, Any], pack: Pack, manifest: Manifest | None) -> None:
    """The listing's media and parameters become the new version's; older ones get their own."""
    listed = _listed(manifest, pack.id)
    if listed is None:
        return
    for written, version in zip(entry["versions"], listed.versions, strict=True):
        if sorted(version.media) != sorted(pack.media):
            written["media"] = list(version.media)
        if version.parameters is not None and sorted(version.parameters) != sorted(pack.parameters):
            written["parameters"] = list(version.parameters)


def _listed_version(place: _Place, pack: Pack, copy: Path, note: str) -> dict[str, Any]:
    models = models_of(pack)
    found: dict[str, Any] = {
        "version": pack.version,
        "file": copy.relative_to(place.root).as_posix(),
    }
    if models:
        # Older readers know one model only.
        found["model"] = models[0] if len(models) == 1 else list(models)
    found["status"] = "available"
    found["digest"] = f"sha256:{pack.digest}"
    if note:
        found["note"] = note
    return found


def _with_listed(versions: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Newest first, so that the default version is the newest; an announcement gives way."""
    kept = [one for one in versions if one["version"] != new["version"]]
    order = version_order(new["version"])
    older = [place for place, one in enumerate(kept) if version_order(one["version"]) < order]
    place = older[0] if older else len(kept)
    return [*kept[:place], new, *kept[place:]]
