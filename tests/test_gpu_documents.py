"""The tables that are made from what a GPU measured."""

import json
from dataclasses import asdict
from pathlib import Path

from spinf_serve.engine.bench.results import Circumstances, Measurement
from tests.support import gpu_documents
from tests.support.documents import RESULTS

ABOUT = Circumstances(
    model="synthetic/gemma-4-12b",
    scheme="static",
    card="NVIDIA H200",
    card_line="NVIDIA H200, 580.1, 700.00 W",
    processor="a processor",
    versions={"torch": "2.11.0", "triton": "3.6.0", "python": "3.12.3"},
    commit="abc",
    date="2026-01-01",
    command="spinf-serve bench --synthetic gemma-4-12b",
    fingerprint="0" * 64,
    token_budget=16_384,
    load_seconds=4.25,
)


def cells(text: str, job: str) -> list[str]:
    """The cells of the first row of a job."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {job} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_measured_files_become_tables(tmp_path: Path):
    main = Measurement(
        "24x56",
        "in-process",
        24,
        1344,
        content_tokens=465.6,
        rows=31_000,
        questions_per_s_wall=2000.4,
        questions_per_s_device=2100.0,
        work_tokens_per_s=46_000.0,
        contents_per_hour=128_571.0,
        linears_ceiling_questions_per_s=2400.0,
        linears_share=0.834,
        device_ms={"linears": 540.0, "attention": 45.0},
        device_share={"linears": 0.9231, "attention": 0.0769},
        device_idle_share=0.0123,
        wall_idle_share=0.05,
        host_seconds=[{"compile": 0.02, "pack": 0.01}],
        peak_memory_gib=15.25,
    )
    http = Measurement(
        "24x56",
        "http",
        700,
        39_200,
        questions_per_s_wall=1900.0,
        extra={
            "clients": 32,
            "requests": 700,
            "latency_p50_seconds": 0.9,
            "latency_p99_seconds": 1.5,
            "of_in_process": 0.95,
        },
    )
    rows = [asdict(ABOUT) | asdict(one) for one in (main, http)]
    (tmp_path / "gpu-h200.json").write_text(json.dumps(rows))
    (tmp_path / "cpu-float32.json").write_text("{}")
    text = gpu_documents.figures(tmp_path)
    assert "### `gpu-h200.json`" in text
    assert "NVIDIA H200, 580.1, 700.00 W; torch 2.11.0, triton 3.6.0, python 3.12.3." in text
    rates, shares, over_http = text.split("\n| job ")[1:]
    assert cells(rates, "24x56")[1:8] == [
        "24 × 466",
        "1,344",
        "2,000",
        "2,100",
        "2,400",
        "–",
        "83.4 %",
    ]
    assert cells(rates, "24x56")[8:] == ["46,000", "128,571", "5.0 %", "1.2 %", "30", "15.2"]
    assert cells(shares, "24x56")[1:] == ["92.3", "7.7", "0.0", "0.0", "0.0", "0.0"]
    assert cells(over_http, "24x56")[1:] == ["32", "1,900", "0.950", "700", "900", "1500", "–"]


def test_without_files_there_is_no_section(tmp_path: Path):
    assert gpu_documents.figures(tmp_path) == ""


def load_file() -> dict[str, object]:
    return asdict(ABOUT) | {
        "job": "load",
        "write_seconds": None,
        "checkpoint_bytes": 23_600_000_000,
        "largest_shard_bytes": 4_900_000_000,
        "shards": 5,
        "steps": [[0.001, "device cuda"], [3.456, "compiling kernels"]],
        "host_peak_bytes": 3 << 30,
        "host_peak_bytes_before": 1 << 30,
        "device_peak_gib": 15.25,
        "digest_seconds": 12.04,
    }


def golden_file(answers: str, *, bits: str = "b" * 64, passed: bool = True) -> dict[str, object]:
    check = {"name": "run again", "compared": 100, "different": int(not passed), "sizes": []}
    return {
        "model": "synthetic/gemma-4-12b",
        "facts": {"scheme": "fp8 weights, static activations"},
        "card": "NVIDIA H200, driver 580",
        "libraries": {"torch": "2.11.0"},
        "checks": [check | {"passed": passed}, check | {"compared": 1000, "passed": True}],
        "bits_digest": bits,
        "answers_sha256": answers * 64,
    }


def test_an_opened_checkpoint_becomes_a_table(tmp_path: Path):
    (tmp_path / "load-h200.json").write_text(json.dumps(load_file()))
    (tmp_path / "packs-load.json").write_text("{}")
    text = gpu_documents.figures(tmp_path)
    assert text.count("\n## ") == 1 and "### `load-h200.json`" in text
    assert "| 4.2 | 23.6 | 5 | 4.9 | – | 12.0 | 3.00 | 1.00 | 15.2 |" in text
    assert "| 3.46 | compiling kernels |" in text


def test_what_slots_cost_becomes_a_table(tmp_path: Path):
    found = {
        "model": "synthetic/gemma-4-12b",
        "dtype": "fp8 weights, static activations",
        "command": "spinf-serve bench --extraction",
        "commit": "abc",
        "date": "2026-01-01",
        "card": "NVIDIA H200, 580.1",
        "versions": {"torch": "2.11.0", "triton": "3.6.0"},
        "token_seconds": 2e-5,
        "shape": {"contents": 24, "content_tokens": 466.0, "max_tokens": 16},
        "searched": 745.9,
        "number": 732.1,
        "generated": 628.8,
        "lone": 10803.3,
        "slowdown": 1.642,
        "farthest": None,
    }
    (tmp_path / "extraction-h200.json").write_text(json.dumps(found))
    text = gpu_documents.figures(tmp_path)
    assert "| 24 × 466 | 16 | 746 | 732 | 629 | – | 10,803 | 1.64 |" in text
    assert "A scored token takes 0.020 ms." in text


def test_machines_with_one_bits_digest_are_compared(tmp_path: Path):
    def told(*files: dict[str, object]) -> tuple[str, list[str]]:
        for number, one in enumerate(files, 1):
            (tmp_path / f"golden-h200-{number}.json").write_text(json.dumps(one))
        return gpu_documents.figures(tmp_path), gpu_documents.golden_faults(tmp_path)

    text, faults = told(golden_file("a"), golden_file("a"))
    assert not faults
    assert text.count("| 2.11.0 | – | 2 of 2 |") == 2
    assert text.count("| 2 of 2 | 1,100 | `bbbbbbbbbbbbbbbb` | `aaaaaaaaaaaaaaaa` |") == 2
    assert "`golden-h200-1.json` and `golden-h200-2.json`: the same bits." in text
    text, faults = told(golden_file("a"), golden_file("c"))
    assert "DIFFERENT BITS" in text
    assert faults == [
        "golden-h200-2.json: other bits than golden-h200-1.json, with the same bits digest"
    ]
    text, faults = told(golden_file("a"), golden_file("c", bits="d" * 64))
    assert not faults and "the same bits." not in text
    assert "no answer has changed" not in text
    later = golden_file("a", bits="d" * 64)
    later["facts"] = {"scheme": "fp8 weights, static activations", "kernels": "e" * 64}
    text, faults = told(golden_file("a"), later)
    assert not faults and "no answer has changed" in text
    made = {"command": "spinf-serve doctor --invariance", "commit": "abc", "date": "2026-01-01"}
    text, faults = told(golden_file("a"), golden_file("a") | made)
    assert not faults
    assert "| `spinf-serve doctor --invariance` at `abc` on 2026-01-01 | 2 of 2 |" in text
    _, faults = told(golden_file("a"), golden_file("a", passed=False))
    assert faults == ["golden-h200-2.json: checks failed: run again"]


def test_the_stored_golden_files_agree():
    assert gpu_documents.golden_faults(RESULTS) == []


def test_the_memory_of_the_12b_is_told_to_fit_22_gib():
    line = next(
        line
        for line in gpu_documents.page("").splitlines()
        if line.startswith("| gemma-4-12b, passes of 16,384 | fp8 ")
    )
    assert float(line.strip("| ").split("|")[-1]) < 22
