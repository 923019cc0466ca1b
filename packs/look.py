"""Looks at a folder without opening files: which may be packs, and whether they were written to.

Cheap enough to do every second. Does not know what the files mean.
"""

import errno
import os
from stat import S_ISDIR
from typing import Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown
from spinf_serve.packs.manifest import SUFFIXES
from spinf_serve.packs.sources import Opened

# When it was written, how long, which file: mtime and ctime in ns, bytes, inode.
Signature = tuple[int, int, int, int]

_ENTRIES: Final = 20_000
_NOWHERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def look(opened: Opened) -> dict[str, Signature]:
    """Path from the folder -> signature, of every file that may be a pack or a manifest.

    Hidden files and folders are left out, links are followed, no folder is looked at twice.

    Raises:
        Unusable: a folder cannot be read, or holds far more than packs.
    """
    found: dict[str, Signature] = {}
    waiting, seen, entries = [""], {_identity(opened)}, 0
    while waiting:
        below = waiting.pop()
        listing = _listing(opened, below)
        entries += len(listing)
        if entries > _ENTRIES:
            raise Unusable(
                f"packs {opened.shown}: holds more than {_ENTRIES} files and folders; give the folder "
                f"that holds the packs"
            )
        for entry in listing:
            stat = _stat(opened, below, entry)
            # Hidden ones are editors' and version control's; mounted volumes link from them.
            if stat is None or entry.name.startswith("."):
                continue
            path = f"{below}{entry.name}"
            if S_ISDIR(stat.st_mode):
                if (stat.st_dev, stat.st_ino) not in seen:
                    seen.add((stat.st_dev, stat.st_ino))
                    waiting.append(f"{path}/")
            elif entry.name.lower().endswith(SUFFIXES):
                found[path] = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
    return dict(sorted(found.items()))


def shown_path(opened: Opened, path: str) -> str:
    """How messages call a file of the folder."""
    return f"{opened.shown.rstrip('/')}/{shown(path)}"


def _identity(opened: Opened) -> tuple[int, int]:
    try:
        stat = opened.folder.stat()
    except OSError as error:
        raise _unreadable(opened, "", error) from error
    return (stat.st_dev, stat.st_ino)


def _listing(opened: Opened, below: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(opened.folder / below) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        # Taken away since the folder above was listed.
        return []
    except OSError as error:
        raise _unreadable(opened, below, error) from error


def _stat(opened: Opened, below: str, entry: os.DirEntry[str]) -> os.stat_result | None:
    """What an entry leads to; None when it was renamed just now, or is a link to nowhere."""
    try:
        return entry.stat()
    except OSError as error:
        if error.errno in _NOWHERE:
            return None
        raise _unreadable(opened, f"{below}{entry.name}", error) from error


def _unreadable(opened: Opened, path: str, error: OSError) -> Unusable:
    where = shown_path(opened, path).rstrip("/")
    return Unusable(f"packs {where}: cannot be read ({error.strerror or error})")
