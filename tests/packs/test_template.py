import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.template import SlotKind, fill, parse

NAMES = st.from_regex(r"[A-Za-z0-9_]{1,8}", fullmatch=True).filter(lambda name: name != "n")
LITERALS = st.text(max_size=12)


def escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def refusal(template: str) -> Refused:
    with pytest.raises(Refused) as refused:
        parse(template)
    assert (refused.value.code, refused.value.param) == ("invalid_template", "template")
    return refused.value


@given(st.lists(st.tuples(LITERALS, NAMES), max_size=5), LITERALS, st.data())
def test_literals_and_values_come_back_exactly(parts, last, data):
    names = list(dict.fromkeys(name for _, name in parts))
    template = "".join(f"{escaped(text)}{{{name}}}" for text, name in parts) + escaped(last)
    parsed = parse(template + "{?}")
    values = {name: data.draw(st.text(max_size=12)) for name in names}
    wanted = "".join(text + values[name] for text, name in parts) + last
    assert fill(parsed, values) == wanted
    assert list(parsed.names) == names
    assert (parsed.kind, parsed.stop) == (SlotKind.OPTIONS, "")


@given(st.text(alphabet="{}?n$*ab\n", max_size=12))
def test_any_text_is_read_or_refused_with_its_place(template):
    try:
        parsed = parse(template)
    except Refused as refused:
        assert refused.code == "invalid_template"
        assert refused.param == "template"
    else:
        assert sum(template.count(f"{{{kind.value}}}") for kind in SlotKind) >= 1
        assert len(parsed.literals) == len(parsed.fields) + 1


@pytest.mark.parametrize(
    ("template", "literals", "names", "kind", "stop"),
    [
        ("{?}", ("",), (), SlotKind.OPTIONS, ""),
        ("\nDays late:{n}", ("\nDays late:",), (), SlotKind.NUMBER, ""),
        ("Paid:{$}", ("Paid:",), (), SlotKind.AMOUNT, ""),
        ('Name: "{*}"', ('Name: "',), (), SlotKind.TEXT, '"'),
        ("JSON: {{{*}}}", ("JSON: {",), (), SlotKind.TEXT, "}"),
        ("{{n}} {?}", ("{n} ",), (), SlotKind.OPTIONS, ""),
        ("{{{F}}} is{?}", ("{", "} is"), ("F",), SlotKind.OPTIONS, ""),
        ("{b}{a} {b}{?}", ("", "", " ", ""), ("b", "a"), SlotKind.OPTIONS, ""),
        ("{N} {nn} {_}{?}", ("", " ", " ", ""), ("N", "nn", "_"), SlotKind.OPTIONS, ""),
    ],
)
def test_grammar(template, literals, names, kind, stop):
    parsed = parse(template)
    assert (parsed.literals, parsed.names, parsed.kind, parsed.stop) == (
        literals,
        names,
        kind,
        stop,
    )


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("", ["is empty", "{?}"]),
        ("Is it late?", ["no slot", "{?}"]),
        ("Is it late? {{?}}", ["no slot", "`{{?}}` at character 13 is literal"]),
        ("a } b{?}", ["character 3:", "lone `}`", "`{{` or `}}`"]),
        ("a { b{?}", ["character 3:", "`{ b{?}`", "`{{` or `}}`"]),
        ("a {", ["character 3:", "never closed"]),
        ("{not it}{?}", ["character 1:", "`{not it}`", "letters, digits and _"]),
        ("{}{?}", ["character 1:", "`{}`"]),
        ("{näme}{?}", ["character 1:", "`{näme}`"]),
        ("{{?}", ["character 4:", "lone `}`"]),
        ("{?} and {?}", ["character 9:", "second slot"]),
        ("{*}{n}", ["character 4:", "second slot"]),
        ("{?}.", ["character 4:", "`{?}`, which must end the template"]),
        ("{n} days", ["character 4:", "`{n}`"]),
        ("{$}}}", ["character 4:", "`{$}`"]),
        ("{*} of {F}", ["character 8:", "`{F}`", "behind the slot"]),
        ('{*}"\n', ["character 5:", "newline"]),
        ("{a}{b}{c}{d}{e}{f}{?}", ["6 placeholders (a, b, c, d, e, f)", "5 allowed"]),
    ],
)
def test_a_fault_names_its_place_and_its_remedy(template, words):
    message = refusal(template).message
    assert all(word in message for word in words), message


def test_five_names_and_repeats_of_them_are_allowed():
    assert parse("{a}{b}{c}{d}{e}{a}{?}").names == ("a", "b", "c", "d", "e")


def test_values_are_literal():
    # T-G2: no new slot, no new placeholder, no error.
    parsed = parse("Is {F} there? {{G}}{?}")
    assert fill(parsed, {"F": "{?} } {{ {F} {n}"}) == "Is {?} } {{ {F} {n} there? {G}"
