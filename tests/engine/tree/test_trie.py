"""The trie against a dictionary of prefixes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.engine.tree.trie import build_trie

sequences = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=7).map(tuple), min_size=1, max_size=30
)


@given(sequences)
def test_every_distinct_prefix_is_one_node(given_sequences):
    trie = build_trie(given_sequences)
    prefixes = {s[:n] for s in given_sequences for n in range(1, len(s) + 1)}
    assert trie.nodes == len(prefixes)


@given(sequences)
def test_paths_spell_the_sequences_that_no_other_continues(given_sequences):
    trie = build_trie(given_sequences)
    spelled = [
        tuple(trie.tokens[row[:n]].tolist())
        for row, n in zip(trie.path_nodes, trie.path_len, strict=True)
    ]
    distinct = set(given_sequences)
    leaves = {s for s in distinct if not any(o != s and o[: len(s)] == s for o in distinct)}
    assert spelled == sorted(leaves)
    for row, n in zip(trie.path_nodes, trie.path_len, strict=True):
        assert trie.depth[row[:n]].tolist() == list(range(n))
        assert (row[n:] == -1).all()


@given(sequences)
def test_each_node_is_owned_once_and_in_order(given_sequences):
    trie = build_trie(given_sequences)
    owned = [
        row[own:n]
        for row, own, n in zip(trie.path_nodes, trie.path_own, trie.path_len, strict=True)
    ]
    assert np.concatenate(owned).tolist() == list(range(trie.nodes))
    assert trie.own_start.tolist() == [0, *np.cumsum([len(o) for o in owned]).tolist()]


@given(sequences)
def test_ends_spell_each_sequence(given_sequences):
    trie = build_trie(given_sequences)
    for sequence, node in zip(given_sequences, trie.end, strict=True):
        on_path = next(row for row in trie.path_nodes if node in row)
        assert tuple(trie.tokens[on_path[: len(sequence)]].tolist()) == sequence
        assert on_path[len(sequence) - 1] == node


@given(sequences, st.randoms())
def test_the_order_of_questions_leaves_no_trace(given_sequences, random):
    shuffled = list(given_sequences)
    random.shuffle(shuffled)
    a, b = build_trie(given_sequences), build_trie(shuffled)
    assert a.tokens.tolist() == b.tokens.tolist()
    assert a.path_nodes.tolist() == b.path_nodes.tolist()


def test_an_empty_sequence_is_our_own_mistake():
    with pytest.raises(AssertionError, match="at least one token"):
        build_trie([()])
