"""The template grammar: literal text, `{name}` placeholders, doubled braces, exactly one slot.

A slot says where the answer goes and of what kind it is: `{?}` reads options, `{n}` a number, `{$}`
an amount, `{*}` free text that ends before the stop text. Knows no options and no tokens.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from spinf_serve.packs.errors import Refused

MAX_NAMES = 5
"""Largest number of distinct placeholders of one template."""

_EXCERPT_CHARS = 24
_TOKEN = re.compile(r"\{\{|\}\}|\{(?:[A-Za-z0-9_]+|\?|\$|\*)\}|[{}]")
_BRACE_REMEDY = "write `{{` or `}}` for a literal brace"


class SlotKind(Enum):
    """What stands in the slot. The value is the mark between the braces."""

    OPTIONS = "?"
    NUMBER = "n"
    AMOUNT = "$"
    TEXT = "*"


_SLOTS: Mapping[str, SlotKind] = {kind.value: kind for kind in SlotKind}


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template.

    Attributes:
        literals: the literal pieces before the slot, braces unescaped; one more than `fields`.
        fields: the placeholder between each two literal pieces, in order, repeats included.
        names: the distinct placeholders, in order of first appearance.
        kind: the kind of the slot.
        stop: the text behind the slot, braces unescaped; empty except with `SlotKind.TEXT`.
    """

    literals: tuple[str, ...]
    fields: tuple[str, ...]
    names: tuple[str, ...]
    kind: SlotKind
    stop: str


def parse(template: str) -> Template:
    """Read a template.

    Raises `Refused("invalid_template")` with the character position (counted from 1), what is wrong
    there and how to mend it; `param` is `template`.
    """
    before: list[str] = []
    literals: list[str] = []
    fields: list[str] = []
    kind: SlotKind | None = None
    text = before
    start = 0
    for match in _TOKEN.finditer(template):
        mark = match.group()
        at = match.start()
        text.append(template[start:at])
        start = match.end()
        if mark in ("{{", "}}"):
            text.append(mark[0])
        elif mark in ("{", "}"):
            raise _lone_brace(template, at)
        elif mark[1:-1] in _SLOTS:
            if kind is not None:
                raise _fault(template, at, f"`{mark}` is a second slot; a template has exactly one")
            kind = _SLOTS[mark[1:-1]]
            literals.append("".join(text))
            text = []
        elif kind is not None:
            raise _fault(
                template, at, f"the placeholder `{mark}` stands behind the slot; move it before"
            )
        else:
            literals.append("".join(text))
            text.clear()
            fields.append(mark[1:-1])
    text.append(template[start:])
    if kind is None:
        raise _no_slot(template)
    names = tuple(dict.fromkeys(fields))
    if len(names) > MAX_NAMES:
        raise Refused(
            "invalid_template",
            f"the template has {len(names)} placeholders ({', '.join(names)}), more than the"
            f" {MAX_NAMES} allowed; write fixed values into the text or split the question",
            "template",
        )
    return Template(
        tuple(literals), tuple(fields), names, kind, _stop(template, kind, "".join(text))
    )


def fill(template: Template, values: Mapping[str, str]) -> str:
    """The text before the slot with every placeholder replaced.

    Values are literal: braces in them mean nothing. `values` has every name of the template.
    """
    if not template.fields:
        return template.literals[0]
    parts = [template.literals[0]]
    for name, literal in zip(template.fields, template.literals[1:], strict=True):
        parts.append(values[name])
        parts.append(literal)
    return "".join(parts)


def _stop(template: str, kind: SlotKind, stop: str) -> str:
    """Check the text behind the slot."""
    if not stop:
        return stop
    mark = f"{{{kind.value}}}"
    # Behind the slot are no more slots or placeholders, so its last plain occurrence is the slot.
    behind = template.rindex(mark) + len(mark)
    if kind is not SlotKind.TEXT:
        raise _fault(
            template, behind, f"text follows `{mark}`, which must end the template; remove the text"
        )
    newline = stop.find("\n")
    if newline >= 0:
        raise _fault(
            template,
            template.index("\n", behind),
            f"the stop text behind `{mark}` holds a newline; end it before",
        )
    return stop


def _no_slot(template: str) -> Refused:
    if not template:
        what = "the template is empty"
    else:
        what = "the template has no slot"
        escaped = re.search(r"\{\{(?:\?|\$|\*|n)\}\}", template)
        if escaped is not None:
            what += f" (`{escaped.group()}` at character {escaped.start() + 1} is literal text)"
    return Refused(
        "invalid_template",
        f"{what}; end it with `{{?}}` where one of the options is to be read",
        "template",
    )


def _lone_brace(template: str, at: int) -> Refused:
    if template[at] == "}":
        return _fault(template, at, f"a lone `}}`; {_BRACE_REMEDY}")
    end = template.find("}", at)
    if end < 0:
        return _fault(template, at, f"a `{{` that is never closed; {_BRACE_REMEDY}")
    piece = template[at : min(end + 1, at + _EXCERPT_CHARS)]
    return _fault(
        template,
        at,
        f"`{piece}` is neither a placeholder (`{{name}}`, letters, digits and _) nor a slot"
        f" (`{{?}}`, `{{n}}`, `{{$}}`, `{{*}}`); {_BRACE_REMEDY}",
    )


def _fault(template: str, at: int, what: str) -> Refused:
    near = template[max(0, at - _EXCERPT_CHARS // 2) : at + _EXCERPT_CHARS]
    return Refused("invalid_template", f"character {at + 1}: {what} (near {near!r})", "template")
