"""The micro layer: its value against a plain matrix product, and its weights as text."""

import base64

import numpy as np
import pytest

from spinf_serve.packs.layer import (
    decode_weights,
    encode_weights,
    layer_threshold,
    layer_value,
    weight_count,
)
from spinf_serve.packs.pack import MicroLayer

MACROS = {"a": 0.85, "b": -1.25, "c": 2.0}
Z = {"r": 0.3, "s": -0.7}
INPUTS = ("c:a", "r:s", "c:c", "r:r")
X = np.array([0.85, -0.7, 2.0, 0.3])


def layer(weights, hidden: int) -> MicroLayer:
    return MicroLayer(INPUTS, tuple(float(w) for w in weights), hidden, "sha256:", True)


def test_linear():
    w = np.arange(1.0, 7.0)
    assert layer_value(layer(w, 0), MACROS, Z) == pytest.approx(X @ w[:4] + w[4])
    assert layer_threshold(layer(w, 0)) == 6


@pytest.mark.parametrize("hidden", [1, 2, 5])
def test_hidden_units_are_rows_by_input(hidden):
    weights = np.random.default_rng(hidden).normal(size=weight_count(4, hidden))
    first, b1, w2, rest = np.split(weights, [4 * hidden, 5 * hidden, 6 * hidden])
    expected = np.tanh(X @ first.reshape(4, hidden) + b1) @ w2 + rest[0]
    made = layer(weights, hidden)
    assert layer_value(made, MACROS, Z) == pytest.approx(expected, abs=1e-12)
    assert layer_threshold(made) == rest[1]


def test_wrong_number_of_weights_is_our_own_mistake():
    with pytest.raises(AssertionError, match="4 inputs and 2 hidden units .* 6 weights"):
        layer_value(layer(range(6), 2), MACROS, Z)


def test_weights_come_back_as_the_same_float32():
    weights = [float(np.float32(value)) for value in (0.1, -2.5, 1e-30, 3e38)]
    assert list(decode_weights(encode_weights(weights))) == weights
    assert decode_weights("AAAAPwAAgD4AAAA+AACAvgAAAD8=") == (0.5, 0.25, 0.125, -0.25, 0.5)


def test_weights_that_are_no_float32_are_not_written():
    with pytest.raises(ValueError, match="not float32"):
        encode_weights([0.1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not base64!", "not base64"),
        ("AAA", "not base64"),
        ("AAAA", "3 bytes"),
        (base64.b64encode(np.array([np.nan], "<f4").tobytes()).decode(), "not a finite"),
        (base64.b64encode(np.array([np.inf], "<f4").tobytes()).decode(), "not a finite"),
    ],
)
def test_damaged_weights(text, message):
    with pytest.raises(ValueError, match=message):
        decode_weights(text)
