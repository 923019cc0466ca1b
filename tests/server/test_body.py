"""Declared sizes of bodies."""

import pytest

from spinf_serve.packs.errors import Refused
from spinf_serve.server.body import check_declared


@pytest.mark.parametrize("declared", [None, "0", "100", "007", "not a number", "-5"])
def test_a_size_within_the_limit_or_none_is_let_through(declared):
    check_declared(declared, 100)


@pytest.mark.parametrize("declared", ["101", "9" * 5000])
def test_a_size_over_the_limit_is_refused_with_both_numbers(declared):
    with pytest.raises(Refused) as caught:
        check_declared(declared, 100)
    assert caught.value.code == "body_too_large"
    assert declared[:32] in caught.value.message
    assert "100 bytes" in caught.value.message
