"""A JSON text as values, with what a pack's file must not contain refused.

Numbers stay as Python reads them: whole numbers whole, others floats. Does not know what a pack is.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.notes import cut

NESTING_LIMIT = 32
"""Most lists and objects inside each other."""

VALUE_LIMIT = 100_000
"""Most values of a text; counted by its commas and brackets before anything is made of it."""

_DIGITS = 400
_PLACED_CHARS = 1 << 18
_SPACE = " \t\n\r"
_DECODER = json.JSONDecoder()
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*+"|[^ \t\r\n{}\[\],:"]++')


def parse_json(text: str, name: str) -> Any:
    """The values of a text.

    Raises:
        InvalidPack: with line and column, when the text is not JSON; with an object's key twice,
            NaN or an infinite number, more than 32 levels or 100,000 values.
    """
    if _values(text) > VALUE_LIMIT and _values(_TEXT.sub("", text)) > VALUE_LIMIT:
        raise InvalidPack([PackFault(f"more than {VALUE_LIMIT:,} values; split the file", name)])
    doubled: list[list[tuple[str, Any]]] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(given)
        if len(made) < len(given):
            doubled.append(given)
        return made

    def constant(word: str) -> NoReturn:
        raise _Wrong(f"{word} is no number of JSON; only finite numbers can be used", word)

    def number(written: str) -> int | float:
        value = float(written)
        if not math.isfinite(value) or len(written) > _DIGITS:
            shown = f"{written[:40]} is too large a number; only finite numbers can be used"
            raise _Wrong(shown, written)
        return value if set(written) & set(".eE") else int(written)

    try:
        value = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_constant=constant,
            parse_int=number,
            parse_float=number,
        )
    except json.JSONDecodeError as error:
        fault = PackFault(f"not JSON: {error.msg}", name, error.lineno, error.colno)
        raise InvalidPack([fault]) from None
    except RecursionError:
        raise _deep(name) from None
    except _Wrong as wrong:
        raise InvalidPack([PackFault(str(wrong), name, *_place(text, wrong.written))]) from None
    _check_depth(value, name)
    if "\\u" in text:
        _check_unicode(value, name)
    if doubled:
        if len(text) <= _PLACED_CHARS:
            # Finds the place, which the decoder does not tell. Brings ruamel.yaml.
            from spinf_serve.packs import json_nodes

            json_nodes.parse_json(text, name)
        key = cut(_twice(doubled[0]))
        raise InvalidPack([PackFault(f"the key `{key}` stands twice in one object", name)])
    return value


def _values(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def place_in(text: str, path: Sequence[str | int], *, at_key: bool = False) -> tuple[int, int]:
    """Line and column, from 1, of the value at a path, or of the nearest one above that exists.

    Args:
        text: JSON that `parse_json` took.
        path: keys and indexes.
        at_key: whether the key is meant, not its value.
    """
    at = key = _skip(text, 0)
    for step in path:
        inner = _inside(text, at, step)
        if inner is None:
            break
        key, at = inner
    found = key if at_key else at
    return text.count("\n", 0, found) + 1, found - text.rfind("\n", 0, found)


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _inside(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Offsets of one key and value of the object or list at `at`; None when it has none such."""
    if text[at] not in "[{":
        return None
    is_object = text[at] == "{"
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "]}":
        key_at, key = at, str(index)
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if key == str(step):
            return key_at, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1
    return None


def _twice(pairs: Sequence[tuple[str, Any]]) -> str:
    """The first key that stands twice."""
    counted = Counter(key for key, _ in pairs)
    return next(key for key, count in counted.items() if count > 1)


class _Wrong(Exception):
    """A number that cannot be used, as written; raised inside the decoder, which knows no place."""

    def __init__(self, message: str, written: str) -> None:
        super().__init__(message)
        self.written = written


def _place(text: str, written: str) -> tuple[int, int]:
    """Line and column of the first such word outside of texts."""
    at = next(word.start() for word in _WORD.finditer(text) if word.group() == written)
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _check_unicode(value: Any, name: str) -> None:
    """Escapes can write half of a surrogate pair, which is no character."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        message = (
            f"the escape {half} is half of a surrogate pair and no character; write both halves"
        )
        raise InvalidPack([PackFault(message, name)]) from None


def _deep(name: str) -> InvalidPack:
    return InvalidPack([PackFault(f"nested deeper than {NESTING_LIMIT} levels", name)])


def _check_depth(value: Any, name: str) -> None:
    level = [value]
    for _ in range(NESTING_LIMIT + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _deep(name)
