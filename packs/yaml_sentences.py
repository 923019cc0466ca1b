"""What is wrong with a YAML text, in words for the author of a pack.

A parser says what it expected; an author needs to know what to write. Works on the text, the
parser's complaint and its place; knows neither nodes nor packs.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

KEY_LIMIT = 1024
"""Most characters of a key, by YAML's own rules."""

_LINE_END = re.compile(r"[\r\n]|\Z")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NO_SPACE = re.compile(r"\s*(?:- +)*([\w./-]+):([^\s:/].*)$")
_FIELD = re.compile(r"\s*(?:- +)*((?:\"[^\"]*\"|'[^']*'|[^\s\"'#][^:#]*?) *): +(.*)$")
_FOUND = re.compile(r"(?:found|got) \(?'?([^',)]+|,)'?")


@dataclass(frozen=True, slots=True)
class Complaint:
    """What the parser says.

    Attributes:
        problem: its words.
        index: where it stopped, as offset into the text.
        begun: where the thing that it was reading began.
        bracket: where the innermost open bracket or brace stands; None outside of any.
    """

    text: str
    problem: str
    index: int
    begun: int
    bracket: int | None


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is wrong, and the offset to point at."""

    message: str
    index: int


# What YAML has and packs leave out, by the character that begins it.
LEFT_OUT = {
    "%": "a line may not begin with %; put a text in double quotes",
    "&": "anchors (&) are not read; write the value out, or put the text in double quotes",
    "*": "aliases (*) are not read; write the value out, or put the text in double quotes",
    "!": "tags (!) are not read, the field decides the type; put a text in double quotes",
    "?": "an unquoted text cannot begin with ? here; put it in double quotes",
    "<<": "merge keys (<<) are not read; write the fields out",
    "#": "a comment needs a space before #; a text with # in it goes in double quotes",
    "\t": "a tab stands here; indent and separate with spaces",
    "[": "a key must be a text; a text that begins with [ or { goes in double quotes",
    ":": "no key stands before the colon; put a text that begins with : in double quotes",
    "[:": "an entry with a colon; write {key: value}, or put the text in double quotes",
    "\\U": "the escape names a character beyond \\U0010FFFF; write the character itself",
    "": "the file holds no value; a pack begins with `pack: <namespace>/<name>`",
}


def quoted(text: str) -> str:
    """The text in double quotes, as both YAML and JSON read it back."""
    plain = json.dumps(text, ensure_ascii=False)
    # JSON lets these stand, YAML does not.
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda one: f"\\u{ord(one.group()):04x}", plain
    )


def quoted_rest(text: str, index: int, bracket: int | None) -> str:
    """In double quotes what stands from `index` on, to the end of the line or bracketed entry.

    `bracket` is the innermost open bracket's offset. A text that begins with a brace is meant whole.
    """
    if bracket is not None and index == bracket + 1 and text[bracket] == "{":
        index, bracket = bracket, None
    rest = _COMMENT.sub("", text[index : _end_of_line(text, index)])
    if bracket is not None:
        rest = re.split(r"[,\]}]", rest, maxsplit=1)[0]
    return quoted(_shortened(rest.rstrip()))


def left_out(character: str, text: str, index: int, bracket: int | None) -> str:
    """Why an indicator of YAML is not read, and its text in quotes, to paste."""
    return f"{LEFT_OUT[character]}: {quoted_rest(text, index, bracket)}"


def control_character(character: str) -> str:
    """Why a character cannot stand in a file, and what to write."""
    code = ord(character)
    if code == 0 or 0xD800 <= code <= 0xDFFF or code >= 0xFFFE:
        return f"U+{code:04X} is no character of a text; write the character itself, or nothing"
    if code == 0xFEFF:
        return "a byte order mark stands inside the file; remove it"
    return f"the character U+{code:04X} cannot be seen; remove it, or write \\u{code:04x} in quotes"


def sentence(complaint: Complaint) -> Sentence:
    """The complaint in plain words."""
    for words, say in _SENTENCES:
        if words in complaint.problem:
            return say(complaint)
    return Sentence(f"this cannot be read as YAML: {complaint.problem}", complaint.index)


def _end_of_line(text: str, index: int) -> int:
    found = _LINE_END.search(text, index)
    return found.start() if found else len(text)


def _start_of_line(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def _line(text: str, index: int) -> str:
    """The line without its comment; only its first 1,000 characters are looked at."""
    start = _start_of_line(text, index)
    return _COMMENT.sub("", text[start : min(_end_of_line(text, index), start + 1000)]).rstrip()


def _line_above(text: str, index: int) -> tuple[str, int]:
    """The nearest line above that has more than a comment, and where it starts."""
    for found in reversed(list(re.finditer(r"[^\r\n]+", text[: _start_of_line(text, index)]))):
        line = _COMMENT.sub("", found.group()[:1000]).rstrip()
        if line:
            return line, found.start()
    return "", 0


def _number(text: str, index: int) -> int:
    return len(re.findall(r"\r\n|\r|\n", text[:index])) + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


def _begins_line(text: str, index: int) -> bool:
    return not text[_start_of_line(text, index) : index].strip(" ")


def _rest(complaint: Complaint) -> str:
    return quoted_rest(complaint.text, complaint.index, complaint.bracket)


def _no_space(line: str) -> str | None:
    found = _NO_SPACE.match(line)
    return found and f"write a space after the colon: {found[1]}: {_shortened(found[2])}"


def _character(complaint: Complaint) -> Sentence:
    character = complaint.text[complaint.index]
    if character == "\t":
        return Sentence("a tab stands here; indent and separate with spaces", complaint.index)
    if character in "|>":
        return Sentence(
            f"{character} begins a block of text only outside of [ ] and {{ }}; put the text in "
            "double quotes",
            complaint.index,
        )
    return Sentence(
        f"an unquoted text cannot begin with {character}; write {_rest(complaint)}",
        complaint.index,
    )


def _no_colon(complaint: Complaint) -> Sentence:
    line = _line(complaint.text, complaint.begun)
    advice = _no_space(line) or (
        "this line is no `key: value`; add the colon, or put a text that goes on over several "
        "lines in quotes or below |"
    )
    return Sentence(advice, complaint.begun)


def _second_colon(complaint: Complaint) -> Sentence:
    text, index = complaint.text, complaint.index
    line = _line(text, index)
    field = _FIELD.match(line)
    place = index - _start_of_line(text, index)
    if field and field.start(2) <= place:
        form = f"{field[1]}: {quoted(_shortened(field[2]))}"
        return Sentence(f"a text with a colon in it goes in quotes: {form}", index)
    above, start = _line_above(text, index)
    advice = _no_space(above)
    if advice:
        return Sentence(advice, start + _indent(above))
    if above and _indent(line) > _indent(above):
        return Sentence(
            "this line is indented deeper than the line above, which has its value already; "
            "align it, or end the line above in a colon",
            index - place + _indent(line),
        )
    if place > KEY_LIMIT:
        return Sentence(f"a key has at most {KEY_LIMIT:,} characters, this has more", index - place)
    if above and ":" not in above:
        return _no_colon(replace(complaint, begun=start + _indent(above)))
    return Sentence("a colon cannot stand here; put a text with a colon in double quotes", index)


def _no_entry(complaint: Complaint) -> Sentence:
    if _begins_line(complaint.text, complaint.index):
        return Sentence("this - is not aligned with the other entries of its list", complaint.index)
    return Sentence(
        "a list begins on the line below its key, or is written [a, b]; a text that begins with "
        f"- goes in quotes: {_rest(complaint)}",
        complaint.index,
    )


def late_quote(quote: str, index: int, line: int) -> Sentence:
    """A quote that closes lines later than was meant, at the opening quote of another text."""
    return Sentence(
        f"the quote {quote} that opens here is closed only in line {line}, where more text follows; "
        "close it where the text ends",
        index,
    )


def _open_quote(complaint: Complaint) -> Sentence:
    quote = complaint.text[complaint.begun]
    more = "; inside single quotes write '' for an apostrophe" if quote == "'" else ""
    return Sentence(f"the quote {quote} that opens here is not closed{more}", complaint.begun)


def _escape(complaint: Complaint) -> Sentence:
    start = complaint.text.rfind("\\", 0, complaint.index + 1)
    letter = complaint.text[start + 1 : start + 2]
    digits = {"x": 2, "u": 4, "U": 8}.get(letter)
    if digits:
        return Sentence(
            f"\\{letter} needs {digits} hexadecimal digits; write \\\\ for a backslash",
            start,
        )
    return Sentence(
        f"\\{letter} is no escape; write \\\\{letter} for a backslash and the letter", start
    )


def _block_header(complaint: Complaint) -> Sentence:
    sign = complaint.text[complaint.begun]
    return Sentence(
        f"after {sign} the text begins on the next line; a text that begins with {sign} goes in "
        f"quotes: {quoted_rest(complaint.text, complaint.begun, None)}",
        complaint.begun,
    )


def _blank_line(complaint: Complaint) -> Sentence:
    return Sentence(
        "a line of spaces above this text is shorter than the text's indentation; empty it",
        complaint.index,
    )


def _found(problem: str) -> str:
    found = _FOUND.search(problem)
    return found[1] if found else ""


def _misplaced(complaint: Complaint) -> Sentence:
    text, index = complaint.text, complaint.index
    if _begins_line(text, index):
        column = index - _start_of_line(text, index) + 1
        if column == complaint.begun - _start_of_line(text, complaint.begun) + 1:
            what = "an entry" if text[index] == "-" else "a key"
            return Sentence(
                f"{what} stands at column {column}, where line {_number(text, complaint.begun)} "
                "began something else; a list's entries and a mapping's keys do not mix",
                index,
            )
        return Sentence(
            f"this line begins at column {column}, where nothing above it begins; align it with "
            "the lines that it belongs to",
            index,
        )
    found = _found(complaint.problem)
    if found == ",":
        return Sentence(
            "a list with commas is written in brackets: [a, b]; other commas in quotes", index
        )
    if text[index - 1 : index] in ("'", '"') or text[:index].rstrip(" ")[-1:] in ("'", '"'):
        return Sentence(
            "the text goes on behind its closing quote; put all of it in one pair", index
        )
    return Sentence(f"{found} cannot follow here; put the whole text in double quotes", index)


def _unclosed(complaint: Complaint) -> Sentence:
    text, index = complaint.text, complaint.index
    found = _found(complaint.problem)
    bracket = complaint.begun
    closing = {"[": "]", "{": "}"}[text[bracket]]
    if found in ("]", "}"):
        return Sentence(f"{found} does not close {text[bracket]}; write {closing}", index)
    if found == ":":
        return Sentence("a text with a colon in it goes in double quotes", index)
    if re.search(r"[\r\n]", text[bracket:index]):
        return Sentence(f"{text[bracket]} is not closed by {closing}", bracket)
    return Sentence(
        "a comma is missing before this; put a text with quotes in it in one pair", index
    )


def _no_value(complaint: Complaint) -> Sentence:
    text, index = complaint.text, complaint.index
    found = _found(complaint.problem)
    bracket = complaint.bracket
    if bracket is not None and (found.startswith("<") or index >= len(text)):
        return Sentence(
            f"{text[bracket]} is not closed by {({'[': ']', '{': '}'})[text[bracket]]}", bracket
        )
    if found == ",":
        return Sentence(
            'nothing stands before this comma; remove it, or write "" for an empty text', index
        )
    if found == "-":
        return Sentence(
            "- begins a list entry only outside of [ ] and { }; write " + _rest(complaint), index
        )
    return Sentence(f"an unquoted text cannot begin with {found}; put it in double quotes", index)


def _behind_the_end(complaint: Complaint) -> Sentence:
    text, index = complaint.text, complaint.index
    first = re.search(r"[^\s]", text)
    outside = first and index - _start_of_line(text, index) < first.start()
    if outside and _begins_line(text, index):
        return Sentence("this line is indented less than the first line; align them", index)
    return Sentence("nothing can follow here; put a text in double quotes as a whole", index)


_SENTENCES: tuple[tuple[str, Callable[[Complaint], Sentence]], ...] = (
    ("cannot start any token", _character),
    ("could not find expected ':'", _no_colon),
    ("mapping values are not allowed", _second_colon),
    ("sequence entries are not allowed", _no_entry),
    ("unexpected end of stream", _open_quote),
    ("unexpected document separator", _open_quote),
    ("escape", _escape),
    ("chomping or indentation", _block_header),
    ("indentation indicator", _block_header),
    ("a comment or a line break", _block_header),
    ("more indented follow up", _blank_line),
    ("expected <block end>", _misplaced),
    ("expected ',' or", _unclosed),
    ("expected the node content", _no_value),
    ("expected '<document start>'", _behind_the_end),
    ("after document end marker", _behind_the_end),
)
