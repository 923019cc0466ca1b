"""Digests change with what moves a score, and a difference is named."""

from spinf_serve.engine.fingerprint import cpu_fingerprint, difference, model_digest


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
