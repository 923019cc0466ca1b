"""Fetches one large file of the hub into its cache so that a later run goes on where this stopped.

The hub's own client resumes within one call but drops what it has when the call fails, and a file
of weights can be gigabytes. The cache's layout is documented: contents lie in `blobs`, named by
their entity tag, and the client links to those it finds there.
"""

import re
from pathlib import Path
from typing import Final

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    WeakFileLock,
    build_hf_headers,
)

from spinf_serve.engine.loading.digest import file_digest
from spinf_serve.packs.errors import Unusable

# Large files are tagged with their sha256.
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def fetch_blob(repo: str, name: str, commit: str, *, seconds: float) -> None:
    """Bring a file's content into the cache, unless it is there.

    Args:
        repo: `owner/name`.
        name: the file in the repository.
        commit: 40 hex digits.
        seconds: how long to wait for the hub's answer about the file.

    Raises what the client raises, with what has arrived kept; `Unusable` when the content is not
    what its tag says.
    """
    url = hf_hub_url(repo, name, revision=commit)
    about = get_hf_file_metadata(url, timeout=seconds)
    if about.etag is None or about.size is None:
        raise Unusable(f"{repo}: the hub names neither tag nor size of {name}")
    folder = Path(
        constants.HF_HUB_CACHE, repo_folder_name(repo_id=repo, repo_type="model"), "blobs"
    )
    blob = folder / about.etag
    partial = folder / f"{about.etag}.partial"
    folder.mkdir(parents=True, exist_ok=True)
    # Of two processes one fetches, and the other then finds the file.
    with WeakFileLock(folder / f"{about.etag}.lock"):
        if blob.exists():
            return
        _download(url, partial, about.size, name)
        if _SHA256.fullmatch(about.etag) and file_digest(partial) != about.etag:
            partial.unlink()
            raise Unusable(f"{repo}: {name} arrived damaged; run the same command again")
        partial.rename(blob)


def _download(url: str, partial: Path, size: int, name: str) -> None:
    with open(partial, "ab") as file:
        if file.tell() > size:
            file.truncate(0)
        http_get(
            url,
            file,
            resume_size=file.tell(),
            headers=build_hf_headers(),
            expected_size=size,
            displayed_filename=name,
        )
