"""Launches a kernel without Triton's binding of arguments, which takes longer than the launch itself.

Triton binds and types each argument at every launch, to find the code it compiled. Here the caller
says once what the code depends on; the code is found by that and by what it may assume of the
addresses, and is launched as it is.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import torch

_ALIGNMENT_BYTES = 16


class Launcher:
    """A kernel under `triton.jit`, with what it was compiled to so far.

    Under Triton's interpreter nothing is compiled, and each launch goes through Triton.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._compiled: dict[Hashable, tuple[Any, tuple[object, ...]]] = {}

    def __call__(
        self,
        code: Hashable,
        programs: int,
        arguments: tuple[object, ...],
        constants: Mapping[str, object],
    ) -> None:
        """Queues `programs` blocks on the current stream of the current device.

        Args:
            code: what the compiled code depends on besides the dtypes and alignments of tensors:
                the device, every constant, whole numbers that Triton specializes on.
            programs: above 0.
            arguments: of the parameters that are no constants, which come first, in their order.
            constants: the others by name, and Triton's options.
        """
        key = (code, *map(_kind, arguments))
        found = self._compiled.get(key)
        if found is not None:
            compiled, values = found
            compiled[programs, 1, 1](*arguments, *values)
            return
        compiled = self._kernel[(programs,)](*arguments, **constants)
        if compiled is not None:
            names = self._kernel.arg_names[len(arguments) :]
            self._compiled[key] = compiled, tuple(constants[name] for name in names)


def _kind(argument: object) -> Hashable:
    """What Triton asks of a tensor, a descriptor of one, or a missing one; numbers are the caller's."""
    if isinstance(argument, torch.Tensor):
        return argument.dtype, argument.data_ptr() % _ALIGNMENT_BYTES == 0
    return argument is None
