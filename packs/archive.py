"""Unpacks a repository's tar.gz from a stream, and refuses every trick that an archive can play.

The first folder of each name, which the host adds, is taken off. Nothing outside the wanted folder
is written. Knows no network and no cache: the caller gives a stream and an empty folder.
"""

import gzip
import os
import re
import tarfile
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol, cast

_BLOCK: Final = 64 * 1024
# Headers that carry a longer name or a comment; tarfile reads their bodies whole into memory.
_EXTENDED: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_NAME_BYTES: Final = 255
_EXTENDED_BYTES: Final = 64 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\]")


class Stream(Protocol):
    """What can be read from its start to its end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may hold, after decompression.

    Attributes:
        total_bytes: of everything in it, wanted or not.
        file_bytes: of one wanted file.
        members: files and folders, wanted or not.
        depth: folders in one another.
    """

    total_bytes: int = 512 * 1024 * 1024
    file_bytes: int = 64 * 1024 * 1024
    members: int = 50_000
    depth: int = 32


class BadArchive(Exception):
    """An archive that is not unpacked, in a line that says why."""


class CutArchive(Exception):
    """An archive that ends early or is damaged on the way: fetching it again may help."""


def unpack(stream: Stream, target: Path, folder: str, limits: ArchiveLimits) -> int:
    """Write the files below `folder` of a tar.gz into `target`, with their paths.

    Args:
        stream: the compressed bytes.
        target: an empty folder.
        folder: path inside the repository, `/` between parts; empty for all of it.

    Returns:
        How many files were written.

    Raises:
        BadArchive: it holds what is refused; `target` may then hold a part.
        CutArchive: it ends too early.
        OSError: reading the stream or writing failed.
    """
    names = _Names(limits)
    try:
        with gzip.GzipFile(fileobj=cast(IO[bytes], stream), mode="rb") as plain:
            counted = _Counted(plain, limits.total_bytes)
            with tarfile.open(
                fileobj=cast(IO[bytes], counted), mode="r|", tarinfo=_Header
            ) as archive:
                written = sum(
                    _write(archive, one, target, limits) for one in names.of(archive, folder)
                )
            # Only at its very end does gzip compare its checksum.
            while counted.read(_BLOCK):
                pass
            return written
    except RecursionError as error:
        # tarfile calls itself for every header that announces another.
        raise BadArchive("its headers announce one another without end") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise CutArchive(f"the archive is cut off or damaged ({error})") from error


def _write(archive: tarfile.TarFile, wanted: "_Wanted", target: Path, limits: ArchiveLimits) -> int:
    path = target.joinpath(*wanted.path.split("/"))
    if wanted.member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return 0
    if not 0 <= wanted.member.size <= limits.file_bytes:
        raise BadArchive(
            f"{wanted.path} has {wanted.member.size} bytes, {limits.file_bytes} are allowed"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    body = archive.extractfile(wanted.member)
    assert body is not None, "only plain files are written"
    with path.open("xb") as file:
        left = wanted.member.size
        while left:
            block = body.read(min(_BLOCK, left))
            if not block:
                raise CutArchive(f"the archive is cut off in {wanted.path}")
            file.write(block)
            left -= len(block)
        file.flush()
        # The folder is renamed to its name at the end; after a crash it must not hold empty files.
        os.fsync(file.fileno())
    return 1


@dataclass(frozen=True, slots=True)
class _Wanted:
    member: tarfile.TarInfo
    path: str


class _Names:
    """Checks the names of an archive in their order, and remembers what they have taken."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._members = 0
        # Spelling without case -> (path as written, whether it is a folder).
        self._taken: dict[str, tuple[str, bool]] = {}

    def of(self, archive: tarfile.TarFile, folder: str) -> Iterator[_Wanted]:
        for member in archive:
            self._members += 1
            if self._members > self._limits.members:
                raise BadArchive(f"it holds more than {self._limits.members} files and folders")
            path = self._inside(member.name)
            if path and (not folder or path == folder or path.startswith(f"{folder}/")):
                self._check_kind(member, path)
                self._take(path, member.isdir())
                yield _Wanted(member, path)

    def _inside(self, name: str) -> str:
        """The path below the archive's own first folder; empty for that folder."""
        if name.startswith("/"):
            raise BadArchive(f"it holds an absolute path: {name[:200]!r}")
        parts = name.rstrip("/").split("/")
        if ".." in parts:
            raise BadArchive(f"it holds a path that leads out of it: {name[:200]!r}")
        if "" in parts or "." in parts or _CONTROL.search(name):
            raise BadArchive(f"it holds a path that is not plain: {name[:200]!r}")
        if any(len(part.encode("utf-8", "surrogateescape")) > _NAME_BYTES for part in parts):
            raise BadArchive(f"it holds a name of more than {_NAME_BYTES} bytes: {name[:80]!r}…")
        if len(parts) > self._limits.depth:
            raise BadArchive(f"its folders are more than {self._limits.depth} deep")
        return "/".join(parts[1:])

    def _check_kind(self, member: tarfile.TarInfo, path: str) -> None:
        if member.issym() or member.islnk():
            raise BadArchive(f"it holds a link, {path} -> {member.linkname[:200]}")
        if ":" in path:
            raise BadArchive(f"it holds a path that is not plain: {path!r}")
        if not (member.isreg() or member.isdir()) or member.issparse():
            raise BadArchive(f"it holds something that is neither file nor folder: {path}")

    def _take(self, path: str, is_folder: bool) -> None:
        """Every folder on the way is taken too: `A/x` and `a/y` would be one folder on some disks."""
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            name = "/".join(parts[:length])
            entry = (name, is_folder or length < len(parts))
            taken = self._taken.setdefault(_flat(name), entry)
            if taken[0] != name:
                raise BadArchive(f"{taken[0]} and {name} differ by case only")
            if taken[1] != entry[1] or (taken is not entry and not entry[1]):
                raise BadArchive(f"{name} stands in it twice")


def _flat(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class _Header(tarfile.TarInfo):
    """Refuses extended headers of a size that no name needs, before their bodies are read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        header = super().frombuf(buf, encoding, errors)
        if header.type in _EXTENDED and not 0 <= header.size <= _EXTENDED_BYTES:
            raise BadArchive(f"it holds a header of {header.size} bytes")
        return header


class _Counted:
    """A stream that ends in `BadArchive` after so many bytes: what a small archive swells to."""

    def __init__(self, stream: Stream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._left = limit

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise BadArchive(f"it unpacks to more than {self._limit} bytes")
        return data
