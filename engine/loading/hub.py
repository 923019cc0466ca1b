"""Models on the Hugging Face hub: what is needed of a repository, at one commit, in the hub's cache.

Only configuration, tokenizer and weights are fetched, never code. Uses `huggingface_hub`, and with
it the endpoint, cache and login that its own settings name.
"""

import errno
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

# The base of what the client's transport raises; which library that is differs by version.
from huggingface_hub.errors import HTTPError as TransportError  # type: ignore[attr-defined]

from spinf_serve.engine.loading.config_json import CONFIG
from spinf_serve.engine.loading.json_tokenizer import TOKENIZER, TOKENIZER_CONFIG
from spinf_serve.engine.loading.resume import fetch_blob
from spinf_serve.engine.loading.weights import INDEX, SINGLE, weight_files, weight_names
from spinf_serve.packs.errors import Unusable

_Found = TypeVar("_Found")

_DEFAULT_REVISION: Final = "main"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_REQUIRED: Final = (CONFIG, TOKENIZER)
_OPTIONAL: Final = (TOKENIZER_CONFIG, "generation_config.json")
_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of the hub on this machine: a folder of safetensors or a GGUF file, and its commit."""

    path: Path
    commit: str


def hub_model(repo: str, revision: str | None, file: str | None, *, offline: bool) -> HubModel:
    """A model's files at one commit, from the cache or fetched into it.

    Args:
        repo: `owner/name`.
        revision: branch, tag or commit; None means the default branch. What a commit names and the
            cache holds is taken without asking the hub.
        file: the one GGUF file wanted, or None for the repository's safetensors.
        offline: never ask the hub.

    Raises `Unusable`, one line with the remedy.
    """
    wanted = revision or _DEFAULT_REVISION
    if offline or _COMMIT.fullmatch(wanted):
        cached = _cached(repo, wanted, file)
        if cached is not None:
            return cached
    if offline or not hub_allowed():
        raise Unusable(
            f"{repo}@{wanted} is not, or not completely, in the cache {constants.HF_HUB_CACHE} and "
            f"the hub may not be asked: run once without --offline (and without HF_HUB_OFFLINE)"
        )
    return _fetched(_Repository(repo, wanted), file)


def is_cached(repo: str, revision: str | None, file: str | None) -> bool:
    """Whether `hub_model` with `offline` would find everything; arguments as there."""
    return _cached(repo, revision or _DEFAULT_REVISION, file) is not None


def hub_allowed() -> bool:
    """Whether the client's own settings let the hub be asked."""
    return not constants.HF_HUB_OFFLINE


class _Repository:
    """One repository at one revision, and its errors as people can act on them."""

    def __init__(self, repo: str, revision: str) -> None:
        self.repo = repo
        self.revision = revision

    def commit_and_files(self) -> tuple[str, frozenset[str]]:
        info = self._ask(
            lambda: HfApi().model_info(self.repo, revision=self.revision, timeout=_SECONDS),
            lambda reason: (
                f"cannot reach the hub at {constants.ENDPOINT} ({reason}): check the "
                f"network, or use --offline if the model is in the cache"
            ),
        )
        if info.sha is None:
            raise Unusable(f"{constants.ENDPOINT} names no commit for {self.repo}")
        return info.sha, frozenset(sibling.rfilename for sibling in info.siblings or ())

    def fetch(self, name: str, revision: str) -> Path:
        return Path(
            self._ask(
                lambda: hf_hub_download(self.repo, name, revision=revision, etag_timeout=_SECONDS),
                lambda reason: self._interrupted(name, reason),
            )
        )

    def fetch_weights(self, name: str, commit: str) -> Path:
        """Like `fetch`, for files so large that what has arrived must not be lost."""
        if _cached_file(self.repo, commit, name) is None:
            self._ask(
                lambda: fetch_blob(self.repo, name, commit, seconds=_SECONDS),
                lambda reason: self._interrupted(name, reason),
            )
        return self.fetch(name, commit)

    def _interrupted(self, name: str, reason: str) -> str:
        return (
            f"{self.repo}: the download of {name} was interrupted ({reason}); run the same command "
            f"again, it goes on where it stopped"
        )

    def _ask(self, call: Callable[[], _Found], interrupted: Callable[[str], str]) -> _Found:
        """Do something with the hub; `interrupted` words what a failing network means for it."""
        try:
            return call()
        except GatedRepoError as error:
            raise Unusable(
                f"{self.repo} is gated ({error.response.status_code}): accept its terms at {constants.ENDPOINT}/{self.repo} "
                f"and log in with `hf auth login` or HF_TOKEN"
            ) from error
        except RevisionNotFoundError as error:
            raise Unusable(f"{self.repo} has no revision {self.revision} (404)") from error
        except RepositoryNotFoundError as error:
            raise Unusable(self._not_found(error.response.status_code)) from error
        except OfflineModeIsEnabled as error:
            raise Unusable(f"{self.repo}: {_line(error)}") from error
        except HfHubHTTPError as error:
            raise Unusable(self._refused(error.response.status_code)) from error
        except (TransportError, OSError) as error:
            full = _disk_full(error)
            if full is not None:
                raise Unusable(full) from error
            raise Unusable(interrupted(_reason(error))) from error

    def _not_found(self, status: int) -> str:
        if status == 401:
            return (
                f"{self.repo} does not exist or is private (401): check the name, or log in (again) with "
                f"`hf auth login` or HF_TOKEN"
            )
        return f"there is no repository {self.repo} ({status}): check the name"

    def _refused(self, status: int) -> str:
        if status == 401:
            return self._not_found(status)
        if status == 403:
            return (
                f"the hub refuses {self.repo} ({status}): log in with `hf auth login` or HF_TOKEN, "
                f"as someone who may read it"
            )
        return f"the hub answered {status} for {self.repo}: try again later"


