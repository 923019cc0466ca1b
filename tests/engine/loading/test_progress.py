"""What reading says of itself: a line every two seconds, and nothing when it is quick."""

import pytest
import torch
from safetensors.torch import save_file

from spinf_serve.engine.loading import progress
from spinf_serve.engine.loading.progress import Progress, ReportingCheckpoint
from spinf_serve.engine.loading.weights import checkpoint_from_folder


@pytest.fixture
def checkpoint(tmp_path):
    for name, rows in (("a", 64), ("b", 20)):
        (tmp_path / name).mkdir()
        made = {f"{name}.{number}": torch.randn(rows, 96).bfloat16() for number in range(2)}
        save_file(made, tmp_path / name / "model.safetensors")
    return [checkpoint_from_folder(tmp_path / name, tied=True) for name in ("a", "b")]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # At the start, then after each tensor.
        ([0, 1.9, 9], []),
        ([0, 2, 9], ["read 0 MB of 0 MB of weights (file 1 of 1), about 2 s to go"]),
    ],
)
def test_a_line_comes_every_two_seconds_and_not_at_the_end(checkpoint, times, expected):
    lines: list[str] = []
    counted = Progress(checkpoint[0], lines.append, iter(times).__next__)
    for name in checkpoint[0].order():
        counted.done(checkpoint[0].stored(name))
    assert lines == expected


def test_a_checkpoint_that_reports_is_the_same_one(checkpoint, monkeypatch):
    plain = checkpoint[1]
    lines: list[str] = []
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    reporting = ReportingCheckpoint(plain, lines.append)
    assert reporting.names() == plain.names()
    for name in plain.order():
        ours, theirs = (torch.empty(plain.shape(name)) for _ in range(2))
        reporting.read_into(name, ours)
        plain.read_into(name, theirs)
        assert reporting.shape(name) == plain.shape(name) and torch.equal(ours, theirs)
        # It holds floats only.
        assert reporting.read_quantized(name) is None
    assert len(lines) == 1
