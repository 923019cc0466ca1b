"""The weights of a GGUF file under their Hugging Face names.

Says what the format changed: the architecture llama stores the rows of q and k in the interleaved
rotary order, gemma3 has the +1 of its norms folded in.
"""

from spinf_serve.engine.loading.checkpoint import FileCheckpoint, StoredTensor
from spinf_serve.engine.loading.gguf import GgufFile
from spinf_serve.engine.loading.gguf_names import ROPE_FACTORS, hugging_face_name
from spinf_serve.packs.errors import Unusable


def checkpoint_from_gguf(file: GgufFile) -> FileCheckpoint:
    """The weights in the file. Raises `Unusable` for a tensor that the architecture lacks."""
    architecture = file.text("general.architecture")
    tensors = {}
    for name, entry in file.tensors.items():
        if name == ROPE_FACTORS:
            continue
        found = hugging_face_name(architecture, name)
        if found is None:
            raise Unusable(
                f"{file.path}: the tensor {name} is not part of the architecture {architecture}"
            )
        heads = _interleaved_heads(file, found) if architecture == "llama" else 0
        shift = -1.0 if architecture == "gemma3" and found.endswith("norm.weight") else 0.0
        tensors[found] = StoredTensor(file.path, entry, heads, shift)
    return FileCheckpoint(file.path, tensors)


def _interleaved_heads(file: GgufFile, name: str) -> int:
    heads = file.integer("llama.attention.head_count")
    if ".self_attn.q_proj." in name:
        return heads
    if ".self_attn.k_proj." in name:
        return file.integer("llama.attention.head_count_kv", heads)
    return 0
