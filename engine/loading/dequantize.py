"""Unpacks the weights of GGUF tensors into torch tensors.

Knows how a block of each supported type is laid out, and nothing of files or models. All
arithmetic is float32 (one product, then one sum, each rounded), whatever the output's dtype.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import torch

from spinf_serve.engine.loading.gguf import TensorType
from spinf_serve.packs.errors import Unusable

# Weights unpacked at a time. The temporaries of a piece stay in a core's cache, and torch splits no
# operation of this size over threads: so many short parallel sections take many times as long as
# one thread when other work keeps a core busy.
PIECE: Final = 1 << 15


def unpack(kind: TensorType, name: str, packed: torch.Tensor, out: torch.Tensor) -> None:
    """Fill `out` with the weights in `packed`.

    Args:
        kind: how they are packed; see `supported`.
        name: the tensor's name, for errors.
        packed: [bytes] uint8, `out.numel() / kind.block * kind.size` of them.
        out: any shape, contiguous, any float dtype; values are rounded to it once.

    Raises `Unusable` naming the type and the tensor when the type is not supported.
    """
    fill = _FILLS.get(kind.name)
    if fill is None:
        raise Unusable(
            f"tensor {name} has the type {kind.name}, which is not supported "
            f"(supported are {', '.join(_FILLS)})"
        )
    blocks = packed.view(-1, kind.size)  # [B, bytes of a block]
    flat = out.view(-1, kind.block)  # [B, weights of a block]
    step = max(1, PIECE // kind.block)
    direct = out.dtype == torch.float32
    scratch = flat.new_empty(0 if direct else min(step, len(flat)), kind.block, dtype=torch.float32)
    for start in range(0, len(flat), step):
        piece = flat[start : start + step]
        target = piece if direct else scratch[: len(piece)]
        fill(blocks[start : start + step], target)
        if not direct:
            piece.copy_(target)


def supported() -> tuple[str, ...]:
    """Names of the types that `unpack` knows."""
    return tuple(_FILLS)


def _halves(blocks: torch.Tensor, start: int, count: int) -> torch.Tensor:
    """`count` float16 values of each block, from byte `start`.  -> [B, count] f32"""
    return blocks[:, start : start + 2 * count].contiguous().view(torch.float16).float()


def _fill_f32(blocks: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(blocks.view(torch.float32))


def _fill_f16(blocks: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(blocks.view(torch.float16))


def _fill_bf16(blocks: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(blocks.view(torch.bfloat16))


def _fill_q8_0(blocks: torch.Tensor, out: torch.Tensor) -> None:
    """float16 d, 32 signed bytes q: d q."""
    out.copy_(blocks[:, 2:].view(torch.int8))
    out.mul_(_halves(blocks, 0, 1))


def _fill_nibbles(nibbles: torch.Tensor, out: torch.Tensor) -> None:
    """[..., n] uint8 to [..., 2n]: the low four bits of all bytes first, then the high ones."""
    width = nibbles.shape[-1]
    out[..., :width] = nibbles & 15
    out[..., width:] = nibbles >> 4


def _fill_q4_1(blocks: torch.Tensor, out: torch.Tensor) -> None:
    """float16 d and m, 16 bytes of nibbles q: d q + m."""
    _fill_nibbles(blocks[:, 4:], out)
    scale = _halves(blocks, 0, 2)  # [B, 2]
    out.mul_(scale[:, :1]).add_(scale[:, 1:])


def _fill_q5_0(blocks: torch.Tensor, out: torch.Tensor) -> None:
    """float16 d, 32 fifth bits, 16 bytes of nibbles: d (q - 16)."""
    _fill_nibbles(blocks[:, 6:], out)
    shifts = torch.arange(8, dtype=torch.uint8)
    fifth = (blocks[:, 2:6].unsqueeze(2) >> shifts) & 1  # [B, 4, 8]
    # Sums of small whole numbers are exact in float32, so this order rounds nothing.
    out.add_(fifth.flatten(1), alpha=16).sub_(16)
    out.mul_(_halves(blocks, 0, 1))


def _fill_q4_k(blocks: torch.Tensor, out: torch.Tensor) -> None:
    """float16 d and dmin, 12 bytes of 6-bit scales s and minima m, 128 bytes of nibbles q.

    Weights come in 8 groups of 32: (d s) q - (dmin m).
    """
    scales, minima = _six_bit_pairs(blocks[:, 4:16])
    factors = _halves(blocks, 0, 2)
    scales = factors[:, :1] * scales  # [B, 8]
    minima = factors[:, 1:] * minima
    _fill_nibbles(blocks[:, 16:].view(-1, 4, 32), out.view(-1, 4, 64))
    groups = out.view(-1, 8, 32)
    groups.mul_(scales.unsqueeze(2)).sub_(minima.unsqueeze(2))


def _six_bit_pairs(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Twelve bytes to eight scales and eight minima of 6 bits each.

    The first four bytes hold scales 0-3, the next four minima 0-3, both in their low 6 bits; the
    last four hold the low nibbles of scales 4-7 and minima 4-7, whose two high bits are the top
    bits of the first eight bytes.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = torch.cat((first & 63, (third & 15) | ((first >> 2) & 48)), dim=1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 2) & 48)), dim=1)
    return scales, minima


def _fill_q6_k(blocks: torch.Tensor, out: torch.Tensor) -> None:
    """128 bytes of low 4 bits, 64 bytes of high 2 bits, 16 signed scales s, float16 d.

    Weights come in 16 groups of 16: (d s) (q - 32).
    """
    low = blocks[:, :128].view(-1, 2, 64)
    low = torch.cat((low & 15, low >> 4), dim=2)  # [B, 2, 128]
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).unsqueeze(1)
    high = blocks[:, 128:192].view(-1, 2, 1, 32)
    high = ((high >> shifts) & 3).flatten(2)  # [B, 2, 128]
    out.view(-1, 2, 128).copy_(low | (high << 4))
    scales = blocks[:, 192:208].view(torch.int8) * _halves(blocks, 208, 1)  # [B, 16]
    out.sub_(32).view(-1, 16, 16).mul_(scales.unsqueeze(2))


_FILLS: Final[MappingProxyType[str, Callable[[torch.Tensor, torch.Tensor], None]]] = (
    MappingProxyType(
        {
            "F32": _fill_f32,
            "F16": _fill_f16,
            "BF16": _fill_bf16,
            "Q8_0": _fill_q8_0,
            "Q4_1": _fill_q4_1,
            "Q5_0": _fill_q5_0,
            "Q4_K": _fill_q4_k,
            "Q6_K": _fill_q6_k,
        }
    )
)
