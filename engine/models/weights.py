"""From a checkpoint to the weights of a model, as its backend keeps them. Knows no file format."""

from typing import Final

import torch

from spinf_serve.engine.kernels.elementwise.quant import Quant
from spinf_serve.engine.kernels.linear.gate_up import interleave_gate_up
from spinf_serve.engine.kernels.ops import Linear, Ops
from spinf_serve.engine.models.spec import Checkpoint
from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.tensor import QuantizedSource, QuantizedTensor
from spinf_serve.packs.errors import Unusable

_CODERS: Final = {"fp8": fp8, "int8": int8}


class Reader:
    """Reads a checkpoint's tensors to where a model keeps them, and knows what was not read.

    A tensor is read once, straight to the device, so that the host never holds more than one.
    """

    def __init__(self, checkpoint: Checkpoint, ops: Ops) -> None:
        self._checkpoint = checkpoint
        self._ops = ops
        self._left = set(checkpoint.names())

    def tensor(self, name: str, *shape: int) -> torch.Tensor:
        """One tensor, in the model's dtype."""
        return self._stacked({name: shape[0]}, *shape[1:])

    def linear(self, rows: dict[str, int], columns: int, *, biased: bool) -> Linear:
        """Linear layers of one input as one; `rows` of each, by name of module, in their order."""
        weights = {f"{module}.weight": count for module, count in rows.items()}
        bias = None
        if biased:
            bias = self._stacked({f"{module}.bias": count for module, count in rows.items()})
        if self._ops.scheme.kind is None:
            return Linear(self._stacked(weights, columns), bias=bias)
        parts = [self._quantized(name, count, columns) for name, count in weights.items()]
        return self._joined(parts, bias)

    def gate_up(self, gate: str, up: str, size: int, columns: int, *, biased: bool) -> Linear:
        """Gate and up of a gated MLP as one layer [2 I, K], in the order that the backend wants.

        Raises `Unusable` where the backend lacks biases or cannot alternate `size` rows.
        """
        block = self._ops.gate_block
        if not block:
            return self.linear({gate: size, up: size}, columns, biased=biased)
        if biased:
            raise Unusable(
                "models with biases in the MLP are not served on a GPU; take --device cpu"
            )
        if size % block:
            raise Unusable(
                f"an MLP of {size} columns is not served on a GPU, whose kernels take multiples of "
                f"{block}; take --device cpu"
            )
        if self._ops.scheme.kind is None:
            first, second = (self.tensor(f"{x}.weight", size, columns) for x in (gate, up))
            return Linear(interleave_gate_up(first, second))
        parts = [self._quantized(f"{module}.weight", size, columns) for module in (gate, up)]
        joined = self._joined(parts, None)
        # Bytes: not every version concatenates 8-bit floats.
        values = interleave_gate_up(
            joined.values[:size].view(torch.uint8), joined.values[size:].view(torch.uint8)
        ).view(joined.values.dtype)
        scale = joined.scale
        if scale is not None and scale.ndim:
            scale = interleave_gate_up(scale[:size], scale[size:])
        return Linear(values, scale, joined.input)

    def skip(self, *names: str) -> None:
        """Tensors that are known and not needed."""
        self._left.difference_update(names)

    def finish(self) -> None:
        """Raises `Unusable` when the checkpoint holds a tensor that the model would ignore."""
        if self._left:
            some = ", ".join(sorted(self._left)[:5])
            raise Unusable(
                f"the checkpoint holds {len(self._left)} tensors that this model family does not"
                f" use, among them {some}: it is another kind of model than its config says"
            )

    def _stacked(self, rows: dict[str, int], *columns: int) -> torch.Tensor:
        """Several tensors of equal columns under one another; `rows` of each, by name."""
        shape = (sum(rows.values()), *columns)
        out = torch.empty(shape, dtype=self._ops.dtype, device=self._ops.device)
        start = 0
        for name, count in rows.items():
            self._checkpoint.read_into(name, out[start : start + count])
            self._left.discard(name)
            start += count
        return out

    def _quantized(self, name: str, rows: int, columns: int) -> QuantizedTensor:
        """One weight in 8 bits on the device: its codes as they are stored, or rounded there."""
        kind, device = self._ops.scheme.kind, self._ops.device
        coder = _CODERS[kind] if kind else fp8
        found = None
        if isinstance(self._checkpoint, QuantizedSource):
            found = self._checkpoint.read_quantized(name)
        self._left.discard(name)
        if found is not None:
            if found.values.dtype != coder.DTYPE or found.values.shape != (rows, columns):
                raise Unusable(
                    f"the tensor {name} is {found.values.dtype} {tuple(found.values.shape)}, "
                    f"expected {coder.DTYPE} {(rows, columns)}"
                )
            static = found.input_scale
            return QuantizedTensor(
                found.values.to(device),
                found.scale.to(device),
                None if static is None else static.to(device),
            )
        # As float32, which holds every stored value: rounding twice would move codes.
        exact = torch.empty(rows, columns, device=device)
        self._checkpoint.read_into(name, exact)
        try:
            rounded: QuantizedTensor = coder.quantize(exact, by_row=True)
        except ValueError as error:
            raise Unusable(f"the tensor {name} {error}") from None
        return rounded

    def _joined(self, parts: list[QuantizedTensor], bias: torch.Tensor | None) -> Linear:
        codes = [part.values.view(torch.uint8) for part in parts]
        values = (codes[0] if len(codes) == 1 else torch.cat(codes)).view(parts[0].values.dtype)
        scales = [part.scale for part in parts]
        if all(scale.ndim == 0 and bool(scale == scales[0]) for scale in scales):
            scale = scales[0]
        else:
            scale = torch.cat([part.row_scales() for part in parts])
        return Linear(values, scale.contiguous(), self._input(parts), bias)

    def _input(self, parts: list[QuantizedTensor]) -> Quant | None:
        """Rounding of the input that all parts read: once, so with the largest static scale."""
        if self._ops.scheme.activations == "16bit":
            return None
        dtype = parts[0].values.dtype
        static = [part.input_scale for part in parts if part.input_scale is not None]
        if len(static) == len(parts) and dtype == fp8.DTYPE:
            return Quant(dtype, torch.stack(static).amax())
        return Quant(dtype, None)
