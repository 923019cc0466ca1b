"""Columns to answers: chain rule, spellings, softmax, residual; and no trace of the neighbours."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.engine.scoring.compile import build_forest
from spinf_serve.engine.scoring.read import read_scores
from spinf_serve.engine.text.joins import PromptTokens


def prompt(path, *options):
    return PromptTokens(
        path=tuple(path),
        options=tuple(tuple(tuple(s) for s in spellings) for spellings in options),
        query_tokens=len(path),
        template_tokens=len(path),
        single_read=all(len(s) == 1 for o in options for s in o),
        merged=True,
        border=0,
        tokens_behind=0,
    )


def columns_of(forest, table):
    """Fills every wanted column from {(tokens so far): {token: p}}."""
    prefix = {}
    for row, n in zip(forest.trie.path_nodes, forest.trie.path_len, strict=True):
        for depth in range(n):
            prefix[int(row[depth])] = tuple(forest.trie.tokens[row[: depth + 1]].tolist())
    out = np.empty(len(forest.reads.columns), np.float32)
    for n, node in enumerate(forest.reads.nodes):
        for at in range(*forest.reads.column_start[n : n + 2]):
            out[at] = math.log(table[prefix[int(node)]][int(forest.reads.columns[at])])
    return out


def test_an_option_is_the_sum_of_its_spellings_and_a_spelling_the_product_of_its_steps():
    table = {(1,): {5: 0.5, 6: 0.2, 7: 0.1}, (1, 5): {8: 0.25}}
    asked = prompt([1], [[5, 8], [6]], [[7]])
    scores = read_scores(forest := build_forest([asked], [()]), columns_of(forest, table))
    first, second = 0.5 * 0.25 + 0.2, 0.1
    assert np.exp(scores.logprob) == pytest.approx([first, second], rel=1e-6)
    assert scores.p == pytest.approx([first / (first + second), second / (first + second)])
    assert scores.residual == pytest.approx([1 - first - second])
    assert forest.single_read == [False]


def test_a_prefix_option_holds_the_mass_of_its_continuation_and_the_residual_stops_at_zero():
    table = {(1,): {5: 0.9}, (1, 5): {8: 0.5}}
    asked = prompt([1], [[5]], [[5, 8]])
    scores = read_scores(forest := build_forest([asked], [()]), columns_of(forest, table))
    assert np.exp(scores.logprob) == pytest.approx([0.9, 0.45])
    assert scores.residual.tolist() == [0.0]


def test_one_option_has_p_of_one():
    asked = prompt([1], [[5]])
    forest = build_forest([asked], [()])
    assert read_scores(forest, columns_of(forest, {(1,): {5: 0.01}})).p.tolist() == [1.0]


def test_thirty_options_that_share_their_first_token_are_told_apart():
    asked = prompt([1], *[[[5, n]] for n in range(10, 40)], [[6]])
    table = {(1,): {5: 0.8, 6: 0.2}, (1, 5): {n: (n - 9) / 465 for n in range(10, 40)}}
    forest = build_forest([asked], [()])
    scores = read_scores(forest, columns_of(forest, table))
    assert scores.p[:30] == pytest.approx([0.8 * (n - 9) / 465 for n in range(10, 40)])
    assert scores.residual == pytest.approx([0.0], abs=1e-6)


many = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=4),
        st.lists(
            st.lists(st.lists(st.integers(4, 9), min_size=1, max_size=3), min_size=1, max_size=3),
            min_size=1,
            max_size=5,
        ),
    ),
    min_size=2,
    max_size=9,
)


@given(many, st.integers(0, 2**32 - 1))
def test_a_prompt_among_others_has_the_bits_it_has_alone(specs, seed):
    def made_up(forest):
        prefix = {}
        for row, n in zip(forest.trie.path_nodes, forest.trie.path_len, strict=True):
            for depth in range(n):
                prefix[int(row[depth])] = tuple(forest.trie.tokens[row[: depth + 1]].tolist())
        out = np.empty(len(forest.reads.columns), np.float32)
        for n, node in enumerate(forest.reads.nodes):
            for at in range(*forest.reads.column_start[n : n + 2]):
                key = (*prefix[int(node)], int(forest.reads.columns[at]), seed)
                out[at] = -(hash(key) % 100_003) / 9_973
        return out

    prompts = [prompt(path, *options) for path, options in specs]
    forest = build_forest(prompts, [()] * len(prompts))
    together = read_scores(forest, made_up(forest))
    for n, one in enumerate(prompts):
        single = build_forest([one], [()])
        alone = read_scores(single, made_up(single))
        options = slice(*forest.prompt_start[n : n + 2])
        assert together.logprob[options].tobytes() == alone.logprob.tobytes()
        assert together.p[options].tobytes() == alone.p.tobytes()
        assert together.residual[n : n + 1].tobytes() == alone.residual.tobytes()
