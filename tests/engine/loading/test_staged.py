"""Reading through staging buffers gives what plain reading gives, in pieces of any size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel

from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_checkpoint import checkpoint_from_gguf
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.loading.progress import ReportingCheckpoint
from spinf_serve.engine.loading.quantized import QuantizedCheckpoint
from spinf_serve.engine.loading.staged import StagedCheckpoint
from spinf_serve.engine.loading.weights import checkpoint_from_folder
from spinf_serve.engine.quantization.tensor import QuantizedSource
from spinf_serve.packs.errors import Unusable
from tests.support.gguf_files import learned_byte_level, learned_sentence_pieces, write_model
from tests.support.model_folders import save_tiny
from tests.support.quantized_folders import change, quantize_folder
from tests.support.tiny_models import tiny

CPU = torch.device("cpu")
STORED = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("piece_bytes", [4096, 5000, 1 << 20])
@pytest.mark.parametrize("wanted", STORED)
def test_floats_of_every_kind_arrive_as_plain_reading_gives_them(tmp_path, wanted, piece_bytes):
    made = {
        f"{str(kind).removeprefix('torch.')}.{size}": torch.randn(size, 37).to(kind)
        for kind in STORED
        for size in (1, 55, 300)
    }
    save_file(made | {"one": torch.tensor([0.1])}, tmp_path / "model.safetensors")
    plain = checkpoint_from_folder(tmp_path, tied=True)
    staged = StagedCheckpoint(plain, CPU, piece_bytes=piece_bytes)
    assert staged.names() == plain.names() and len(staged.names()) == 10
    for name in staged.order():
        ours, theirs = (torch.full(plain.shape(name), torch.nan, dtype=wanted) for _ in range(2))
        staged.read_into(name, ours)
        plain.read_into(name, theirs)
        assert torch.equal(ours, theirs), name
        assert staged.read_quantized(name) is None


def test_room_inside_a_larger_tensor_is_filled_and_nothing_beside_it(tmp_path):
    save_file({"a": torch.randn(40, 60).bfloat16()}, tmp_path / "model.safetensors")
    plain = checkpoint_from_folder(tmp_path, tied=True)
    expected = torch.empty(40, 60)
    plain.read_into("a", expected)
    for rows, columns in ((60, 60), (50, 80)):
        whole = torch.zeros(rows, columns)
        StagedCheckpoint(plain, CPU, piece_bytes=4096).read_into("a", whole[5:45, :60])
        assert torch.equal(whole[5:45, :60], expected)
        assert whole.count_nonzero() == expected.count_nonzero()


@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["llama_tied", "gemma3"])
def test_a_gguf_file_is_unpacked_by_the_host(tmp_path, name, wanted):
    """Also what the format moved: rows of q and k, the +1 of norms."""
    model = tiny(name)
    if name == "gemma3":
        vocabulary = learned_sentence_pieces([chr(0x41 + number) for number in range(60)])
        path = write_model(
            tmp_path / "m.gguf", model.spec, model.checkpoint.state, vocabulary, pre="default"
        )
    else:
        vocabulary = learned_byte_level([ByteLevel(add_prefix_space=False)], size=318)
        path = write_model(
            tmp_path / "m.gguf", model.spec, model.checkpoint.state, vocabulary, pre="gpt-2"
        )
    plain = checkpoint_from_gguf(read_gguf(path))
    staged = StagedCheckpoint(plain, CPU, piece_bytes=4096)
    for tensor in plain.names():
        ours, theirs = (torch.full(plain.shape(tensor), torch.nan, dtype=wanted) for _ in range(2))
        staged.read_into(tensor, ours)
        plain.read_into(tensor, theirs)
        assert torch.equal(ours, theirs), tensor


@pytest.mark.weights
def test_packed_weights_are_unpacked_block_by_block():
    plain = open_checkpoint("embedded", offline=True).checkpoint
    # No multiple of a block's bytes, so that a piece must end before the buffer does.
    staged = StagedCheckpoint(plain, CPU, piece_bytes=5003)
    kinds = {plain.stored(name).entry.type.name: name for name in plain.order()}
    assert len(kinds) > 1
    for name in kinds.values():
        ours, theirs = (
            torch.full(plain.shape(name), torch.nan, dtype=torch.bfloat16) for _ in "ab"
        )
        staged.read_into(name, ours)
        plain.read_into(name, theirs)
        assert torch.equal(ours, theirs), name


@pytest.mark.parametrize("kind", ["fp8", "int8"])
@pytest.mark.parametrize("by_row", [True, False])
def test_codes_and_scales_pass_through(tmp_path, kind, by_row):
    save_tiny(tmp_path, "gemma3")
    activations = "static" if kind == "fp8" else "token"
    values = quantize_folder(tmp_path, kind, by_row=by_row, activations=activations)
    plain = open_checkpoint(str(tmp_path), offline=True).checkpoint
    assert isinstance(plain, QuantizedCheckpoint)
    lines: list[str] = []
    staged = ReportingCheckpoint(StagedCheckpoint(plain, CPU, piece_bytes=4096), lines.append)
    assert isinstance(staged, QuantizedSource)
    coded = 0
    for name in staged.names():
        ours, theirs = staged.read_quantized(name), plain.read_quantized(name)
        if theirs is not None:
            assert ours is not None
            coded += 1
            assert ours.values.dtype == theirs.values.dtype
            assert torch.equal(ours.values.view(torch.uint8), theirs.values.view(torch.uint8))
            assert torch.equal(ours.scale, theirs.scale)
            assert (ours.input_scale is None) == (theirs.input_scale is None)
            if ours.input_scale is not None and theirs.input_scale is not None:
                assert torch.equal(ours.input_scale, theirs.input_scale)
        else:
            assert ours is None
        out = torch.full(staged.shape(name), torch.nan)
        staged.read_into(name, out)
        assert torch.equal(out, values[name].float())
    assert coded > 7 and lines == []


def test_nan_among_codes_is_refused_by_name(tmp_path):
    save_tiny(tmp_path, "gemma3")
    quantize_folder(tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    codes = torch.zeros(open_checkpoint(str(tmp_path), offline=True).checkpoint.shape(name))
    codes[3, 5] = torch.nan
    change(tmp_path, **{name.replace(".", "__"): codes.to(torch.float8_e4m3fn)})
    staged = StagedCheckpoint(open_checkpoint(str(tmp_path), offline=True).checkpoint, CPU)
    with pytest.raises(Unusable, match=r"model\.safetensors: .*up_proj\.weight holds NaN"):
        staged.read_quantized(name)


def test_wrong_room_and_names_are_refused(tmp_path):
    save_file({"a": torch.ones(4, 6)}, tmp_path / "model.safetensors")
    staged = StagedCheckpoint(checkpoint_from_folder(tmp_path, tied=True), CPU)
    with pytest.raises(Unusable, match=r"the tensor a has the shape \(4, 6\), expected \(6, 4\)"):
        staged.read_into("a", torch.empty(6, 4))
    for call in (lambda: staged.read_into("b", torch.empty(1)), lambda: staged.read_quantized("b")):
        with pytest.raises(Unusable, match="the tensor b is missing"):
            call()
    (tmp_path / "model.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes()[:-8])
    with pytest.raises(Unusable, match="cut short while a was read"):
        staged.read_into("a", torch.empty(4, 6))


_MEASURE = """
import sys, torch
from pathlib import Path
from spinf_serve.engine.loading.staged import StagedCheckpoint
from spinf_serve.engine.loading.weights import checkpoint_from_folder

