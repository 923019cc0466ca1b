"""The scheme for each card, and the memory of the published models with it."""

import pytest

from spinf_serve.engine.quantization.choose import (
    RESERVE_BYTES,
    AttentionSizes,
    ModelSizes,
    choose_scheme,
    fitting_scheme,
    memory_of,
    weight_bytes,
)
from spinf_serve.engine.quantization.formats import StoredFormat
from spinf_serve.packs.errors import Unusable

GIB = 1 << 30
VOCABULARY, WINDOW = 262_144, 1024


def gemma4(hidden, intermediate, layers, heads, kv_heads, full_kv_heads) -> ModelSizes:
    """Sizes by the published shapes: each sixth layer is full and has no projection of values."""
    linear, rows, norms, attention = 0, 0, hidden, []
    for number in range(layers):
        full = (number + 1) % 6 == 0
        width, groups = (512, full_kv_heads) if full else (256, kv_heads)
        shapes = [(heads * width, hidden), *[(groups * width, hidden)] * (1 if full else 2)]
        shapes += [(hidden, heads * width), *[(intermediate, hidden)] * 2, (hidden, intermediate)]
        linear += sum(out * inner for out, inner in shapes)
        rows += sum(out for out, _ in shapes)
        norms += 4 * hidden + 2 * width
        attention.append(AttentionSizes(heads * width, groups * width, None if full else WINDOW))
    other = VOCABULARY * hidden + norms
    return ModelSizes(linear, rows, other, hidden, intermediate, attention)


SMALL = gemma4(3840, 15_360, 48, 16, 8, 1)
LARGE = gemma4(5376, 21_504, 60, 32, 16, 4)


def test_the_shapes_are_the_published_ones():
    assert SMALL.linear_weights + SMALL.other_weights == 11_907_350_272
    assert LARGE.linear_weights + LARGE.other_weights == 30_697_345_280


@pytest.mark.parametrize(
    ("capability", "has_fp8", "scheme", "why"),
    [
        ((8, 9), True, "fp8", "compute capability 8.9 computes in fp8"),
        ((9, 0), True, "fp8", "9.0 computes in fp8"),
        ((10, 0), True, "fp8", "10.0 computes in fp8"),
        ((10, 3), True, "fp8", "10.3 computes in fp8"),
        ((12, 0), True, "fp8", "12.0 computes in fp8"),
        ((12, 1), True, "fp8", "12.1 computes in fp8"),
        ((8, 0), True, "int8", "8.0 has no fp8"),
        ((8, 6), False, "int8", "8.6 has no fp8"),
        ((8, 7), True, "int8", "8.7 has no fp8"),
        ((9, 0), False, "bf16", "9.0 computes in fp8, but the libraries"),
        ((7, 5), True, "bf16", "neither fp8 nor int8 is served on compute capability 7.5"),
        ((11, 0), True, "bf16", "neither fp8 nor int8"),
        ((13, 0), True, "bf16", "neither fp8 nor int8"),
    ],
)
def test_the_scheme_follows_from_the_card_and_says_why(capability, has_fp8, scheme, why):
    found = choose_scheme(capability, has_fp8, 140 * GIB, SMALL)
    assert found.scheme == scheme == fitting_scheme(capability, has_fp8)
    assert why in found.why
    assert str(found).startswith(f"weights in {scheme}: ") and "140.0 GiB" in str(found)


def test_the_small_model_in_fp8_takes_less_than_22_gib_at_a_16k_pass():
    memory = memory_of(SMALL, "fp8", 16_384, 16_384)
    # Keys and values by the published bytes a token: full layers all tokens, the others a window.
    assert memory.kept == 16_384 * 16_384 + 1024 * 327_680
    assert memory.total < 22 * GIB
    assert memory_of(SMALL, "fp8", 16_384, 65_536).total < 22 * GIB
    assert memory_of(SMALL, "bf16", 16_384, 16_384).total > 22 * GIB
    choose_scheme((8, 9), True, int(23.5 * GIB), SMALL)


def test_the_large_model_in_fp8_fits_48_gb_and_not_24():
    memory = memory_of(LARGE, "fp8", 16_384, 32_768)
    assert memory.kept == 32_768 * 81_920 + 1024 * 819_200
    assert memory.total < 44 * GIB
    with pytest.raises(Unusable, match="a larger card or a smaller model: a lower token budget"):
        choose_scheme((8, 9), True, int(23.5 * GIB), LARGE)


def test_weights_are_counted_by_scheme():
    linear, other = SMALL.linear_weights, SMALL.other_weights
    assert weight_bytes(SMALL, "bf16") == 2 * (linear + other)
    assert weight_bytes(SMALL, "fp8") == linear + 4 * SMALL.linear_rows + 2 * other
    assert weight_bytes(SMALL, "int8") == weight_bytes(SMALL, "fp8")


