"""Tiny random models of each family: made with transformers, weights filled by a rule per name.

Nothing is stored: a tensor's values follow from its name, so every process makes the same model.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable

PROMPT = [2, 16, 26, 50, 88, 140, 206, 286, 90, 198, 30, 166]
PROMPT += [26, 190, 78, 270, 186, 116, 60, 18, 280, 266, 266, 280]


@dataclass(frozen=True)
class TinyModel:
    """A reference model, what our engine calls it, and its last logits on `PROMPT`.

    Attributes:
        reference: the transformers model, float32, eager attention.
        spec: the same model as our families take it.
        golden: first logits of the last position, as found once with transformers 5.24.
    """

    reference: Any
    spec: ModelSpec
    golden: tuple[float, ...]

    @property
    def checkpoint(self) -> "StateCheckpoint":
        """The model's weights as a checkpoint."""
        return StateCheckpoint(self.reference.state_dict(), tied=self.spec.tied)


class StateCheckpoint:
    """A `Checkpoint` over tensors in memory."""

    def __init__(self, state: dict[str, torch.Tensor], *, tied: bool) -> None:
        self.state = {n: t for n, t in state.items() if not (tied and n == "lm_head.weight")}

    def names(self) -> frozenset[str]:
        return frozenset(self.state)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._found(name).shape)

    def read_into(self, name: str, out: torch.Tensor) -> None:
        found = self._found(name)
        if found.shape != out.shape:
            raise Unusable(f"{name} has shape {tuple(found.shape)}, expected {tuple(out.shape)}")
        out.copy_(found)

    def _found(self, name: str) -> torch.Tensor:
        if name not in self.state:
            raise Unusable(f"the checkpoint has no tensor {name}")
        return self.state[name]


def fill(state: dict[str, torch.Tensor], *, centred_norms: bool) -> None:
    """Overwrites float tensors by the rule: a generator for each, seeded by its name."""
    for name, tensor in sorted(state.items()):
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        drawn = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed))
        if name.endswith("layer_scalar"):
            drawn = 1.0 + 0.1 * drawn
        elif "norm" in name:
            drawn = 0.1 * drawn + (0.0 if centred_norms else 1.0)
        elif name.endswith("bias") or tensor.ndim == 1:
            drawn = 0.1 * drawn
        elif "embed_tokens" in name:
            drawn = 0.5 * drawn
        else:
            drawn = drawn * (1.0 / (tensor.shape[1] ** 0.5))
        tensor.copy_(drawn)


def weight_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a model, the head's too where it is the embedding."""
    state: dict[str, tuple[int, ...]]
    state = {
        "model.embed_tokens.weight": (spec.vocab, spec.hidden),
        "model.norm.weight": (spec.hidden,),
        "lm_head.weight": (spec.vocab, spec.hidden),
    }
    norms = ["input_layernorm", "post_attention_layernorm"]
    if spec.family != "llama":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for index, layer in enumerate(spec.layers):
        q_rows, kv_rows = spec.heads * layer.head_dim, layer.kv_heads * layer.head_dim
        shapes = {
            "self_attn.q_proj": (q_rows, spec.hidden),
            "self_attn.k_proj": (kv_rows, spec.hidden),
            "self_attn.o_proj": (spec.hidden, q_rows),
            "mlp.gate_proj": (spec.intermediate, spec.hidden),
            "mlp.up_proj": (spec.intermediate, spec.hidden),
            "mlp.down_proj": (spec.hidden, spec.intermediate),
            **{name: (spec.hidden,) for name in norms},
        }
        if not layer.k_is_v:
            shapes["self_attn.v_proj"] = (kv_rows, spec.hidden)
        if spec.family != "llama":
            shapes |= {f"self_attn.{x}_norm": (layer.head_dim,) for x in "qk"}
        state |= {f"model.layers.{index}.{x}.weight": shape for x, shape in shapes.items()}
        if spec.family == "gemma4":
            state[f"model.layers.{index}.layer_scalar"] = (1,)
    return state


def random_checkpoint(spec: ModelSpec) -> StateCheckpoint:
    """Weights for any spec, filled by the rule, without transformers."""
    filled = {name: torch.empty(shape) for name, shape in weight_shapes(spec).items()}
    fill(filled, centred_norms=spec.family == "gemma3")
    return StateCheckpoint(filled, tied=spec.tied)


