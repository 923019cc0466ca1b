"""Weights made from a seed where they are used, in the form of a checkpoint: for measuring, not for asking.

A number follows from the tensor's name and its place alone, by whole-number arithmetic and one exact
division, so that two machines and two versions of a library make the same bits. Knows no file.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import torch

from spinf_serve.engine.models.spec import ModelSpec
from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.tensor import QuantizedTensor
from spinf_serve.packs.errors import Unusable

SyntheticScheme = Literal["static", "rows", "int8", "bf16"]

AMPLITUDE: Final = 0.05
"""Largest magnitude of a weight. The distribution is a triangle around 0: its deviation is 0.0204,
with which the rows of a product of normed inputs have one near sqrt(inner) / 50."""

LAYER_SCALAR: Final = 0.90625
"""Two branches add variance 1 each to the residual of a layer; times this squared it settles at 9.2."""

QUERY_NORM: Final = 0.0625
"""Weight of the norm of the queries. Gemma's scores have the scale 1, so that with a weight of 1 and
heads of 256 every softmax would have a single term that counts."""

# Largest inputs that a static scale leaves unclipped. Normed rows have unit deviation, and of the 60
# million numbers of a pass the largest is near 5.6. What attention gives is a mean of normed values.
# The gated product is one of two numbers with the deviation 1.26: 32 is over 20 deviations.
_NORMED_AMAX: Final = 8.0
_ATTENDED_AMAX: Final = 8.0
_GATED_AMAX: Final = 32.0
_INPUT_AMAX: Final[Mapping[str, float]] = MappingProxyType(
    {
        "q_proj": _NORMED_AMAX,
        "k_proj": _NORMED_AMAX,
        "v_proj": _NORMED_AMAX,
        "o_proj": _ATTENDED_AMAX,
        "gate_proj": _NORMED_AMAX,
        "up_proj": _NORMED_AMAX,
        "down_proj": _GATED_AMAX,
    }
)

_MASK: Final = 0xFFFFFFFF
# Odd and below 2^31, so that a product with a 32-bit number stays within 63 bits.
_FIRST, _SECOND, _THIRD = 0x5BD1E995, 0x6C50B47D, 0x3C6EF35F
# Numbers made at a time.
_PIECE: Final = 1 << 25


@dataclass(frozen=True, slots=True)
class _Stream:
    """Two 32-bit keys of a tensor's numbers."""

    first: int
    second: int


