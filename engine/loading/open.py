"""The door of loading: the name of a model in, everything an engine needs of it out."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spinf_serve.engine.loading.config_json import CONFIG, spec_from_config
from spinf_serve.engine.loading.digest import file_digest, folder_digest
from spinf_serve.engine.loading.embedded import embedded_file
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_checkpoint import checkpoint_from_gguf
from spinf_serve.engine.loading.gguf_spec import spec_from_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.loading.json_files import read_json
from spinf_serve.engine.loading.json_tokenizer import TOKENIZER, tokenizer_from_folder
from spinf_serve.engine.loading.manifest import Manifest, names, read_manifests
from spinf_serve.engine.loading.weights import checkpoint_from_folder, weight_files
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.models.spec import Checkpoint, ModelSpec
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.packs.errors import Unusable

# What clients ask for when nobody told them the name of a model.
CLIENT_ALIASES: Final = ("spinf-12b", "jev-latest")


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model that was found and whose head was read; its weights are read on demand.

    Attributes:
        served: names and description.
        spec: sizes and constants.
        checkpoint: the weights.
        tokenizer: text to ids.
        digest: sha256 of the weights' bytes, 64 hex digits. Takes a while; may run in a thread
            next to reading. Raises `Unusable` when the bytes are not those of the manifest.
    """

    served: ServedModel
    spec: ModelSpec
    checkpoint: Checkpoint
    tokenizer: Tokenizer
    digest: Callable[[], str]


def open_checkpoint(name: str, *, offline: bool) -> OpenedModel:
    """Find a model and read everything of it but the weights.

    Args:
        name: `embedded`, id or alias of a manifest, `owner/name[@revision]` on the hub, a folder
            with config.json and safetensors, or a .gguf file.
        offline: never ask the hub, use what is in its cache.

    Raises `Unusable`, one line with the remedy, when it cannot be found, read or served.
    """
    manifests = read_manifests()
    for manifest in manifests:
        if name in names(manifest):
            return _of_manifest(manifest)
    path = Path(name).expanduser()
    if path.is_dir():
        return _of_folder(path, path.resolve().name, "local")
    if path.is_file() or path.suffix == ".gguf":
        return _of_gguf(path, None)
    known = [alias for manifest in manifests for alias in names(manifest)]
    close = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise Unusable(
        f"no model {name!r}: neither a served model ({', '.join(known)}), nor owner/name on the "
        f"hub, nor a folder or .gguf file{meant}"
    )


def _of_manifest(manifest: Manifest) -> OpenedModel:
    return _of_gguf(embedded_file(manifest.source), manifest)


def _of_gguf(path: Path, manifest: Manifest | None) -> OpenedModel:
    file = read_gguf(path)
    tokenizer = tokenizer_from_gguf(file)
    spec = spec_from_gguf(file, tokenizer.bos_id)
    _check_vocabulary(path, tokenizer, spec)
    base = file.values.get("general.name", path.stem)
    served = manifest.served if manifest else _derived(path.stem, path, str(base), spec, "local")
    expected = manifest.source.sha256 if manifest else None
    return OpenedModel(
        served=served,
        spec=spec,
        checkpoint=checkpoint_from_gguf(file),
        tokenizer=tokenizer,
        digest=lambda: _checked(path, file_digest(path), expected),
    )


def _of_folder(folder: Path, name: str, revision: str) -> OpenedModel:
    where = folder / CONFIG
    tokenizer = tokenizer_from_folder(folder)
    spec = spec_from_config(read_json(where), where, tokenizer.bos_id)
    _check_vocabulary(folder, tokenizer, spec)
    files = [*weight_files(folder), where, folder / TOKENIZER]
    return OpenedModel(
        served=_derived(name, where, name, spec, revision),
        spec=spec,
        checkpoint=checkpoint_from_folder(folder, tied=spec.tied),
        tokenizer=tokenizer,
        digest=lambda: folder_digest(files),
    )


def _check_vocabulary(where: Path, tokenizer: Tokenizer, spec: ModelSpec) -> None:
    if tokenizer.vocab_size > spec.vocab:
        raise Unusable(
            f"{where}: the tokenizer has {tokenizer.vocab_size} tokens, the embedding {spec.vocab}"
        )


def _checked(path: Path, digest: str, expected: str | None) -> str:
    if expected is not None and digest != expected:
        raise Unusable(
            f"{path}: the file is damaged (sha256 {digest}, expected {expected}); remove it and "
            f"fetch it again"
        )
    return digest


def _derived(name: str, path: Path, base: str, spec: ModelSpec, revision: str) -> ServedModel:
    """What is said of a model that no manifest describes."""
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return ServedModel(
        id=name,
        name=name,
        description=f"{base}, a model of the family {spec.family} without a manifest",
        release_date=changed.date().isoformat(),
        aliases=CLIENT_ALIASES,
        base_model=base,
        family=spec.family,
        capabilities=("score",),
        media=(),
        stand_in=False,
        note="",
        revision=revision,
    )
