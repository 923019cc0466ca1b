"""Streaming: every tensor once, file by file, with no more memory than one file and a bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from spinf_serve.engine.loading.progress import ReportingCheckpoint
from spinf_serve.engine.loading.quantizing import QuantizingCheckpoint
from spinf_serve.engine.loading.stream import stream
from spinf_serve.engine.loading.weights import checkpoint_from_folder
from spinf_serve.engine.quantization import fp8
from spinf_serve.engine.quantization.tensor import QuantizedTensor, dequantize

ROOT = Path(__file__).resolve().parents[3]


Tensors = list[tuple[str, tuple[int, ...]]]


def shards(folder: Path, files: list[Tensors]) -> int:
    """Write files of bfloat16 tensors with an index; the bytes of the largest file."""
    index: dict[str, str] = {}
    largest = 0
    for number, tensors in enumerate(files):
        name = f"model-{number:05}.safetensors"
        made = {key: torch.randn(shape).bfloat16() for key, shape in tensors}
        save_file(made, folder / name)
        index |= dict.fromkeys(made, name)
        largest = max(largest, (folder / name).stat().st_size)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return largest


def quantizing(folder: Path) -> QuantizingCheckpoint:
    return QuantizingCheckpoint(checkpoint_from_folder(folder, tied=True), "fp8", by_row=True)


# Layer 1 comes before layer 0, as when files are cut by size.
SMALL: list[Tensors] = [
    [("model.layers.1.mlp.up_proj.weight", (64, 96)), ("model.norm.weight", (96,))],
    [("model.layers.0.mlp.up_proj.weight", (64, 96)), ("model.embed_tokens.weight", (20, 96))],
]


def test_each_tensor_comes_once_and_file_by_file(tmp_path):
    shards(tmp_path, SMALL)
    source = quantizing(tmp_path)
    found: dict[str, torch.Tensor | QuantizedTensor] = {}
    order = []

    def place(name, tensor):
        found[name] = tensor
        order.append(name)

    stream(source, torch.bfloat16, place, lambda line: pytest.fail(line))
    assert order == list(source.order()) and len(order) == 4
    assert {order[0], order[1]} == {name for name, _ in SMALL[0]}
    for name, tensor in found.items():
        whole = torch.empty(source.shape(name), dtype=torch.bfloat16)
        source.read_into(name, whole)
        if "up_proj" in name:
            assert isinstance(tensor, QuantizedTensor)
            expected = dequantize(fp8.quantize(whole, by_row=True), torch.float32)
            assert torch.equal(dequantize(tensor, torch.float32), expected)
        else:
            assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.bfloat16
            assert torch.equal(tensor, whole)


def test_progress_is_told_every_two_seconds_and_not_before(tmp_path):
    shards(tmp_path, SMALL)
    lines: list[str] = []
    # At the start, then after each tensor.
    for times, expected in (([0, 1.9, 1.95, 1.99, 9], 0), ([0, 2, 3, 4, 9], 2)):
        lines.clear()
        stream(
            quantizing(tmp_path),
            torch.bfloat16,
            lambda name, tensor: None,
            lines.append,
            clock=iter(times).__next__,
        )
        assert len(lines) == expected
    sizes = [quantizing(tmp_path).stored(name).entry.size for name in quantizing(tmp_path).order()]
    left = sum(sizes[1:]) / sizes[0] * 2
    assert lines[0] == f"read 0 MB of 0 MB of weights (file 1 of 2), about {left:.0f} s to go"
    assert "(file 2 of 2), about " in lines[1]


def test_a_checkpoint_that_reports_is_the_same_one(tmp_path):
    shards(tmp_path, SMALL)
    plain = checkpoint_from_folder(tmp_path, tied=True)
    lines: list[str] = []
    reporting = ReportingCheckpoint(plain, lines.append)
    assert reporting.names() == plain.names()
    for name in plain.names():
        ours, theirs = (torch.empty(plain.shape(name)) for _ in range(2))
        reporting.read_into(name, ours)
        plain.read_into(name, theirs)
        assert reporting.shape(name) == plain.shape(name) and torch.equal(ours, theirs)
    assert lines == []


_MEASURE = """
import sys, torch
from pathlib import Path
from spinf_serve.engine.loading.quantizing import QuantizingCheckpoint
from spinf_serve.engine.loading.stream import stream
from spinf_serve.engine.loading.weights import checkpoint_from_folder
from spinf_serve.engine.quantization import fp8

def status(key):
    # Resident pages of every kind, those of mapped files among them.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

torch.set_num_threads(1)
fp8.quantize(torch.ones(64, 4096), by_row=True)
source = QuantizingCheckpoint(
    checkpoint_from_folder(Path(sys.argv[1]), tied=True), "fp8", by_row=sys.argv[2] == "row"
)
Path("/proc/self/clear_refs").write_text("5")
base = status("VmRSS:")
count = []
stream(source, torch.bfloat16, lambda name, tensor: count.append(name), print)
print(len(count), status("VmHWM:") - base)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("scales", ["row", "tensor"])
def test_peak_memory_stays_under_1_3_of_the_largest_file(tmp_path, scales):
    """A 100 MB checkpoint: one file is one table in 16 bits, others hold a matrix or several."""
    columns = 2048
    table: Tensors = [("model.embed_tokens.weight", (7_000, columns))]
    one: Tensors = [("model.layers.0.mlp.up_proj.weight", (7_000, columns))]
    several: Tensors = [
        (f"model.layers.1.mlp.{x}_proj.weight", (3_500, columns)) for x in ("up", "down")
    ]
    several += [("model.norm.weight", (columns,))]
    largest = shards(tmp_path, [table, one, several])
    assert sum(file.stat().st_size for file in tmp_path.glob("*.safetensors")) > 80e6
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path), scales],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    count, growth = map(int, ran.stdout.split()[-2:])
    assert count == 5
    assert growth < 1.3 * largest, (
        f"{growth / 1e6:.1f} MB over a largest file of {largest / 1e6:.1f}"
    )
    # What holds a whole table cannot grow by less than it: the measure sees something.
    assert growth > 0.9 * largest
