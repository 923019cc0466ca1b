"""These tests run on one thread unless they say otherwise: they share the machine with others."""

import pytest

from tests.support.oracles import threads


@pytest.fixture(autouse=True)
def _one_thread():
    with threads(1):
        yield
