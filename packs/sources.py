"""Where packs come from: a folder, or a repository on GitHub at one commit, kept on this machine.

Makes a folder of every source. Knows nothing of what the files in it mean.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_there, shown

Say = Callable[[str], None]

_GITHUB: Final = re.compile(
    r"github:(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,99})/(?P<repo>[A-Za-z0-9._-]{1,100})"
    r"(?:@(?P<ref>[^#]+))?(?:#(?P<folder>.+))?"
)
_REF: Final = re.compile(r"[^\s\x00-\x20\x7f~^:?*\[\\]{1,250}")


@dataclass(frozen=True, slots=True)
class GitHubSource:
    """`github:owner/repo[@ref][#folder]`; an empty folder means the whole repository."""

    owner: str
    repo: str
    ref: str | None
    folder: str

    @property
    def repository(self) -> str:
        """`owner/repo`."""
        return f"{self.owner}/{self.repo}"


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder on this machine, as it was given."""

    given: str


Source = GitHubSource | FolderSource


@dataclass(frozen=True, slots=True)
class Access:
    """How sources that are not on this machine are reached and kept.

    Attributes:
        cache: folder for what was fetched; made when needed.
        api: base address of GitHub's API.
        token: of someone who may read the repositories; None reads public ones.
        seconds: how long an answer, or the next bytes of one, may take.
        offline: use what is kept, ask nobody.
        refresh: ask again which commit a tag is.
    """

    cache: Path
    api: str = "https://api.github.com"
    token: str | None = field(default=None, repr=False)
    seconds: float = 20.0
    offline: bool = False
    refresh: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A source as a folder on this machine.

    Attributes:
        folder: resolved, with the packs.
        label: what people see: `owner/repo@ref` or `local:<folder>`.
        shown: how messages call the folder.
        watched: whether its files may change.
    """

    folder: Path
    label: str
    shown: str
    watched: bool


def parse_source(spec: str) -> Source:
    """What a source's text means. Raises `Unusable`."""
    if not spec.startswith("github:"):
        if not spec.strip():
            raise Unusable("a source of packs is empty: give a folder or github:owner/repo@tag")
        return FolderSource(spec)
    matched = _GITHUB.fullmatch(spec)
    if matched is None or matched["repo"] in (".", ".."):
        raise Unusable(f"{spec}: should be github:owner/repo[@tag, commit or branch][#folder]")
    ref, folder = matched["ref"], (matched["folder"] or "").strip("/")
    if ref is not None and not _plain_ref(ref):
        raise Unusable(f"{spec}: {ref!r} cannot be a tag, commit or branch")
    if any(part in ("", ".", "..") for part in folder.split("/")) and folder:
        raise Unusable(f"{spec}: the folder after # should be a plain path, such as packs/mine")
    return GitHubSource(matched["owner"], matched["repo"], ref, folder)


def open_source(spec: str, access: Access, say: Say) -> Opened:
    """A source's folder, fetched if need be. Raises `Unusable`, one line with the remedy."""
    source = parse_source(spec)
    if isinstance(source, FolderSource):
        return _local(source)
    # Brings in the machinery of HTTP and archives, which a local folder should not wait for.
    from spinf_serve.packs.fetch import KeptRepository

    kept = KeptRepository(source, access, say)
    commit, shown = kept.commit()
    folder = kept.files(commit) / source.folder
    if not folder.is_dir():
        raise Unusable(
            f"{source.repository}@{shown} has no folder {source.folder}: check the name after the #"
        )
    label = f"{source.repository}@{shown}" + (f"#{source.folder}" if source.folder else "")
    return Opened(folder.resolve(), label, label, False)


def _local(source: FolderSource) -> Opened:
    folder = Path(os.path.expanduser(source.given))
    if not os.path.isdir(folder):
        looks = _GITHUB.fullmatch(f"github:{source.given}")
        hint = f", or did you mean github:{source.given}?" if looks else ""
        what = "is a file, give its folder" if is_there(folder) else "there is no such folder"
        raise Unusable(f"packs {shown(source.given)}: {what}{hint}")
    given = shown(source.given)
    return Opened(folder.resolve(), f"local:{given}", given, True)


def _plain_ref(ref: str) -> bool:
    return (
        _REF.fullmatch(ref) is not None
        and ".." not in ref
        and "@{" not in ref
        and not ref.startswith(("/", "-"))
        and not ref.endswith(("/", ".", ".lock"))
        and "//" not in ref
    )
