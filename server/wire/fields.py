"""Reading one JSON object: typed fields, dotted paths in refusals, near misses of field names.

Knows no field of any wire format.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from spinf_serve.packs.errors import Refused, kind_of

_MISSING = object()
# Comparing names costs time, so an object full of unknown fields is not searched to its end.
_MAX_COMPARED = 16
_MAX_NAME_CHARS = 40
_NEAR = 0.75


class Fields:
    """The fields of one JSON object.

    Attributes:
        path: dotted path of the object in the request; empty for the body itself.
        unknown: names of fields that are not known, in the caller's order.
    """

    __slots__ = ("_known", "_value", "path", "unknown")

    def __init__(self, value: Any, path: str, known: frozenset[str]) -> None:
        """Raises `Refused` when `value` is no object; `known` are the names the contract has."""
        if not isinstance(value, dict):
            raise wrong_type(value, path or "body", "an object")
        self._value = value
        self._known = known
        self.path = path
        self.unknown: Sequence[str] = (
            () if value.keys() <= known else [name for name in value if name not in known]
        )

    def at(self, name: str) -> str:
        """Dotted path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the field is there, null or not."""
        return name in self._value

    def get(self, name: str) -> Any:
        """The field as it is; None when it is null or absent."""
        return self._value.get(name)

    def text(self, name: str, max_chars: int | None = None) -> str:
        """A text field that must be there."""
        value = self._value.get(name, _MISSING)
        if value is _MISSING:
            raise self.missing(name)
        if type(value) is not str:
            raise wrong_type(value, self.at(name), "a text")
        if max_chars is not None and len(value) > max_chars:
            raise self.refused(
                name, f"has {len(value)} characters; at most {max_chars} are allowed"
            )
        return value

    def optional_text(self, name: str, max_chars: int | None = None) -> str | None:
        """A text field; None when it is null or absent."""
        return None if self._value.get(name) is None else self.text(name, max_chars)

    def flag(self, name: str, default: bool) -> bool:
        """A field that is true or false; `default` when it is null or absent."""
        value = self._value.get(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise wrong_type(value, self.at(name), "true or false")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list field; None when it is null or absent."""
        value = self._value.get(name)
        if value is not None and type(value) is not list:
            raise wrong_type(value, self.at(name), "a list")
        return value

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object field; None when it is null or absent."""
        value = self._value.get(name)
        if value is not None and type(value) is not dict:
            raise wrong_type(value, self.at(name), "an object")
        return value

    def missing(self, name: str) -> Refused:
        """The refusal of a field that must be there; points at a misspelling if there is one."""
        near = get_close_matches(name, self.unknown[:_MAX_COMPARED], n=1, cutoff=_NEAR)
        hint = f"; `{near[0]}` is not a field, did you mean `{name}`?" if near else ""
        return Refused("invalid_field", f"{self.at(name)} is missing{hint}", self.at(name))

    def refused(self, name: str, problem: str) -> Refused:
        """The refusal of a field's value."""
        return Refused("invalid_field", f"{self.at(name)} {problem}", self.at(name))

    def misspelt(self) -> list[tuple[str, str]]:
        """Unknown names that look like a known one, each with that one."""
        if not self.unknown:
            return []
        found = []
        for name in self.unknown[:_MAX_COMPARED]:
            if len(name) <= _MAX_NAME_CHARS:
                near = get_close_matches(name, self._known, n=1, cutoff=_NEAR)
                found += [(name, match) for match in near]
        return found


def wrong_type(value: Any, path: str, wanted: str) -> Refused:
    """The refusal of a value of the wrong JSON type."""
    return Refused("invalid_field", f"{path} is {kind_of(value)}; {wanted} is needed", path)
