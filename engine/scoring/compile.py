"""Questions and slots to tries and reads. Knows tokens and option spellings, no device and no wire
format.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain as chained
from itertools import pairwise

import numpy as np

from spinf_serve.engine.text.joins import PromptTokens
from spinf_serve.engine.tree.packing import Reads
from spinf_serve.engine.tree.plan import IntArray
from spinf_serve.engine.tree.trie import Trie, build_trie


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """Where a slot begins, and what is read there.

    Attributes:
        path: token ids before the slot, behind the trunk.
        columns: [C] token ids whose log-probability is wanted, each once.
        top: how many of the most probable tokens are wanted besides.
        max_tokens: of what may stand in the slot.
    """

    path: tuple[int, ...]
    columns: IntArray
    top: int
    max_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class OpeningRead:
    """Where in a forest an opening is read.

    Attributes:
        node: of the trie, at which its path ends.
        columns: [C] where its columns are among those of the forest.
        top_read: which of the reads that want the most probable tokens; None where it wants none.
    """

    node: int
    columns: IntArray
    top_read: int | None


@dataclass(frozen=True, eq=False)
class Forest:
    """Compiled prompts as one trie: Q prompts, O options, S spellings, E steps, C wanted columns.

    A *spelling* is one token path of an option; its log-probability is the sum of the columns of
    its steps. An option is the log-sum-exp of its spellings.

    Attributes:
        trie: all prompts and the lead-in tokens of multi-token options.
        reads: the wanted columns.
        step_columns: [E] column of every step of every spelling, spellings in order.
        spelling_start: [S + 1] first step of each spelling.
        option_start: [O + 1] first spelling of each option.
        prompt_start: [Q + 1] first option of each prompt.
        longest_tokens: the most tokens that one prompt with one option, or what stands in a slot,
            takes.
        openings: of the slots.
    """

    trie: Trie
    reads: Reads
    step_columns: IntArray
    spelling_start: IntArray
    option_start: IntArray
    prompt_start: IntArray
    longest_tokens: int
    openings: tuple[OpeningRead, ...] = ()

    @cached_property
    def single_read(self) -> list[bool]:
        """[Q] whether every spelling of a prompt's options is one token."""
        if len(self.prompt_start) == 1:
            return []
        steps = np.diff(self.spelling_start)
        longest = np.maximum.reduceat(steps, self.option_start[self.prompt_start[:-1]])
        return [bool(n == 1) for n in longest]


def build_forest(
    prompts: Sequence[PromptTokens],
    before: Sequence[tuple[int, ...]],
    openings: Sequence[Opening] = (),
) -> Forest:
    """One trie of all prompts and openings.

    Args:
        before: `before[i]` are tokens that stand before prompt i's own path.
        openings: of slots, with what stands before them in their paths.
    """
    sequences: list[tuple[int, ...]] = []
    index: dict[tuple[int, ...], int] = {}
    step_sequence: list[int] = []
    step_token: list[int] = []
    for prompt, lead in zip(prompts, before, strict=True):
        path = lead + prompt.path
        for spelling in chained.from_iterable(prompt.options):
            for n, token in enumerate(spelling):
                at = path + spelling[:n] if n else path
                place = index.get(at)
                if place is None:
                    place = index[at] = len(sequences)
                    sequences.append(at)
                step_sequence.append(place)
                step_token.append(token)
    asked = [len(step_token)]
    tops: dict[int, int] = {}
    for opening in openings:
        place = index.get(opening.path)
        if place is None:
            place = index[opening.path] = len(sequences)
            sequences.append(opening.path)
        step_sequence += [place] * len(opening.columns)
        step_token += opening.columns.tolist()
        asked.append(len(step_token))
        tops[place] = max(opening.top, tops.get(place, 0))
    trie = build_trie(sequences)
    reads, columns = _reads(
        trie, np.array(step_sequence, np.int64), np.array(step_token, np.int32), tops
    )
    per_spelling = [len(s) for p in prompts for o in p.options for s in o]
    return Forest(
        trie=trie,
        reads=reads,
        step_columns=columns[: asked[0]],
        spelling_start=_starts(per_spelling),
        option_start=_starts([len(o) for p in prompts for o in p.options]),
        prompt_start=_starts([len(p.options) for p in prompts]),
        longest_tokens=max(
            [
                len(lead) + len(p.path) + max(len(s) for o in p.options for s in o)
                for lead, p in zip(before, prompts, strict=True)
            ]
            + [len(opening.path) + opening.max_tokens for opening in openings]
        ),
        openings=tuple(
            _opening_read(int(trie.end[index[opening.path]]), reads, columns[start:end])
            for opening, (start, end) in zip(openings, pairwise(asked), strict=True)
        ),
    )


def _reads(
    trie: Trie, step_sequence: np.ndarray, step_token: IntArray, tops: Mapping[int, int]
) -> tuple[Reads, IntArray]:
    """The distinct (node, token) pairs in node order, and the pair of every step.

    Args:
        tops: by sequence, how many of the most probable tokens are wanted at its end.
    """
    node = trie.end[step_sequence].astype(np.int64)
    pairs, step_columns = np.unique(node << 32 | step_token, return_inverse=True)
    wanted = {int(trie.end[sequence]): top for sequence, top in tops.items()}
    nodes = np.union1d(pairs >> 32, np.array(list(wanted), np.int64))
    reads = Reads(
        nodes=nodes.astype(np.int32),
        column_start=np.append(np.searchsorted(pairs >> 32, nodes), len(pairs)).astype(np.int32),
        columns=(pairs & 0xFFFFFFFF).astype(np.int32),
        tops=np.array([wanted.get(at, 0) for at in nodes.tolist()], np.int32) if wanted else None,
    )
    return reads, step_columns.astype(np.int32)


def _opening_read(node: int, reads: Reads, columns: IntArray) -> OpeningRead:
    read = int(np.searchsorted(reads.nodes, node))
    if reads.tops is None or not reads.tops[read]:
        return OpeningRead(node, columns, None)
    return OpeningRead(node, columns, int(np.count_nonzero(reads.tops[:read])))


def _starts(counts: list[int]) -> IntArray:
    starts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    return starts
