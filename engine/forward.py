"""A model family and a backend's operations, together what the engine runs passes on."""

import time

import numpy as np
import torch

from spinf_serve.engine.kernels.ops import Ops
from spinf_serve.engine.models.registry import Model
from spinf_serve.engine.tree.packing import PackedPass


class ModelForward:
    """Implements the engine's `Forward` with a model on a backend."""

    def __init__(self, model: Model, ops: Ops) -> None:
        self._model = model
        self._ops = ops

    @torch.inference_mode()
    def run(self, packed: PackedPass) -> tuple[np.ndarray, float]:
        """[C] float32 log-probabilities of the pass's columns, and the seconds the layout took."""
        start = time.perf_counter()
        layout = self._model.layout(packed.plan)
        layout_seconds = time.perf_counter() - start
        hidden = self._model.forward(layout)
        logprobs = self._model.read(hidden, layout.column_start, layout.columns)
        return logprobs.numpy(), layout_seconds

    def release(self, key: int) -> None:
        """Forgets the keys and values kept for a tree."""
        self._ops.release(key)
