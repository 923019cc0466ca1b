"""From the name a person gives to the files of a model on this machine. Never guesses."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from spinf_serve.engine.loading.embedded import embedded_file
from spinf_serve.engine.loading.manifest import (
    UNPINNED,
    Manifest,
    Source,
    names,
    read_manifests,
)
from spinf_serve.packs.errors import Unusable

_HUB_NAME: Final = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class Located:
    """A model on this machine.

    Attributes:
        path: a folder with config.json, tokenizer.json and safetensors, or a GGUF file.
        name: what to call it when no manifest does.
        revision: commit, or version of a package; `local` for a path.
        manifest: what is known of it in advance.
    """

    path: Path
    name: str
    revision: str
    manifest: Manifest | None


def locate(name: str, *, offline: bool) -> Located:
    """Find a model; one on the hub is fetched if need be.

    Args:
        name: id or alias of a manifest, path to a folder or a .gguf file, or
            `owner/name[@revision]` on the hub, in this order.
        offline: never ask the hub, use what is in its cache.

    Raises `Unusable`, one line with the remedy.
    """
    manifests = read_manifests()
    for manifest in manifests:
        if name in names(manifest):
            return _of_manifest(manifest, offline=offline)
    # An empty name would be the current folder.
    here = _local(name) if name else None
    if here is not None:
        return here
    hub_name = _HUB_NAME.fullmatch(name)
    if hub_name is None:
        raise _unknown(name, manifests)
    repo, revision = hub_name["repo"], hub_name["revision"]
    found, commit = _hub(repo, revision, None, offline=offline)
    return Located(found, repo, commit, None)


def obtainable(name: str, *, offline: bool) -> bool:
    """Whether the weights of a model with a manifest are on this machine, or may be fetched.

    Args:
        name: id or alias.
        offline: the hub may not be asked.
    """
    for manifest in read_manifests():
        if name in names(manifest):
            return _is_obtainable(manifest.source, offline=offline)
    return False


def _is_obtainable(source: Source, *, offline: bool) -> bool:
    if source.repo is None:
        return find_spec((source.package or "").replace("-", "_")) is not None
    from spinf_serve.engine.loading.hub import hub_allowed, is_cached

    revision = None if source.revision == UNPINNED else source.revision
    return (hub_allowed() and not offline) or is_cached(source.repo, revision, source.file)


def _local(name: str) -> Located | None:
    """The folder or GGUF file of that name, if there is one or it can be meant for one."""
    try:
        path = Path(name).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as fault:
        # Among others a name that is too long, or somebody's home folder that there is not.
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise Unusable(f"the model {name[:200]!r} cannot be looked for: {why}") from fault
    if not (is_folder or is_file or path.suffix == ".gguf"):
        return None
    called = path.resolve().name if is_folder else path.stem
    if not _is_unicode(name) or not _is_unicode(called):
        raise Unusable(
            f"the path of the model {name!r} is not UTF-8, but answers name the model they are "
            "from: rename it"
        )
    return Located(path, called, "local", None)


def _is_unicode(text: str) -> bool:
    """Whether a name from the file system was decoded in full; Python keeps other bytes as halves."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_manifest(manifest: Manifest, *, offline: bool) -> Located:
    source = manifest.source
    if source.repo is None:
        return Located(embedded_file(source), manifest.served.id, source.revision, manifest)
    revision = None if source.revision == UNPINNED else source.revision
    found, commit = _hub(source.repo, revision, source.file, offline=offline)
    return Located(found, manifest.served.id, commit, manifest)


def _hub(repo: str, revision: str | None, file: str | None, *, offline: bool) -> tuple[Path, str]:
    # Its client takes a good part of a second to import, which a local model should not cost.
    from spinf_serve.engine.loading.hub import hub_model

    found = hub_model(repo, revision, file, offline=offline)
    return found.path, found.commit


def _unknown(name: str, manifests: Sequence[Manifest]) -> Unusable:
    known = [alias for manifest in manifests for alias in names(manifest)]
    close = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return Unusable(
        f"no model {name[:200]!r}: neither a served model ({', '.join(known)}), nor a folder or .gguf "
        f"file, nor owner/name[@revision] on the hub{meant}"
    )
