"""Row-wise operations on the CPU: exact enough, and an element's bits are its own."""

import pytest
import torch
import torch.nn.functional as F

from spinf_serve.engine.kernels.elementwise import cpu, reference
from tests.support.oracles import assert_no_worse, nan_memory, threads

DTYPES = (torch.float32, torch.bfloat16)
ROWS = (1, 2, 3, 5, 9, 11, 63, 64, 65, 129)


def _random(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 3) -> torch.Tensor:
    return (scale * torch.randn(*shape, generator=torch.Generator().manual_seed(0))).to(dtype)


def _norm(cast_first):
    def run(x):
        weight = _random(x.shape[-1], dtype=x.dtype if cast_first else torch.float32, scale=1)
        return cpu.rms_norm(x, weight, 1e-5, cast_first=cast_first)

    return run


def _norm_reference(x):
    return reference.rms_norm(x, _random(x.shape[-1], dtype=x.dtype, scale=1), 1e-5)


def _bare_norm(x):
    return cpu.rms_norm(x, None, 1e-5, cast_first=False)


def _bare_norm_reference(x):
    return reference.rms_norm(x, torch.ones(x.shape[-1], dtype=x.dtype), 1e-5)


def _rotate(run):
    def rotate(x):
        angles = _random(3000, x.shape[-1] // 2)[: len(x)]
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        return run(x, angles.cos().to(wide), angles.sin().to(wide))

    return rotate


OPERATIONS = {
    "norm, cast first": (_norm(True), _norm_reference, (100,)),
    "norm, cast last": (_norm(False), _norm_reference, (100,)),
    "norm of heads": (_norm(False), _norm_reference, (3, 24)),
    "norm without weight": (_bare_norm, _bare_norm_reference, (3, 24)),
    "rotate": (_rotate(cpu.rotate), _rotate(reference.rotate), (3, 24)),
    "silu": (cpu.silu_gate, reference.silu_gate, (2 * 101,)),
    "gelu": (cpu.gelu_tanh_gate, reference.gelu_tanh_gate, (2 * 101,)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_it_is_what_the_reference_says(dtype, name):
    run, definition, shape = OPERATIONS[name]
    x = _random(129, *shape, dtype=dtype)
    with nan_memory():
        found = run(x)
    assert found.dtype == dtype
    plain, exact = definition(x.float()).to(dtype), definition(x.double())
    assert_no_worse(found, plain, exact)


def test_a_norm_casts_where_it_is_told_to():
    x, weight = _random(500, 100, dtype=torch.bfloat16), _random(100, scale=1).bfloat16()
    normed = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt()
    first = normed.float().bfloat16() * weight
    last = (normed.float() * weight.float()).bfloat16()
    # A few values lie on the border of two roundings of float32.
    for cast_first, right, wrong in ((True, first, last), (False, last, first)):
        found = cpu.rms_norm(x, weight, 1e-5, cast_first=cast_first)
        assert float((found == right).float().mean()) > 0.999
        assert float((found == wrong).float().mean()) < 0.9


@pytest.mark.parametrize("name", ("silu", "gelu"))
def test_a_gate_holds_at_the_ends(name):
    run, definition, _ = OPERATIONS[name]
    gate = torch.tensor([-1e4, -200.0, -90.0, -20.0, 0.0, 20.0, 90.0, 1e4])
    x = torch.stack((gate, torch.ones_like(gate)), 1)
    torch.testing.assert_close(run(x).double(), definition(x.double()), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_row_does_not_depend_on_how_many_there_are(dtype, name):
    run, _, shape = OPERATIONS[name]
    x = _random(3000, *shape, dtype=dtype)
    whole = run(x)
    for count in (1, 2, 3):
        with threads(count):
            assert torch.equal(run(x), whole)
            for rows in ROWS:
                assert torch.equal(run(x[:rows]), whole[:rows])


def test_the_librarys_silu_depends_on_the_place():
    """Shows that the test above can fail: the obvious call does."""
    x = _random(3000, 101)
    whole = F.silu(x)
    assert not all(torch.equal(F.silu(x[:rows]), whole[:rows]) for rows in ROWS)
