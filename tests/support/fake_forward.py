"""A model without a model: log-probabilities that are a made-up function of the tokens so far.

Stands in for `spinf_serve.engine.pipeline.Forward`, and answers alone what a packed pass must
answer.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from spinf_serve.engine.pipeline import ReadBack, Started
from spinf_serve.engine.stats import DeviceMemory
from spinf_serve.engine.tree.packing import PackedPass


def next_logprobs(tokens: Sequence[int], vocab: int) -> np.ndarray:
    """[vocab] float32 log-probabilities of the token behind `tokens`."""
    seed = zlib.crc32(np.asarray(tokens, np.int64).tobytes())
    logits = np.random.default_rng(seed).normal(size=vocab) * 3
    logprobs: np.ndarray = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    return logprobs


@dataclass(slots=True, eq=False)
class FakeStarted:
    """A pass in flight: its place among all passes, and what `finish` will give."""

    number: int
    found: ReadBack
    layout_seconds: float = 0.0
    device_seconds: float = 0.0


class FakeForward:
    """Computes every read from the tokens on its path, as the plan lays them out.

    Passes are numbered from 0 as they are started. Like a device with one queue it runs them in
    that order: what is kept is kept, and released, in the order of the calls.

    Attributes:
        ahead: as in `Forward`.
        rows: rows of each pass that was run.
        calls: every start and finish with the number of its pass, in order; failed ones too.
        trees: keys of the trees that have a part in each pass, by its number.
        kept: trunk tokens kept for later passes, by tree.
        saved: trunk and path up to each saved row, by its place.
        most_kept: the most trees that were kept at once.
        cached_bytes: room for trunks that outlive their trees; a token takes one byte.
        nan_tokens: reads whose path holds one of these tokens give NaN.
        start_faults, finish_faults: raised instead of starting or finishing a pass, by its number.
        ended: whether the device has ended a pass that is in flight; at first, none.
    """

    def __init__(self, vocab: int, ahead: int = 0) -> None:
        self.vocab = vocab
        self.ahead = ahead
        self.rows: list[int] = []
        self.calls: list[tuple[str, int]] = []
        self.trees: list[set[int]] = []
        self.kept: dict[int, list[int]] = {}
        self.saved: dict[int, list[int]] = {}
        self._path_of: dict[int, list[int]] = {}
        self.most_kept = 0
        self.cached_bytes = 0
        self._reserved: dict[int, int] = {}
        self.nan_tokens: set[int] = set()
        self.start_faults: dict[int, Exception] = {}
        self.finish_faults: dict[int, Exception] = {}
        self.ended: Callable[[int], bool] = lambda number: False

    @property
    def in_flight(self) -> list[int]:
        """Numbers of the passes that were started and are not finished, in order."""
        started = [n for call, n in self.calls if call == "start" and n not in self.start_faults]
        finished = {n for call, n in self.calls if call == "finish"}
        return [n for n in started if n not in finished]

    def start(self, packed: PackedPass) -> FakeStarted:
        number = len(self.trees)
        self.calls.append(("start", number))
        self.trees.append({part.key for part in packed.plan.slices})
        for part in packed.plan.slices:
            if part.keep:
                # Room is made first: a pass that fails leaves it behind.
                self.kept.setdefault(part.key, [])
        self.most_kept = max(self.most_kept, len(self.kept))
        if number in self.start_faults:
            raise self.start_faults[number]
        started = FakeStarted(number, self.found(packed))
        if number in self.finish_faults:
            # What it wrote is as lost as what it read.
            for part in packed.plan.slices:
                if part.keep and part.trunk_rows:
                    self.kept[part.key][part.trunk_start :] = [-1] * part.trunk_rows
        return started

    def done(self, started: Started) -> bool:
        return self.ended(cast(FakeStarted, started).number)

    def finish(self, started: Started) -> ReadBack:
        own = cast(FakeStarted, started)
        self.calls.append(("finish", own.number))
        if own.number in self.finish_faults:
            raise self.finish_faults[own.number]
        return own.found

    def memory(self) -> DeviceMemory | None:
        return None

    def release(self, key: int) -> None:
        self.kept.pop(key, None)
        self._reserved.pop(key, None)

    def room_bytes(self, tokens: int) -> int | None:
        return tokens if tokens <= self.cached_bytes else None

    def reserve(self, key: int, tokens: int) -> bool:
        if sum(self._reserved.values()) + tokens > self.cached_bytes:
            return False
        assert key not in self._reserved and key not in self.kept
        self._reserved[key] = tokens
        return True

    def found(self, packed: PackedPass) -> ReadBack:
        """What a pass comes to."""
        plan = packed.plan
        columns = self.columns(packed)
        if plan.is_plain:
            return ReadBack(columns)
        path_of = self._path_of
        for row, place in zip(plan.save_rows.tolist(), plan.save_places.tolist(), strict=True):
            self.saved[place] = path_of[row]
        top = min(plan.top, self.vocab)
        ids = np.zeros((len(plan.top_reads), top), np.int32)
        best = np.full(ids.shape, np.nan, np.float32)
        for number, read in enumerate(plan.top_reads):
            path = path_of[int(plan.read_rows[read])]
            if not self.nan_tokens & set(path):
                logprobs = next_logprobs(path, self.vocab)
                ids[number] = np.argsort(-logprobs, kind="stable")[:top]
                best[number] = logprobs[ids[number]]
        return ReadBack(columns, ids, best)

    def columns(self, packed: PackedPass) -> np.ndarray:
        """[C] log-probabilities of a pass's columns."""
        plan = packed.plan
        self.rows.append(len(plan.tokens))
        # What a pass writes is there from the next one on.
        kept = dict(self.kept)
        trunks = []
        for part in plan.slices:
            here = plan.tokens[part.row_start : part.branch_start].tolist()
            before = kept.get(part.key, [])
            assert len(before) == part.trunk_start
            trunks.append(before + here)
            if part.keep:
                self.kept[part.key] = trunks[-1]
        path_of: dict[int, list[int]] = {}
        for rows, n, at in zip(plan.path_rows, plan.path_len, plan.path_slice, strict=True):
            tokens: list[int] = []
            for row in rows[:n].tolist():
                if row >= len(plan.tokens):
                    saved = self.saved[int(plan.ghosts[row - len(plan.tokens)])]
                    assert saved[:-1] == trunks[at] + tokens, "a ghost of another path"
                    tokens.append(saved[-1])
                else:
                    tokens.append(int(plan.tokens[row]))
                    path_of[row] = trunks[at] + tokens
        out = np.full(len(plan.columns), np.nan, np.float32)
        for n, row in enumerate(plan.read_rows):
            start, stop = plan.column_start[n : n + 2]
            logprobs = next_logprobs(path_of[int(row)], self.vocab)
            if not self.nan_tokens & set(path_of[int(row)]):
                out[start:stop] = logprobs[plan.columns[start:stop]]
        self._path_of = path_of
        return out
