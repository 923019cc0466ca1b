"""Keys and values that stay on a card: what continues them reads the same bits, within their bytes."""

import dataclasses
from itertools import count, takewhile

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.models import registry
from tests.engine.kernels.test_gpu_models import (
    DEVICE,
    PLAIN,
    _checkpoint,
    _model,
    _parts,
    _pass,
    _read,
    _spec,
    rows_apart,
)
from tests.support.oracles import nan_memory

__all__ = ["rows_apart"]


def _with_room(trunks: int):
    """A model of its own, with room for so many usual trunks or more of short ones."""
    ops = GpuOps(torch.float32, DEVICE, PLAIN)
    model = registry.build(_spec("gemma4"), _checkpoint("gemma4", False), ops)
    ops.keep_up_to(trunks * _limit(model), model.shapes)
    return model


def _limit(model) -> int:
    """Bytes of keys and values of 1,024 tokens in float32, in every layer."""
    return sum(2 * 1024 * shape.kv_heads * shape.head_dim * 4 for shape in model.shapes)


def _filled(ops) -> list[int]:
    """Keys of the rooms of one block that there were."""
    return list(takewhile(lambda key: ops.reserve(key, 64), count(-100, -1)))


@pytest.mark.usefixtures("rows_apart")
def test_trees_that_continue_a_kept_trunk_read_what_they_read_alone():
    """Between them a tree is laid out that there is no room for, so that the pools grow."""
    model, (part, other) = _with_room(1), _parts((20, 70))
    ops = model.ops
    assert ops.reserve(-1, 20)
    assert _filled(ops)
    kept = dataclasses.replace(part, key=-1, keep=True)
    sides = [
        dataclasses.replace(kept, trunk_start=20, paths=paths)
        for paths in (part.paths, part.paths[1:])
    ]
    with nan_memory():
        (first,) = _read(
            model, _pass(dataclasses.replace(kept, paths=kept.paths[:1])), release=False
        )
        capacity = [pool._rooms.capacity for pool in ops._pools]
        model.layout(_pass(dataclasses.replace(other, paths=(), trunk_end=64, keep=True)))
        grown = [pool._rooms.capacity for pool in ops._pools]
        (later,) = _read(model, _pass(*sides), release=False)
        (alone,) = _read(_model("gemma4"), _pass(part))
    assert any(after > before for before, after in zip(capacity, grown, strict=True))
    # By what was wanted, not by half of what was set aside.
    assert all(after - before <= 128 for before, after in zip(capacity, grown, strict=True))
    assert torch.equal(first, alone[:1])
    assert torch.equal(later, torch.cat((alone, alone[1:])))


def test_rooms_lie_in_what_was_set_aside_once():
    model = _with_room(2)
    ops = model.ops
    taken = [(pool._rooms.capacity, pool.kept(0)) for pool in ops._pools]
    nbytes = sum(
        tensor.nbytes
        for pool in ops._pools
        for kept in pool._kept
        for tensor in (kept.keys, kept.values)
    )
    assert 0.9 * 2 * _limit(model) < nbytes <= 2 * _limit(model)
    one = ops.room_bytes(64)
    assert one is not None
    assert ops.room_bytes(10_000) is None
    keys = _filled(ops)
    assert 0 < len(keys) * one <= nbytes
    # A room that was refused by one kind of layers takes nothing in the others.
    assert not ops.reserve(-31, 64)
    assert all(-31 not in pool.taken for pool in ops._pools)
    ops.release(keys[1])
    assert ops.reserve(-31, 64)
    assert taken == [(pool._rooms.capacity, pool.kept(0)) for pool in ops._pools]


def test_nothing_is_set_aside_where_nothing_is_to_stay():
    ops = _with_room(0).ops
    assert ops.room_bytes(1) is None
    assert not ops.reserve(-1, 1)
    assert all(pool.kept(0) is None for pool in ops._pools)
