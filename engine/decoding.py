"""Slots of one work on their way: what they ask becomes steps behind the work's tree, one by one.

A step is a tree of its own in the passes: it continues the trunk and the saved rows of the work, and
has one row for each continuation that is asked about. All slots of a work step together; a slot
never sees that it is not alone. Knows no text and no device.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.steps import Ask, Seen, Slot
from spinf_serve.engine.scoring.compile import OpeningRead
from spinf_serve.engine.tree.packing import Behind, Reads, Tree
from spinf_serve.engine.tree.plan import IntArray
from spinf_serve.engine.tree.trie import Trie

Tokens = tuple[int, ...]


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

    def give_back(self, places: Sequence[int]) -> None:
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
        saved: place of the last row of each continuation that may go on.
        asks: what it waits for.
    """

    slot: Slot
    opening: OpeningRead
    prompt: list[int] = field(default_factory=list)
    saved: dict[Tokens, int] = field(default_factory=dict)
    asks: Sequence[Ask] = ()

    def behind(self, tokens: Tokens) -> list[int]:
        """Places of the rows before the last one of a continuation."""
        return self.prompt + [self.saved[tokens[:length]] for length in range(1, len(tokens))]


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
        for run in self._runs:
            columns = self._tree.logprobs[run.opening.columns].astype(np.float64)
            run.asks = run.slot.asks()
            top = run.asks[0].top
            run.slot.take([self._seen(self._tree, columns, run.opening.top_read, top)])
            run.asks = run.slot.asks()

    def step(self, key: int) -> Tree | None:
        """What is read next, as a tree of that key; None when every slot has ended."""
        for run in self._runs:
            self._forget(run)
        asked = [(run, ask) for run in self._runs for ask in run.asks]
        if not asked:
            return None
        behind = [run.behind(ask.tokens) for run, ask in asked]
        places = self._places.take(len(asked))
        for (run, ask), place in zip(asked, places, strict=True):
            run.saved[ask.tokens] = place
        return _step_tree(key, self._tree, [ask for _, ask in asked], behind, places)

    def take(self, step: Tree) -> None:
        """A step was read: shows each slot what it asked for."""
        asked = [ask for run in self._runs for ask in run.asks]
        seen = iter(list(self._seen_of(step, asked)))
        for run in self._runs:
            if run.asks:
                run.slot.take([next(seen) for _ in run.asks])
                run.asks = run.slot.asks()

    def end(self) -> None:
        """Nobody waits for it any more: gives all places back."""
        self._tree.is_held = False
        self._places.give_back(self._prompt_places)
        self._prompt_places = []
        for run in self._runs:
            self._places.give_back(list(run.saved.values()))
            run.saved.clear()
            run.asks = ()

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

    def _forget(self, run: _Run) -> None:
        """Gives back the places of continuations that nothing continues."""
        needed = {ask.tokens[:length] for ask in run.asks for length in range(1, len(ask.tokens))}
        gone = [tokens for tokens in run.saved if tokens not in needed]
        self._places.give_back([run.saved.pop(tokens) for tokens in gone])

    def _seen_of(self, step: Tree, asked: Sequence[Ask]) -> Iterator[Seen]:
        start = step.reads.column_start.tolist()
        logprobs = step.logprobs.astype(np.float64)
        top_reads = 0
        for number, ask in enumerate(asked):
            columns = logprobs[start[number] : start[number + 1]]
            yield self._seen(step, columns, top_reads if ask.top else None, ask.top)
            top_reads += ask.top > 0

    def _seen(self, tree: Tree, columns: np.ndarray, top_read: int | None, top: int) -> Seen:
        ids, logprobs = np.zeros(0, np.int32), np.zeros(0)
        if top_read is not None:
            for part_ids, part_logprobs in zip(tree.top_ids, tree.top_logprobs, strict=True):
                if top_read < len(part_ids):
                    ids = part_ids[top_read, :top]
                    logprobs = part_logprobs[top_read, :top].astype(np.float64)
                    break
                top_read -= len(part_ids)
        known = ids < self._vocab_size
        return Seen(columns, ids[known], logprobs[known])


def _path(trie: Trie, node: int) -> IntArray:
    """The nodes from the root to a node."""
    owner = int(np.searchsorted(trie.own_start, node, side="right")) - 1
    return trie.path_nodes[owner, : int(trie.depth[node]) + 1]


def _step_tree(
    key: int,
    tree: Tree,
    asks: Sequence[Ask],
    behind: Sequence[Sequence[int]],
    places: Sequence[int],
) -> Tree:
    """One row for each ask, behind saved rows; each row is saved."""
    count = len(asks)
    rows = np.arange(count, dtype=np.int32)
    trie = Trie(
        tokens=np.array([ask.tokens[-1] for ask in asks], np.int32),
        depth=np.zeros(count, np.int32),
        path_nodes=rows[:, None],
        path_len=np.ones(count, np.int32),
        path_own=np.zeros(count, np.int32),
        own_start=np.arange(count + 1, dtype=np.int32),
        end=rows,
    )
    length = np.array([len(path) for path in behind], np.int32)
    grid = np.full((count, int(length.max())), -1, np.int32)
    for number, path in enumerate(behind):
        grid[number, : len(path)] = path
    columns = np.concatenate([ask.columns for ask in asks])
    reads = Reads(
        nodes=rows,
        column_start=np.cumsum([0, *(len(ask.columns) for ask in asks)], dtype=np.int32),
        columns=columns.astype(np.int32),
        tops=np.array([ask.top for ask in asks], np.int32),
    )
    return Tree(
        key=key,
        trunk=tree.trunk,
        chain=np.zeros(0, np.int32),
        trie=trie,
        reads=reads,
        logprobs=np.full(len(columns), np.nan, np.float32),
        kept_key=tree.kept_key,
        is_cached=tree.is_cached,
        is_begun=True,
        trunk_done=len(tree.trunk),
        is_held=True,
        saves=np.array(places, np.int32),
        behind=Behind(grid, length),
    )