class SyntheticCheckpoint:
    """Implements `engine.models.spec.Checkpoint` and `QuantizedSource` without a file.

    Attributes:
        spec: the model it is of, of the Gemma 4 family.
        scheme: how its linear layers present themselves: `static` as float8 with one scale a tensor
            and a static one of the input, `rows` as float8 by row, `int8` by row, `bf16` plain.
        device: where codes of `read_quantized` lie.
    """

    def __init__(
        self, spec: ModelSpec, scheme: SyntheticScheme, device: torch.device, seed: int = 0
    ) -> None:
        if spec.family != "gemma4":
            raise AssertionError(f"synthetic weights are of Gemma 4, not {spec.family}")
        self.spec = spec
        self.scheme = scheme
        self.device = device
        self._seed = seed
        self._shapes = dict(_shapes(spec))

    @property
    def digest(self) -> str:
        """What stands for the sha256 of weights: of everything they are made from, 64 hex digits."""
        facts = f"synthetic 1, {self.spec}, {self.scheme}, seed {self._seed}"
        return hashlib.sha256(facts.encode()).hexdigest()

    def names(self) -> frozenset[str]:
        """Every tensor's name."""
        return frozenset(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape. Raises `Unusable` for a name that the model does not have."""
        if name not in self._shapes:
            raise Unusable(f"a synthetic {self.spec.family} checkpoint has no tensor {name}")
        return self._shapes[name]

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill the contiguous `out`, on any device, with the tensor's values.

        Raises `Unusable` for a name that the model does not have, or another shape.
        """
        shape = self.shape(name)
        if tuple(out.shape) != shape:
            raise Unusable(f"the tensor {name} is {list(shape)}, not {list(out.shape)}")
        constant = _constant(name)
        if constant is not None:
            out.fill_(constant)
            return
        weight = self._quantized(name, out.device)
        if weight is not None:
            out.copy_(weight.values.float().mul_(weight.scale))
            return
        flat = out.view(-1)
        for start, numbers in _pieces(self._stream(name), flat.numel(), out.device):
            flat[start : start + len(numbers)].copy_(numbers.mul_(AMPLITUDE))

    def read_quantized(self, name: str) -> QuantizedTensor | None:
        """Codes and scales of a linear layer, on the device; None for any other tensor."""
        self.shape(name)
        return self._quantized(name, self.device)

    def _quantized(self, name: str, device: torch.device) -> QuantizedTensor | None:
        layer = name.removesuffix(".weight").rpartition(".")[2]
        if self.scheme == "bf16" or layer not in _INPUT_AMAX:
            return None
        rows, columns = self._shapes[name]
        largest = int8.LARGEST if self.scheme == "int8" else fp8.LARGEST
        codes = torch.empty(
            rows * columns,
            dtype=int8.DTYPE if self.scheme == "int8" else fp8.DTYPE,
            device=device,
        )
        for start, numbers in _pieces(self._stream(name), len(codes), device):
            numbers.mul_(largest)
            if self.scheme == "int8":
                numbers.round_()
            codes[start : start + len(numbers)].copy_(numbers)
        scale = torch.tensor(AMPLITUDE / largest, device=device)
        if self.scheme == "static":
            amax = torch.tensor(_INPUT_AMAX[layer] / fp8.LARGEST, device=device)
            return QuantizedTensor(codes.view(rows, columns), scale, amax)
        # Within a quarter of one another, so that a scale that goes to the wrong row is seen.
        (_, numbers), *_ = _pieces(self._stream(f"{name} scales"), rows, device)
        return QuantizedTensor(
            codes.view(rows, columns), scale * numbers.mul_(0.125).add_(1.0).view(rows, 1)
        )

    def _stream(self, name: str) -> _Stream:
        key = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
        return _Stream(int.from_bytes(key[:4]), int.from_bytes(key[4:8]))


def _pieces(
    stream: _Stream, count: int, device: torch.device
) -> Iterator[tuple[int, torch.Tensor]]:
    """(first place, numbers): float32 in (-1, 1), of a triangular distribution around 0.

    A place is hashed to 32 bits, whose halves are added: 17 bits, exact in float32.
    """
    for start in range(0, count, _PIECE):
        bits = torch.arange(start, min(start + _PIECE, count), dtype=torch.int64, device=device)
        bits.bitwise_xor_(stream.first)
        for factor, shift in ((_FIRST, 15), (_SECOND, 13), (_THIRD, 16)):
            bits.mul_(factor).add_(stream.second).bitwise_and_(_MASK)
            bits.bitwise_xor_(bits >> shift)
        total = (bits & 0xFFFF).add_(bits >> 16)
        yield start, total.sub_(0xFFFF).float().mul_(2.0**-16)


def _constant(name: str) -> float | None:
    """The value of a tensor that holds one, or None."""
    if name.endswith(".layer_scalar"):
        return LAYER_SCALAR
    if name.endswith(".q_norm.weight"):
        return QUERY_NORM
    return 1.0 if name.endswith("norm.weight") else None


def _shapes(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of a text-only checkpoint with tied embeddings."""
    hidden, inner = spec.hidden, spec.intermediate
    yield "model.embed_tokens.weight", (spec.vocab, hidden)
    yield "model.norm.weight", (hidden,)
    for number, layer in enumerate(spec.layers):
        name = f"model.layers.{number}"
        queries, keys = spec.heads * layer.head_dim, layer.kv_heads * layer.head_dim
        yield f"{name}.self_attn.q_proj.weight", (queries, hidden)
        yield f"{name}.self_attn.k_proj.weight", (keys, hidden)
        if not layer.k_is_v:
            yield f"{name}.self_attn.v_proj.weight", (keys, hidden)
        yield f"{name}.self_attn.o_proj.weight", (hidden, queries)
        yield f"{name}.self_attn.q_norm.weight", (layer.head_dim,)
        yield f"{name}.self_attn.k_norm.weight", (layer.head_dim,)
        yield f"{name}.mlp.gate_proj.weight", (inner, hidden)
        yield f"{name}.mlp.up_proj.weight", (inner, hidden)
        yield f"{name}.mlp.down_proj.weight", (hidden, inner)
        for place in (
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ):
            yield f"{name}.{place}.weight", (hidden,)
        yield f"{name}.layer_scalar", (1,)


def parameters(spec: ModelSpec) -> int:
    """Numbers in a checkpoint of a model."""
    return sum(math.prod(shape) for _, shape in _shapes(spec))
