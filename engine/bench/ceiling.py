"""How fast a job would be if the device did its linear layers alone: the mark that a pass is held to.

Every product is timed with our kernel in its table's tile and with the vendor's library, on the
model's own weights; the better one counts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from spinf_serve.engine.bench.marks import mark, seconds_between
from spinf_serve.engine.kernels.linear.kernel import product
from spinf_serve.engine.kernels.ops import Linear

Work = Callable[[], object]

_GROUPS = 3
_LAUNCHES = 4


@dataclass(frozen=True, slots=True)
class PassSize:
    """Rows of a pass, and those of them that are read."""

    rows: int
    reads: int


@dataclass(frozen=True, slots=True)
class ProductTime:
    """One product, [rows, inner] x [outputs, inner], and its times; None where there is no such way.

    Attributes:
        layer: what it does: qkv, out, gate_up, down.
    """

    layer: str
    rows: int
    outputs: int
    inner: int
    own_seconds: float
    vendor_seconds: float | None

    @property
    def best_seconds(self) -> float:
        """Of the better way."""
        vendor = self.vendor_seconds
        return self.own_seconds if vendor is None else min(self.own_seconds, vendor)

    def figures(self) -> dict[str, Any]:
        """For the result file."""
        work = 2.0 * self.rows * self.outputs * self.inner
        return {
            "layer": self.layer,
            "rows": self.rows,
            "outputs": self.outputs,
            "inner": self.inner,
            "own_ms": 1000 * self.own_seconds,
            "vendor_ms": None if self.vendor_seconds is None else 1000 * self.vendor_seconds,
            "best_tflops": work / self.best_seconds / 1e12,
        }


class LinearsCeiling:
    """Times of a model's linear layers; a product is timed once for each number of rows.

    Of the last layer all but q, k and v is made for the read rows only, and counts by their share.
    """

    def __init__(
        self, linears: Iterable[tuple[str, Linear]], dtype: torch.dtype, device: torch.device
    ) -> None:
        """`linears` are those of all layers, layer by layer, each beginning with qkv."""
        self._linears = list(linears)
        self._dtype = dtype
        self._device = device
        self._times: dict[tuple[str, tuple[int, ...], int], ProductTime] = {}
        starts = [n for n, (layer, _) in enumerate(self._linears) if layer == "qkv"]
        self._read_only_from = starts[-1] + 1

    def seconds(self, passes: Sequence[PassSize]) -> float:
        """Of the linear layers of some passes, each product by its own best time."""
        total = 0.0
        for size in passes:
            for number, (layer, weight) in enumerate(self._linears):
                share = size.reads / size.rows if number >= self._read_only_from else 1.0
                total += share * self._time(layer, weight, size.rows).best_seconds
        return total

    def sequence_seconds(self, size: PassSize) -> float:
        """Of the linear layers of one pass, run one behind the other as in a forward.

        A card that is held to its power runs slower there than in a short burst of one product.
        """
        works: list[Work] = []
        inputs: dict[int, torch.Tensor] = {}
        for number, (layer, weight) in enumerate(self._linears):
            rows = size.reads if number >= self._read_only_from else size.rows
            time_ = self._time(layer, weight, size.rows)
            inner = weight.values.shape[1]
            if inner not in inputs:
                inputs[inner] = _rows(size.rows, weight, self._dtype)
            own, vendor = _ways(inputs[inner][:rows], weight, self._dtype)
            better = vendor is not None and time_.best_seconds < time_.own_seconds
            works.append(vendor if vendor is not None and better else own)

        def whole() -> None:
            for work in works:
                work()

        return _seconds(whole, self._device, launches=1)

    def products(self) -> list[ProductTime]:
        """Everything that was timed."""
        return list(self._times.values())

    def _time(self, layer: str, weight: Linear, rows: int) -> ProductTime:
        outputs, inner = weight.values.shape
        key = (layer, (outputs, inner), rows)
        if key not in self._times:
            own, vendor = _ways(_rows(rows, weight, self._dtype), weight, self._dtype)
            self._times[key] = ProductTime(
                layer,
                rows,
                outputs,
                inner,
                _seconds(own, self._device),
                None if vendor is None else _seconds(vendor, self._device),
            )
        return self._times[key]


def _rows(rows: int, weight: Linear, dtype: torch.dtype) -> torch.Tensor:
    """Input of a product: normal numbers, as the layer takes them."""
    values = weight.values
    x = torch.randn(rows, values.shape[1], device=values.device)
    if weight.input is None:
        return x.to(dtype)
    if weight.input.dtype == torch.int8:
        return x.mul_(32).clamp_(-127, 127).to(torch.int8)
    return x.mul_(56).clamp_(-448, 448).to(weight.input.dtype)


def _ways(x: torch.Tensor, weight: Linear, dtype: torch.dtype) -> tuple[Work, Work | None]:
    """Our product of a layer, and the vendor's where there is one with the same scales."""
    values, scale = weight.values, weight.scale
    x_scale = None
    if weight.input is not None:
        x_scale = weight.input.scale
        if x_scale is None:
            x_scale = torch.full((len(x), 1), 1 / 56, device=x.device)

    def own() -> object:
        return product(x, values, x_scale=x_scale, weight_scale=scale, out_dtype=dtype)

    if values.dtype == x.dtype == dtype:
        return own, lambda: torch.mm(x, values.t())
    if values.device.type == "cpu" or values.dtype != torch.float8_e4m3fn:
        # int8 codes under 16-bit rows have no product there, and none runs on a CPU.
        return own, None
    if x_scale is None or scale is None:
        raise AssertionError("a product in float8 has scales on both sides")
    of_rows, of_columns = x_scale, scale
    if scale.numel() > 1 or x_scale.numel() > 1:
        # It takes both as numbers or both as lists.
        of_rows = x_scale.expand(len(x), 1).contiguous()
        of_columns = scale.expand(len(values), 1).contiguous().t()

    def vendor() -> object:
        return torch._scaled_mm(
            x,
            values.t(),
            scale_a=of_rows,
            scale_b=of_columns,
            out_dtype=dtype,
            use_fast_accum=True,
        )

    return own, vendor


def _seconds(work: Work, device: torch.device, launches: int = _LAUNCHES) -> float:
    """Median over some groups of launches, after one that is not counted; a CPU does it once."""
    if device.type == "cpu":
        return _timed(work, device, 1)
    times = []
    for group in range(_GROUPS + 1):
        took = _timed(work, device, launches)
        if group:
            times.append(took)
    return median(times)


def _timed(work: Work, device: torch.device, launches: int) -> float:
    begin = mark(device)
    for _ in range(launches):
        work()
    return seconds_between(begin, mark(device)) / launches
