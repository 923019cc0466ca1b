"""Passes against the trees they were made from: nothing lost, nothing read twice, budget kept."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.engine.tree.packing import Behind, Reads, Tree, new_tree, next_pass
from spinf_serve.engine.tree.plan import TRUNK_BLOCK
from spinf_serve.engine.tree.trie import build_trie

token = st.integers(0, 3)
paths = st.lists(
    st.lists(token, min_size=1, max_size=9).map(tuple), min_size=1, max_size=20, unique=True
)
trees = st.lists(
    st.tuples(st.integers(0, 200), st.lists(token, max_size=3), paths), min_size=1, max_size=5
)


def make(key, trunk_len, chain, sequences):
    trie = build_trie(sequences)
    nodes = np.unique(trie.end)
    counts = 1 + nodes % 3
    columns = np.arange(counts.sum(), dtype=np.int32) + 1000 * key
    reads = Reads(nodes, np.append(0, np.cumsum(counts)).astype(np.int32), columns)
    trunk = np.arange(trunk_len, dtype=np.int32) + 10_000 * (key + 1)
    return new_tree(key, trunk, np.array(chain, np.int32), trie, reads)


def all_passes(made, budget):
    waiting, out = deque(made), []
    while (packed := next_pass(waiting, budget)) is not None:
        at = 0
        for tree, take in zip(packed.trees, packed.take, strict=True):
            got = packed.plan.columns[at : at + take]
            tree.logprobs[tree.columns_done : tree.columns_done + take] = got
            tree.columns_done += take
            at += take
        out.append(packed)
    return out


@settings(deadline=None, max_examples=60)
@given(trees, st.integers(1, 300))
def test_every_column_comes_back_where_it_belongs(specs, budget):
    made = [make(key, *spec) for key, spec in enumerate(specs)]
    all_passes(made, budget)
    for tree in made:
        assert tree.finished
        assert tree.logprobs.tolist() == tree.reads.columns.tolist()


@settings(deadline=None, max_examples=60)
@given(trees, st.integers(1, 300))
def test_rows_spell_the_trees(specs, budget):
    made = [make(key, *spec) for key, spec in enumerate(specs)]
    trunk_seen = {tree.key: 0 for tree in made}
    spelled: dict[int, list[tuple[int, ...]]] = {tree.key: [] for tree in made}
    for packed in all_passes(made, budget):
        plan = packed.plan
        row = 0
        for part in plan.slices:
            tree = made[part.key]
            assert part.row_start == row
            assert part.trunk_start == trunk_seen[part.key]
            assert part.trunk_start % TRUNK_BLOCK == 0 or part.trunk_rows == 0
            stop = part.trunk_start + part.trunk_rows
            assert (
                plan.tokens[row : row + part.trunk_rows].tolist()
                == tree.trunk[part.trunk_start : stop].tolist()
            )
            assert plan.positions[row : part.branch_start].tolist() == list(
                range(part.trunk_start, stop)
            )
            trunk_seen[part.key] = stop
            if part.branch_rows:
                assert stop == len(tree.trunk)
            assert part.keep == (tree.trunk.size > 0 and not _last_slice(part, made, plan, packed))
            row = part.branch_start + part.branch_rows
        assert row == len(plan.tokens)
        owned = []
        for rows, n, own, at in zip(
            plan.path_rows, plan.path_len, plan.path_own, plan.path_slice, strict=True
        ):
            part = plan.slices[at]
            tree = made[part.key]
            tokens = tuple(plan.tokens[rows[:n]].tolist())
            assert tokens[: len(tree.chain)] == tuple(tree.chain.tolist())
            spelled[part.key].append(tokens[len(tree.chain) :])
            assert plan.positions[rows[:n]].tolist() == [part.trunk_len + d for d in range(n)]
            assert (rows[n:] == -1).all()
            owned += rows[own:n].tolist()
        branch = [
            r
            for part in plan.slices
            for r in range(part.branch_start, part.branch_start + part.branch_rows)
        ]
        assert sorted(owned) == branch
        assert sorted(plan.read_rows.tolist()) == plan.read_rows.tolist()
    for tree in made:
        assert trunk_seen[tree.key] == len(tree.trunk)
        leaves = [
            tuple(tree.trie.tokens[row[:n]].tolist())
            for row, n in zip(tree.trie.path_nodes, tree.trie.path_len, strict=True)
        ]
        assert spelled[tree.key] == leaves


def _last_slice(part, made, plan, packed):
    """Whether this slice holds the tree's last path (kept trunks are for slices that follow)."""
    last = made[part.key].trie.path_nodes[-1]
    tokens = tuple(made[part.key].trie.tokens[last[last >= 0]].tolist())
    chain = len(made[part.key].chain)
    here = [
        tuple(plan.tokens[rows[:n]].tolist())[chain:]
        for rows, n, at in zip(plan.path_rows, plan.path_len, plan.path_slice, strict=True)
        if plan.slices[at] is part
    ]
    return tokens in here


@settings(deadline=None, max_examples=60)
@given(trees, st.integers(80, 300))
def test_the_budget_holds_when_every_path_fits_it(specs, budget):
    made = [make(key, *spec) for key, spec in enumerate(specs)]
    assert all(len(packed.plan.tokens) <= budget for packed in all_passes(made, budget))


