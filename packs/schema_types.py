"""Field types of a pack's file: what is written is taken as its field says, never by its looks.

In YAML every unquoted scalar arrives as `Plain` text and its field decides: `yes`, `010` and `1.10`
are texts where a text belongs, and `1.10` is a number where a number belongs. In JSON values have
types already, and nothing is converted. Does not know which fields there are.
"""

import math
import re
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from spinf_serve.packs.yaml_nodes import Plain

MEMBERS = {
    "#list": "a list",
    "#mapping": "a mapping of keys to values",
    "#text": "a text",
    "#number": "a number",
}
"""Tags of union members, which stand between the keys in an error's place, and what they are."""

FAULT = "fault"
"""Type of the errors below: their message is complete."""

NOT_TEXT = "not_text"
"""Type of the error for something other than a text where a text belongs."""

_NOTHING = ("", "~", "null", "Null", "NULL")
_YES_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NUMBER_CHARS = 400
# Hex digits, which may happen to look like a number.
_DIGESTS = ("model", "constants")
_EXCERPT_CHARS = 40


def kind_of(value: object) -> str:
    """What a value is, in an author's words, with the value itself where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value!r}"[: _EXCERPT_CHARS + 11]
    if isinstance(value, str):
        if not value:
            return "empty"
        short = value if len(value) <= _EXCERPT_CHARS else f"{value[:_EXCERPT_CHARS]}…"
        return f"the text {short!r}"
    return "a list" if isinstance(value, list) else "a mapping of keys to values"


def _refuse(message: str, type_: str = FAULT) -> NoReturn:
    # The message is an argument, as braces in a template of pydantic's would be placeholders.
    raise PydanticCustomError(type_, "{message}", {"message": message})


def _text(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float) or value is None:
        word = str(value).lower() if isinstance(value, bool) else value
        shown = "null" if value is None else word
        _refuse(f'is {kind_of(value)}; write it as text: "{shown}"', NOT_TEXT)
    _refuse(f"is {kind_of(value)} where a text belongs", NOT_TEXT)


def _number(value: object) -> int | float:
    if isinstance(value, Plain):
        return _written_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        remedy = "; write it without quotes" if isinstance(value, str) else ""
        _refuse(f"is {kind_of(value)} where a number belongs{remedy}")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        _refuse(f"is {kind_of(value)}; only finite numbers can be used")
    return value


def _written_number(text: str) -> int | float:
    if len(text) > _NUMBER_CHARS or not _DECIMAL.fullmatch(text):
        _refuse(f"is {kind_of(str(text))}; write a finite decimal number, such as 0.5 or -2")
    number = float(text)
    if not math.isfinite(number):
        _refuse(f"is {kind_of(str(text))}; only finite numbers can be used")
    return int(text) if _WHOLE.fullmatch(text) else number


def _whole(value: object) -> int:
    if isinstance(value, Plain) and _WHOLE.fullmatch(value) and len(value) < _NUMBER_CHARS:
        return int(value)
    if isinstance(value, bool | str) or not isinstance(value, int):
        _refuse(f"is {kind_of(value)}; write a whole number")
    return value


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Plain) and value in ("true", "false"):
        return value == "true"
    meant = _YES_NO.get(value.lower(), "") if isinstance(value, str) else ""
    remedy = f"write {meant}" if meant else "write true or false, without quotes"
    _refuse(f"is {kind_of(value)}; {remedy}")


def _scalar_text(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return _text(value)


def nothing(value: object) -> object:
    """None for what is left out, `~` and `null`; anything else as it is."""
    return None if isinstance(value, Plain) and value in _NOTHING else value


def _free(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {name: _free(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_free(one) for one in value]
    if not isinstance(value, Plain):
        return value
    if key not in _DIGESTS:
        if value in _NOTHING:
            return None
        if value in ("true", "false"):
            return value == "true"
        if _DECIMAL.fullmatch(value) and len(value) < _NUMBER_CHARS:
            return _written_number(value)
    return str(value)


_T = TypeVar("_T")

Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]
"""A text."""

Word = Annotated[
    str,
    PlainValidator(_text),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
"""A text that often looks like something else: editors must not complain about `1.10` or `yes`."""

Default = Annotated[
    str, PlainValidator(_scalar_text), WithJsonSchema({"type": ["string", "number"]})
]
"""A text; a number of a JSON file becomes the text that Python prints for it."""

Number = Annotated[Any, PlainValidator(_number), WithJsonSchema({"type": "number"})]
"""A finite number; whole numbers stay whole, as a lock tells 1 from 1.0."""

Whole = Annotated[int, PlainValidator(_whole), WithJsonSchema({"type": "integer"})]
"""A whole number."""

Flag = Annotated[bool, PlainValidator(_flag), WithJsonSchema({"type": "boolean"})]
"""true or false."""

Free = Annotated[Any, PlainValidator(_free), WithJsonSchema({})]
"""Whatever another tool wrote: unquoted numbers, true, false and null are taken as such."""

FreeMapping = Annotated[dict[str, Any], BeforeValidator(_free)]
"""A mapping of such values."""

Maybe = Annotated[_T | None, BeforeValidator(nothing)]
"""A field that may be null."""


def as_text(value: object) -> object:
    """Text of a scalar, for fields that take one of a few words; anything else as it is."""
    return str(value) if isinstance(value, str) else value


def member(value: object) -> str:
    """Which member of a union a value is meant for, for `Discriminator`."""
    if isinstance(value, list):
        return "#list"
    return "#text" if value is None or isinstance(value, str | int | float) else "#mapping"


def number_member(value: object) -> str:
    """The same where a number stands instead of a text."""
    found = member(value)
    return "#number" if found == "#text" else found
