"""Slots of one work on their way: what they ask becomes steps behind the work's tree, one by one.

A step is a tree of its own in the passes: it continues the trunk and the saved rows of the work, and
has one row for each continuation that is asked about. All slots of a work step together; a slot
never sees that it is not alone. Knows no text and no device.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Final

import numpy as np

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.steps import NO_COLUMNS, Ask, Seen, Slot
from spinf_serve.engine.scoring.compile import OpeningRead
from spinf_serve.engine.tree.packing import Behind, Reads, Tree
from spinf_serve.engine.tree.plan import IntArray
from spinf_serve.engine.tree.trie import Trie

Tokens = tuple[int, ...]

_NO_LOGPROBS: Final = np.zeros(0)


class Places:
    """Gives out the places where rows are saved; the lowest free ones first."""

    def __init__(self) -> None:
        # The first one is nobody's: what fills a recorded pass up lies there.
        self._made = 1
        self._free: list[int] = []

    @property
    def taken(self) -> int:
        """Places that hold something."""
        return self._made - 1 - len(self._free)

    def take(self, count: int) -> list[int]:
        """Places for some rows."""
        found = [heapq.heappop(self._free) for _ in range(min(count, len(self._free)))]
        fresh = range(self._made, self._made + count - len(found))
        self._made += len(fresh)
        return [*found, *fresh]

    def give_back(self, places: Iterable[int]) -> None:
        """What lies there is not read any more by passes that are yet to start."""
        for place in places:
            heapq.heappush(self._free, place)


@dataclass(slots=True, eq=False)
class _Run:
    """A slot behind one prompt.

    Attributes:
        slot: what asks.
        opening: where its prompt was read.
        prompt: places of the rows between the trunk and the slot.
        saved: places of the rows of each continuation that was asked last, the first token's first.
        asks: what it waits for.
    """

    slot: Slot
    opening: OpeningRead
    prompt: list[int] = field(default_factory=list)
    saved: dict[Tokens, list[int]] = field(default_factory=lambda: {(): []})
    asks: Sequence[Ask] = ()

    def forget(self) -> set[int]:
        """Of continuations that nothing continues: the places that no other one has."""
        kept = {ask.tokens[:-1] for ask in self.asks}
        gone = [self.saved.pop(tokens) for tokens in self.saved.keys() - kept]
        return set(chain(*gone)).difference(*self.saved.values()) if gone else set()


class Decoding:
    """The slots of one work, from the moment that its tree is queued."""

    def __init__(
        self,
        tree: Tree,
        openings: Sequence[OpeningRead],
        slots: Sequence[Slot],
        places: Places,
        vocab_size: int,
    ) -> None:
        """Takes places for the rows of the prompts; until `end` the tree's trunk is held.

        Args:
            vocab_size: of the tokenizer; a model may have further rows that stand for nothing.
        """
        self._vocab_size = vocab_size
        self._tree = tree
        self._places = places
        self._runs = [_Run(*pair) for pair in zip(slots, openings, strict=True)]
        self._prompt_places: list[int] = []
        self._save_prompts()
        tree.is_held = True

    @property
    def answers(self) -> list[SlotAnswers]:
        """What each slot gave; once no step follows."""
        return [run.slot.answers() for run in self._runs]

    def opened(self) -> None:
        """The tree was read: shows each slot what is behind its prompt."""
        tops = list(_top_reads(self._tree))
        for run in self._runs:
            columns = self._tree.logprobs[run.opening.columns].astype(np.float64)
            run.asks = run.slot.asks()
            read = None if run.opening.top_read is None else tops[run.opening.top_read]
            run.slot.take([self._seen(columns, run.asks[0].top, read)])
            run.asks = run.slot.asks()

    def step(self, key: int) -> Tree | None:
        """What is read next, as a tree of that key; None when every slot has ended."""
        for run in self._runs:
            self._places.give_back(run.forget())
        asks = [ask for run in self._runs for ask in run.asks]
        if not asks:
            return None
        places = self._places.take(len(asks))
        behind: list[list[int]] = []
        for run in self._runs:
            before = [run.saved[ask.tokens[:-1]] for ask in run.asks]
            own = places[len(behind) : len(behind) + len(before)]
            behind += [run.prompt + rows for rows in before]
            run.saved = {
                ask.tokens: [*rows, place]
                for ask, rows, place in zip(run.asks, before, own, strict=True)
            }
        return _step_tree(key, self._tree, asks, behind, places)

    def take(self, step: Tree) -> None:
        """A step was read: shows each slot what it asked for."""
        logprobs = step.logprobs.astype(np.float64)
        columns = (logprobs[a:b] for a, b in pairwise(step.reads.column_start.tolist()))
        tops = _top_reads(step)
        for run in self._runs:
            if run.asks:
                seen = [
                    self._seen(next(columns), ask.top, next(tops) if ask.top else None)
                    for ask in run.asks
                ]
                run.slot.take(seen)
                run.asks = run.slot.asks()

    def end(self) -> None:
        """Nobody waits for it any more: gives all places back."""
        self._tree.is_held = False
        self._places.give_back(self._prompt_places)
        self._prompt_places = []
        for run in self._runs:
            run.asks = ()
            self._places.give_back(run.forget())

    def _save_prompts(self) -> None:
        tree, chain = self._tree, len(self._tree.chain)
        paths = [_path(tree.trie, run.opening.node) for run in self._runs]
        nodes = np.unique(np.concatenate(paths))
        self._prompt_places = self._places.take(chain + len(nodes))
        saves = np.full(chain + tree.trie.nodes, -1, np.int32)
        saves[:chain] = self._prompt_places[:chain]
        saves[chain + nodes] = self._prompt_places[chain:]
        tree.saves = saves
        for run, path in zip(self._runs, paths, strict=True):
            run.prompt = [*self._prompt_places[:chain], *saves[chain + path].tolist()]

    def _seen(
        self, columns: np.ndarray, top: int, read: tuple[IntArray, np.ndarray] | None
    ) -> Seen:
        """Of the most probable tokens that were read those that stand for something."""
        if read is None:
            return Seen(columns, NO_COLUMNS, _NO_LOGPROBS)
        ids, logprobs = read
        ids = ids[:top]
        known = ids < self._vocab_size
        return Seen(columns, ids[known], logprobs[:top][known].astype(np.float64))


def _top_reads(tree: Tree) -> Iterator[tuple[IntArray, np.ndarray]]:
    """Most probable tokens and their log-probabilities, read by read of those that want them."""
    for ids, logprobs in zip(tree.top_ids, tree.top_logprobs, strict=True):
        yield from zip(ids, logprobs, strict=True)


def _path(trie: Trie, node: int) -> IntArray:
    """The nodes from the root to a node."""
    owner = int(np.searchsorted(trie.own_start, node, side="right")) - 1
    return trie.path_nodes[owner, : int(trie.depth[node]) + 1]


def _step_tree(
    key: int,
    tree: Tree,
    asks: Sequence[Ask],
    behind: Sequence[list[int]],
    places: Sequence[int],
) -> Tree:
    """One row for each ask, behind saved rows; each row is saved."""
    rows, start, zeros, ones = _counted(len(asks))
    lengths = [len(path) for path in behind]
    longest = max(lengths)
    wanted = [ask.columns for ask in asks]
    tokens, tops, length, saves = np.array(
        ([ask.tokens[-1] for ask in asks], [ask.top for ask in asks], lengths, places), np.int32
    )
    columns = np.concatenate(wanted, dtype=np.int32)
    return Tree(
        key=key,
        trunk=tree.trunk,
        chain=NO_COLUMNS,
        trie=Trie(
            tokens=tokens,
            depth=zeros,
            path_nodes=rows[:, None],
            path_len=ones,
            path_own=zeros,
            own_start=start,
            end=rows,
        ),
        reads=Reads(
            nodes=rows,
            column_start=np.array([0, *accumulate(map(len, wanted))], np.int32),
            columns=columns,
            tops=tops,
        ),
        logprobs=np.full(len(columns), np.nan, np.float32),
        kept_key=tree.kept_key,
        is_cached=tree.is_cached,
        is_begun=True,
        trunk_done=len(tree.trunk),
        is_held=True,
        saves=saves,
        behind=Behind(
            np.array([path + [-1] * (longest - len(path)) for path in behind], np.int32), length
        ),
    )


@lru_cache(maxsize=64)
def _counted(count: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """What trees of so many rows, each a path, have in common: 0 .. count - 1, the same with count,
    zeros and ones. Nobody writes to them."""
    start = np.arange(count + 1, dtype=np.int32)
    found = start[:-1], start, np.zeros(count, np.int32), np.ones(count, np.int32)
    for array in found:
        array.flags.writeable = False
    return found
