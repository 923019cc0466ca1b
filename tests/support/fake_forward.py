"""A model without a model: log-probabilities that are a made-up function of the tokens so far.

Stands in for `spinf_serve.engine.api.Forward`, and answers alone what a packed pass must answer.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from spinf_serve.engine.tree.packing import PackedPass


def next_logprobs(tokens: Sequence[int], vocab: int) -> np.ndarray:
    """[vocab] float32 log-probabilities of the token behind `tokens`."""
    seed = zlib.crc32(np.asarray(tokens, np.int64).tobytes())
    logits = np.random.default_rng(seed).normal(size=vocab) * 3
    logprobs: np.ndarray = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    return logprobs


class FakeForward:
    """Computes every read from the tokens on its path, as the plan lays them out.

    Attributes:
        rows: rows of each pass that was run.
        kept: trunk tokens kept for later passes, by tree.
        nan_tokens: reads whose path holds one of these tokens give NaN.
        broken: raises instead of computing.
    """

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab
        self.rows: list[int] = []
        self.kept: dict[int, list[int]] = {}
        self.nan_tokens: set[int] = set()
        self.broken = False

    def run(self, packed: PackedPass) -> tuple[np.ndarray, float]:
        if self.broken:
            raise MemoryError("no memory")
        plan = packed.plan
        self.rows.append(len(plan.tokens))
        trunks = []
        for part in plan.slices:
            here = plan.tokens[part.row_start : part.branch_start].tolist()
            before = self.kept.get(part.key, [])
            assert len(before) == part.trunk_start
            trunks.append(before + here)
            if part.keep:
                self.kept[part.key] = trunks[-1]
        path_of = {}
        for rows, n, at in zip(plan.path_rows, plan.path_len, plan.path_slice, strict=True):
            for depth in range(n):
                path_of[int(rows[depth])] = trunks[at] + plan.tokens[rows[: depth + 1]].tolist()
        out = np.full(len(plan.columns), np.nan, np.float32)
        for n, row in enumerate(plan.read_rows):
            start, stop = plan.column_start[n : n + 2]
            logprobs = next_logprobs(path_of[int(row)], self.vocab)
            if not self.nan_tokens & set(path_of[int(row)]):
                out[start:stop] = logprobs[plan.columns[start:stop]]
        return out, 0.0

    def release(self, key: int) -> None:
        self.kept.pop(key, None)
