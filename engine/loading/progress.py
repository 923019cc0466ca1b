"""Lines about how far the reading of a checkpoint's weights is, for reading that takes a while."""

import time
from collections.abc import Callable
from typing import Final, Protocol

import torch

from spinf_serve.engine.loading.checkpoint import StoredTensor
from spinf_serve.engine.quantization.tensor import QuantizedSource, QuantizedTensor

# Until the first line, and between lines.
_SECONDS: Final = 2.0


class Listed(Protocol):
    """A checkpoint that knows where its tensors lie; see `FileCheckpoint` for the methods."""

    def names(self) -> frozenset[str]: ...
    def order(self) -> tuple[str, ...]: ...
    def stored(self, name: str) -> StoredTensor: ...
    def shape(self, name: str) -> tuple[int, ...]: ...
    def read_into(self, name: str, out: torch.Tensor) -> None: ...


class Progress:
    """Counts bytes of a checkpoint that were read, and says so every two seconds.

    What is done within two seconds is not spoken of.
    """

    def __init__(
        self,
        checkpoint: Listed,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        checkpoint: whose tensors will be read, each once.
        say: gets the lines.
        clock: seconds that only go up.
        """
        entries = [checkpoint.stored(name) for name in checkpoint.order()]
        self._size = sum(stored.entry.size for stored in entries)
        self._files = list(dict.fromkeys(stored.path for stored in entries))
        self._say = say
        self._clock = clock
        self._start = self._said = clock()
        self._done = 0

    def done(self, stored: StoredTensor) -> None:
        """Counts a tensor."""
        self._done += stored.entry.size
        now = self._clock()
        if now - self._said < _SECONDS or self._done >= self._size:
            return
        self._said = now
        left = (self._size - self._done) / self._done * (now - self._start)
        self._say(
            f"read {_shown(self._done)} of {_shown(self._size)} of weights (file "
            f"{self._files.index(stored.path) + 1} of {len(self._files)}), about {left:.0f} s to go"
        )


class ReportingCheckpoint:
    """Implements `engine.models.spec.Checkpoint` and `engine.quantization.tensor.QuantizedSource`.

    Gives what the checkpoint inside gives, and says how far its reading is.
    """

    def __init__(self, checkpoint: Listed, say: Callable[[str], None]) -> None:
        self._checkpoint = checkpoint
        self._progress = Progress(checkpoint, say)

    def names(self) -> frozenset[str]:
        """Every tensor name in the checkpoint."""
        return self._checkpoint.names()

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor. Raises `Unusable` when the checkpoint lacks it."""
        return self._checkpoint.shape(name)

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` with the tensor's values, and say how far reading is now and then."""
        self._checkpoint.read_into(name, out)
        self._progress.done(self._checkpoint.stored(name))

    def read_quantized(self, name: str) -> QuantizedTensor | None:
        """A weight's codes and scales where the checkpoint gives them, else None."""
        if not isinstance(self._checkpoint, QuantizedSource):
            return None
        found = self._checkpoint.read_quantized(name)
        if found is not None:
            self._progress.done(self._checkpoint.stored(name))
        return found


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
