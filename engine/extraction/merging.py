"""Which spellings are one answer: keys under which found texts are added up."""

import re
import unicodedata

from spinf_serve.engine.extraction.numbers.reader import Reading, read

# Currency signs: Unicode's category Sc.
_MONEY = (
    r"$\u00a2-\u00a5\u058f\u060b\u07fe\u07ff\u09f2\u09f3\u09fb\u0af1\u0bf9\u0e3f\u17db"
    r"\u20a0-\u20c0\ua838\ufdfc\ufe69\uff04\uffe0\uffe1\uffe5\uffe6"
)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_MARKS = r"""!"#$%&'()*+,\-./:;<=>?@\[\\\]^`{|}~\u2018\u2019""" + _DASHES
_QUOTES = "\"'`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a"
_OPENING = re.compile(rf"(?<!\w)[{_QUOTES}]+(?=\w)")

# White space or the beginning before it, and a word behind: `A&B` and `Plan A` keep theirs.
_ARTICLE = re.compile(rf"(?<!\S)(?:a|an|the)(?=\s+[\w{_MONEY}])", re.IGNORECASE)

# What tells answers apart although it is no letter. All else that is punctuation is a space.
_KEPT = re.compile(
    # Nothing of it begins with a letter or digit: most places of a text are through at once.
    rf"""
    (?!\w)(?:
      [(\[{{](?P<inside>[^()\[\]{{}}]{{1,40}})[)\]}}]
    # Between two digits: of a date, a time, a fraction, a range.
    | (?P<between>(?<=\d)(?:\s*[{_MARKS}]+\s+|[{_MARKS}]+)(?=\d))
    # A minus before a number, its currency or its bracket, or behind a number.
    | (?P<minus>
        (?<![\w.,)])[-\u2212\u2013](?=(?:[{_MONEY}]|[A-Za-z]{{1,3}}\$)?\s?\(?[.,]?\d)
      | ^[-\u2212\u2013](?=\s?(?:[A-Z]{{3}}|[{_MONEY}])?\s?\(?[.,]?\d)
      | (?<=[\d%‰‱])[-\u2212\u2013](?=\s|$|[%‰‱{_MONEY}])
      | (?<=[\d%‰‱])\s[-\u2212\u2013](?=\s*$)
      )
    # A decimal point that leads, a plus, an estimate.
    | (?<![\w.,])(?:[.,](?=\d)|[+~](?=[{_MONEY}]?\s?[.,]?\d))
    # A sign of a word (C++, C#), and one between two (A&B, A/B, a@b).
    | (?<=[^\W_])[+\#]+
    | (?<=[^\W_])\s*[&@/\\=*^|~+]\s*(?=[^\W_])
    | [%$<>=‰‱§†‡\u2032\u2033\u2034]
    )
    """,
    re.VERBOSE,
)
_PLACES = 9


def text_key(text: str) -> str:
    """The key of a text: case, quotes, end punctuation, articles and spaces do not matter, signs
    that mean something do. Of a text without anything that counts it is the text itself."""
    plain = unicodedata.normalize("NFC", text)
    inner = _OPENING.sub(" ", plain.strip().strip(_QUOTES)).strip()
    return _counting(_ARTICLE.sub(" ", inner).strip()) or plain.casefold()


def _counting(text: str) -> str:
    """What of a text counts, without white space."""
    pieces: list[str] = []
    at = 0
    for kept in _KEPT.finditer(text):
        pieces += [_without_punctuation(text[at : kept.start()]), _meant(kept)]
        at = kept.end()
    return "".join([*pieces, _without_punctuation(text[at:])]).casefold()


def _meant(kept: re.Match[str]) -> str:
    whole = "".join(kept.group().split())
    if kept["inside"] is not None:
        inside = _counting(kept["inside"].strip())
        if _is_number(kept["inside"].strip()):
            return f"{whole[0]}{inside}{whole[-1]}"
        return inside
    if kept["minus"] is not None:
        # Another sign than between digits: `5 -7` are two numbers, `5-7` may be a range.
        return "\u2212"
    if kept["between"] is not None:
        dashed = re.sub(f"[{_DASHES}]", "-", whole).replace("\u2019", "'")
        # `1, 2` are two numbers, `1,2` may be one.
        return f"{dashed} " if whole[-1] in ".," and kept.group()[-1].isspace() else dashed
    return whole


def _is_number(text: str) -> bool:
    return read(text, "amount") is not None or read(text, "number") is not None


def _without_punctuation(text: str) -> str:
    """Letters, marks, digits, and symbols that are not of ASCII, such as signs of currencies."""
    return text.translate(_COUNTED)


class _Counted(dict[int, int | None]):
    """A character that counts stays, others go; each is looked up once."""

    def __missing__(self, code: int) -> int | None:
        self[code] = code if _counts(chr(code)) else None
        return self[code]


_COUNTED = _Counted()


def _counts(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LMN" or (category[0] == "S" and category != "Sk" and not char.isascii())


NumberKey = tuple[tuple[float, ...], str | None, str | None] | str
"""Values, currency and unit; the text itself where there is no value."""


def number_key(text: str, reading: Reading) -> NumberKey:
    """The key of a number or amount: its values to nine places, and its currency.

    A percentage is one answer with its bare number, as both have one value; thousandths and
    hundredths of a percent are told apart.
    """
    if not reading.values:
        return text
    values = tuple(round(float(value), _PLACES) for value in reading.values)
    unit = None if reading.unit == "%" else reading.unit
    return values, reading.currency_code or reading.currency, unit
