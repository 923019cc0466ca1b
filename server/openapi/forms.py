"""Builders of JSON Schema: each returns a plain object of OpenAPI 3.1. Know no route and no field."""

from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]


def text(
    about: str = "",
    *,
    least: int | None = None,
    most: int | None = None,
    pattern: str | None = None,
) -> Schema:
    """A text; `least` and `most` bound its characters."""
    bounds = {"minLength": least, "maxLength": most, "pattern": pattern}
    return _made("string", about, bounds)


def word(about: str = "", *words: str) -> Schema:
    """One of a few texts."""
    return {"type": "string", "enum": list(words), **_about(about)}


def whole(about: str = "", *, least: int | None = None, most: int | None = None) -> Schema:
    """A whole number within bounds, both included."""
    return _made("integer", about, {"minimum": least, "maximum": most})


def number(about: str = "", *, least: float | None = None, most: float | None = None) -> Schema:
    """A number within bounds, both included."""
    return _made("number", about, {"minimum": least, "maximum": most})


def p(about: str = "") -> Schema:
    """A probability."""
    return number(about, least=0, most=1)


def flag(about: str = "") -> Schema:
    """True or false."""
    return _made("boolean", about, {})


def null() -> Schema:
    """Null and nothing else."""
    return {"type": "null"}


def items(
    of: Schema, about: str = "", *, least: int | None = None, most: int | None = None
) -> Schema:
    """A list of values of one form; `least` and `most` bound their number."""
    return _made("array", about, {"items": of, "minItems": least, "maxItems": most})


def mapping(
    of: Schema, about: str = "", *, least: int | None = None, keys: Schema | None = None
) -> Schema:
    """An object whose keys are the caller's: name -> value of one form."""
    bounds = {"additionalProperties": of, "minProperties": least, "propertyNames": keys}
    return _made("object", about, bounds)


def record(
    fields: Mapping[str, Schema],
    required: Iterable[str] = (),
    about: str = "",
    *,
    closed: bool = False,
) -> Schema:
    """An object with named fields.

    Args:
        required: names of the fields that must be there.
        closed: whether other fields are refused.
    """
    more = {"required": list(required) or None, "additionalProperties": False if closed else None}
    return _made("object", about, {"properties": dict(fields), **more})


def filled(fields: Mapping[str, Schema], about: str = "", *, maybe: Iterable[str] = ()) -> Schema:
    """An object of an answer: every field is there but those of `maybe`."""
    absent = set(maybe)
    return record(fields, [name for name in fields if name not in absent], about)


def ref(name: str) -> Schema:
    """A schema of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


def either(*forms: Schema, about: str = "") -> Schema:
    """A value that has at least one of several forms."""
    return {"anyOf": list(forms), **_about(about)}


def optional(form: Schema) -> Schema:
    """The form, or null, which means the same as leaving the field out."""
    if "anyOf" in form:
        return form | {"anyOf": [*form["anyOf"], null()]}
    if "$ref" in form:
        return {"anyOf": [form, null()]}
    kinds = form["type"] if isinstance(form["type"], list) else [form["type"]]
    words = {"enum": [*form["enum"], None]} if "enum" in form else {}
    return form | {"type": [*kinds, "null"]} | words


def _made(kind: str, about: str, more: Mapping[str, Any]) -> Schema:
    given = {name: value for name, value in more.items() if value is not None}
    return {"type": kind, **_about(about), **given}


def _about(about: str) -> Schema:
    return {"description": about} if about else {}
