"""The micro layer: a small network over category means and read values, its weights as text.

The order of the weights is the format's: with no hidden units w[inputs], b, threshold; with h of
them W1[inputs, h] row by row, b1[h], w2[h], b2, threshold. All are float32.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from math import tanh

import numpy as np

from spinf_serve.packs.pack import MicroLayer


def weight_count(inputs: int, hidden: int) -> int:
    """How many numbers a layer of this size has, threshold among them."""
    return inputs * hidden + 2 * hidden + 2 if hidden else inputs + 2


def decode_weights(text: str) -> tuple[float, ...]:
    """Weights from base64 of little-endian float32, as float64 of the same value.

    Raises ValueError when the text is no base64, its bytes are no float32, or one is not finite.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the weights are not base64 ({error})") from None
    if len(data) % 4:
        raise ValueError(f"the weights have {len(data)} bytes, no multiple of the 4 of a float32")
    values = np.frombuffer(data, dtype="<f4")
    if not np.isfinite(values).all():
        raise ValueError("a weight is not a finite number")
    return tuple(values.astype(np.float64).tolist())


def encode_weights(weights: Sequence[float]) -> str:
    """Base64 of the weights as little-endian float32.

    Raises ValueError when a weight is no float32 value: what is written would not be what was used.
    """
    values = np.array(weights, dtype="<f4")
    if values.astype(np.float64).tolist() != list(weights):
        raise ValueError("the weights are not float32 values; round them first")
    return base64.b64encode(values.tobytes()).decode()


def layer_value(layer: MicroLayer, macros: Mapping[str, float], z: Mapping[str, float]) -> float:
    """The layer's output; unsafe at `layer_threshold` and above.

    Args:
        layer: its inputs name `c:<category>` or `r:<read>`.
        macros: category -> mean z.
        z: read -> z.
    """
    x = [macros[name[2:]] if name.startswith("c:") else z[name[2:]] for name in layer.inputs]
    n, h, w = len(x), layer.hidden, layer.weights
    if len(w) != weight_count(n, h):
        raise AssertionError(f"{n} inputs and {h} hidden units do not go with {len(w)} weights")
    if not h:
        return _dot(w[:n], x) + w[n]
    b1, w2, b2 = w[n * h : n * h + h], w[n * h + h : n * h + 2 * h], w[n * h + 2 * h]
    units = [tanh(_dot(w[k : n * h : h], x) + b1[k]) for k in range(h)]
    return _dot(w2, units) + b2


def layer_threshold(layer: MicroLayer) -> float:
    """The cut that is stored with the weights, unrounded."""
    return layer.weights[-1]


def _dot(weights: Sequence[float], x: Sequence[float]) -> float:
    # Summed in the order of the inputs: equal answers give equal bits.
    return sum(weight * value for weight, value in zip(weights, x, strict=True))
