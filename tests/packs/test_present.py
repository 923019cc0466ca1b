"""How a pack presents a content: parameters put into the two halves of a context."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.pack import Context, Pack, Parameter
from spinf_serve.packs.present import MAX_PARAMETER_CHARS, filled
from tests.support.packs import golden, made

PACK, _ = made(golden())
SHOP = Parameter("shop", "Shop name", required=True)
DAY = Parameter("day", required=False)
CITY = Parameter("city", required=True, default="Bern")


def pack(*parameters: Parameter) -> Pack:
    return replace(PACK, parameters={one.name: one for one in parameters})


def context(template: str) -> Context:
    before, after = template.split("{X}")
    return Context("c", template, before, after)


def refusal(of: Pack, given: dict[str, str], template: str = "{X}") -> Refused:
    with pytest.raises(Refused) as caught:
        filled(of, context(template), given)
    return caught.value


def test_each_half_gets_the_caller_s_values():
    at = context("To {shop}, {city}: {X} (from {city}, {shop}{shop})")
    assert filled(pack(SHOP, CITY), at, {"shop": "Alder", "city": "Ulm"}) == (
        "To Alder, Ulm: ",
        " (from Ulm, AlderAlder)",
    )


def test_a_default_stands_in_and_what_is_neither_is_empty():
    assert filled(pack(CITY, DAY), context("{city}|{day}|{X}{day}"), {}) == ("Bern||", "")
    assert filled(pack(CITY), context("{city}{X}"), {"city": ""}) == ("", "")


def test_a_required_one_is_missed_with_its_label_also_where_this_context_does_not_use_it():
    refused = refusal(pack(SHOP), {})
    assert (refused.code, refused.param) == ("invalid_field", "shop")
    assert "'shop' (Shop name)" in refused.message and PACK.id in refused.message


def test_a_required_one_may_not_be_empty():
    refused = refusal(pack(SHOP), {"shop": ""})
    assert (refused.code, refused.param) == ("invalid_field", "shop")
    assert "'shop' is empty" in refused.message
    assert filled(pack(DAY), context("{day}{X}"), {"day": ""}) == ("", "")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [((SHOP,), "did you mean `shop`"), ((CITY,), "it has city"), ((), "it has none")],
)
def test_an_unknown_one_is_refused(parameters, says):
    refused = refusal(pack(*parameters), {"shpo": "x"})
    assert (refused.code, refused.param) == ("invalid_field", "shpo")
    assert says in refused.message and "'shpo'" in refused.message


def test_one_that_is_too_long_is_refused():
    longest = "x" * MAX_PARAMETER_CHARS
    assert filled(pack(SHOP), context("{shop}{X}"), {"shop": longest}) == (longest, "")
    refused = refusal(pack(SHOP), {"shop": longest + "x"})
    assert (refused.code, refused.param) == ("invalid_field", "shop")
    assert str(MAX_PARAMETER_CHARS + 1) in refused.message
    assert str(MAX_PARAMETER_CHARS) in refused.message


@pytest.mark.parametrize("value", ["{X}", "{city}", "{shop}", "{{shop}}", "{", "}", "a{b", "{}"])
def test_a_value_is_never_read_as_a_placeholder(value):
    at = context("<{shop}>{city}{X}{city}<{shop}>")
    given = {"shop": value, "city": "{shop}"}
    assert filled(pack(SHOP, CITY), at, given) == (
        f"<{value}>{{shop}}",
        f"{{shop}}<{value}>",
    )


def test_other_braces_of_a_context_stay():
    at = context("{ {shop} {} {{shop}} {other {shop}{X}} {shop")
    assert filled(pack(SHOP), at, {"shop": "A"}) == ("{ A {} {A} {other A", "} {shop")


@given(
    st.lists(st.sampled_from(["{shop}", "{city}", "{", "}", "text", "{X", "\n", "é"])),
    st.dictionaries(st.sampled_from(["shop", "city"]), st.text(min_size=1, max_size=8), min_size=2),
)
def test_a_context_is_its_texts_and_values_in_order(parts, given):
    before, after = filled(pack(SHOP, CITY), Context("c", "", "".join(parts), ""), given)
    wanted = re.sub(r"\{(shop|city)\}", lambda m: given[m[1]], "".join(parts))
    assert (before, after) == (wanted, "")
