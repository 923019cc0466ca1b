"""Unpacked weights against the reference package's own unpacking, on random blocks."""

import gguf
import numpy as np
import pytest
import torch

from spinf_serve.engine.loading.dequantize import PIECE, supported, unpack
from spinf_serve.engine.loading.gguf import TENSOR_TYPES, TensorType
from spinf_serve.packs.errors import Unusable

_BY_NAME = {kind.name: kind for kind in TENSOR_TYPES.values()}


def random_blocks(kind: TensorType, count: int, seed: int) -> np.ndarray:
    """[count * size] random bytes whose scales are finite and of ordinary size."""
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 256, (count, kind.size), dtype=np.uint8)
    if kind.name == "F32":
        return rng.normal(size=count).astype("<f4").view(np.uint8)
    if kind.name == "F16":
        return rng.normal(size=count).astype("<f2").view(np.uint8)
    if kind.name == "BF16":
        high = rng.normal(size=count).astype("<f4").view("<u4") >> 16
        return high.astype("<u2").view(np.uint8)
    where = {"Q8_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}
    for start in where[kind.name]:
        scales = rng.normal(size=(count, 1)).astype("<f2")
        packed[:, start : start + 2] = scales.view(np.uint8)
    return packed.ravel()


@pytest.mark.parametrize("name", supported())
@pytest.mark.parametrize("weights", [256, 3 * 256, PIECE + 256, 5 * PIECE])
def test_every_supported_type_matches_the_reference_bit_for_bit(name, weights):
    kind = _BY_NAME[name]
    packed = random_blocks(kind, weights // kind.block, seed=weights)
    expected = gguf.dequantize(packed, gguf.GGMLQuantizationType[name]).ravel()
    out = torch.full((weights,), float("nan"))
    unpack(kind, "w", torch.from_numpy(packed), out)
    assert np.isfinite(expected).all()
    assert np.array_equal(out.numpy(), expected)


@pytest.mark.parametrize("name", supported())
def test_bfloat16_is_float32_rounded_once(name):
    kind = _BY_NAME[name]
    packed = torch.from_numpy(random_blocks(kind, 512 * 256 // kind.block, seed=1))
    wide = torch.full((512, 256), float("nan"))
    narrow = torch.full((512, 256), float("nan"), dtype=torch.bfloat16)
    unpack(kind, "w", packed, wide)
    unpack(kind, "w", packed, narrow)
    assert torch.equal(narrow, wide.to(torch.bfloat16))


def test_the_values_of_one_known_block():
    block = np.zeros(20, np.uint8)
    block[:4] = np.array([0.5, -1.0], "<f2").view(np.uint8)
    block[4] = 0xF3
    out = torch.empty(32)
    unpack(_BY_NAME["Q4_1"], "w", torch.from_numpy(block), out)
    assert (out[0].item(), out[16].item(), out[1].item()) == (0.5, 6.5, -1.0)


@pytest.mark.parametrize("name", sorted(set(_BY_NAME) - set(supported())))
def test_another_type_is_refused_with_its_name_and_the_tensor(name):
    kind = _BY_NAME[name]
    packed = torch.zeros(kind.size, dtype=torch.uint8)
    with pytest.raises(Unusable, match=rf"blk\.0\.attn_q\.weight has the type {name}\b"):
        unpack(kind, "blk.0.attn_q.weight", packed, torch.empty(kind.block))


def test_the_sizes_of_the_table_are_the_reference_sizes():
    for number, kind in TENSOR_TYPES.items():
        reference = gguf.GGMLQuantizationType(number)
        assert reference.name == kind.name
        assert gguf.GGML_QUANT_SIZES[reference] == (kind.block, kind.size)
