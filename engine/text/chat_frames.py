"""Which control tokens a model's chats are made of: the forms that are known, by their marks.

Knows no model by name: a form fits where a tokenizer has its marks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Frame


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of chats.

    Attributes:
        opens: mark before the name of who speaks.
        named: mark between that name and the text; a newline where empty.
        closes: mark at the end of a turn.
        between: text between two turns.
        answerer: how the model is called.
    """

    opens: str
    named: str
    closes: str
    between: str
    answerer: str


_FORMS = (
    _Form("<|im_start|>", "", "<|im_end|>", "\n", "assistant"),
    _Form("<start_of_turn>", "", "<end_of_turn>", "\n", "model"),
    _Form("<|turn>", "", "<turn|>", "\n", "model"),
    _Form("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "", "assistant"),
)
KNOWN_MARKS = tuple(f"{form.opens} … {form.closes}" for form in _FORMS)
"""The forms, in the words of a message."""


def chat_frame(tokenizer: Tokenizer, controls: Mapping[str, int]) -> Frame | None:
    """The frame of one turn of a user and the beginning of the answer; None where no form fits.

    Args:
        tokenizer: encodes what stands between the marks.
        controls: text -> id of every control token.
    """
    for form in _FORMS:
        marks = [mark for mark in (form.opens, form.named, form.closes) if mark]
        if all(mark in controls for mark in marks):
            return _frame(tokenizer, controls, form)
    return None


def _frame(tokenizer: Tokenizer, controls: Mapping[str, int], form: _Form) -> Frame:
    opens, closes = (controls[form.opens],), (controls[form.closes],)

    def opened(speaker: str) -> tuple[int, ...]:
        if form.named:
            named = (controls[form.named], *tokenizer.encode("\n\n"))
            return (*opens, *tokenizer.encode(speaker), *named)
        return (*opens, *tokenizer.encode(f"{speaker}\n"))

    between = tuple(tokenizer.encode(form.between))
    return Frame(
        before=opened("user"),
        behind=(*closes, *between, *opened(form.answerer)),
        close=closes,
    )
