"""Which scheme of weights suits a card, and whether the model fits, said before anything is loaded.

Pure: what the card is and how large the model is are arguments. The memory is that of a device that
computes with 8-bit weights as they are; embedding, head and norms stay in 16 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spinf_serve.engine.quantization.formats import StoredFormat
from spinf_serve.packs.errors import Unusable

Scheme = Literal["fp8", "int8", "bf16"]

# Context of the driver, libraries and their work space, what is lost between blocks, and the read
# rows with the head's partial results.
RESERVE_BYTES: Final = 1 << 30
_GIB: Final = 1 << 30
_FP8_MAJORS: Final = (10, 12)
_FP8: Final = ((8, 9), (9, 0))
_INT8: Final = ((8, 0), (8, 6), (8, 7))


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """One layer's attention: width of the queries and of the keys (H D and G D), and its window."""

    query_columns: int
    key_columns: int
    window: int | None


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """What a model's memory follows from.

    Attributes:
        linear_weights: weights in the linear layers, which a scheme may put into 8 bits.
        linear_rows: their output rows, each with a scale.
        other_weights: the rest, kept in 16 bits: embedding, head, norms.
        hidden, intermediate: widths.
        attention: one entry a layer.
    """

    linear_weights: int
    linear_rows: int
    other_weights: int
    hidden: int
    intermediate: int
    attention: Sequence[AttentionSizes]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a model takes on a card.

    Attributes:
        weights: all of them, with scales.
        kept: keys and values of a trunk that goes on in further passes.
        working: activations of one pass.
        reserve: a fixed part for everything else.
    """

    weights: int
    kept: int
    working: int
    reserve: int = RESERVE_BYTES

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.kept + self.working + self.reserve

    def __str__(self) -> str:
        return (
            f"{_gib(self.total)} GiB (weights {_gib(self.weights)}, kept keys and values "
            f"{_gib(self.kept)}, a pass {_gib(self.working)}, reserve {_gib(self.reserve)})"
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The scheme for a card.

    Attributes:
        scheme: what the linear layers' weights are put into.
        why: the reason, in a clause.
        memory: what the model takes with it.
        free_bytes: what was free.
    """

    scheme: Scheme
    why: str
    memory: Memory
    free_bytes: int

    def __str__(self) -> str:
        return (
            f"weights in {self.scheme}: {self.why}; takes {self.memory} of "
            f"{_gib(self.free_bytes)} GiB that are free"
        )


def choose_scheme(
    compute_capability: tuple[int, int],
    has_fp8: bool,
    free_bytes: int,
    sizes: ModelSizes,
    *,
    wanted: Scheme | None = None,
    stored: StoredFormat | None = None,
    pass_tokens: int = 16_384,
    kept_tokens: int | None = None,
) -> Choice:
    """The scheme for a card, if the model fits on it.

    Args:
        compute_capability: of the card, major and minor.
        has_fp8: whether the libraries at hand compute in fp8 on it.
        free_bytes: free memory of the card before anything is loaded.
        sizes: of the model.
        wanted: a scheme that was asked for by name.
        stored: how the checkpoint's linear layers are stored, if in 8 bits: they keep that scheme.
        pass_tokens: rows of the largest pass.
        kept_tokens: longest trunk that is kept between passes; None means as long as a pass.

    Raises `Unusable`, one line: with the numbers when the model does not fit, with the remedy when
    the card or the checkpoint does not allow the scheme.
    """
    fitting, reason = _preferred(compute_capability, has_fp8)
    if stored is not None:
        scheme, why = _as_stored(stored, wanted, fitting, reason)
    elif wanted is not None:
        scheme, why = _as_wanted(wanted, fitting, reason)
    else:
        scheme, why = fitting, reason
    kept = pass_tokens if kept_tokens is None else kept_tokens
    memory = memory_of(sizes, scheme, pass_tokens, kept)
    if memory.total > free_bytes:
        weights = ", ".join(
            f"{_gib(weight_bytes(sizes, other))} in {other}" for other in ("fp8", "int8", "bf16")
        )
        raise Unusable(
            f"too little memory on the card: with weights in {scheme} ({why}) and passes of "
            f"{pass_tokens:,} tokens the model takes {memory}, {_gib(free_bytes)} GiB are free "
            f"(its weights alone, GiB: {weights}); free memory, {_remedy(memory, free_bytes)}"
        )
    return Choice(scheme, why, memory, free_bytes)