def status(key):
    # Resident pages of every kind, those of mapped files among them.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

torch.set_num_threads(1)
meta = torch.device("meta")
staged = StagedCheckpoint(checkpoint_from_folder(Path(sys.argv[1]), tied=True), torch.device("cpu"))
Path("/proc/self/clear_refs").write_text("5")
base = status("VmRSS:")
for name in staged.order():
    # What lies on a device takes none of the host's memory.
    staged.read_into(name, torch.empty(staged.shape(name), dtype=torch.bfloat16, device=meta))
print(len(staged.order()), status("VmHWM:") - base)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_peak_memory_of_the_host_stays_under_1_3_of_the_largest_file(tmp_path, root):
    """A 100 MB checkpoint: one file is one table, another one a matrix, the last holds several."""
    columns = 2048
    files = [
        {"model.embed_tokens.weight": 7_000},
        {"model.layers.0.mlp.up_proj.weight": 7_000},
        {"model.layers.1.mlp.up_proj.weight": 3_500, "model.layers.1.mlp.down_proj.weight": 3_500},
    ]
    index: dict[str, str] = {}
    for number, rows in enumerate(files):
        name = f"model-{number:05}.safetensors"
        save_file(
            {key: torch.zeros(n, columns).bfloat16() for key, n in rows.items()}, tmp_path / name
        )
        index |= dict.fromkeys(rows, name)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    largest = max(file.stat().st_size for file in tmp_path.glob("*.safetensors"))
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path)],
        check=False,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    count, growth = map(int, ran.stdout.split())
    assert count == 4
    assert growth < 1.3 * largest, f"{growth / 1e6:.1f} MB over a file of {largest / 1e6:.1f}"
    # Both buffers are filled, together as long as the longest tensor: the measure sees something.
    assert growth > 0.9 * largest
