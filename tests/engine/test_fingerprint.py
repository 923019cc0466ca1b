"""Digests change with what moves a score, and a difference is named."""

from dataclasses import replace

import pytest

from spinf_serve.engine.fingerprint import (
    CardFacts,
    GpuScheme,
    cpu_fingerprint,
    difference,
    gpu_fingerprint,
    kernels_digest,
    model_digest,
)

CARD = CardFacts("NVIDIA H200", "9.0", "2.11.0+cu130", "3.6.0", "13.0")
FP8 = GpuScheme("fp8", "rows", "bfloat16")


def test_the_machine_moves_the_bits_and_not_the_model():
    one = cpu_fingerprint("a" * 64, "float32", "AVX2")
    other = cpu_fingerprint("a" * 64, "float32", "AVX512")
    assert one.model == other.model
    assert one.bits != other.bits
    assert difference(one, other) == ["capability: AVX2 -> AVX512"]


def test_weights_and_dtype_move_both():
    one = cpu_fingerprint("a" * 64, "float32", "AVX2")
    for other in (
        cpu_fingerprint("b" * 64, "float32", "AVX2"),
        cpu_fingerprint("a" * 64, "bfloat16", "AVX2"),
    ):
        assert one.model != other.model
        assert one.bits != other.bits


def test_equal_facts_give_equal_digests_of_64_digits_and_a_short_form():
    one, again = (cpu_fingerprint("a" * 64, "float32", "AVX2") for _ in range(2))
    assert (one.model, one.bits) == (again.model, again.bits)
    assert difference(one, again) == []
    assert len(one.model) == len(one.bits) == 64
    assert one.short == "fp_" + one.bits[:10]


def test_the_models_digest_is_known_without_opening_it():
    assert model_digest("a" * 64, "bfloat16") == cpu_fingerprint("a" * 64, "bfloat16", "AVX2").model


@pytest.mark.parametrize(
    ("dtype", "digest"),
    [
        ("float32", "c73355f421abad986fa72164e7f30656efcd5f090cceda6359cd1ea5189e33ff"),
        ("bfloat16", "0036beb756c8e455d80b1d0dd34e48b6d9028234cfcb386ebc3dfe31dd399869"),
    ],
)
def test_the_cpus_digests_are_those_that_packs_were_fitted_with(dtype, digest):
    assert model_digest("a" * 64, dtype) == digest


def test_card_and_libraries_move_the_bits_and_not_the_model():
    one = gpu_fingerprint("a" * 64, FP8, CARD)
    assert len(one.model) == len(one.bits) == 64
    for field in CardFacts.__dataclass_fields__:
        other = gpu_fingerprint("a" * 64, FP8, replace(CARD, **{field: "other"}))
        assert other.model == one.model
        assert other.bits != one.bits
        name = "card" if field == "name" else field
        assert difference(one, other) == [f"{name}: {one.facts[name]} -> other"]


def test_weights_and_scheme_move_both():
    one = gpu_fingerprint("a" * 64, FP8, CARD)
    others = [gpu_fingerprint("b" * 64, FP8, CARD), cpu_fingerprint("a" * 64, "bfloat16", "AVX2")]
    others += [
        gpu_fingerprint("a" * 64, replace(FP8, **{field: "other"}), CARD)
        for field in GpuScheme.__dataclass_fields__
    ]
    assert len({other.model for other in (one, *others)}) == 7
    assert len({other.bits for other in (one, *others)}) == 7


@pytest.mark.parametrize("folder", ["kernels", "models", "quantization"])
def test_an_edit_of_what_computes_moves_the_bits(tmp_path, folder):
    for name in ("kernels", "models", "quantization", "server"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "a.py").write_text("x = 1\n")
        (tmp_path / name / "inner" / "b.py").write_text("y = 1\n")
    first = kernels_digest(tmp_path)
    inner = tmp_path / folder / "inner"
    (inner / "b.pyc").write_bytes(b"compiled")
    (tmp_path / "server" / "a.py").write_text("x = 2\n")
    assert kernels_digest(tmp_path) == first
    (inner / "b.py").write_text("y = 2\n")
    edited = kernels_digest(tmp_path)
    (inner / "b.py").rename(tmp_path / folder / "b.py")
    assert len({first, edited, kernels_digest(tmp_path)}) == 3


def test_what_computes_is_this_package(root):
    here = kernels_digest(root / "engine")
    assert kernels_digest() == here
    assert gpu_fingerprint("a" * 64, FP8, CARD).facts["kernels"] == here