def fitting_scheme(compute_capability: tuple[int, int], has_fp8: bool) -> Scheme:
    """The scheme that suits a card, for a checkpoint in 16 bits and nobody's wish."""
    return _preferred(compute_capability, has_fp8)[0]


def memory_of(sizes: ModelSizes, scheme: Scheme, pass_tokens: int, kept_tokens: int) -> Memory:
    """Bytes that a model takes with a scheme.

    With T the rows of a pass, U the kept tokens, 2 bytes a 16-bit number, C and I the widths, Q and
    K those of a layer's queries and keys, W its window, a = 1 byte for an input in fp8, else 2:

    - weights: 1 byte a linear weight in 8 bits and 4 a row for its scale, 2 for all other weights;
    - kept: `sum over layers of 4 K min(U, W)`: keys and values of one trunk, for full layers U;
    - working: `T max(attention, MLP)`, of the widest layer, nothing fused: residual 2 C, its
      normed and rounded copy a C, the block's result 2 C; attention: q, k, v and their normed and
      rotated copies 4 (Q + 2 K), two partial results in float32 8 Q, their merged one 2 Q and it
      rounded a Q; MLP: gate and up 4 I, their product a I.
    """
    input_bytes = 1 if scheme == "fp8" else 2
    widest = max(
        4 * (layer.query_columns + 2 * layer.key_columns) + (10 + input_bytes) * layer.query_columns
        for layer in sizes.attention
    )
    mlp = (4 + input_bytes) * sizes.intermediate
    row = (4 + input_bytes) * sizes.hidden + max(widest, mlp)
    kept = sum(
        4 * layer.key_columns * min(kept_tokens, layer.window or kept_tokens)
        for layer in sizes.attention
    )
    return Memory(weight_bytes(sizes, scheme), kept, pass_tokens * row)


def weight_bytes(sizes: ModelSizes, scheme: Scheme) -> int:
    """Bytes of a model's weights with a scheme."""
    if scheme == "bf16":
        return 2 * (sizes.linear_weights + sizes.other_weights)
    return sizes.linear_weights + 4 * sizes.linear_rows + 2 * sizes.other_weights


def _preferred(capability: tuple[int, int], has_fp8: bool) -> tuple[Scheme, str]:
    shown = f"compute capability {capability[0]}.{capability[1]}"
    knows_fp8 = capability in _FP8 or capability[0] in _FP8_MAJORS
    if knows_fp8 and has_fp8:
        return "fp8", f"{shown} computes in fp8"
    if capability in _INT8:
        return "int8", f"{shown} has no fp8, and int8 weights take half of bf16"
    if knows_fp8:
        return "bf16", f"{shown} computes in fp8, but the libraries installed here do not"
    return "bf16", f"neither fp8 nor int8 is served on {shown}"


def _as_stored(
    stored: StoredFormat, wanted: Scheme | None, fitting: Scheme, reason: str
) -> tuple[Scheme, str]:
    if wanted not in (None, stored.kind):
        raise Unusable(
            f"the checkpoint's linear layers are stored in {stored.kind}, and --quant {wanted} would "
            "round them a second time: leave --quant out, or take the model's checkpoint in 16 bits"
        )
    if stored.kind == "fp8" and fitting != "fp8":
        raise Unusable(
            f"the checkpoint's linear layers are stored in fp8, which this card does not compute in "
            f"({reason}): take the model's checkpoint in 16 bits, which becomes {fitting} here"
        )
    why = f"the checkpoint stores them so ({stored})"
    if stored.kind == "int8" and stored.activations != "none":
        why += ", and their inputs stay in 16 bits"
    elif stored.kind == "fp8" and stored.activations == "none":
        why += ", and their inputs are put into fp8 by token"
    return stored.kind, why


def _as_wanted(wanted: Scheme, fitting: Scheme, reason: str) -> tuple[Scheme, str]:
    if wanted == "fp8" and fitting != "fp8":
        raise Unusable(
            f"--quant fp8: this card does not compute in fp8 ({reason}); leave --quant out, which "
            f"is {fitting} here"
        )
    return wanted, "as asked with --quant"


def _remedy(memory: Memory, free_bytes: int) -> str:
    fixed = memory.weights + memory.reserve
    if fixed < free_bytes:
        return "lower the token budget, or take a smaller model"
    return "take a larger card or a smaller model: a lower token budget does not help"


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f}"
