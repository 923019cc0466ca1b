"""Rows that slots continue: what is saved and continued is what was there, in a launch or in steps."""

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine.kernels.tree_attention.saved import continued, save

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, PLACES = 5, 9


def _values(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, 3, 20, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def _ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize("ghosts", ((), (7, 0, 7)))
@pytest.mark.parametrize("saves", ((), ((4, 2), (0, 8))))
def test_ghosts_come_behind_the_rows_and_saved_rows_go_to_their_places(ghosts, saves):
    k, v = _values(ROWS, 1), _values(ROWS, 2)
    saved = _values(PLACES, 3), _values(PLACES, 4)
    before = [x.clone() for x in (k, v, *saved)]
    rows, places = (_ints(*(pair[n] for pair in saves)) for n in (0, 1))
    found = continued(k, v, saved, _ints(*ghosts), rows, places)
    for number in (0, 1):
        own, store = before[number], before[2 + number]
        assert torch.equal(found[number], torch.cat((own, store[list(ghosts)])))
        expected = store.clone()
        for row, place in saves:
            expected[place] = own[row]
        assert torch.equal(saved[number], expected)
    assert torch.equal(k, before[0])
    assert torch.equal(v, before[1])


def test_rows_are_saved_alone_too():
    k, v = _values(ROWS, 1), _values(ROWS, 2)
    saved = _values(PLACES, 3), _values(PLACES, 4)
    before = [x.clone() for x in (k, v, *saved)]
    save(k, v, saved, _ints(4, 2), _ints(0, 8))
    assert torch.equal(k, before[0])
    assert torch.equal(v, before[1])
    for own, store, found in zip(before, before[2:], saved, strict=False):
        store[[0, 8]] = own[[4, 2]]
        assert torch.equal(found, store)
    with pytest.raises(AssertionError, match="contiguous"):
        save(k.transpose(1, 2), v, saved, _ints(4), _ints(0))