def test_splitting_a_wide_tree_costs_at_most_two_percent():
    rng = np.random.default_rng(0)
    sequences = [(7, 8, *rng.integers(0, 50, 14).tolist()) for _ in range(10_000)]
    tree = make(0, 466, [5], sequences)
    rows = sum(len(packed.plan.tokens) for packed in all_passes([tree], 2048))
    assert rows <= 1.02 * tree.packed_tokens


@pytest.mark.parametrize("chain", [100, 310, 399, 400, 5_000])
def test_a_stem_that_fills_the_budget_is_not_read_for_every_path(chain):
    paths = [(1, number, 2) for number in range(255)]
    tree = make(0, 20, range(chain), paths)
    passes = all_passes([tree], 400)
    own = tree.trie.nodes - 1
    assert tree.finished
    # A quarter of the budget holds 50 paths of two rows each.
    assert len(passes) <= 1 + -(-own // 100)
    longest = max(len(packed.plan.tokens) for packed in passes)
    assert longest <= max(400, chain + 1 + 100)


def test_a_cancelled_tree_leaves_the_queue():
    first, second = make(0, 100, [], [(1, 2)]), make(1, 100, [], [(1, 2)])
    first.cancelled = True
    packed = next_pass(deque([first, second]), 1000)
    assert packed is not None
    assert [part.key for part in packed.plan.slices] == [1]


def _slices(trunk_lens, budget):
    """For each pass the (tree, trunk rows) that lie in it."""
    made = [make(key, length, (), [(0, 1), (0, 2)]) for key, length in enumerate(trunk_lens)]
    passes = all_passes(made, budget)
    assert all(tree.finished for tree in made)
    return [[(part.key, part.trunk_rows) for part in one.plan.slices] for one in passes]


def test_a_nearly_full_pass_ends_before_a_tree_that_it_would_cut():
    assert _slices([97, 97, 97, 97], 390) == [[(0, 97), (1, 97), (2, 97)], [(3, 97)]]


def test_a_tree_is_cut_where_the_pass_would_be_far_from_full_or_the_tree_never_fits():
    assert _slices([197, 297], 400) == [[(0, 197), (1, 192)], [(1, 105)]]
    assert _slices([300, 500], 400) == [[(0, 300), (1, 64)], [(1, 384)], [(1, 52)]]


def step_of(key, trunk_len, behind, first_place):
    """A step of one row behind each list of places; each row wants as many columns as its number."""
    count = len(behind)
    longest = max(map(len, behind))
    starts = np.cumsum([0, *range(count)], dtype=np.int32)
    return Tree(
        key=key,
        trunk=np.arange(trunk_len, dtype=np.int32),
        chain=np.zeros(0, np.int32),
        trie=build_trie([(100 * key + number,) for number in range(count)]),
        reads=Reads(
            np.arange(count, dtype=np.int32),
            starts,
            np.arange(starts[-1], dtype=np.int32) + 1000 * key,
            np.arange(count, dtype=np.int32) % 3,
        ),
        logprobs=np.full(starts[-1], np.nan, np.float32),
        kept_key=key,
        is_begun=True,
        trunk_done=trunk_len,
        is_held=True,
        saves=np.arange(first_place, first_place + count, dtype=np.int32),
        behind=Behind(
            np.array([path + [-1] * (longest - len(path)) for path in behind], np.int32),
            np.array([len(path) for path in behind], np.int32),
        ),
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(st.lists(st.integers(1, 30), max_size=6, unique=True), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 20),
)
def test_each_row_of_a_step_ends_a_path_behind_the_places_it_continues(specs, budget):
    steps = [step_of(key, 5 + key, behind, 100 * key) for key, behind in enumerate(specs, 1)]
    beside = make(9, 3, [4], [(1, 2), (1, 3, 2)])
    seen: dict[int, list[list[int]]] = {step.key: [] for step in steps}
    for packed in all_passes([steps[0], beside, *steps[1:]], budget):
        plan = packed.plan
        assert plan.ghosts.tolist() == sorted(set(plan.ghosts.tolist()))
        assert plan.path_rows.shape[1] == plan.path_len.max(initial=0)
        places = dict(zip(plan.save_rows.tolist(), plan.save_places.tolist(), strict=True))
        counts = np.diff(plan.column_start)
        reads = dict(zip(plan.read_rows.tolist(), counts.tolist(), strict=True))
        tops = {plan.read_rows[read] for read in plan.top_reads}
        for rows, length, own, at in zip(
            plan.path_rows, plan.path_len, plan.path_own, plan.path_slice, strict=True
        ):
            part = plan.slices[at]
            assert (rows[length:] == -1).all()
            if part.key not in seen:
                continue
            number, row = len(seen[part.key]), int(rows[length - 1])
            assert own == length - 1
            assert plan.tokens[row] == 100 * part.key + number
            assert plan.positions[row] == part.trunk_len + own
            assert places[row] == 100 * part.key + number
            assert reads[row] == number
            assert (row in tops) == (number % 3 > 0)
            seen[part.key].append(plan.ghosts[rows[:own] - len(plan.tokens)].tolist())
    assert beside.finished
    assert list(seen.values()) == specs
    assert all(step.columns_done == len(step.reads.columns) for step in steps)
