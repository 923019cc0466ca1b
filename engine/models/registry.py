"""Which families are served, and how a model of one is built. Knows no file format and no device."""

from collections.abc import Sequence
from typing import Protocol

import torch

from spinf_serve.engine.kernels.ops import LayerShape, Layout, Ops
from spinf_serve.engine.models.decoder import Decoder
from spinf_serve.engine.models.families import FAMILIES
from spinf_serve.engine.models.spec import Checkpoint, ModelSpec
from spinf_serve.engine.tree.plan import Pass
from spinf_serve.packs.errors import Unusable


class Model(Protocol):
    """A loaded model. R read rows, C hidden size.

    Attributes:
        spec: its sizes.
        ops: its backend.
        shapes: attention of each layer.
    """

    spec: ModelSpec
    ops: Ops
    shapes: Sequence[LayerShape]

    @property
    def tables(self) -> list[torch.Tensor]:
        """Tensors that `forward` reads and a longer pass replaces."""
        ...

    def layout(self, plan: Pass) -> Layout:
        """A pass made ready for `forward`."""
        ...

    def forward(self, layout: Layout) -> torch.Tensor:
        """Hidden states of the pass's read rows after the final norm, [R, C]."""
        ...

    def read(
        self, hidden: torch.Tensor, column_start: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        """Natural log-probabilities of the wanted columns, [columns] float32.

        Columns of read row r are `columns[column_start[r] : column_start[r + 1]]`; a layout holds
        both for its pass.
        """
        ...

    def read_with_top(
        self, layout: Layout, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What `read` gives for a layout; then ids and log-probabilities [T, top] of the most
        probable tokens of its top reads, see `Ops.read_with_top`.
        """
        ...


def build(spec: ModelSpec, checkpoint: Checkpoint, ops: Ops) -> Model:
    """Loads a model's weights.

    Raises `Unusable` when the family is unknown, lacks something that the spec asks for, or when
    the checkpoint does not hold exactly the tensors of such a model.
    """
    family = FAMILIES.get(spec.family)
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise Unusable(f"model family {spec.family!r} is not served; known families: {known}")
    return Decoder(family, spec, checkpoint, ops)
