"""The compiler's report: complete, of the kernels as they are, within every card's memory.

`compiled/` holds one report for each version of Triton that is in use. After a change of a kernel
or a tile, make both again: `python -m spinf_serve.engine.kernels.compile_report FILE.json`.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.engine.kernels.tiles import CAPABILITIES, SHARED_MEMORY_BYTES

REPORTS = sorted(Path(__file__).with_name("compiled").glob("triton-*.json"))
SAMPLE = "gated product fp8 128x256x128"
# Known to spill more than others, in bytes a thread, by a compiler that no card was measured with.
SPILLS = {("triton-3.9.0", "tree 16+1x512, kept, 64 rows on 9.0"): 128}

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="no Triton on this system")


def _python(*arguments: str) -> str:
    """Runs Python with the interpreter of Triton off: an interpreted kernel cannot be compiled."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": os.devnull}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rows(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())["kernels"])


def test_a_report_is_there_for_ci_and_for_the_card():
    versions = [json.loads(path.read_text())["triton"] for path in REPORTS]
    assert [path.name for path in REPORTS] == [f"triton-{version}.json" for version in versions]
    assert "3.6.0" in versions


def test_reports_are_of_the_kernels_as_they_are():
    code = "import json, spinf_serve.engine.kernels.compile_report as report\n"
    digests = json.loads(_python("-c", code + "print(json.dumps(report.digests()))"))
    assert {capability for capability, _, _ in digests} == {
        ".".join(map(str, capability)) for capability in CAPABILITIES
    }
    for path in REPORTS:
        found = [[row["capability"], row["kernel"], row["digest"]] for row in _rows(path)]
        stale = [name for name in digests if name not in found]
        assert found == digests, f"make {path.name} again: {stale[:3]}"


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_every_kernel_fits_its_card_and_the_hot_ones_spill_nothing(path):
    limits = {".".join(map(str, card)): size for card, size in SHARED_MEMORY_BYTES.items()}
    for row in _rows(path):
        name = f"{row['kernel']} on {row['capability']}"
        assert row["shared_limit_bytes"] == limits[row["capability"]]
        assert 0 <= row["shared_bytes"] <= row["shared_limit_bytes"], name
        assert row["registers"] * row["warps"] * 32 <= 65536, name
        # float32 is for tiny models and tests: it has no matrix units. Attention fills a thread's
        # registers; where it was measured they hold all, elsewhere a few words may leave them.
        measured = path.stem == "triton-3.6.0" and row["capability"] == "9.0"
        few = {"tree": 24, "read": 32}.get(row["kernel"].split()[0], 0) * (not measured)
        assert row["spill_bytes"] <= SPILLS.get((path.stem, name), few) or "float32" in name, name


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_products_use_the_cards_matrix_units(path):
    for row in _rows(path):
        if "product" not in row["kernel"] or "float32" in row["kernel"]:
            continue
        hopper = row["capability"] == "9.0"
        assert ("wgmma.mma_async" if hopper else "mma.sync") in row["instructions"]
        copies = "cp.async.bulk.tensor" if hopper else "cp.async.cg"
        assert copies in row["instructions"], row["kernel"]


def test_a_kernel_compiled_here_is_as_reported(tmp_path):
    import triton

    path = Path(__file__).with_name("compiled") / f"triton-{triton.__version__}.json"
    if not path.exists():
        pytest.skip(f"no report of Triton {triton.__version__}")
    _python("-m", "spinf_serve.engine.kernels.compile_report", str(tmp_path / "new.json"), SAMPLE)
    expected = [row for row in _rows(path) if SAMPLE in row["kernel"]]
    assert expected and _rows(tmp_path / "new.json") == expected
