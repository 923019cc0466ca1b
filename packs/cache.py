"""Keeps parsed packs on this machine, so that a start reads them without YAML and its checks.

An entry is the JSON of a pack's values, found by the sha256 of the file's bytes and of the code that
parses them. A damaged or unwritable cache is not used and said so, never an error.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.pack import Pack

Reader = Callable[[bytes, str], Pack]
Say = Callable[[str], None]
_Maker = Callable[[Any], Any]

_FOLDER: Final = "parsed"
_LARGEST_BYTES: Final = 256 * 1024 * 1024
_MOST_ENTRIES: Final = 400
_PRUNED_TO: Final = 300


class PackCache:
    """Packs in a folder, one file each.

    Args:
        folder: the cache; made when needed.
        say: is told when the cache cannot be used, once for each reason.
    """

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder = folder / _FOLDER
        self._say = say
        self._said: set[str] = set()
        self._stamp = _code_stamp()
        self._pack: _Maker = _maker(Pack)

    def get(self, digest: str, suffix: str) -> Pack | None:
        """What a file of this digest and suffix was parsed to; None when that is not known."""
        try:
            check, _, body = read_regular(self._path(digest, suffix), _LARGEST_BYTES).partition(
                b"\n"
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(f"cannot be read ({error.strerror or error})")
            return None
        try:
            if check.decode("latin-1") == hashlib.sha256(body).hexdigest():
                pack: Pack = self._pack(json.loads(body))
                if pack.digest == digest:
                    return pack
        except (ValueError, TypeError, AttributeError):
            # Somebody else wrote it; it is told of like any other damage.
            pass
        self._complain("held a damaged entry, which is made anew")
        return None

    def put(self, pack: Pack, suffix: str) -> None:
        """Keep what a file of this suffix was parsed to."""
        body = json.dumps(_plain(pack), separators=(",", ":")).encode()
        data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        try:
            # For its owner only: what others could write here would be served.
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_beside(self._path(pack.digest, suffix), data)
            self._prune()
        except OSError as error:
            self._complain(
                f"cannot be written ({error.strerror or error}), so packs are parsed at every start: "
                f"make it writable, or set SPINF_PACKS_CACHE to a folder that is"
            )

    def _path(self, digest: str, suffix: str) -> Path:
        # The suffix decides between two forms, in which the same bytes can mean two things.
        name = hashlib.sha256(f"{self._stamp} {digest} {suffix}".encode()).hexdigest()
        return self._folder / f"{name[:40]}.json"

    def _prune(self) -> None:
        """Forgets the entries that were written first, when there are many."""
        entries = list(self._folder.glob("*.json"))
        if len(entries) > _MOST_ENTRIES:
            for path in sorted(entries, key=_age)[: len(entries) - _PRUNED_TO]:
                path.unlink(missing_ok=True)

    def _complain(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            self._say(f"the cache of packs {self._folder} {reason}")


def cached_reader(cache: PackCache, read: Reader) -> Reader:
    """A reader of packs, given bytes and a name, that asks the cache first.

    What `read` refuses is not kept, so its faults come again every time.
    """

    def cached(data: bytes, name: str) -> Pack:
        suffix = Path(name).suffix.lower()
        pack = cache.get(hashlib.sha256(data).hexdigest(), suffix)
        if pack is None:
            pack = read(data, name)
            cache.put(pack, suffix)
        return pack

    return cached


def _code_stamp() -> str:
    """Digest of this folder's code: what other code has parsed is parsed again."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        # Another process has just forgotten it.
        return 0


def _plain(value: Any) -> Any:
    """A value as JSON: a dataclass is the list of its fields."""
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _maker(kind: Any) -> _Maker:
    """The function that makes a value of a type from what `_plain` made of it."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return _joined(kind, [_maker(hints[field.name]) for field in fields(kind)])
    if origin in (Union, UnionType):
        present = [one for one in inner if one is not NoneType]
        assert len(present) == 1, f"{kind}: only a value or None can be kept"
        make = _maker(present[0])
        return lambda value: None if value is None else make(value)
    if origin is tuple and inner[1:] == (...,):
        make = _maker(inner[0])
        return lambda value: tuple(map(make, value))
    if origin is tuple:
        return _joined(lambda *parts: parts, list(map(_maker, inner)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        make = _maker(inner[1])
        return lambda value: {key: make(one) for key, one in value.items()}
    assert kind in (str, int, float, bool, Any) or origin is Literal, f"{kind} cannot be kept"
    return lambda value: value


def _joined(make: Callable[..., Any], parts: list[_Maker]) -> _Maker:
    return lambda value: make(*(part(one) for part, one in zip(parts, value, strict=True)))
