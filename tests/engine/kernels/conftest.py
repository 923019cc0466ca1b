"""These tests run on one thread unless they say otherwise: they share the machine with others.

Triton's kernels run on the card where there is one, else in Triton's interpreter. Triton decides at
its first import which.
"""

import os
import sys
import warnings

import numpy as np
import pytest
import torch

from tests.support.oracles import threads

if not torch.cuda.is_available() and "TRITON_INTERPRET" not in os.environ:
    if "triton" in sys.modules:
        raise RuntimeError("triton was imported before the tests could ask for its interpreter")
    os.environ["TRITON_INTERPRET"] = "1"


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