def _fetched(repository: _Repository, file: str | None) -> HubModel:
    commit, files = repository.commit_and_files()
    if file is not None:
        if file not in files:
            raise Unusable(f"{repository.repo}@{repository.revision} has no {file}")
        return HubModel(repository.fetch_weights(file, commit), commit)
    if not files & {INDEX, SINGLE}:
        raise Unusable(f"{repository.repo} has no safetensors{_instead(files)}")
    missing = [name for name in _REQUIRED if name not in files]
    if missing:
        raise Unusable(f"{repository.repo}@{repository.revision} has no {missing[0]}")
    # Under the revision's own name, so that the cache remembers which commit that was.
    folder = repository.fetch(CONFIG, repository.revision).parent
    if folder.name != commit:
        raise Unusable(f"{repository.repo} has changed just now: run the same command again")
    for name in (TOKENIZER, *(name for name in (*_OPTIONAL, INDEX) if name in files)):
        repository.fetch(name, commit)
    for name in weight_names(folder):
        repository.fetch_weights(name, commit)
    return HubModel(folder, commit)


def _instead(files: frozenset[str]) -> str:
    found = sorted(name for name in files if name.endswith(".gguf"))
    if not found:
        return ""
    return (
        f" but {len(found)} GGUF file(s): download one, for instance {found[0]}, and give its path"
    )


def _cached(repo: str, revision: str, file: str | None) -> HubModel | None:
    """What the cache holds, if it is all that is needed."""
    if file is not None:
        path = _cached_file(repo, revision, file)
        return None if path is None else HubModel(path, _commit_of(path))
    config, tokenizer = (_cached_file(repo, revision, name) for name in _REQUIRED)
    if config is None or tokenizer is None:
        return None
    folder = config.parent
    try:
        weight_files(folder)
    except Unusable:
        # Some of the weights are not there yet.
        return None
    return HubModel(folder, _commit_of(config))


def _cached_file(repo: str, revision: str, name: str) -> Path | None:
    found = try_to_load_from_cache(repo, name, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _commit_of(path: Path) -> str:
    """The cache keeps files at `…/snapshots/<commit>/<name in the repository>`."""
    return path.parts[len(path.parts) - path.parts[::-1].index("snapshots")]


def _disk_full(error: BaseException | None) -> str | None:
    """One line if a full disk is behind the error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            folder = Path(constants.HF_HUB_CACHE)
            there = next(path for path in (folder, *folder.parents) if path.exists())
            free = shutil.disk_usage(there).free / 1e6
            return (
                f"the disk is full ({free:,.0f} MB free at {folder}): free space or set HF_HOME to "
                f"another disk, then run the same command again, it goes on where it stopped"
            )
        error = error.__cause__ or error.__context__
    return None


def _reason(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
    return _line(cause or error)


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
