"""Hands out a checkpoint's tensors file by file, each once, so that none but the current is in memory.

For a device that keeps the weights itself: what was handed out is forgotten here. Files are read from
start to end, with ordinary reads, in the order of the bytes and not of the layers.
"""

import time
from collections.abc import Callable
from typing import Protocol

import torch

from spinf_serve.engine.loading.progress import Listed, Progress
from spinf_serve.engine.quantization.tensor import QuantizedSource, QuantizedTensor

Place = Callable[[str, torch.Tensor | QuantizedTensor], None]


class StreamSource(Listed, QuantizedSource, Protocol):
    """`QuantizedCheckpoint` or `QuantizingCheckpoint`."""


def stream(
    source: StreamSource,
    dtype: torch.dtype,
    place: Place,
    say: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Reads every tensor of a checkpoint once.

    Args:
        source: the checkpoint.
        dtype: of tensors that are not in 8 bits.
        place: gets each tensor with its name, on the host, and puts it where it is wanted; what it
            does not keep is free again before the next one is read.
        say: gets a line about progress when two seconds are over, and every two seconds then.
        clock: seconds that only go up.

    Raises `Unusable` naming file and tensor.
    """
    progress = Progress(source, say, clock)
    for name in source.order():
        # No name is bound to the tensor here: it would live on while the next one is read.
        place(name, _read(source, name, dtype))
        progress.done(source.stored(name))


def _read(source: StreamSource, name: str, dtype: torch.dtype) -> torch.Tensor | QuantizedTensor:
    quantized = source.read_quantized(name)
    if quantized is not None:
        return quantized
    out = torch.empty(source.shape(name), dtype=dtype)
    source.read_into(name, out)
    return out
