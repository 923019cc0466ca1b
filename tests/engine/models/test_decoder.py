"""What the decoder computes by itself; its maths as a whole is compared in test_parity."""

import pytest
import torch

from spinf_serve.engine.models.decoder import embedding_scale


@pytest.mark.parametrize(("hidden", "rounded"), [(640, 25.25), (3840, 62.0), (5376, 73.5)])
def test_the_embedding_factor_is_rounded_to_the_tables_dtype(hidden, rounded):
    assert embedding_scale(hidden, torch.bfloat16) == rounded
    assert embedding_scale(hidden, torch.float32) == pytest.approx(hidden**0.5, rel=1e-7)
