"""Gemma's own constants; its maths as a whole is compared in test_parity."""

import pytest
import torch

from spinf_serve.engine.models.gemma import embedding_scale


def test_the_embedding_factor_is_rounded_to_the_tables_dtype():
    assert embedding_scale(640, torch.bfloat16) == 25.25
    assert embedding_scale(640, torch.float32) == pytest.approx(640**0.5, rel=1e-7)
