"""The operations a model family is written in. A backend implements them; a family knows no device.

Every operation is row-wise pure: a row's result depends on that row (for attention: on the row, its
trunk and its ancestors) and never on how many rows there are or where the row stands.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from spinf_serve.engine.tree.plan import Pass


class Layout(Protocol):
    """A pass made ready for one backend: index tensors, tile lists, kept trunk keys and values.

    A backend may append padding rows, which no other row sees and nobody reads: N below counts
    them too.

    Attributes:
        tokens, positions: [N] int64.
        read_rows: [R] int64, rows whose next-token distribution is wanted.
        column_start, columns: [R + 1] and [columns] int64, as in `Pass`.
        longest: every position is below this.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    read_rows: torch.Tensor
    column_start: torch.Tensor
    columns: torch.Tensor
    longest: int


class Ops(Protocol):
    """Operations of one backend. N rows, C hidden, H query heads, G key/value heads, D head size."""

    dtype: torch.dtype
    device: torch.device

    def layout(self, plan: Pass, kv_heads: Sequence[tuple[int, int]]) -> Layout:
        """Indexes and buffers for one pass; made once, used by every layer.

        `kv_heads` holds for each layer the number of its key/value heads and their size, (G, D).
        """
        ...

    def release(self, key: int) -> None:
        """Forget the keys and values kept for a tree. Unknown keys are no error."""
        ...

    def linear(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """`x @ weight.T`; x [N, K], weight [M, K] -> [N, M], in the model's dtype."""
        ...

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor | None, eps: float, *, cast_first: bool
    ) -> torch.Tensor:
        """Root-mean-square norm over the last axis, evaluated in float32; weight None means ones.

        `cast_first` casts to the model's dtype before the multiplication with weight (Llama);
        otherwise the product is made in float32 and cast last (Gemma).
        """
        ...

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotary embedding of the pairs (i, i + D/2); x [N, heads, D], cos and sin [N, D/2] float32."""
        ...

    def silu_gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`silu(gate) * up` of a fused [N, 2 I] projection -> [N, I]."""
        ...

    def gelu_tanh_gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`gelu_tanh(gate) * up` of a fused [N, 2 I] projection -> [N, I]."""
        ...

    def attention(
        self,
        layout: Layout,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        scale: float,
        window: int | None,
        reads_only: bool = False,
    ) -> torch.Tensor:
        """Tree attention; q [N, H, D], k and v [N, G, D] -> [N, H * D] in the model's dtype.

        A row sees the trunk keys at its own position and before, its ancestors and itself; with a
        window W only keys whose position is greater than its own minus W. float32 inside. With
        `reads_only` q holds the R read rows alone, and so does the result.
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
