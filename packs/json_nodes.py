"""A JSON text as the same nodes that a YAML text gives, for edits that change nothing else.

Does not know what a pack is. A JSON pack is read with `json`; nodes are made when it is edited.
"""

import json
import re
from typing import NoReturn

from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.notes import cut
from spinf_serve.packs.yaml_nodes import NESTING_LIMIT, Mapping, Mark, Node, Scalar, Sequence

_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:(?P<sign>[{}\[\],:])|(?P<text>"(?:[^"\\]|\\.)*+")|(?P<word>[^ \t\r\n{}\[\],:"]++))'
)


def parse_json(text: str, name: str) -> Node:
    """The nodes of a JSON text: objects and lists count as flow, numbers and words as plain.

    Raises:
        InvalidPack: not JSON, NaN or Infinity, over 32 levels, or a key twice in one object.
    """
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        fault = PackFault(f"not JSON: {error.msg}", name, error.lineno, error.colno)
        raise InvalidPack([fault]) from None
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, a constant refused below, thousands of levels.
        raise InvalidPack([PackFault(f"not readable: {error}", name)]) from None
    return _compose(text, name)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _compose(text: str, name: str) -> Node:
    # Valid JSON by now: commas and colons only separate, and every bracket has its partner.
    opened: list[tuple[str, Mark, list[Node]]] = [("", Mark(1, 1, 0), [])]
    line, line_start, read = 1, 0, 0
    for token in _TOKEN.finditer(text):
        start, end = token.span(str(token.lastgroup))
        for ending in re.finditer(r"\r\n|\r|\n", text[read:start]):
            line, line_start = line + 1, read + ending.end()
        read = end
        mark = Mark(line, start - line_start + 1, start)
        behind = Mark(line, end - line_start + 1, end)
        sign = token["sign"]
        if sign and sign in "{[":
            if len(opened) > NESTING_LIMIT:
                message = f"nested deeper than {NESTING_LIMIT} levels"
                raise InvalidPack([PackFault(message, name, mark.line, mark.column)])
            opened.append((sign, mark, []))
        elif sign and sign in "}]":
            bracket, begun, nodes = opened.pop()
            opened[-1][2].append(
                _mapping(nodes, begun, behind, name)
                if bracket == "{"
                else Sequence(tuple(nodes), True, begun, behind)
            )
        elif token["text"]:
            opened[-1][2].append(Scalar(json.loads(token["text"]), False, mark, behind))
        elif token["word"]:
            opened[-1][2].append(Scalar(token["word"], True, mark, behind))
    return opened[0][2][0]


def _mapping(nodes: list[Node], start: Mark, end: Mark, name: str) -> Mapping:
    pairs: dict[str, tuple[Scalar, Node]] = {}
    keys = [node for node in nodes[::2] if isinstance(node, Scalar)]
    for key, value in zip(keys, nodes[1::2], strict=True):
        if key.text in pairs:
            line = pairs[key.text][0].start.line
            message = f"the key `{cut(key.text)}` stands twice, first on line {line}; remove one"
            raise InvalidPack([PackFault(message, name, key.start.line, key.start.column)])
        pairs[key.text] = (key, value)
    return Mapping(tuple(pairs.values()), True, start, end)
