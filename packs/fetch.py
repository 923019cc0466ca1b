"""Repositories of packs kept on this machine: a folder for each commit, and what names meant.

Works without a network for what it has. A commit's folder appears whole or not at all, whoever else
fetches the same one. Knows nothing of what the files mean.
"""

import errno
import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spinf_serve.packs.archive import ArchiveLimits, BadArchive, CutArchive, unpack
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.github import GitHub, RefKind, Unreachable
from spinf_serve.packs.sources import Access, GitHubSource, Say

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_REFS: Final = "refs.json"
_PARTIAL: Final = ".partial-"
_STALE_SECONDS: Final = 24 * 3600
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


class KeptRepository:
    """One repository's place in the cache."""

    def __init__(self, source: GitHubSource, access: Access, say: Say) -> None:
        self._repository = source.repository
        self._ref = source.ref
        self._folder = source.folder
        self._github = GitHub(access.api, access.token, access.seconds)
        self._cache = access.cache
        self._offline = access.offline
        self._refresh = access.refresh
        self._say = say
        # GitHub takes names in any case; so does this cache.
        self._place = access.cache / source.owner.lower() / source.repo.lower()

    def commit(self) -> tuple[str, str]:
        """The commit, and how the label shows it. Raises `Unusable`."""
        ref = self._ref
        if ref is not None and _COMMIT.fullmatch(ref):
            return ref, ref[:12]
        refs = self._refs()
        known = refs.get(ref or "")
        if known is not None and known.kind == "tag" and not self._refresh:
            return known.commit, str(ref)
        if self._offline:
            return self._known(known, "the network may not be used")
        try:
            found = self._github.resolve(self._repository, ref)
        except Unreachable as error:
            if known is None:
                raise
            return self._known(known, str(error))
        now = _Ref(*found)
        if now != known:
            self._remember(refs, ref or "", now)
        if known is not None and now.kind == known.kind == "tag" and now != known:
            self._say(f"{self._name}: the tag was moved, from {known.commit} to {now.commit}")
        return self._shown(now)

    def files(self, commit: str) -> Path:
        """The folder with the commit's files. Raises `Unusable`."""
        final = self._place / _folder_name(commit, self._folder)
        if final.is_dir():
            return final
        if self._offline:
            raise Unusable(
                f"{self._name}: commit {commit[:12]} is not in the cache {self._cache} and the "
                f"network may not be used: start once without --offline"
            )
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            self._sweep()
            with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=self._place) as partial:
                whole = Path(partial) / "files"
                whole.mkdir()
                self._fetch(commit, whole)
                _settle(whole, final)
        except OSError as error:
            raise self._unwritable(error) from error
        return final

    @property
    def _name(self) -> str:
        ref = "" if self._ref is None else f"@{self._ref}"
        return f"github:{self._repository}{ref}"

    def _fetch(self, commit: str, target: Path) -> None:
        with self._github.tarball(self._repository, commit) as stream:
            try:
                count = unpack(stream, target, self._folder, ArchiveLimits())
            except BadArchive as error:
                raise Unusable(
                    f"{self._name}: its archive is refused, {error}; mend the repository, or name the "
                    f"folder that holds the packs: github:{self._repository}@…#folder"
                ) from error
            except CutArchive as error:
                raise Unreachable(
                    f"{self._name}: the download broke off, {error}: start again"
                ) from error
        where = f" below {self._folder}" if self._folder else ""
        self._say(f"{self._name}: fetched commit {commit}, {count} files{where}")

    def _known(self, known: "_Ref | None", why: str) -> tuple[str, str]:
        if known is None:
            raise Unusable(
                f"{self._name}: which commit that is was never asked, and {why}: start once without "
                f"--offline, or name a commit that is in the cache {self._cache}"
            )
        self._say(f"{self._name}: taken from the cache at commit {known.commit}, as {why}")
        return self._shown(known)

    def _shown(self, ref: "_Ref") -> tuple[str, str]:
        if ref.kind == "tag":
            return ref.commit, str(self._ref)
        what = "the default branch" if self._ref is None else "a branch"
        self._say(
            f"{self._name}: {what} changes, so this start is not reproducible; pin it with "
            f"github:{self._repository}@{ref.commit}"
        )
        return ref.commit, self._ref or ref.commit[:12]

    def _refs(self) -> "dict[str, _Ref]":
        path = self._place / _REFS
        try:
            found = json.loads(path.read_bytes())
            return {str(name): _Ref.of(entry) for name, entry in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
            self._say(f"{path}: not usable ({error}), names are asked for again")
            return {}

    def _remember(self, refs: "dict[str, _Ref]", name: str, ref: "_Ref") -> None:
        entries = {
            known: {"kind": one.kind, "commit": one.commit}
            for known, one in {**refs, name: ref}.items()
        }
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            write_beside(self._place / _REFS, json.dumps(entries, indent=2).encode())
        except OSError as error:
            raise self._unwritable(error) from error

    def _sweep(self) -> None:
        """Takes away what a process that was killed has left half done."""
        for left in self._place.glob(f"{_PARTIAL}*"):
            try:
                old = time.time() - left.stat().st_mtime > _STALE_SECONDS
            except FileNotFoundError:
                # Its owner has just finished.
                continue
            if old:
                shutil.rmtree(left, ignore_errors=True)

    def _unwritable(self, error: OSError) -> Unusable:
        cache = self._cache
        if error.errno in _NO_SPACE:
            return Unusable(
                f"{self._name}: no space left in the cache {cache}: free some, or set "
                f"SPINF_PACKS_CACHE to a folder on another disk"
            )
        reason = error.strerror or error
        return Unusable(
            f"{self._name}: the cache {cache} cannot be written ({reason}): make it writable, or set "
            f"SPINF_PACKS_CACHE to a folder that is"
        )


@dataclass(frozen=True, slots=True)
class _Ref:
    commit: str
    kind: RefKind

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "_Ref":
        """Raises ValueError, TypeError or KeyError."""
        commit, kind = entry["commit"], entry["kind"]
        if not _COMMIT.fullmatch(commit) or kind not in ("tag", "branch"):
            raise ValueError(f"holds {commit!r} as a {kind!r}")
        return cls(commit, kind)


def _folder_name(commit: str, folder: str) -> str:
    """Only a source's own folder is unpacked, so that two of one commit are two."""
    return commit if not folder else f"{commit}#{folder.replace('%', '%25').replace('/', '%2F')}"


def _settle(whole: Path, final: Path) -> None:
    """Gives a folder its name; another process that was faster has made the same one."""
    try:
        whole.rename(final)
    except OSError:
        if not final.is_dir():
            raise
