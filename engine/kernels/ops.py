"""The operations a model family is written in. A backend implements them; a family knows no device.

They are as large as what a GPU does in one launch: a norm ends in the rounding that the next product
wants, and so do attention and the gate. A backend may compose them of smaller ones.

Every operation is row-wise pure: a row's result depends on that row (for attention: on the row, its
trunk and its ancestors) and never on how many rows there are or where the row stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import torch

from spinf_serve.engine.kernels.elementwise.quant import Quant
from spinf_serve.engine.tree.plan import Pass

Activation = Literal["silu", "gelu_tanh"]


class LayerShape(NamedTuple):
    """What a layout needs to know of a layer: H, G, D, and the tokens that a token sees."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None


@dataclass(frozen=True, slots=True)
class WeightScheme:
    """How a backend keeps the weights of linear layers.

    Attributes:
        kind: 8-bit codes with a scale a row, or None for the model's dtype.
        activations: what meets them: `rows` are rounded to the same kind, each by its own scale,
            unless the checkpoint has a static one; `16bit` stay in the model's dtype.
    """

    kind: Literal["fp8", "int8"] | None = None
    activations: Literal["rows", "16bit"] = "16bit"


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """The weight of a linear layer.

    Attributes:
        values: [M, K] in the model's dtype, float8_e4m3fn or int8.
        scale: float32, [] or [M, 1]: row m is `values[m] * scale[m]`; None where values are weights.
        input: how rows are rounded on their way in; None leaves them in the model's dtype.
        bias: [M] in the model's dtype, or None.
    """

    values: torch.Tensor
    scale: torch.Tensor | None = None
    input: Quant | None = None
    bias: torch.Tensor | None = None

    @property
    def rows(self) -> int:
        """M, the number of outputs."""
        return len(self.values)

    def part(self, start: int, end: int) -> "Linear":
        """The layer of output rows `start` to `end`."""
        scale, bias = self.scale, self.bias
        return replace(
            self,
            values=self.values[start:end],
            scale=scale[start:end] if scale is not None and scale.ndim else scale,
            bias=None if bias is None else bias[start:end],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows on their way into linear layers that round their input alike.

    Attributes:
        values: [N, K] in the model's dtype, or rounded as the layers' `input` says.
        scale: [N, 1] float32 of rows that were rounded by scales of their own, else None.
    """

    values: torch.Tensor
    scale: torch.Tensor | None = None

    def select(self, index: torch.Tensor) -> "Rows":
        """The rows at `index` [R]."""
        scale = None if self.scale is None else self.scale.index_select(0, index)
        return Rows(self.values.index_select(0, index), scale)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """A root-mean-square norm over the last axis, evaluated in float32.

    Attributes:
        weight: [C] factors, in the model's dtype or float32.
        eps: added to the mean of squares.
        cast_first: casts to the model's dtype before the multiplication with weight (Llama);
            otherwise the product is made in float32 and cast last (Gemma).
    """

    weight: torch.Tensor
    eps: float
    cast_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class HeadNorms:
    """Norms of single heads before the rotation.

    Attributes:
        q, k: [D] factors for queries and keys, or both None for no such norms.
        values: whether values are normed, without factors.
        eps: added to the mean of squares.
    """

    q: torch.Tensor | None
    k: torch.Tensor | None
    values: bool
    eps: float


class Layout(Protocol):
    """A pass made ready for one backend: index tensors, tile lists, kept trunk keys and values.

    A backend may append padding rows, which no other row sees and nobody reads: N below counts
    them too.

    Attributes:
        tokens, positions: [N] int32 or int64.
        read_rows: [R], rows whose next-token distribution is wanted.
        column_start, columns: [R + 1] and [columns] int64, as in `Pass`.
        longest: every position is below this.
        top_reads: [T] reads that want the most probable tokens.
        top: how many.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    read_rows: torch.Tensor
    column_start: torch.Tensor
    columns: torch.Tensor
    longest: int
    top_reads: torch.Tensor
    top: int


class Ops(Protocol):
    """Operations of one backend. N rows, C hidden, H query heads, G key/value heads, D head size.

    Attributes:
        dtype: of activations, and of weights that are not in 8 bits.
        device: where weights and activations are.
        scheme: how the weights of linear layers are kept.
        gate_block: rows of gate and of up that alternate in a `gated_linear`'s weight; 0 for all
            of gate above all of up.
    """

    dtype: torch.dtype
    device: torch.device
    scheme: WeightScheme
    gate_block: int

    def layout(self, plan: Pass, layers: Sequence[LayerShape]) -> Layout:
        """Indexes and buffers for one pass; made once, used by every layer."""
        ...

    def keep_up_to(self, limit_bytes: int, layers: Sequence[LayerShape]) -> None:
        """Memory for trunks of a model that outlive their trees; before that, `reserve` has none.

        What a tree itself needs in a later pass is kept beyond it.
        """
        ...

    def room_bytes(self, tokens: int) -> int | None:
        """Bytes that keys and values of a trunk take; None where they never fit what is for them."""
        ...

    def reserve(self, key: int, tokens: int) -> bool:
        """Room for a trunk under a key that has none, until `release`; False when none is free."""
        ...

    def release(self, key: int) -> None:
        """Forget the keys and values kept under a key. Unknown keys are no error."""
        ...

    def embed(self, table: torch.Tensor, tokens: torch.Tensor, scale: float) -> torch.Tensor:
        """`table[tokens] * scale`; table [V, C], tokens [N] -> [N, C], rounded to the dtype."""
        ...

    def norm(self, x: torch.Tensor, norm: Norm, into: Linear | None) -> Rows:
        """The norm of x [N, C], rounded for a linear layer; None leaves the model's dtype."""
        ...

    def add_norm(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        *,
        branch_norm: Norm | None,
        scalar: torch.Tensor | None,
        norm: Norm,
        into: Linear | None,
    ) -> tuple[torch.Tensor, Rows]:
        """`(x + branch_norm(y)) * scalar`, and the norm of that.

        Args:
            x: [N, C], the residual; it may be overwritten.
            y: [N, C], what a branch gives.
            branch_norm: None adds y as it is.
            scalar: [1] in the model's dtype, or None.
            norm: of the new residual as it was rounded to the dtype.
            into: the linear layer that the result is rounded for.
        """
        ...

    def linear(self, x: Rows, weight: Linear) -> torch.Tensor:
        """`x @ weight.T + bias`; x [N, K] -> [N, M] in the model's dtype."""
        ...

    def gated_linear(self, x: Rows, weight: Linear, activation: Activation, into: Linear) -> Rows:
        """`activation(gate) * up` of a fused projection [2 I, K]; x [N, K] -> [N, I]."""
        ...

    def heads(
        self,
        qkv: torch.Tensor,
        norms: HeadNorms,
        rotary: tuple[torch.Tensor, torch.Tensor],
        shape: LayerShape,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Splits a fused projection into heads, norms them, rotates q and k.

        Args:
            qkv: [N, (H + 2 G) D] or, where values are the keys as projected, [N, (H + G) D].
            norms: of the heads.
            rotary: cos and sin, [N, D/2] float32, of the pairs (i, i + D/2).
            shape: H and G of this projection; one of them may be 0.

        Returns:
            q [N, H, D], k and v [N, G, D].
        """
        ...

    def attend(
        self,
        layout: Layout,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        scale: float,
        window: int | None,
        reads_only: bool,
        into: Linear,
    ) -> Rows:
        """Tree attention; q [N, H, D], k and v [N, G, D] -> [N, H D], rounded for `into`.

        A row sees the trunk keys at its own position and before, its ancestors and itself; with a
        window W only keys whose position is greater than its own minus W. float32 inside. With
        `reads_only` q holds the R read rows alone, and so does the result. k and v may be
        overwritten.
        """
        ...

    def read_options(
        self,
        hidden: torch.Tensor,
        head: torch.Tensor,
        column_start: torch.Tensor,
        columns: torch.Tensor,
        *,
        soft_cap: float | None,
    ) -> torch.Tensor:
        """Log-probabilities of the wanted columns; hidden [R, C], head [V, C] -> [columns] float32.

        Natural log over the whole vocabulary, after `soft_cap * tanh(logit / soft_cap)` when a cap
        is given. A row with a NaN gives NaN for all of its columns.
        """
        ...

    def read_with_top(
        self,
        layout: Layout,
        hidden: torch.Tensor,
        head: torch.Tensor,
        *,
        soft_cap: float | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`read_options` of a layout, and of its T top reads the most probable tokens.

        Returns:
            Log-probabilities [columns] float32; [T, top] ids of tokens by falling log-probability,
            equal ones by rising id; and theirs, the same bits that they have as columns. `top` is
            cut to V.
        """
        ...