def test_a_pass_is_as_wide_as_its_widest_layer():
    tiny = ModelSizes(0, 0, 0, 10, 100, [AttentionSizes(40, 20, None), AttentionSizes(80, 10, 8)])
    # Residual, normed copy and result; then q, k, v twice, partial results, merged and rounded.
    assert memory_of(tiny, "fp8", 3, 16).working == 3 * (5 * 10 + 4 * (80 + 20) + 11 * 80)
    assert memory_of(tiny, "bf16", 3, 16).working == 3 * (6 * 10 + 4 * (80 + 20) + 12 * 80)
    assert memory_of(tiny, "fp8", 3, 16).kept == 4 * 20 * 16 + 4 * 10 * 8
    wide = ModelSizes(0, 0, 0, 10, 1000, tiny.attention)
    assert memory_of(wide, "fp8", 3, 16).working == 3 * (5 * 10 + 5 * 1000)


def test_too_little_memory_is_told_with_the_numbers():
    needed = memory_of(SMALL, "fp8", 16_384, 16_384).total
    assert choose_scheme((9, 0), True, needed, SMALL).memory.total == needed
    with pytest.raises(Unusable) as caught:
        choose_scheme((9, 0), True, needed - 1, SMALL)
    text = str(caught.value)
    assert "\n" not in text
    for part in (
        "weights in fp8 (compute capability 9.0 computes in fp8)",
        "passes of 16,384 tokens",
        f"{needed / GIB:.1f} GiB (weights {weight_bytes(SMALL, 'fp8') / GIB:.1f}",
        f"reserve {RESERVE_BYTES / GIB:.1f}",
        f"{weight_bytes(SMALL, 'bf16') / GIB:.1f} in bf16",
        "lower the token budget",
    ):
        assert part in text


@pytest.mark.parametrize("wanted", ["fp8", "int8", "bf16"])
def test_a_scheme_that_is_asked_for_is_taken_where_the_card_has_it(wanted):
    found = choose_scheme((9, 0), True, 140 * GIB, SMALL, wanted=wanted)
    assert (found.scheme, found.why) == (wanted, "as asked with --quant")
    assert found.memory == memory_of(SMALL, wanted, 16_384, 16_384)


@pytest.mark.parametrize(
    ("capability", "has_fp8", "message"),
    [
        (
            (8, 6),
            False,
            r"^--quant fp8: .*8\.6 has no fp8.*; leave --quant out, which is int8 here$",
        ),
        (
            (9, 0),
            False,
            r"libraries installed here do not\); leave --quant out, which is bf16 here$",
        ),
    ],
)
def test_fp8_on_a_card_without_is_refused_with_what_there_is(capability, has_fp8, message):
    with pytest.raises(Unusable, match=message):
        choose_scheme(capability, has_fp8, 140 * GIB, SMALL, wanted="fp8")


def test_a_scheme_that_is_asked_for_is_refused_when_it_does_not_fit():
    with pytest.raises(Unusable, match=r"weights in bf16 \(as asked with --quant\).*fp8, .*int8"):
        choose_scheme((8, 9), True, int(23.5 * GIB), SMALL, wanted="bf16")


def stored(kind, activations) -> StoredFormat:
    return StoredFormat(kind, True, activations, ("Linear",), ())


@pytest.mark.parametrize(
    ("kind", "activations", "why"),
    [
        ("fp8", "static", "stores them so (fp8, one scale a channel, static inputs)"),
        ("fp8", "token", "inputs by token)"),
        ("fp8", "none", "and their inputs are put into fp8 by token"),
        ("int8", "none", "inputs in 16 bits)"),
        ("int8", "token", "and their inputs stay in 16 bits"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_checkpoint_in_8_bits_keeps_its_scheme(kind, activations, why, named):
    """Though the card would compute in fp8 where nobody asks."""
    form = stored(kind, activations)
    wanted = kind if named else None
    found = choose_scheme((9, 0), True, 140 * GIB, SMALL, stored=form, wanted=wanted)
    assert found.scheme == kind
    assert found.why.endswith(why)


@pytest.mark.parametrize(("kind", "wanted"), [("fp8", "int8"), ("int8", "fp8"), ("fp8", "bf16")])
def test_a_checkpoint_in_8_bits_is_not_rounded_again(kind, wanted):
    with pytest.raises(Unusable, match=f"stored in {kind}, and --quant {wanted} .*in 16 bits$"):
        choose_scheme((9, 0), True, 140 * GIB, SMALL, stored=stored(kind, "token"), wanted=wanted)


def test_a_checkpoint_in_fp8_is_refused_on_a_card_without():
    with pytest.raises(Unusable, match=r"8\.6 has no fp8.*in 16 bits, which becomes int8 here$"):
        choose_scheme((8, 6), False, 140 * GIB, SMALL, stored=stored("fp8", "static"))
