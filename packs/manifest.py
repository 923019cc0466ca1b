"""The file `prompt-packs.json`: which versions of which packs a repository offers.

Reads, checks and writes the listing. Whether a listed file agrees with its listing is checked here
too; finding and reading the files is `spinf_serve.packs.shelf`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import MAX_BYTES
from spinf_serve.packs.json_text import parse_json
from spinf_serve.packs.notes import MAX_FAULTS, quoted
from spinf_serve.packs.pack import Pack

Status = Literal["available", "deprecated", "coming_soon"]

MANIFEST: Final = "prompt-packs.json"
SUFFIXES: Final = (".json", ".yaml", ".yml")
"""How the names of packs' files end."""

FORMAT: Final = 1
PACK_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")
VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")

_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_STATUSES: Final = ("available", "deprecated", "coming_soon")
_MEDIA: Final = ("text", "image", "audio", "video")


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """One version as the listing has it.

    Attributes:
        file: path from the manifest's folder, `/` between parts.
        models: ids of the models that it is fitted on; empty when the listing names none.
        media: kinds of content; the listing's for the pack unless the version has its own.
        parameters: names; None when the listing does not say.
        digest: sha256 of the file, 64 hex digits; None when the listing has none.
    """

    version: str
    file: str
    models: tuple[str, ...]
    status: Status
    media: tuple[str, ...]
    parameters: tuple[str, ...] | None
    digest: str | None
    note: str


@dataclass(frozen=True, slots=True)
class ListedPack:
    """One pack as the listing has it; `versions` in the order of the file."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    media: tuple[str, ...]
    versions: tuple[ListedVersion, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checked listing."""

    namespace: str
    packs: tuple[ListedPack, ...]

    @property
    def files(self) -> frozenset[str]:
        """Paths of all listed files."""
        return frozenset(version.file for pack in self.packs for version in pack.versions)


def read_manifest(data: bytes, name: str) -> Manifest:
    """Check a listing.

    Args:
        data: bytes of the file.
        name: how faults call the file.

    Raises:
        InvalidPack: all faults at once.
    """
    reading = _Reading(name)
    body = json_object(data, name)
    if not isinstance(body, dict):
        raise InvalidPack([PackFault(f"should be an object, found {_kind(body)}", name)])
    manifest = _manifest(reading, body)
    if reading.faults:
        more = len(reading.faults) - MAX_FAULTS
        rest = [PackFault(f"and {more} more faults", name)] if more > 0 else []
        raise InvalidPack([*reading.faults[:MAX_FAULTS], *rest])
    return manifest