def smollm2_like(layers: int, vocab: int) -> ModelSpec:
    """The embedded model's shape with fewer layers and tokens."""
    layer = LayerSpec(window=None, rope=Rope("default", 100_000.0), kv_heads=3, head_dim=64)
    return ModelSpec(
        family="llama",
        hidden=576,
        intermediate=1536,
        vocab=vocab,
        heads=9,
        layers=(layer,) * layers,
        norm_eps=1e-5,
        attention_scale=64**-0.5,
        tied=True,
        context=8192,
    )


def tiny(name: str) -> TinyModel:
    """One of `TINY` or `TINY_WITH_MEDIA`, built afresh."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    if name in TINY_WITH_MEDIA:
        text, own, golden = TINY_WITH_MEDIA[name]
        spec, settings = TINY[text][0], {**own, **_MEDIA_TOKENS, "text_config": _settings(text)}
        kind: Any = AutoModelForImageTextToText
    else:
        (spec, _, golden), settings = TINY[name], _settings(name)
        kind = AutoModelForCausalLM
    config = AutoConfig.for_model(**settings)
    model = kind.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        fill(model.state_dict(), centred_norms=spec.family == "gemma3")
    model.tie_weights()
    return TinyModel(model, spec, golden)


def _settings(name: str) -> dict[str, Any]:
    """The config of one of `TINY`."""
    spec, own, _ = TINY[name]
    return {
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.intermediate,
        "num_hidden_layers": len(spec.layers),
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.layers[0].kv_heads,
        "head_dim": spec.layers[0].head_dim,
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tied,
        "max_position_embeddings": spec.context,
        **own,
    }


def _llama(rope: Rope, *, heads: int, kv_heads: int, head_dim: int, hidden: int, tied: bool):
    layer = LayerSpec(window=None, rope=rope, kv_heads=kv_heads, head_dim=head_dim)
    return ModelSpec(
        family="llama",
        hidden=hidden,
        intermediate=128,
        vocab=320,
        heads=heads,
        layers=(layer,) * 3,
        norm_eps=1e-5,
        attention_scale=head_dim**-0.5,
        tied=tied,
        context=1024,
    )


def _gemma3(full: Rope, is_full: tuple[bool, ...], *, heads, kv_heads, head_dim, scalar):
    local = Rope("default", 10_000.0)
    layers = (
        LayerSpec(None if x else 8, full if x else local, kv_heads, head_dim) for x in is_full
    )
    return ModelSpec(
        family="gemma3",
        hidden=48,
        intermediate=96,
        vocab=320,
        heads=heads,
        layers=tuple(layers),
        norm_eps=1e-6,
        attention_scale=scalar**-0.5,
        tied=True,
        context=1024,
    )


def gemma4(*, heads: int, sliding: tuple[int, int], full: tuple[int, int], window: int):
    """Two sliding layers and a full one, twice; (kv heads, head size) of each kind."""
    local = LayerSpec(window, Rope("default", 10_000.0), *sliding)
    rope = Rope("proportional", 1_000_000.0, moving=0.25)
    layers = (local, local, LayerSpec(None, rope, *full, k_is_v=True)) * 2
    return ModelSpec(
        family="gemma4",
        hidden=64,
        intermediate=128,
        vocab=320,
        heads=heads,
        layers=layers,
        norm_eps=1e-6,
        attention_scale=1.0,
        tied=True,
        context=1024,
        logit_soft_cap=30.0,
    )


_SCALED = Rope("llama3", 500_000.0, 8.0, 1.0, 4.0, 64)
_SLIDING = {"rope_type": "default", "rope_theta": 10_000.0}
_GEMMA = {
    "model_type": "gemma3_text",
    "sliding_window": 8,
    "hidden_activation": "gelu_pytorch_tanh",
}
_GEMMA4_SPEC = gemma4(heads=4, sliding=(2, 16), full=(1, 32), window=8)
_GEMMA4 = {
    "sliding_window": 8,
    "hidden_activation": "gelu_pytorch_tanh",
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
            "rope_theta": 1_000_000.0,
        },
        "sliding_attention": _SLIDING,
    },
    "use_bidirectional_attention": "vision",
    "num_kv_shared_layers": 0,
    "use_double_wide_mlp": False,
}
_GEMMA4_OF_A_TOWER = {
    **_GEMMA4,
    "model_type": "gemma4_text",
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 320,
    "enable_moe_block": False,
}
_GEMMA4_UNIFIED = {**_GEMMA4, "model_type": "gemma4_unified_text"}
_GEMMA4_GOLDEN = (
    -1.294948,
    0.725932,
    3.430825,
    -5.11068,
    -7.50473,
    -0.471775,
    -1.818922,
    -1.964605,
)
TINY: dict[str, tuple[ModelSpec, dict[str, Any], tuple[float, ...]]] = {
    "llama_tied": (
        _llama(Rope("default", 100_000.0), heads=5, kv_heads=1, head_dim=12, hidden=60, tied=True),
        {
            "model_type": "llama",
            "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
        },
        (-1.703922, 2.045861, -4.055276, -1.372756, 1.255568, -4.649283, 6.364483, -0.194336),
    ),
    "llama_scaled_untied": (
        _llama(_SCALED, heads=4, kv_heads=2, head_dim=16, hidden=64, tied=False),
        {
            "model_type": "llama",
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        (-0.743798, -0.212057, 0.871948, 3.220733, 1.129143, 0.224832, -0.2304, 0.182125),
    ),
    "gemma3": (
        _gemma3(
            Rope("default", 1_000_000.0),
            (False, False, True, False, False, True),
            heads=3,
            kv_heads=1,
            head_dim=24,
            scalar=24,
        ),
        {
            **_GEMMA,
            "query_pre_attn_scalar": 24,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
                "sliding_attention": _SLIDING,
            },
        },
        (-4.849117, -1.506934, 6.945469, 1.067845, 1.656286, 5.417805, -0.428039, 0.921406),
    ),
    "gemma3_linear_rope": (
        _gemma3(
            Rope("linear", 1_000_000.0, 8.0),
            (False,) * 5 + (True,),
            heads=4,
            kv_heads=2,
            head_dim=16,
            scalar=12,
        ),
        {
            **_GEMMA,
            "query_pre_attn_scalar": 12,
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "linear",
                    "factor": 8.0,
                    "rope_theta": 1_000_000.0,
                },
                "sliding_attention": _SLIDING,
            },
        },
        (-8.772776, -1.839348, 5.208642, 0.072598, -1.17988, 6.363708, -2.256521, 5.152381),
    ),
    "gemma4": (_GEMMA4_SPEC, _GEMMA4_OF_A_TOWER, _GEMMA4_GOLDEN),
    "gemma4_unified": (_GEMMA4_SPEC, _GEMMA4_UNIFIED, _GEMMA4_GOLDEN),
}
_MEDIA_TOKENS = {
    "image_token_id": 300,
    "video_token_id": 301,
    "audio_token_id": 302,
    "boi_token_id": 303,
    "eoi_token_id": 304,
    "boa_token_id": 305,
    "eoa_token_index": 306,
}
# Models that read images too: the text model in them, config, logits as above.
TINY_WITH_MEDIA: dict[str, tuple[str, dict[str, Any], tuple[float, ...]]] = {
    "gemma4_with_tower": (
        "gemma4",
        {
            "model_type": "gemma4",
            "vision_config": {
                "model_type": "gemma4_vision",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 8,
                "patch_size": 4,
                "pooling_kernel_size": 3,
                "position_embedding_size": 64,
                "standardize": True,
                "use_clipped_linears": False,
                "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
            },
            "audio_config": None,
        },
        (2.799715, -2.650545, -0.049998, -2.626192, 3.40402, -0.948872, 3.40267, -3.161242),
    ),
    "gemma4_unified_with_media": (
        "gemma4_unified",
        {
            "model_type": "gemma4_unified",
            "vision_config": {
                "model_type": "gemma4_unified_vision",
                "patch_size": 4,
                "pooling_kernel_size": 3,
                "mm_embed_dim": 64,
                "mm_posemb_size": 32,
                "output_proj_dims": 64,
            },
            "audio_config": {"model_type": "gemma4_unified_audio", "audio_embed_dim": 40},
        },
        (2.799715, -2.650545, -0.049998, -2.626192, 3.40402, -0.948872, 3.40267, -3.161242),
    ),
}
