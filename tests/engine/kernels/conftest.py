"""These tests run on one thread unless they say otherwise: they share the machine with others."""

import warnings

import numpy as np
import pytest

from tests.support.oracles import threads


@pytest.fixture(autouse=True)
def _one_thread():
    with threads(1):
        yield


@pytest.fixture(autouse=True)
def _floats_as_on_a_card():
    """The interpreter computes with numpy, which warns where a card gives infinity or NaN."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice encountered")
        yield