def json_object(data: bytes, name: str) -> Any:
    """The values of a JSON file, held to what a pack's file is held to. Raises `InvalidPack`."""
    if len(data) > MAX_BYTES:
        raise InvalidPack([PackFault(f"has more than {MAX_BYTES:,} bytes; split it", name)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = PackFault(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8", name)
        raise InvalidPack([fault]) from None
    return parse_json(text, name)


def _manifest(reading: "_Reading", body: Mapping[str, Any]) -> Manifest:
    if body.get("format") != FORMAT or isinstance(body.get("format"), bool):
        reading.fault("format", f"should be {FORMAT}, found {_told(body.get('format'))}")
    namespace = reading.text(body, "namespace", "")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        reading.fault(
            "namespace", f"{quoted(namespace)} should be lower-case letters, digits, `.`, `_`, `-`"
        )
        namespace = ""
    packs = tuple(
        _pack(reading, entry, path, namespace) for path, entry in reading.objects(body, "packs", "")
    )
    reading.unique([pack.id for pack in packs], "packs", "id")
    return Manifest(namespace, packs)


def _pack(reading: "_Reading", body: Mapping[str, Any], path: str, namespace: str) -> ListedPack:
    pack_id = reading.text(body, "id", path)
    if pack_id and not PACK_ID.fullmatch(pack_id):
        reading.fault(
            f"{path}.id",
            f"{quoted(pack_id)} should be namespace/name, such as {namespace or 'demo'}/name",
        )
    elif pack_id and namespace and not pack_id.startswith(f"{namespace}/"):
        reading.fault(
            f"{path}.id", f"{quoted(pack_id)} is not inside the namespace {quoted(namespace)}"
        )
    media = _media(reading, body, path) or ("text",)
    parameters = reading.texts(body, "parameters", path)
    versions = tuple(
        _version(reading, entry, at, media, parameters)
        for at, entry in reading.objects(body, "versions", path)
    )
    if body.get("versions") == []:
        reading.fault(f"{path}.versions", "a pack needs at least one version")
    reading.unique([version.version for version in versions], f"{path}.versions", "version")
    return ListedPack(
        pack_id,
        reading.text(body, "name", path),
        reading.text(body, "description", path, optional=True),
        reading.texts(body, "tags", path) or (),
        media,
        versions,
    )


def _version(
    reading: "_Reading",
    body: Mapping[str, Any],
    path: str,
    media: tuple[str, ...],
    parameters: tuple[str, ...] | None,
) -> ListedVersion:
    version = reading.text(body, "version", path)
    if version and not VERSION.fullmatch(version):
        reading.fault(f"{path}.version", f"{quoted(version)} should be such as 1.0.0")
    file = reading.text(body, "file", path)
    if file and not _is_inside(file):
        reading.fault(
            f"{path}.file",
            f"{quoted(file)} should be a path inside the manifest's folder, such as a/b.yaml",
        )
    elif file and (not file.lower().endswith(SUFFIXES) or file.split("/")[-1] == MANIFEST):
        reading.fault(
            f"{path}.file",
            f"{quoted(file)} is no pack's file, whose name ends in {', '.join(SUFFIXES)}"
            f" and is not {MANIFEST}",
        )
    status = body.get("status", "available")
    if status not in _STATUSES:
        reading.fault(f"{path}.status", f"{_told(status)} should be one of {', '.join(_STATUSES)}")
    own_parameters = reading.texts(body, "parameters", path)
    return ListedVersion(
        version,
        file,
        _models(reading, body, path),
        cast(Status, status),
        _media(reading, body, path) or media,
        parameters if own_parameters is None else own_parameters,
        _digest(reading, body, path),
        reading.text(body, "note", path, optional=True),
    )


def _models(reading: "_Reading", body: Mapping[str, Any], path: str) -> tuple[str, ...]:
    if isinstance(body.get("model"), list):
        return reading.texts(body, "model", path) or ()
    model = reading.text(body, "model", path, optional=True)
    return (model,) if model else ()


def _media(reading: "_Reading", body: Mapping[str, Any], path: str) -> tuple[str, ...] | None:
    media = reading.texts(body, "media", path)
    strange = [kind for kind in media or () if kind not in _MEDIA]
    if strange:
        reading.fault(f"{path}.media", f"{quoted(strange[0])} should be one of {', '.join(_MEDIA)}")
    return media


def _digest(reading: "_Reading", body: Mapping[str, Any], path: str) -> str | None:
    text = reading.text(body, "digest", path, optional=True)
    if not text:
        return None
    matched = _DIGEST.fullmatch(text)
    if matched is None:
        reading.fault(f"{path}.digest", f"{quoted(text)} should be sha256: and 64 hex digits")
        return None
    return matched[1]


def _is_inside(file: str) -> bool:
    plain = "\\" not in file and "\0" not in file and ":" not in file
    return plain and not {"", ".", ".."} & set(file.split("/"))


class _Reading:
    """Takes fields out of JSON objects and collects what is wrong with them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.faults: list[PackFault] = []

    def fault(self, param: str, message: str) -> None:
        self.faults.append(PackFault(message, self._name, param=param))

    def text(self, body: Mapping[str, Any], key: str, path: str, *, optional: bool = False) -> str:
        value = body.get(key)
        if isinstance(value, str) and (value or optional):
            return value
        if value is not None or not optional:
            self.fault(_below(path, key), f"should be a text, found {_kind(value)}")
        return ""

    def texts(self, body: Mapping[str, Any], key: str, path: str) -> tuple[str, ...] | None:
        value = body.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(one, str) and one for one in value):
            return tuple(value)
        self.fault(_below(path, key), f"should be a list of texts, found {_kind(value)}")
        return ()

    def objects(
        self, body: Mapping[str, Any], key: str, path: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The objects of a list, each with its path."""
        below = _below(path, key)
        value = body.get(key)
        if not isinstance(value, list):
            self.fault(below, f"should be a list, found {_kind(value)}")
            return
        for place, entry in enumerate(value):
            if isinstance(entry, dict):
                yield f"{below}.{place}", entry
            else:
                self.fault(f"{below}.{place}", f"should be an object, found {_kind(entry)}")

    def unique(self, names: Sequence[str], path: str, key: str) -> None:
        first: dict[str, int] = {}
        for place, name in enumerate(names):
            before = first.setdefault(name, place)
            if name and before != place:
                self.fault(
                    f"{path}.{place}.{key}", f"{quoted(name)} is listed twice, first as {before}"
                )


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _told(value: Any) -> str:
    """A short value itself, else what it is."""
    if isinstance(value, str) and value:
        return quoted(value)
    return str(value) if type(value) in (int, float) else _kind(value)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if value == "":
        return "an empty text"
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return kinds.get(type(value), "a number")


def models_of(pack: Pack) -> tuple[str, ...]:
    """The models that a pack's file names: those it is fitted on, else the one it was written for."""
    if pack.fitted:
        return tuple(pack.fitted)
    model = pack.body.get("model")
    return (model,) if isinstance(model, str) and model else ()


def listing_faults(
    listed: ListedPack, version: ListedVersion, pack: Pack, name: str
) -> list[PackFault]:
    """Where a file and its listing disagree; `name` is how faults call the file."""
    faults: list[PackFault] = []
    if version.digest is not None and version.digest != pack.digest:
        faults.append(
            PackFault(
                f"is not the file that was published as {listed.id} {version.version} (its sha256 is "
                f"{pack.digest[:12]}…, listed is {version.digest[:12]}…): put the published file back "
                f"and publish the change as a new version",
                name,
            )
        )
        return faults
    said: list[tuple[str, object, object]] = [
        ("pack", pack.id, listed.id),
        ("version", pack.version, version.version),
        ("media", sorted(pack.media), sorted(version.media)),
    ]
    if version.models:
        said.append(("model", _folded(models_of(pack)), _folded(version.models)))
    if version.parameters is not None:
        said.append(("parameters", sorted(pack.parameters), sorted(version.parameters)))
    faults += [
        PackFault(f"is {_shown(found)}, but {MANIFEST} lists {_shown(expected)}", name, param=field)
        for field, found, expected in said
        if found != expected
    ]
    return faults


def _folded(models: Sequence[str]) -> list[str]:
    return sorted(model.casefold() for model in models)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
