"""Products in Triton: exact enough, a row's bits are its own, nothing outside is read or written.

On the CPU the interpreter runs them, whose bfloat16 is wrong: float32, float8 and int8 there.
"""

import dataclasses

import pytest
import torch

from spinf_serve.engine.kernels.linear import reference
from spinf_serve.engine.kernels.linear.gate_up import (
    GATE_BLOCK,
    interleave_gate_up,
    separate_gate_up,
)
from spinf_serve.engine.kernels.tiles import INTERPRETER, Tile, product_tile
from tests.support.oracles import assert_no_worse, nan_memory

pytest.importorskip("triton", reason="Triton has no wheel for this system")

from spinf_serve.engine.kernels.linear.kernel import (
    gated_product,
    product,
    scheme_of,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FLOAT8 = torch.float8_e4m3fn
ROWS = (1, 63, 64, 65, 129)
MOST = max(ROWS)
# dtype of activations and weights -> which scales go with them, in one run.
KINDS = {
    "float32": (torch.float32, torch.float32),
    "float8": (FLOAT8, FLOAT8),
    "int8": (torch.int8, torch.int8),
}
if DEVICE == "cuda":
    KINDS["bfloat16"] = (torch.bfloat16, torch.bfloat16)
    KINDS["w8a16"] = (torch.bfloat16, torch.int8)


def _values(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    values = 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    if dtype == torch.int8:
        values = (values * 20).round().clamp(-127, 127)
    return values.to(dtype).to(DEVICE)


def _scale(*shape: int, seed: int) -> torch.Tensor:
    return (0.5 + torch.rand(shape, generator=torch.Generator().manual_seed(seed))).to(DEVICE)


def _operands(kind: str, rows: int, columns: int, inner: int, scales: str = "rows"):
    """x, weight and their scales; the first rows of more rows are the same rows."""
    left, right = KINDS[kind]
    x = _values(MOST, inner, dtype=left, seed=0)[:rows].contiguous()
    weight = _values(columns, inner, dtype=right, seed=1)
    if scales == "rows":
        return x, weight, _scale(MOST, 1, seed=2)[:rows].contiguous(), _scale(columns, 1, seed=3)
    if scales == "one":
        return x, weight, _scale(seed=2), _scale(1, seed=3)
    return x, weight, None, None


def _exact(operands, wide: torch.dtype, residual=None):
    def widened(tensor):
        return None if tensor is None else tensor.to(wide)

    x, weight, x_scale, weight_scale = map(widened, operands)
    return reference.product(x, weight, x_scale, weight_scale, widened(residual))


def _is_float8_on_a_card(operands) -> bool:
    """Whether torch has a product to compare with: its own, on cards from 8.9 on."""
    x = operands[0]
    return x.dtype == FLOAT8 and x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 9)


def _plain(operands, residual=None):
    """The product as a float32 program gives it.

    A card's matrix units add float8 products with fewer bits than float32. There the sums are those
    of torch with fast accumulation, which takes sizes by 16: zeros make up the rest.
    """
    x, weight, x_scale, weight_scale = operands
    if not _is_float8_on_a_card(operands) or not len(x):
        return _exact(operands, torch.float32, residual)
    one = torch.ones((), device=x.device)
    sums = torch._scaled_mm(
        _by_16(x, x.shape[0]),
        _by_16(weight, _up_to_16(weight.shape[0])).T,
        scale_a=one,
        scale_b=one,
        out_dtype=torch.float32,
        use_fast_accum=True,
    )[:, : weight.shape[0]]
    # Times the identity, which is exact: what is left are the scales and the residual.
    identity = torch.eye(sums.shape[1], device=sums.device)
    return _exact((sums, identity, x_scale, weight_scale), torch.float32, residual)


def _up_to_16(size: int) -> int:
    return -(-size // 16) * 16


def _by_16(matrix, rows: int):
    wide = torch.zeros(rows, _up_to_16(matrix.shape[1]), device=matrix.device)
    wide[: matrix.shape[0], : matrix.shape[1]] = matrix.float()
    return wide.to(matrix.dtype)


def _bound(operands):
    """[N, M] what float32 sums in any order can be off by: `(K + 2) eps sum |x| |weight|`, scaled.

    K products and sums and two scalings, each off by at most `eps` of its result, to first order in
    `eps` (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). It is eps and not
    eps / 2, for matrix units cut off where a float32 unit rounds.
    """
    x, weight, x_scale, weight_scale = operands
    steps = x.shape[1] + 2
    sizes = _exact((x.double().abs(), weight.double().abs(), x_scale, weight_scale), torch.float64)
    return steps * torch.finfo(torch.float32).eps * sizes


def _sums_in_its_own_order(operands) -> bool:
    """Whether a card sums float32 in an order of its own; int8 sums are exact."""
    return operands[0].is_cuda and operands[0].dtype in (torch.float32, torch.bfloat16)


def _assert_product(found, operands):
    exact = _exact(operands, torch.float64)
    if _sums_in_its_own_order(operands):
        assert found.shape == exact.shape
        assert bool(((found.double() - exact).abs() <= _bound(operands)).all())
    else:
        assert_no_worse(found, _plain(operands), exact)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scales", ("rows", "one", "none"))
@pytest.mark.parametrize("rows", (0, *ROWS))
def test_it_is_the_product(kind, scales, rows):
    operands = _operands(kind, rows, 80, 96, scales)
    x, weight, x_scale, weight_scale = operands
    with nan_memory():
        found = product(
            x, weight, x_scale=x_scale, weight_scale=weight_scale, out_dtype=torch.float32
        )
    assert found.dtype == torch.float32
    _assert_product(found, operands)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ((1, 1), (3, 5), (65, 33), (100, 129)))
def test_odd_sizes_are_not_read_over_their_edge(kind, size):
    columns, inner = size
    operands = _operands(kind, 63, columns, inner)
    x, weight, x_scale, weight_scale = operands
    with nan_memory():
        found = product(
            x, weight, x_scale=x_scale, weight_scale=weight_scale, out_dtype=torch.float32
        )
    _assert_product(found, operands)


@pytest.mark.parametrize("residual_dtype", (torch.float32, torch.bfloat16))
def test_a_residual_is_added_before_the_rounding(residual_dtype):
    operands = _operands("float8", 65, 80, 96)
    x, weight, x_scale, weight_scale = operands
    residual = _values(65, 80, dtype=torch.float32, seed=5).to(residual_dtype)
    found = product(
        x,
        weight,
        x_scale=x_scale,
        weight_scale=weight_scale,
        out_dtype=torch.bfloat16,
        residual=residual,
    )
    plain = _plain(operands, residual).bfloat16()
    assert found.dtype == torch.bfloat16
    assert_no_worse(found, plain, _exact(operands, torch.float64, residual))


TILES = {
    "pointers": Tile(32, 64, 32, 4, 2, group=2),
    "descriptors": Tile(32, 64, 32, 4, 2, group=2, descriptors=True),
    "persistent": Tile(32, 64, 32, 4, 2, group=2, persistent=True),
    "persistent descriptors": Tile(32, 64, 32, 4, 2, descriptors=True, persistent=True),
    "in two parts": Tile(32, 64, 32, 4, 2, store_parts=2),
    "in two parts, descriptors": Tile(32, 64, 32, 4, 2, descriptors=True, store_parts=2),
    # In two parts, for a float32 result takes twice the shared memory of the table's bfloat16.
    "a Hopper tile": Tile(128, 256, 128, 8, 3, descriptors=True, store_parts=2),
}


@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("columns", (64, 160))
def test_every_way_to_walk_the_tiles_gives_the_product(name, columns):
    operands = _operands("float8", 129, columns, 128)
    x, weight, x_scale, weight_scale = operands
    with nan_memory():
        found = product(
            x,
            weight,
            x_scale=x_scale,
            weight_scale=weight_scale,
            out_dtype=torch.float32,
            tile=TILES[name],
        )
        gated = gated_product(
            x,
            weight[: columns // 64 * 64],
            x_scale=x_scale,
            gate_up_scale=weight_scale[: columns // 64 * 64],
            activation="silu",
            out_dtype=torch.float32,
            tile=TILES[name],
        )
    _assert_product(found, operands)
    whole = columns // 64 * 64
    _assert_gated(gated, (x, weight[:whole], x_scale, weight_scale[:whole]), "silu")


def _assert_gated(found, operands, activation):
    def gate_of(both):
        # Times the identity, which is exact.
        identity = torch.eye(both.shape[1], dtype=both.dtype, device=both.device)
        return reference.gated_product(both, identity, None, None, activation)

    both = _exact(operands, torch.float64)
    if not _sums_in_its_own_order(operands):
        assert_no_worse(found, gate_of(_plain(operands)), gate_of(both))
        return
    gate, up = _gate_and_up(both.abs())
    gate_off, up_off = _gate_and_up(_bound(operands))
    # |activation(z)| <= |z|, its slope is below 1.13, and it is itself off by a few eps of its z.
    gate_off += 8 * torch.finfo(torch.float32).eps * gate
    bound = 1.13 * (gate_off * (up + up_off) + gate * up_off)
    assert bool(((found.double() - gate_of(both)).abs() <= bound).all())


def _gate_and_up(both):
    gate, up = separate_gate_up(both.T.contiguous())
    return gate.T, up.T


@pytest.mark.parametrize("kind", ("float32", "float8", "int8"))
@pytest.mark.parametrize("activation", ("gelu_tanh", "silu"))
@pytest.mark.parametrize("rows", (0, *ROWS))
def test_a_gated_product_is_the_gate_of_the_product(kind, activation, rows):
    x, weight, x_scale, weight_scale = _operands(kind, rows, 192, 96)
    # Gates of some units: far out every activation is 0 or the identity.
    weight_scale = weight_scale / weight.float().square().sum(1, keepdim=True).sqrt()
    x_scale = x_scale / x.float().square().sum(1, keepdim=True).sqrt() * 30
    with nan_memory():
        found = gated_product(
            x,
            weight,
            x_scale=x_scale,
            gate_up_scale=weight_scale,
            activation=activation,
            out_dtype=torch.float32,
        )
    assert found.shape == (rows, 96)
    _assert_gated(found, (x, weight, x_scale, weight_scale), activation)


@pytest.mark.parametrize("activation", ("gelu_tanh", "silu"))
def test_a_gate_holds_at_the_ends(activation):
    gates = torch.tensor([-1e4, -200.0, -90.0, -20.0, 0.0, 20.0, 90.0, 1e4])
    x = torch.zeros(8, 16)
    x[:, 0], x[:, 1] = gates, 1
    gate, up = torch.zeros(GATE_BLOCK, 16), torch.zeros(GATE_BLOCK, 16)
    gate[:, 0], up[:, 1] = 1, 1
    weight = interleave_gate_up(gate, up)
    found = gated_product(
        x.to(DEVICE),
        weight.to(DEVICE),
        x_scale=None,
        gate_up_scale=None,
        activation=activation,
        out_dtype=torch.float32,
    )
    exact = reference.gated_product(x.double(), weight.double(), None, None, activation)
    torch.testing.assert_close(found.double().cpu(), exact, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("rows", ROWS)
def test_a_gated_product_is_rounded_to_float8_by_its_scale(rows):
    x, weight, x_scale, weight_scale = _operands("float8", rows, 128, 96)
    # The largest lie beyond what 448 scales hold and are clamped.
    scale = torch.tensor([2.0], device=DEVICE)

    def run(out_dtype, out_scale):
        return gated_product(
            x,
            weight,
            x_scale=x_scale,
            gate_up_scale=weight_scale,
            activation="gelu_tanh",
            out_dtype=out_dtype,
            out_scale=out_scale,
        )

    found = run(FLOAT8, scale)
    plain = (run(torch.float32, None) * (1 / scale)).clamp(-448, 448).to(FLOAT8)
    assert found.dtype == FLOAT8
    assert torch.equal(found.float(), plain.float())
    if rows > 60:
        assert float(found.float().abs().amax()) == 448


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gate", (False, True))
def test_a_row_does_not_depend_on_how_many_there_are(kind, gate):
    x, weight, x_scale, weight_scale = _operands(kind, MOST, 128, 100)
    scheme = scheme_of(x.dtype, weight.dtype)

    def run(first, last):
        # The tiles of each number of rows, as the table gives them.
        tile = None if DEVICE == "cuda" else product_tile(INTERPRETER, scheme, last - first, 128)
        rows = x[first:last].contiguous(), x_scale[first:last].contiguous()
        if gate:
            return gated_product(
                rows[0],
                weight,
                x_scale=rows[1],
                gate_up_scale=weight_scale,
                activation="silu",
                out_dtype=torch.float32,
                tile=tile,
            )
        return product(
            rows[0],
            weight,
            x_scale=rows[1],
            weight_scale=weight_scale,
            out_dtype=torch.float32,
            tile=tile,
        )

    whole = run(0, MOST)
    # The interpreter's float32 products are numpy's, where a row's bits depend on its place in the
    # tile: there a row keeps its place and changes tile.
    moves = kind == "float32" and DEVICE == "cpu"
    spans = [(32, MOST), (96, 97), (64, 127)] if moves else [(MOST - n, MOST) for n in ROWS]
    for first, last in [*((0, n) for n in ROWS), *spans]:
        assert torch.equal(run(first, last), whole[first:last])


@pytest.mark.parametrize("out_dtype", (torch.float32, torch.bfloat16, FLOAT8))
def test_a_nan_row_stays_alone_and_stays_nan(out_dtype):
    # The interpreter reads a NaN in float8 as a number.
    kind = "float8" if DEVICE == "cuda" else "float32"
    x, weight, x_scale, weight_scale = _operands(kind, 70, 128, 96)
    scale = torch.ones(1, device=DEVICE) if out_dtype == FLOAT8 else None

    def run():
        return gated_product(
            x,
            weight,
            x_scale=x_scale,
            gate_up_scale=weight_scale,
            activation="gelu_tanh",
            out_dtype=out_dtype,
            out_scale=scale,
        ).float()

    clean = run()
    x[7, 3] = torch.nan
    found = run()
    assert found[7].isnan().all()
    assert torch.equal(found[:7], clean[:7]) and torch.equal(found[8:], clean[8:])


def test_the_order_of_the_inner_dimension_can_move_bits():
    """Shows that the tests above can fail: another step of the inner dimension does."""
    x, weight, x_scale, weight_scale = _operands("float32", MOST, 64, 256)

    def run(inner):
        return product(
            x,
            weight,
            x_scale=x_scale,
            weight_scale=weight_scale,
            out_dtype=torch.float32,
            tile=dataclasses.replace(TILES["pointers"], inner=inner),
        )

    assert torch.equal(run(32), run(32))
    if DEVICE == "cpu":
        assert not torch.equal(run(32), run(64))


def test_gate_and_up_are_interleaved_in_blocks():
    gate = torch.arange(64.0)[:, None].repeat(1, 3)
    both = interleave_gate_up(gate, gate + 1000)
    first = [0, 31, 1000, 1031, 32, 63, 1032, 1063]
    assert both[[0, 31, 32, 63, 64, 95, 96, 127], 0].tolist() == first
    assert all(map(torch.equal, separate_gate_up(both), (gate, gate + 1000)))
    with pytest.raises(ValueError, match="33 gate rows are no multiple of the block of 32"):
        interleave_gate_up(torch.zeros(33, 2), torch.zeros(33, 2))
    with pytest.raises(ValueError, match="differ in shape"):
        interleave_gate_up(torch.zeros(32, 2), torch.zeros(64, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": torch.zeros(8, 31)}, "one inner dimension"),
        ({"weight": torch.zeros(8, 32, dtype=torch.int8)}, "no product of torch.float32"),
        ({"weight": torch.zeros(32, 8).T}, "contiguous"),
        ({"x_scale": torch.ones(3, 1)}, r"one scale or \[4, 1\]"),
        ({"x_scale": torch.ones(4, 1, dtype=torch.float64)}, "float32 scales"),
        ({"residual": torch.ones(4, 9)}, "a residual of"),
    ],
)
def test_what_does_not_fit_is_said(changes, message):
    arguments = {
        "x": torch.zeros(4, 32),
        "weight": torch.zeros(8, 32),
        "x_scale": None,
        "weight_scale": None,
        "out_dtype": torch.float32,
    }
    with pytest.raises(AssertionError, match=message):
        product(**(arguments | changes))


def test_a_float8_result_needs_its_scale():
    x, weight, _, _ = _operands("float8", 1, 64, 32)
    for out_dtype, scale in ((FLOAT8, None), (torch.float32, torch.ones(1))):
        with pytest.raises(AssertionError, match="out_scale"):
            gated_product(
                x,
                weight,
                x_scale=None,
                gate_up_scale=None,
                activation="silu",
                out_dtype=out_dtype,
                out_scale=scale,
            )
