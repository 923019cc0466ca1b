"""Which spellings are one answer: keys under which found texts are added up."""

import re
import unicodedata

from spinf_serve.engine.extraction.numbers.reader import Reading

# What tells answers apart although it is no letter: a sign that belongs to a word (C++, C#, 5 %), the
# sign of a number, the mark between its digits. Everything else between words is as good as a space.
_KEPT = re.compile(
    r"(?<=\w)[+#]+"
    r"|(?<![\w.,])[-\u2212\u2013](?=[.,]?\d)"
    r"|(?<=\d)[.,](?=\d)"
    r"|[%‰$€£¥]"
)
_ARTICLES = frozenset({"a", "an", "the"})
_PLACES = 9
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-"})


def text_key(text: str) -> str:
    """The key of a text: case, punctuation, articles and spaces do not matter, signs that mean
    something do. Of a text without a letter, digit or such a sign it is the text itself."""
    lower = unicodedata.normalize("NFC", text).casefold()
    pieces: list[str] = []
    at = 0
    for kept in _KEPT.finditer(lower):
        pieces += [_spaced(lower[at : kept.start()]), kept.group().translate(_MINUS)]
        at = kept.end()
    pieces.append(_spaced(lower[at:]))
    words = "".join(pieces).split()
    rest = [word for word in words if word not in _ARTICLES]
    return "".join(rest or words) or lower


def _spaced(text: str) -> str:
    """The text with all that is neither letter, mark nor digit made a space."""
    return "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in text)


NumberKey = tuple[tuple[float, ...], str | None] | str
"""Values and currency; the text itself where there is no value."""


def number_key(text: str, reading: Reading) -> NumberKey:
    """The key of a number or amount: its values to nine places, and its currency."""
    if not reading.values:
        return text
    values = tuple(round(float(value), _PLACES) for value in reading.values)
    return values, reading.currency_code or reading.currency
