"""What tree attention is: a dense mask over the rows of one pass, in whatever dtype. The oracle.

Knows trunks that lie wholly in the pass; keys kept from earlier passes are a matter of backends.
"""

import numpy as np
import torch

from spinf_serve.engine.tree.plan import Pass


def visible(plan: Pass, window: int | None) -> torch.Tensor:
    """[N, N] bool: whether row i sees row j. Every row sees itself."""
    rows = len(plan.tokens)
    sees = np.zeros((rows, rows), bool)
    for part in plan.slices:
        if part.trunk_start or part.trunk_rows != part.trunk_len:
            raise AssertionError("the reference needs the whole trunk in the pass")
        trunk = slice(part.row_start, part.branch_start)
        sees[trunk, trunk] = np.tri(part.trunk_rows, dtype=bool)
        sees[part.branch_start : part.branch_start + part.branch_rows, trunk] = True
    for path, length in zip(plan.path_rows, plan.path_len, strict=True):
        for depth in range(int(length)):
            sees[path[depth], path[: depth + 1]] = True
    if window is not None:
        sees &= plan.positions[None, :] > plan.positions[:, None] - window
    return torch.from_numpy(sees)


def attention(
    plan: Pass,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """Attention over what `visible` says; q [N, H, D], k and v [N, G, D] -> [N, H * D]."""
    group = q.shape[1] // k.shape[1]
    keys, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("nhd,mhd->hnm", q, keys) * scale
    hidden = ~visible(plan, window)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    return torch.einsum("hnm,mhd->nhd", weights, values).flatten(1)
