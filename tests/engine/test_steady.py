"""What the processor's maths library is told before torch is imported."""

import os
import subprocess
import sys

import pytest

from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.steady import MODE, VARIABLE, cpu_vendor, steady_products


@pytest.mark.parametrize(
    ("vendor", "before", "after"),
    [
        ("GenuineIntel", {}, {VARIABLE: MODE}),
        ("GenuineIntel", {VARIABLE: "COMPATIBLE"}, {VARIABLE: "COMPATIBLE"}),
        ("AuthenticAMD", {}, {}),
        ("", {}, {}),
    ],
)
def test_only_intel_needs_the_strict_mode_and_a_set_variable_stays(vendor, before, after):
    environ = dict(before)
    steady_products(environ, vendor)
    assert environ == after


def test_the_vendor_is_read_from_the_processors_description(tmp_path):
    described = tmp_path / "cpuinfo"
    described.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t: 1\n")
    assert cpu_vendor(described) == "AuthenticAMD"
    described.write_text("processor\t: 0\n")
    assert cpu_vendor(described) == ""


def test_importing_any_part_of_the_engine_asks_first():
    code = (
        "import os, pathlib, sys\n"
        "pathlib.Path.exists = lambda self: True\n"
        "pathlib.Path.read_text = lambda self: 'vendor_id : GenuineIntel'\n"
        "import spinf_serve.engine.config\n"
        "assert 'torch' not in sys.modules\n"
        "print(os.environ.get('MKL_CBWR'))\n"
    )
    unset = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], env=unset, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == MODE


def test_the_mode_is_part_of_the_bits_digest_and_not_of_the_models(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    plain = cpu_fingerprint("0" * 64, "float32", "AVX512")
    monkeypatch.setenv(VARIABLE, MODE)
    strict = cpu_fingerprint("0" * 64, "float32", "AVX512")
    assert plain.model == strict.model
    assert plain.bits != strict.bits
