"""A chat written as a model's own template has it, in tokens.

The template is the model's and runs in a sandbox. Control tokens come from it alone: what stands in
a message is text, whatever it looks like.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused

# Characters that no language uses; one that is in no message seals what must not become a token.
_SEALS = range(0xE000, 0xF900)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a chat: who speaks, as the template calls them, and what."""

    role: str
    text: str


class _Generation(Extension):
    """The block around what a model is trained to write; without a meaning here."""

    tags = {"generation"}  # noqa: RUF012 - as the library declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands in the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def chat_tokens(engine: Engine, turns: Sequence[Turn]) -> tuple[int, ...]:
    """The tokens of a chat up to where the model is to answer.

    Raises:
        Refused: `no_chat_template` where the model has none; `invalid_field` (`messages`) where the
            template refuses the chat.
    """
    form = engine.served.chat
    if form is None:
        raise Refused(
            "no_chat_template",
            f"the served model {engine.served.id} comes without a chat template, so it cannot be "
            "asked in turns: send a prompt to /v1/completions",
        )
    # A text of one character could not be sealed, and no template writes such a token.
    marks = sorted((text for text in form.controls if len(text) > 1), key=len, reverse=True)
    seal = _unused_character(turns)
    sealed = [{"role": turn.role, "content": _sealed(turn.text, marks, seal)} for turn in turns]
    written = _rendered(form.template, sealed, form.bos, form.eos)
    tokens: list[int] = []
    pattern = "|".join(map(re.escape, marks))
    pieces = re.split(f"({pattern})", written) if marks else [written]
    for place, piece in enumerate(pieces):
        if place % 2:
            tokens.append(form.controls[piece])
        else:
            tokens += engine.tokenizer.encode(piece.replace(seal, ""))
    return tuple(tokens)


def _rendered(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _Generation],
    )
    environment.filters["tojson"] = _as_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token=bos, eos_token=eos, tools=None
        )
    except TemplateError as error:
        raise Refused(
            "invalid_field",
            f"the model's chat template does not take these messages: {error}",
            "messages",
        ) from None


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _unused_character(turns: Sequence[Turn]) -> str:
    used = set().union(*(turn.text for turn in turns))
    free = next((code for code in _SEALS if chr(code) not in used), None)
    if free is None:
        raise Refused(
            "invalid_field",
            "the messages use every character of Unicode's private area",
            "messages",
        )
    return chr(free)


def _sealed(text: str, marks: Sequence[str], seal: str) -> str:
    """A message's text with a seal in whatever could become a control token, alone or together with
    what the template writes before and behind it."""
    places = {
        found.start() + 1 for mark in marks for found in re.finditer(f"(?={re.escape(mark)})", text)
    }
    # Templates may take white space off both ends.
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if any(_overlaps(mark, text[begin:end]) for mark in marks):
        places.add(begin)
    if any(_overlaps(text[begin:end], mark) for mark in marks):
        places.add(end)
    pieces = []
    at = 0
    for place in sorted(places):
        pieces += [text[at:place], seal]
        at = place
    return "".join((*pieces, text[at:]))


def _overlaps(first: str, second: str) -> bool:
    """Whether an end of the first text is a beginning of the second, both texts not whole."""
    return any(
        first.endswith(second[:length]) for length in range(1, min(len(first), len(second)) + 1)
    )


def known_roles() -> Mapping[str, str]:
    """Role of a message in a request -> as templates call it."""
    return {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
