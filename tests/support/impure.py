"""Makes the made-up model see what it must not, to show that checks notice."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from spinf_serve.engine.api import Engine
from spinf_serve.engine.tree.packing import PackedPass
from spinf_serve.engine.tree.plan import Pass
from tests.support.fake_forward import FakeForward


def see(engine: Engine, seen: Callable[[Pass], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a millionth of `seen` of the whole pass to everything that is read in it."""
    fake = cast(FakeForward, engine._forward)
    pure = fake.columns

    def impure(packed: PackedPass) -> np.ndarray:
        return pure(packed) + np.float32(1e-6) * np.float32(seen(packed.plan))

    monkeypatch.setattr(fake, "columns", impure)
