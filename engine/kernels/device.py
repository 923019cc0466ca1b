"""What the kernels need to know of the card that holds a tensor."""

import functools

import torch

from spinf_serve.engine.kernels.tiles import INTERPRETER, Capability


@functools.cache
def capability_of(device: torch.device) -> Capability:
    """Compute capability of a card; the CPU stands for Triton's interpreter."""
    if device.type == "cpu":
        return INTERPRETER
    return torch.cuda.get_device_capability(device)


@functools.cache
def processors_of(device: torch.device) -> int:
    """Multiprocessors of a card. The interpreter has two, so that a loop over tiles is one."""
    if device.type == "cpu":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def room(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Fresh memory that a kernel stores a result of this dtype to; `rounded` makes it that dtype.

    Triton's interpreter rounds float32 to narrower floats wrongly (no carry, NaN lost), so on the
    CPU a kernel stores float32.
    """
    if device.type == "cpu" and dtype.is_floating_point:
        dtype = torch.float32
    return torch.empty(shape, dtype=dtype, device=device)


def rounded(stored: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a kernel stored in `room`, in the dtype asked for: itself, on a card."""
    return stored.to(dtype)
