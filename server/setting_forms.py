"""What a setting may be: a text, several, a token, a number, a word of a few, on or off.

A form reads the value of a flag, a variable or a key of the file, and says in words what it takes.
Knows no setting.
"""

from dataclasses import dataclass
from typing import Literal

Value = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A setting that is any non-empty text; `placeholder` is how usage lines show it."""

    placeholder: str = "TEXT"
    secret: Literal[False] = False

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        return "a text that is not empty"

    def from_text(self, text: str) -> Value | None:
        """The value of a flag or variable, None when it is not acceptable."""
        return self.from_toml(text)

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file, None when it is not acceptable."""
        return value if isinstance(value, str) and value.strip() else None


@dataclass(frozen=True, slots=True)
class Texts:
    """A setting that is several texts: a flag that may be given again, a list in the file."""

    placeholder: str = "TEXT"
    secret: bool = False

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        return "texts that are not empty: a list in the file, commas between them in the variable"

    def from_text(self, text: str) -> Value | None:
        """The value of a variable, None when it is not acceptable."""
        return self.from_toml([part.strip() for part in text.split(",")]) if text.strip() else ()

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file or of repeated flags, None when it is not acceptable."""
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple):
            return None
        texts = tuple(item for item in value if isinstance(item, str) and item.strip())
        return texts if len(texts) == len(value) else None


@dataclass(frozen=True, slots=True)
class Token:
    """A setting that is what callers send behind `Bearer` in a header.

    A header holds no line ends, loses spaces at its ends, and has no agreed encoding: any other
    token would be one that no caller can send.
    """

    secret: Literal[True] = True
    placeholder: str = "TOKEN"

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        return "letters, digits and signs of ASCII, with no space or line end before or behind them"

    def from_text(self, text: str) -> Value | None:
        """The value of a flag or variable, None when it is not acceptable."""
        return self.from_toml(text)

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file, None when it is not acceptable."""
        if not isinstance(value, str) or not value or value != value.strip():
            return None
        return value if value.isascii() and value.isprintable() else None


@dataclass(frozen=True, slots=True)
class Count:
    """A setting that is a whole number within bounds, both included."""

    minimum: int
    maximum: int | None = None
    secret: Literal[False] = False
    placeholder: str = "NUMBER"

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        if self.maximum is None:
            return f"a whole number, {self.minimum} or more"
        return f"a whole number from {self.minimum} to {self.maximum}"

    def from_text(self, text: str) -> Value | None:
        """The value of a flag or variable, None when it is not acceptable."""
        digits = text.strip()
        # Python refuses to read integers of thousands of digits; no setting needs more than 18.
        plain = digits.isascii() and digits.isdigit() and len(digits) <= 18
        return self.from_toml(int(digits)) if plain else None

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file, None when it is not acceptable."""
        if not isinstance(value, int) or isinstance(value, bool) or value < self.minimum:
            return None
        return value if self.maximum is None or value <= self.maximum else None


@dataclass(frozen=True, slots=True)
class Share:
    """A setting that is a part of a whole, from 0 to 1, both included."""

    secret: Literal[False] = False
    placeholder: str = "SHARE"

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        return "a number from 0 to 1"

    def from_text(self, text: str) -> Value | None:
        """The value of a flag or variable, None when it is not acceptable."""
        try:
            return self.from_toml(float(text))
        except ValueError:
            return None

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file, None when it is not acceptable."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            return None
        return float(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that is one of a few words."""

    words: tuple[str, ...]
    secret: Literal[False] = False

    @property
    def placeholder(self) -> str:
        """How usage lines show it."""
        return "|".join(self.words)

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))

    def from_text(self, text: str) -> Value | None:
        """The value of a flag or variable, None when it is not acceptable."""
        return self.from_toml(text)

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file, None when it is not acceptable."""
        return value if isinstance(value, str) and value in self.words else None


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting that is on or off."""

    secret: Literal[False] = False
    placeholder: str = ""

    @property
    def accepted(self) -> str:
        """What the setting takes, in words."""
        return "true or false"

    def from_text(self, text: str) -> Value | None:
        """The value of a flag or variable, None when it is not acceptable."""
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())

    def from_toml(self, value: object) -> Value | None:
        """The value of a key in the file, None when it is not acceptable."""
        return value if isinstance(value, bool) else None
