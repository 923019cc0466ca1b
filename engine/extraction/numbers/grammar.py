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

from spinf_serve.engine.extraction.numbers.currencies import CODES, CODES_OF_SIGNS, SIGNS
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

NO_CENTS: Final = "-\u2013\u2014"
"""What stands for cents that there are none of: `5.-`, `5,\u2013`."""

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
    "⅐": Fraction(1, 7),
    "⅛": Fraction(1, 8),
    "⅜": Fraction(3, 8),
    "⅝": Fraction(5, 8),
    "⅞": Fraction(7, 8),
    "⅑": Fraction(1, 9),
    "⅒": Fraction(1, 10),
}

SHORT_SCALES: Final[Mapping[str, int]] = {
    "k": 3,
    "K": 3,
    "m": 6,
    "M": 6,
    "mn": 6,
    "Mn": 6,
    "MN": 6,
    "MM": 6,
    "bn": 9,
    "Bn": 9,
    "BN": 9,
    "B": 9,
    "tn": 12,
    "Tn": 12,
    "TN": 12,
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
    "thousands": 3,
    "million": 6,
    "millions": 6,
    "billion": 9,
    "billions": 9,
    "trillion": 12,
    "trillions": 12,
    "lakh": 5,
    "lakhs": 5,
    "crore": 7,
    "crores": 7,
    "tausend": 3,
    "millionen": 6,
    "milliarde": 9,
    "milliarden": 9,
    "billionen": 12,
    "trillionen": 18,
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
words of other languages that are spelled alike and mean more are not told apart, but for these:"""

GERMAN_SCALES: Final[Mapping[str, int]] = {"Billion": 12, "Trillion": 18}
"""Words that German writes like this and means more with; both readings are left."""

UNITS: Final[Mapping[str, str]] = {
    "%": "%",
    "‰": "‰",
    "percent": "%",
    "per cent": "%",
    "Prozent": "%",
    "pct": "%",
    "per mille": "‰",
    "permille": "‰",
    "promille": "‰",
    "‱": "bp",
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


_THREE = seq(_DIGITS, _DIGITS, _DIGITS)
# One for all styles, so that a reader looks for it once.
_HEAD = seq(_LEADING, repeat(_DIGITS, 0, 2))


def _grouped(separators: str) -> Piece:
    """Groups of three behind one to three digits, with one of these between all of them."""
    return alt(*(seq(_HEAD, repeat(seq(chars(one), _THREE), 1, 7)) for one in separators))


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
        _VULGAR,
    )


_UNPOINTED = tuple(scale for scale in SHORT_SCALES if not scale.endswith("."))


def _scale(*short: str) -> Piece:
    return optional(
        alt(
            seq(_GAP, tag("scale", words(*short))),
            seq(_SPACE, tag("scale", words(*LONG_SCALES, any_case=True))),
            seq(_SPACE, tag("german scale", words(*GERMAN_SCALES))),
        )
    )


_SCALE = _scale(*SHORT_SCALES)
_UNIT = optional(seq(_GAP, tag("unit", words(*UNITS, any_case=True))))
_UNIT_SIGN = tag("unit", words("%", "‰", "‱"))
_MINUS = seq(tag("minus", chars(MINUS)), _GAP)
_PLUS = seq(chars("+"), _GAP)
_SIGN = optional(alt(_MINUS, _PLUS))
_MINUS_BEHIND = seq(_GAP, tag("minus behind", chars(MINUS)))

# A dash directly behind a point or comma stands for cents and is no minus.
_WITHOUT_CENTS = seq(
    _whole(alt(_grouped(",."), _LAKHS, _grouped(APOSTROPHES + SPACES), _PLAIN)),
    chars(".,"),
    repeat(chars(NO_CENTS), 1, 2),
)

_CURRENCY = tag("currency", words(*CODES, *SIGNS))
_UNPOINTED_CURRENCY = tag("currency", words(*CODES, *(s for s in SIGNS if s[-1] != ".")))
_POINTED = [sign for sign in SIGNS if f"{sign}." in SIGNS]
# `Rs.50` is the sign `Rs.` and 50, never the sign `Rs` and 0.5.
_BEFORE_POINT = alt(
    seq(tag("currency", words(*CODES, *(s for s in SIGNS if s not in _POINTED))), _GAP),
    seq(tag("currency", words(*_POINTED)), _SPACE),
)
_CODE_AND_SIGN = alt(
    *(
        seq(tag("currency", words(*codes)), _GAP, word(sign))
        for sign, codes in CODES_OF_SIGNS.items()
    )
)


def _in_brackets(inside: Piece) -> Piece:
    return seq(tag("brackets", chars("(")), _GAP, inside, _GAP, chars(")"))


def _bracketed(inside: Piece) -> Piece:
    return seq(optional(_MINUS), _in_brackets(inside))


def _number() -> Piece:
    digits = alt(_digits("number"), _NO_WHOLE)
    any_digits = alt(digits, _ENDED_BY_POINT)
    value = alt(seq(any_digits, _SCALE, _UNIT), _WITHOUT_CENTS)
    # Not before a word: `5-percent` is five of them.
    behind = alt(seq(_UNIT, _MINUS_BEHIND), seq(_MINUS_BEHIND, _GAP, _UNIT_SIGN))
    return alt(
        seq(_SIGN, value),
        seq(digits, _scale(*_UNPOINTED), behind),
        _bracketed(value),
        seq(_bracketed(any_digits), _SCALE, _UNIT),
        seq(_bracketed(seq(any_digits, _SCALE)), _UNIT),
        _range(value),
    )


def _amount() -> Piece:
    digits = _digits("amount")
    whole = alt(seq(alt(digits, _ENDED_BY_POINT), _SCALE), _WITHOUT_CENTS)
    value = alt(whole, seq(_NO_WHOLE, _SCALE))
    minus_behind = seq(_scale(*_UNPOINTED), _MINUS_BEHIND)
    before = seq(alt(_CURRENCY, _CODE_AND_SIGN), _GAP)
    behind = seq(_GAP, _CURRENCY)
    priced = alt(seq(before, whole), seq(_BEFORE_POINT, _NO_WHOLE, _SCALE))
    between = alt(
        *(
            seq(word(sign), _GAP, value, _GAP, tag("currency", words(*codes)))
            for sign, codes in CODES_OF_SIGNS.items()
        )
    )
    return alt(
        seq(_SIGN, alt(seq(value, optional(behind)), priced, between)),
        seq(alt(digits, _NO_WHOLE), minus_behind, optional(behind)),
        seq(
            before,
            alt(seq(alt(_MINUS, _PLUS), value), seq(digits, minus_behind), _bracketed(value)),
        ),
        seq(_BEFORE_POINT, _NO_WHOLE, minus_behind),
        seq(value, _GAP, _UNPOINTED_CURRENCY, _MINUS_BEHIND),
        seq(_bracketed(value), optional(behind)),
        _bracketed(alt(priced, between, seq(value, behind))),
        seq(_MINUS, before, _in_brackets(value)),
        _range(alt(seq(value, optional(behind)), priced)),
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
    Form(
        "thousands by a space of any width", "number", ("1 234 567", "1\u202f234,5", "1\u2009234")
    ),
    Form("lakhs and crores", "number", ("12,34,567", "1,00,000.50")),
    Form("two readings", "number", ("1,234", "3.350")),
    Form("minus before or behind", "number", ("-5", "\u22125", "- 5", "5-", "5 bn -", "5 %-")),
    Form("a dash for no cents", "number", ("5.-", "12,\u2013")),
    Form("accounting brackets", "number", ("(2,400.00)", "-(5)")),
    Form(
        "percent, per mille, basis points", "number", ("12.5%", "3 ‰", "25 bps", "3‱", "7 per cent")
    ),
    Form("scales", "number", ("3k", "1.5 million", "2 Mrd.", "4 bn", "3 crore", "1,2 Mio")),
    Form("scales that German means more with", "number", ("1 Billion", "2 Billionen")),
    Form("fractions", "number", ("½", "2 ½", "3/4", "1 1/2")),
    Form("ranges", "number", ("5-7", "10 to 20")),
    Form("sign of the currency before or behind", "amount", ("$12", "12 €", "R$ 1.234,50")),
    Form("code of the currency before or behind", "amount", ("CHF 1'234.50", "1 234,56 EUR")),
    Form("code and sign of one currency", "amount", ("$12 USD", "USD $12")),
    Form(
        "a dash for no cents, with a currency", "amount", ("CHF 5.\u2013", "kr 5,-", "5,\u2013 €")
    ),
    Form("minus around a currency", "amount", ("-$5", "$-5", "€ -15.00", "12,00- EUR")),
    Form(
        "brackets around a currency", "amount", ("($12.00)", "$(12.00)", "-€(12)", "(1.234,50 €)")
    ),
)
"""Every form of the grammar, with examples that the documentation and the tests read."""


def exactly(fraction: Fraction) -> Decimal:
    """A fraction as a decimal of at most 28 digits."""
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)
