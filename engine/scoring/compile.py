"""Questions to tries and reads. Knows tokens and option spellings, no device and no wire format."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain as chained

import numpy as np

from spinf_serve.engine.text.joins import PromptTokens
from spinf_serve.engine.tree.packing import Reads
from spinf_serve.engine.tree.plan import IntArray
from spinf_serve.engine.tree.trie import Trie, build_trie


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
        longest_tokens: the most tokens that one prompt with one option takes.
    """

    trie: Trie
    reads: Reads
    step_columns: IntArray
    spelling_start: IntArray
    option_start: IntArray
    prompt_start: IntArray
    longest_tokens: int

    @cached_property
    def single_read(self) -> list[bool]:
        """[Q] whether every spelling of a prompt's options is one token."""
        steps = np.diff(self.spelling_start)
        longest = np.maximum.reduceat(steps, self.option_start[self.prompt_start[:-1]])
        return [bool(n == 1) for n in longest]


def build_forest(prompts: Sequence[PromptTokens], before: Sequence[tuple[int, ...]]) -> Forest:
    """One trie of all prompts; `before[i]` are tokens that stand before prompt i's own path."""
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
    trie = build_trie(sequences)
    reads, step_columns = _reads(trie, np.array(step_sequence), np.array(step_token, np.int32))
    per_spelling = [len(s) for p in prompts for o in p.options for s in o]
    return Forest(
        trie=trie,
        reads=reads,
        step_columns=step_columns,
        spelling_start=_starts(per_spelling),
        option_start=_starts([len(o) for p in prompts for o in p.options]),
        prompt_start=_starts([len(p.options) for p in prompts]),
        longest_tokens=max(
            len(lead) + len(p.path) + max(len(s) for o in p.options for s in o)
            for lead, p in zip(before, prompts, strict=True)
        ),
    )


def _reads(trie: Trie, step_sequence: np.ndarray, step_token: IntArray) -> tuple[Reads, IntArray]:
    """The distinct (node, token) pairs in node order, and the pair of every step."""
    node = trie.end[step_sequence].astype(np.int64)
    pairs, step_columns = np.unique(node << 32 | step_token, return_inverse=True)
    nodes, column_start = np.unique(pairs >> 32, return_index=True)
    reads = Reads(
        nodes=nodes.astype(np.int32),
        column_start=np.append(column_start, len(pairs)).astype(np.int32),
        columns=(pairs & 0xFFFFFFFF).astype(np.int32),
    )
    return reads, step_columns.astype(np.int32)


def _starts(counts: list[int]) -> IntArray:
    starts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    return starts
