"""The grammar of written numbers and amounts, form by form.

One definition: the search follows it with an automaton, and `reader` takes finished texts apart
with it, so that whatever can be written can be read. The order inside an alternative is the order
in which readings are preferred.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from spinf_serve.engine.extraction.numbers.currencies import CODES, SIGNS
from spinf_serve.engine.extraction.numbers.pieces import (
    Automaton,
    Piece,
    alt,
    chars,
    optional,
    repeat,
    seq,
    tag,
    word,
    words,
)

Kind = Literal["number", "amount"]

SPACES: Final = " \u00a0\u2007\u2009\u202f"
"""Space, no-break, figure, thin and narrow no-break space."""

MINUS: Final = "-\u2212\u2013"
"""Hyphen, minus sign, and the dash that stands for it in print."""

APOSTROPHES: Final = "'\u2019"
MOST_DIGITS: Final = 24

FRACTIONS: Final[Mapping[str, Fraction]] = {
    "½": Fraction(1, 2),
    "⅓": Fraction(1, 3),
    "⅔": Fraction(2, 3),
    "¼": Fraction(1, 4),
    "¾": Fraction(3, 4),
    "⅕": Fraction(1, 5),
    "⅖": Fraction(2, 5),
    "⅗": Fraction(3, 5),
    "⅘": Fraction(4, 5),
    "⅙": Fraction(1, 6),
    "⅚": Fraction(5, 6),
    "⅛": Fraction(1, 8),
    "⅜": Fraction(3, 8),
    "⅝": Fraction(5, 8),
    "⅞": Fraction(7, 8),
}

SHORT_SCALES: Final[Mapping[str, int]] = {
    "k": 3,
    "K": 3,
    "m": 6,
    "M": 6,
    "mn": 6,
    "Mn": 6,
    "MM": 6,
    "bn": 9,
    "Bn": 9,
    "B": 9,
    "tn": 12,
    "Tn": 12,
    "T": 12,
    "Tsd.": 3,
    "Mio": 6,
    "Mio.": 6,
    "Mrd": 9,
    "Mrd.": 9,
    "Md": 9,
    "Cr": 7,
}
"""Signs for powers of ten, in this case only."""

LONG_SCALES: Final[Mapping[str, int]] = {
    "thousand": 3,
    "million": 6,
    "millions": 6,
    "billion": 9,
    "billions": 9,
    "trillion": 12,
    "lakh": 5,
    "lakhs": 5,
    "crore": 7,
    "crores": 7,
    "tausend": 3,
    "millionen": 6,
    "milliarde": 9,
    "milliarden": 9,
    "mille": 3,
    "milliard": 9,
    "milliards": 9,
    "mil": 3,
    "millón": 6,
    "millones": 6,
    "milhão": 6,
    "milhões": 6,
    "milione": 6,
    "milioni": 6,
    "miljoen": 6,
    "miljard": 9,
}
"""Words for powers of ten, in any case. `billion` and `trillion` are the short scale's, as in English;
words of other languages that are spelled alike and mean more are not told apart."""

UNITS: Final[Mapping[str, str]] = {
    "%": "%",
    "‰": "‰",
    "percent": "%",
    "per cent": "%",
    "Prozent": "%",
    "pct": "%",
    "per mille": "‰",
    "bp": "bp",
    "bps": "bp",
    "basis points": "bp",
    "basis point": "bp",
}
"""What may follow a number without changing it -> its short name."""

_DIGITS = chars("0123456789")
_LEADING = chars("123456789")
_SPACE = chars(SPACES)
_GAP = optional(_SPACE)


def _grouped(separators: str) -> Piece:
    """Groups of three behind one to three digits, with one of these between all of them."""
    three = seq(_DIGITS, _DIGITS, _DIGITS)
    return alt(
        *(
            seq(_LEADING, repeat(_DIGITS, 0, 2), repeat(seq(chars(one), three), 1, 7))
            for one in separators
        )
    )


_LAKHS = seq(
    _LEADING,
    optional(_DIGITS),
    repeat(seq(chars(","), _DIGITS, _DIGITS), 1, 6),
    chars(","),
    _DIGITS,
    _DIGITS,
    _DIGITS,
)
_PLAIN = repeat(_DIGITS, 1, MOST_DIGITS)
_DECIMALS = tag("decimals", repeat(_DIGITS, 1, MOST_DIGITS))


def _whole(piece: Piece) -> Piece:
    return tag("whole", piece)


def _with_decimals(marks: str, *wholes: Piece) -> Piece:
    return seq(_whole(alt(*wholes)), chars(marks), _DECIMALS)


_BY_COMMA = _with_decimals(".", _grouped(","), _LAKHS)
_BY_POINT = _with_decimals(",", _grouped("."))
_BY_OTHER = _with_decimals(".,", _grouped(APOSTROPHES + SPACES))
_POINT = _with_decimals(".", _PLAIN)
_COMMA = _with_decimals(",", _PLAIN)
_NO_WHOLE = seq(chars(".,"), _DECIMALS)
_GROUPED_BY_COMMA = _whole(alt(_grouped(","), _LAKHS))
_GROUPED_BY_POINT = _whole(_grouped("."))
_GROUPED_BY_OTHER = _whole(_grouped(APOSTROPHES + SPACES))
_ENDED_BY_POINT = seq(_whole(_PLAIN), chars("."))

_VULGAR = alt(
    seq(optional(seq(_whole(_PLAIN), _GAP)), tag("vulgar", chars("".join(FRACTIONS)))),
    seq(
        optional(seq(_whole(repeat(_DIGITS, 1, 6)), _SPACE)),
        tag("upper", repeat(_DIGITS, 1, 3)),
        chars("/⁄"),
        tag("lower", seq(_LEADING, repeat(_DIGITS, 0, 3))),
    ),
)


def _digits(kind: Kind) -> Piece:
    """Digits of any style. Of `1,234` and `3.350` two readings are left, in an order by kind.

    Three decimals are rare in amounts, so that there a point before three digits groups them.
    """
    three = (
        (_GROUPED_BY_COMMA, _GROUPED_BY_POINT, _POINT, _COMMA)
        if kind == "amount"
        else (_GROUPED_BY_COMMA, _POINT, _COMMA, _GROUPED_BY_POINT)
    )
    return alt(
        _BY_COMMA,
        _BY_POINT,
        _BY_OTHER,
        *three,
        _GROUPED_BY_OTHER,
        _whole(_PLAIN),
        _ENDED_BY_POINT,
        _NO_WHOLE,
        _VULGAR,
    )


_SCALE = optional(
    alt(
        seq(_GAP, tag("scale", words(*SHORT_SCALES))),
        seq(_SPACE, tag("scale", words(*LONG_SCALES, any_case=True))),
    )
)
_UNIT = optional(
    alt(
        seq(_GAP, tag("unit", words("%", "‰"))),
        seq(_SPACE, tag("unit", words(*(u for u in UNITS if len(u) > 1), any_case=True))),
    )
)
_MINUS = seq(tag("minus", chars(MINUS)), _GAP)
_PLUS = seq(chars("+"), _GAP)
_SIGN = optional(alt(_MINUS, _PLUS))
_MINUS_BEHIND = optional(seq(_GAP, tag("minus behind", chars(MINUS))))
_CURRENCY = tag("currency", words(*CODES, *SIGNS))


def _bracketed(inside: Piece) -> Piece:
    return seq(optional(_MINUS), tag("brackets", chars("(")), _GAP, inside, _GAP, chars(")"))


def _number() -> Piece:
    value = seq(_digits("number"), _SCALE, _UNIT)
    return alt(
        seq(_SIGN, value),
        seq(_digits("number"), _SCALE, tag("minus behind", chars(MINUS))),
        seq(_bracketed(value), _SCALE, _UNIT),
        _range(seq(_digits("number"), _SCALE, _UNIT)),
    )


def _amount() -> Piece:
    value = seq(_digits("amount"), _SCALE)
    before = seq(_CURRENCY, _GAP)
    behind = seq(_GAP, _CURRENCY)
    return alt(
        seq(_SIGN, value),
        seq(value, _MINUS_BEHIND),
        seq(_SIGN, before, value),
        seq(before, _SIGN, value),
        seq(before, value, _MINUS_BEHIND),
        seq(_SIGN, value, behind),
        seq(value, behind, _MINUS_BEHIND),
        seq(value, _MINUS_BEHIND, behind),
        _bracketed(alt(value, seq(before, value), seq(value, behind))),
        seq(before, _bracketed(value)),
        seq(_bracketed(value), behind),
        _range(alt(value, seq(before, value), seq(value, behind))),
    )


def _range(end: Piece) -> Piece:
    """Two numbers with a dash or a word between them. What is inside is not read: it is no number."""
    between = alt(seq(_GAP, chars("-\u2013\u2014"), _GAP), words(" to ", " bis ", " à ", " a "))
    return tag("range", seq(end, between, end))


def _answer(piece: Piece) -> Piece:
    """A form as a model writes it behind a prompt: mostly with a space before it."""
    return seq(optional(word(" ")), piece)


GRAMMARS: Final[Mapping[Kind, Piece]] = {
    "number": _answer(_number()),
    "amount": _answer(_amount()),
}

AUTOMATA: Final[Mapping[Kind, Automaton]] = {
    kind: Automaton(piece) for kind, piece in GRAMMARS.items()
}


@dataclass(frozen=True, slots=True)
class Form:
    """A way of writing, for the documentation: its name, examples, and what they are read as."""

    name: str
    kind: Kind
    examples: tuple[str, ...]


FORMS: Final = (
    Form("digits", "number", ("12", "007")),
    Form("decimal point or comma", "number", ("12.5", "12,5", ".5", ",89", "0,075")),
    Form("thousands by comma", "number", ("1,234,567", "1,234.5")),
    Form("thousands by point", "number", ("1.234.567", "1.234,5")),
    Form("thousands by apostrophe", "number", ("1'234'567", "1’234.50")),
    Form("thousands by a space of any width", "number", ("1 234 567", "1\u202f234,5")),
    Form("lakhs and crores", "number", ("12,34,567", "1,00,000.50")),
    Form("two readings", "number", ("1,234", "3.350")),
    Form("minus before or behind", "number", ("-5", "\u22125", "- 5", "5-")),
    Form("accounting brackets", "number", ("(2,400.00)", "-(5)")),
    Form("percent, per mille, basis points", "number", ("12.5%", "3 ‰", "25 bps", "7 per cent")),
    Form("scales", "number", ("3k", "1.5 million", "2 Mrd.", "4 bn", "3 crore", "1,2 Mio")),
    Form("fractions", "number", ("½", "2 ½", "3/4", "1 1/2")),
    Form("ranges", "number", ("5-7", "10 to 20")),
    Form("sign of the currency before or behind", "amount", ("$12", "12 €", "R$ 1.234,50")),
    Form("code of the currency before or behind", "amount", ("CHF 1'234.50", "1 234,56 EUR")),
    Form("minus around a currency", "amount", ("-$5", "$-5", "€ -15.00", "12,00- EUR")),
    Form("brackets around a currency", "amount", ("($12.00)", "$(12.00)", "(1.234,50 €)")),
)
"""Every form of the grammar, with examples that the documentation and the tests read."""


def exactly(fraction: Fraction) -> Decimal:
    """A fraction as a decimal of at most 28 digits."""
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)
