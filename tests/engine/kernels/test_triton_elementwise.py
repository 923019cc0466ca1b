"""Row-wise work in Triton: exact enough, a row's bits are its own, a NaN stays one."""

import pytest
import torch

from spinf_serve.engine.kernels.elementwise import reference
from spinf_serve.engine.kernels.elementwise.quant import LIMITS, Quant
from tests.support.oracles import assert_no_worse, nan_memory

pytest.importorskip("triton", reason="Triton has no wheel for this system")

from spinf_serve.engine.kernels.elementwise.kernel import add_norm, heads, norm, quantize

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FLOAT8 = torch.float8_e4m3fn
ROWS = (1, 63, 64, 65, 129)
SIZES = (1, 63, 64, 65, 129)
EPS = 1e-6
DTYPES = (torch.float32, torch.bfloat16) if DEVICE == "cuda" else (torch.float32,)
QUANTS = {
    "float8, one scale": Quant(FLOAT8, torch.tensor([0.01], device=DEVICE)),
    "float8, row scales": Quant(FLOAT8, None),
    "int8, row scales": Quant(torch.int8, None),
}


def _values(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    values = 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(dtype).to(DEVICE)


def _assert_quantized(found, scales, plain, exact, quant):
    """`found` is `plain` rounded to eight bits, but where float32 and exact fall on two sides.

    Two sides of a rounding are one step apart, and only values closer to the border than float32's
    own error may be there.
    """
    assert found.dtype == quant.dtype
    if quant.scale is None:
        torch.testing.assert_close(
            scales.double(), reference.row_scales(exact, quant.dtype), rtol=1e-6, atol=1e-37
        )
    used = quant.scale if scales is None else scales
    expected = reference.quantize(plain, quant.dtype, used)
    differ = found.float() != expected.float()
    assert float(differ.float().mean()) <= 0.002
    lower, upper = (
        reference.quantize(exact / used.double() * (1 + step), quant.dtype, torch.ones_like(used))
        for step in (-1e-5, 1e-5)
    )
    between = (found.float() == lower.float()) | (found.float() == upper.float())
    assert bool(between.all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", (0, *ROWS))
def test_a_norm_is_what_the_reference_says(dtype, rows):
    x, weight = _values(rows, 100, dtype=dtype), _values(100, seed=1, dtype=dtype)
    with nan_memory():
        found, scales = norm(x, weight, EPS)
    assert scales is None and found.dtype == dtype
    plain = reference.rms_norm(x.float(), weight.float(), EPS).to(dtype)
    assert_no_worse(found, plain, reference.rms_norm(x.double(), weight.double(), EPS))


@pytest.mark.parametrize("size", SIZES)
def test_a_row_of_any_length_is_normed(size):
    x, weight = _values(63, size), _values(size, seed=1)
    with nan_memory():
        found, _ = norm(x, weight, EPS)
    plain = reference.rms_norm(x, weight, EPS)
    assert_no_worse(found, plain, reference.rms_norm(x.double(), weight.double(), EPS))


@pytest.mark.parametrize("name", QUANTS)
@pytest.mark.parametrize("rows", ROWS)
def test_a_norm_is_rounded_to_eight_bits(name, rows):
    x, weight, quant = _values(rows, 100), _values(100, seed=1), QUANTS[name]
    with nan_memory():
        found, scales = norm(x, weight, EPS, quant=quant)
    plain = reference.rms_norm(x, weight, EPS)
    exact = reference.rms_norm(x.double(), weight.double(), EPS)
    _assert_quantized(found, scales, plain, exact, quant)
    if quant.scale is None or rows > 60:
        # A row's scale uses the whole range; one scale clamps what is beyond it.
        assert float(found.float().abs().amax()) == LIMITS[quant.dtype]


@pytest.mark.parametrize("name", QUANTS)
def test_rows_are_rounded_without_a_norm(name):
    x, quant = _values(65, 129), QUANTS[name]
    with nan_memory():
        found, scales = quantize(x, quant)
    _assert_quantized(found, scales, x, x.double(), quant)


@pytest.mark.parametrize("dtype", (FLOAT8, torch.int8))
def test_a_row_of_zeros_stays_zeros(dtype):
    x = torch.zeros(3, 64, device=DEVICE)
    x[1, 5] = 2
    found, scales = quantize(x, Quant(dtype, None))
    assert scales is not None
    back = found.float() * scales
    torch.testing.assert_close(back, x, rtol=1e-6, atol=0)


@pytest.mark.parametrize("post", (True, False))
@pytest.mark.parametrize("layer_scale", (None, 0.37))
@pytest.mark.parametrize("rows", (0, *ROWS))
def test_the_residual_is_added_scaled_and_normed(post, layer_scale, rows):
    residual, y = _values(rows, 100), _values(rows, 100, seed=1)
    post_weight = _values(100, seed=2) if post else None
    next_weight = _values(100, seed=3)
    scale = None if layer_scale is None else torch.tensor([layer_scale], device=DEVICE)
    before = residual.clone()
    with nan_memory():
        kept, found, scales = add_norm(
            residual, y, post_weight, next_weight, EPS, layer_scale=scale
        )
    assert scales is None

    def definition(wide):
        normed = y.to(wide)
        if post_weight is not None:
            normed = reference.rms_norm(normed, post_weight.to(wide), EPS)
        total = residual.to(wide) + normed
        total = total if scale is None else total * scale.to(wide)
        return total, reference.rms_norm(total, next_weight.to(wide), EPS)

    for result, plain, exact in zip(
        (kept, found), definition(torch.float32), definition(torch.float64), strict=True
    ):
        assert_no_worse(result, plain, exact)
    assert torch.equal(residual, before)


@pytest.mark.parametrize("name", QUANTS)
def test_the_normed_residual_is_rounded_to_eight_bits(name):
    residual, y, quant = _values(65, 129), _values(65, 129, seed=1), QUANTS[name]
    post_weight, next_weight = _values(129, seed=2), _values(129, seed=3)
    plain_kept, plain, _ = add_norm(residual, y, post_weight, next_weight, EPS)
    kept, found, scales = add_norm(residual, y, post_weight, next_weight, EPS, quant=quant)
    assert torch.equal(kept, plain_kept)
    exact = reference.rms_norm(kept.double(), next_weight.double(), EPS)
    _assert_quantized(found, scales, plain, exact, quant)


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter's bfloat16 arithmetic is wrong")
def test_a_fused_chain_is_its_parts():
    residual, y = _values(65, 640, dtype=torch.bfloat16), _values(65, 640, dtype=torch.bfloat16)
    weight = _values(640, seed=2, dtype=torch.bfloat16)
    for cast_first in (False, True):
        kept, found, _ = add_norm(residual, y, None, weight, EPS, cast_first=cast_first)
        assert torch.equal(kept, residual + y)
        assert torch.equal(found, norm(kept, weight, EPS, cast_first=cast_first)[0])


# heads, key/value heads, head size, whether v is k, moving pairs.
GEOMETRIES = {
    "grouped": (4, 2, 24, False, 12),
    "one key head, v is k": (5, 1, 64, True, 32),
    "few pairs move": (4, 2, 64, False, 5),
    "none moves": (2, 1, 16, True, 0),
    "large heads": (3, 1, 512, True, 64),
    "q alone": (3, 0, 24, False, 12),
    "k and v alone": (0, 2, 24, False, 12),
    "k alone, v is k": (0, 2, 24, True, 12),
}
NORMS = {"all": (True, True), "q and k": (True, False), "v": (False, True), "none": (False, False)}


def _projected(name, rows, dtype=torch.float32):
    queries, keys, size, v_is_k, moving = GEOMETRIES[name]
    width = (queries + (1 if v_is_k else 2) * keys) * size
    angles = _values(129, moving, seed=4)[:rows]
    turns = angles.cos().contiguous(), angles.sin().contiguous()
    return _values(129, width, dtype=dtype)[:rows].contiguous(), *turns, (queries, keys, size)


def _heads(qkv, cos, sin, geometry, norms, confine=False):
    queries, keys, size = geometry
    weights = (_values(size, seed=5), _values(size, seed=6)) if norms[0] else (None, None)
    return heads(
        qkv,
        *weights,
        v_norm=norms[1],
        eps=EPS,
        cos=cos,
        sin=sin,
        heads=queries,
        kv_heads=keys,
        head_dim=size,
        confine=confine,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norms", NORMS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_heads_are_split_normed_and_turned(dtype, norms, name):
    rows = 5
    qkv, cos, sin, geometry = _projected(name, rows, dtype)
    with nan_memory():
        found = _heads(qkv, cos, sin, geometry, NORMS[norms])

    def definition(wide):
        size = geometry[2]
        q_norm, k_norm = _values(size, seed=5).to(wide), _values(size, seed=6).to(wide)
        normed, v_normed = NORMS[norms]
        return reference.heads(
            qkv.to(wide),
            q_norm if normed else None,
            k_norm if normed else None,
            v_normed,
            EPS,
            cos.to(wide),
            sin.to(wide),
            heads=geometry[0],
            kv_heads=geometry[1],
            head_dim=size,
        )

    for result, plain, exact in zip(
        found, definition(torch.float32), definition(torch.float64), strict=True
    ):
        assert result.dtype == dtype
        assert_no_worse(result, plain.to(dtype), exact)


@pytest.mark.parametrize("sick", (torch.nan, torch.inf, -torch.inf))
@pytest.mark.parametrize("norms", NORMS)
@pytest.mark.parametrize("name", [name for name in GEOMETRIES if GEOMETRIES[name][1]])
def test_a_confined_value_is_finite_and_its_key_tells(name, norms, sick):
    qkv, cos, sin, geometry = _projected(name, 5)
    plain = _heads(qkv, cos, sin, geometry, NORMS[norms])
    clean = _heads(qkv, cos, sin, geometry, NORMS[norms], confine=True)
    for found, expected in zip(clean, plain, strict=True):
        assert torch.equal(found, expected)
    qkv[2, -3] = sick  # of the last head's value
    q, k, v = _heads(qkv, cos, sin, geometry, NORMS[norms], confine=True)
    assert v.isfinite().all()
    assert k[2, -1].isnan().any()
    for found, expected in zip((q, k, v), plain, strict=True):
        others = torch.ones(found.shape[:2], dtype=torch.bool, device=DEVICE)
        if found is not q:
            others[2, -1] = False
        assert torch.equal(found[others], expected[others])


OPERATIONS = {
    "norm": lambda x: norm(x, _values(100, seed=1), EPS),
    "norm to float8": lambda x: norm(x, _values(100, seed=1), EPS, quant=Quant(FLOAT8, None)),
    "norm to int8": lambda x: norm(x, _values(100, seed=1), EPS, quant=Quant(torch.int8, None)),
    "add norm": lambda x: add_norm(
        x, x * 2, _values(100, seed=1), _values(100, seed=2), EPS, quant=QUANTS["float8, one scale"]
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_row_does_not_depend_on_how_many_there_are(name):
    x = _values(129, 100)
    whole = OPERATIONS[name](x)
    for first, last in ((0, 1), (0, 64), (66, 129), (128, 129)):
        part = OPERATIONS[name](x[first:last].contiguous())
        for found, expected in zip(part, whole, strict=True):
            if found is None or expected is None:
                assert found is expected
            else:
                assert torch.equal(found.float(), expected[first:last].float())


@pytest.mark.parametrize("name", ("grouped", "one key head, v is k"))
def test_a_rows_heads_do_not_depend_on_the_others(name):
    qkv, cos, sin, geometry = _projected(name, 65)
    whole = _heads(qkv, cos, sin, geometry, (True, True))
    for first, last in ((0, 1), (0, 63), (64, 65), (3, 65)):
        x, c, s = (tensor[first:last].contiguous() for tensor in (qkv, cos, sin))
        part = _heads(x, c, s, geometry, (True, True))
        for found, expected in zip(part, whole, strict=True):
            assert torch.equal(found, expected[first:last])


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_nan_row_stays_alone_and_is_seen(name):
    x = _values(9, 100)
    clean = OPERATIONS[name](x)
    x[4, 3] = torch.nan
    found = OPERATIONS[name](x)
    others = [0, 1, 2, 3, 5, 6, 7, 8]
    seen = False
    for result, expected in zip(found, clean, strict=True):
        if result is not None and expected is not None:
            assert torch.equal(result.float()[others], expected.float()[others])
            seen |= bool(result.float()[4].isnan().all())
    assert seen


def test_a_quant_says_what_it_cannot_do():
    one = torch.ones(1)
    for dtype, scale, message in (
        (torch.bfloat16, None, "float8_e4m3fn or int8"),
        (FLOAT8, torch.ones(2), "one float32"),
        (torch.int8, one, "a scale per row"),
    ):
        with pytest.raises(AssertionError, match=message):
            Quant(dtype, scale)


def test_what_does_not_fit_is_said():
    x, weight = torch.zeros(4, 64), torch.zeros(64)
    with pytest.raises(AssertionError, match="tensors that fit"):
        norm(x.T, weight, EPS)
    with pytest.raises(AssertionError, match="tensors that fit"):
        add_norm(x, x.double(), None, weight, EPS)
    with pytest.raises(AssertionError, match="tensors that fit"):
        _heads(x, x[:, :8].contiguous(), x[:, :8].contiguous(), (4, 1, 16), (False, False))
