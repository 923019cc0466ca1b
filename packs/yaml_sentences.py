"""What is wrong with a YAML text, in words for the author of a pack.

A parser says what it expected; an author needs to know what to write. Works on the text, the
parser's complaint and its place; knows neither nodes nor packs.
"""

import json


def quoted(text: str) -> str:
    """The text in double quotes, as both YAML and JSON read it back."""
    return json.dumps(text, ensure_ascii=False)


def quoted_line(text: str, index: int) -> str:
    """The rest of the line from `index` on, in double quotes, without a comment."""
    return quoted(_rest_of_line(text, index))


def control_character(character: str) -> str:
    """Why a character cannot stand in a file, and what to write."""
    return f"the character U+{ord(character):04X} cannot stand in the file; remove it"


def sentence(text: str, problem: str, index: int, opened: int) -> tuple[str, int]:
    """The parser's complaint in plain words, and the place to point at.

    `index` is where the parser stopped, `opened` where what it was reading began.
    """
    return problem, index


def _rest_of_line(text: str, index: int) -> str:
    return text[index:].splitlines()[0] if index < len(text) else ""
