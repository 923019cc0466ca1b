"""Small GGUF files for tests: tokenizers learned from a few lines, weights of random blocks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from spinf_serve.engine.models.spec import ModelSpec
from tests.support.toy_tokenizers import TRAINING_LINES

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a GGUF file says of its tokens. `merges` or `scores` is empty."""

    texts: tuple[str, ...]
    kinds: tuple[int, ...]
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()


def learned_byte_level(
    splits: Sequence[pre_tokenizers.PreTokenizer], *, added: Iterable[str] = (), size: int = 480
) -> Vocabulary:
    """Two control tokens, then a byte-level vocabulary, then `added` as user-defined tokens."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(list(splits))
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    learner.train_from_iterator(TRAINING_LINES, trainer)
    model = json.loads(learner.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    added = tuple(added)
    return Vocabulary(
        texts=("<|endoftext|>", "<|im_start|>", *learned, *added),
        kinds=(CONTROL, CONTROL, *[NORMAL] * len(learned), *[USER_DEFINED] * len(added)),
        merges=tuple((left, right) for left, right in model["merges"]),
    )


def learned_sentence_pieces(pieces: Sequence[str], added: Sequence[str] = ()) -> Vocabulary:
    """Four control tokens, 256 bytes, `added`, then `pieces`, the first with the best score."""
    controls = ("<pad>", "<eos>", "<bos>", "<start_of_turn>")
    bytes_ = tuple(f"<0x{byte:02X}>" for byte in range(256))
    head = len(controls) + len(bytes_) + len(added)
    return Vocabulary(
        texts=(*controls, *bytes_, *added, *pieces),
        kinds=(
            *[CONTROL] * len(controls),
            *[BYTE] * len(bytes_),
            *[USER_DEFINED] * len(added),
            *[NORMAL] * len(pieces),
        ),
        scores=(*[-1000.0] * head, *(-float(place) for place in range(len(pieces)))),
    )


def add_tokenizer(
    writer: gguf.GGUFWriter, vocabulary: Vocabulary, *, pre: str, add_bos: bool | None = None
) -> None:
    """Write a vocabulary's keys; one with scores is a SentencePiece one."""
    writer.add_tokenizer_model("llama" if vocabulary.scores else "gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(list(vocabulary.texts))
    writer.add_token_types(list(vocabulary.kinds))
    if vocabulary.scores:
        writer.add_token_scores(list(vocabulary.scores))
        writer.add_add_space_prefix(False)
    else:
        writer.add_token_merges([f"{left} {right}" for left, right in vocabulary.merges])
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    writer.add_bos_token_id(vocabulary.texts.index("<bos>") if vocabulary.scores else 1)


def write_tokenizer(path: Path, vocabulary: Vocabulary, **how) -> Path:
    """A GGUF file with a tokenizer and nothing else."""
    writer = gguf.GGUFWriter(path, "llama")
    add_tokenizer(writer, vocabulary, **how)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(family: str, name: str) -> str:
    """What the format calls a tensor of the Hugging Face layout."""
    stem, kind = name.rsplit(".", 1)
    layer = ""
    if stem.startswith("model.layers."):
        _, _, number, stem = stem.split(".", 3)
        layer = f"blk.{number}."
    after_attention = "ffn_norm" if family == "llama" else "post_attention_norm"
    names = {**_NAMES, "post_attention_layernorm": after_attention}
    return f"{layer}{names[stem]}.{kind}"


def write_model(
    path: Path,
    spec: ModelSpec,
    state: Mapping[str, torch.Tensor],
    vocabulary: Vocabulary,
    *,
    pre: str,
    extra: Mapping[str, int | float | str | bool] = MappingProxyType({}),
    tensors: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Path:
    """A whole model in float32, changed as the format asks: q and k rows, norms of gemma3.

    `extra` are further keys, without the architecture; `tensors` further tensors as they are.
    """
    writer = gguf.GGUFWriter(path, spec.family)
    _add_sizes(writer, spec)
    kinds = gguf.GGUFValueType
    for key, value in extra.items():
        kind = {bool: kinds.BOOL, int: kinds.UINT32, float: kinds.FLOAT32, str: kinds.STRING}
        writer.add_key_value(f"{spec.family}.{key}", value, kind[type(value)])
    add_tokenizer(writer, vocabulary, pre=pre)
    for name, tensor in state.items():
        values = tensor.float().numpy()
        heads = {"q_proj": spec.heads, "k_proj": spec.layers[0].kv_heads}.get(name.split(".")[-2])
        if spec.family == "llama" and heads:
            rows = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
            values = rows.swapaxes(1, 2).reshape(values.shape)
        if spec.family == "gemma3" and name.endswith("norm.weight"):
            values = values + 1
        writer.add_tensor(gguf_name(spec.family, name), np.ascontiguousarray(values))
    for name, array in tensors.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_sizes(writer: gguf.GGUFWriter, spec: ModelSpec) -> None:
    full = next(layer for layer in spec.layers if layer.window is None)
    writer.add_name("Tiny")
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.hidden)
    writer.add_block_count(len(spec.layers))
    writer.add_feed_forward_length(spec.intermediate)
    writer.add_head_count(spec.heads)
    writer.add_head_count_kv(full.kv_heads)
    writer.add_key_length(full.head_dim)
    writer.add_layer_norm_rms_eps(spec.norm_eps)
    writer.add_rope_freq_base(full.rope.theta)
    if full.rope.kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full.rope.factor)
    windows = [layer.window for layer in spec.layers if layer.window is not None]
    if windows:
        writer.add_sliding_window(windows[0])
        pattern = spec.layers.index(full) + 1
        writer.add_uint32(f"{spec.family}.attention.sliding_window_pattern", pattern)
