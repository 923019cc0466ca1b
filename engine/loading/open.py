"""The door of loading: the name of a model in, everything an engine needs of it out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from spinf_serve.engine.loading.bpe_tokenizer import BpeTokenizer
from spinf_serve.engine.loading.chat_form import chat_form_from_folder, chat_form_from_gguf
from spinf_serve.engine.loading.checkpoint import FileCheckpoint
from spinf_serve.engine.loading.config_json import CONFIG, spec_from_config
from spinf_serve.engine.loading.digest import file_digest, folder_digest
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_checkpoint import checkpoint_from_gguf
from spinf_serve.engine.loading.gguf_spec import spec_from_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.loading.json_files import read_json
from spinf_serve.engine.loading.json_tokenizer import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    tokenizer_from_folder,
)
from spinf_serve.engine.loading.locate import Located, locate
from spinf_serve.engine.loading.quantized import QuantizedCheckpoint
from spinf_serve.engine.loading.weights import (
    checkpoint_from_folder,
    quantized_from_folder,
    weight_files,
)
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.models.spec import ModelSpec
from spinf_serve.engine.quantization.formats import (
    StoredFormat,
    stored_format,
    without_quantization,
)
from spinf_serve.engine.text.chat_frames import KNOWN_MARKS, chat_frame
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
        digest: sha256 of the weights' bytes, 64 hex digits: of the GGUF file, or over the files of
            a folder that decide a score. Takes a while; may run in a thread next to reading.
            Raises `Unusable` when the bytes are not those of the manifest.
        limits: fields of `Limits` that the model's manifest sets.
        token_budget: rows of one pass on a GPU, if its manifest says.
    """

    served: ServedModel
    spec: ModelSpec
    checkpoint: FileCheckpoint | QuantizedCheckpoint
    tokenizer: BpeTokenizer
    digest: Callable[[], str]
    limits: Mapping[str, int]
    token_budget: int | None

    @property
    def stored_as(self) -> StoredFormat | None:
        """How the linear layers are stored, if in 8 bits."""
        checkpoint = self.checkpoint
        return checkpoint.stored_as if isinstance(checkpoint, QuantizedCheckpoint) else None


def open_checkpoint(
    name: str, *, offline: bool, say: Callable[[str], None] | None = None
) -> OpenedModel:
    """Find a model and read everything of it but the weights.

    Args:
        name: `embedded`, id or alias of a manifest, a folder with config.json and safetensors, a
            .gguf file, or `owner/name[@revision]` on the hub.
        offline: never ask the hub, use what is in its cache.
        say: gets a line about parts of the model that are not read.

    Raises `Unusable`, one line with the remedy, when it cannot be found, read or served.
    """
    located = locate(name, offline=offline)
    return _of_folder(located, say) if located.path.is_dir() else _of_gguf(located)


def _of_gguf(located: Located) -> OpenedModel:
    path = located.path
    file = read_gguf(path)
    tokenizer = tokenizer_from_gguf(file)
    spec = spec_from_gguf(file, tokenizer.bos_id)
    _check_vocabulary(path, tokenizer, spec)
    expected = None if located.manifest is None else located.manifest.source.sha256
    base = file.values.get("general.name", located.name)
    served = _served(located, spec, path, str(base))
    return OpenedModel(
        served=replace(served, chat=chat_form_from_gguf(file, tokenizer.controls)),
        spec=_within(spec, located),
        checkpoint=checkpoint_from_gguf(file),
        tokenizer=tokenizer,
        digest=lambda: _checked(path, file_digest(path), expected),
        limits={} if located.manifest is None else located.manifest.limits,
        token_budget=None if located.manifest is None else located.manifest.token_budget,
    )


def _of_folder(located: Located, say: Callable[[str], None] | None) -> OpenedModel:
    folder = located.path
    config = folder / CONFIG
    tokenizer = tokenizer_from_folder(folder)
    values = read_json(config)
    stored_as = stored_format(values, config)
    spec = spec_from_config(without_quantization(values), config, tokenizer.bos_id)
    _check_vocabulary(folder, tokenizer, spec)
    beside = (config, folder / TOKENIZER, folder / TOKENIZER_CONFIG)
    files = [*weight_files(folder), *(path for path in beside if path.is_file())]
    served = _served(located, spec, config, located.name)
    return OpenedModel(
        served=replace(served, chat=chat_form_from_folder(folder, tokenizer.controls)),
        spec=_within(spec, located),
        checkpoint=checkpoint_from_folder(folder, tied=spec.tied, say=say)
        if stored_as is None
        else quantized_from_folder(folder, stored_as, tied=spec.tied, say=say),
        tokenizer=tokenizer,
        digest=lambda: folder_digest(files),
        limits={} if located.manifest is None else located.manifest.limits,
        token_budget=None if located.manifest is None else located.manifest.token_budget,
    )


def in_style(opened: OpenedModel, style: Literal["auto", "cloze", "chat"]) -> OpenedModel:
    """The model with closed questions worded in a style; `auto` is its own.

    Raises `Unusable` for chats where the model has none of the known marks.
    """
    wanted = opened.served.prompt_style if style == "auto" else style
    if wanted == "cloze":
        served = replace(opened.served, prompt_style=wanted, frame=None)
    else:
        frame = chat_frame(opened.tokenizer, opened.tokenizer.controls)
        if frame is None:
            raise Unusable(
                f"{opened.served.id} has no control tokens of a known form of chat "
                f"({', '.join(KNOWN_MARKS)}): start it with --prompt-style cloze"
            )
        served = replace(opened.served, prompt_style=wanted, frame=frame)
    return replace(opened, served=served)


def _within(spec: ModelSpec, located: Located) -> ModelSpec:
    """The spec with no longer sequences than the manifest allows."""
    most = None if located.manifest is None else located.manifest.max_tokens
    return spec if most is None else replace(spec, context=min(spec.context, most))


def _check_vocabulary(where: Path, tokenizer: Tokenizer, spec: ModelSpec) -> None:
    if tokenizer.vocab_size > spec.vocab:
        raise Unusable(
            f"{where}: the tokenizer has {tokenizer.vocab_size} tokens, the embedding {spec.vocab}; "
            "they are not of one model: fetch both from the same repository"
        )


def _checked(path: Path, digest: str, expected: str | None) -> str:
    if expected is not None and digest != expected:
        raise Unusable(
            f"{path}: the file is damaged (sha256 {digest}, expected {expected}); remove it and "
            f"fetch it again"
        )
    return digest


def _served(located: Located, spec: ModelSpec, dated: Path, base: str) -> ServedModel:
    """What the manifest says, or what can be said without one; `dated` is a file of the model.

    Whatever is served answers to the names that clients ask for when nobody told them another.
    """
    if located.manifest is not None:
        served = located.manifest.served
        every = dict.fromkeys((*served.aliases, *CLIENT_ALIASES))
        return replace(
            served,
            aliases=tuple(every),
            revision=located.revision,
            borrowed=tuple(name for name in CLIENT_ALIASES if name not in served.aliases),
        )
    changed = datetime.fromtimestamp(dated.stat().st_mtime, UTC)
    return ServedModel(
        id=located.name,
        name=located.name,
        description=f"{base}, a model of the family {spec.family} without a manifest",
        release_date=changed.date().isoformat(),
        aliases=CLIENT_ALIASES,
        borrowed=CLIENT_ALIASES,
        base_model=base,
        family=spec.family,
        capabilities=("score", "extract", "generate"),
        media=(),
        stand_in=False,
        note="",
        revision=located.revision,
    )
