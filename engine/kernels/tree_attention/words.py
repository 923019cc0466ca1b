"""A device layout as one run of 32-bit words, so that a pass goes to the device by one copy."""

import torch

from spinf_serve.engine.kernels.tree_attention.device_layout import DeviceLayout, mapped
from spinf_serve.engine.tree.plan import IntArray

_ALIGNED = 4
"""Arrays begin at multiples of this many words: 16 bytes, on which compiled code may depend."""


def in_words(layout: DeviceLayout[IntArray], device: torch.device) -> torch.Tensor:
    """The arrays one behind the other, [words] int32 on the host.

    For a card they lie in page-locked memory: from other memory a copy would wait until the passes
    before it end. torch keeps such memory until the copy is done.
    """
    arrays: list[IntArray] = []
    mapped(layout, arrays.append)
    total = sum(array.size + _filler(array.size) for array in arrays)
    words = torch.empty(total, dtype=torch.int32, pin_memory=device.type == "cuda")
    flat, start = words.numpy(), 0
    for array in arrays:
        end = start + array.size
        flat[start:end] = array.ravel()
        start = end + _filler(array.size)
        flat[end:start] = 0
    return words


def out_of_words(words: torch.Tensor, layout: DeviceLayout[IntArray]) -> DeviceLayout[torch.Tensor]:
    """Views of words [words] int32 on any device, in the shapes of the layout they came from."""
    start = 0

    def view(array: IntArray) -> torch.Tensor:
        nonlocal start
        found = words[start : start + array.size].view(array.shape)
        start += array.size + _filler(array.size)
        return found

    return mapped(layout, view)


def upload(layout: DeviceLayout[IntArray], device: torch.device) -> DeviceLayout[torch.Tensor]:
    """The layout on the device, by one copy that nobody waits for."""
    words = in_words(layout, device).to(device, non_blocking=True)
    return out_of_words(words, layout)


def _filler(size: int) -> int:
    return -size % _ALIGNED
