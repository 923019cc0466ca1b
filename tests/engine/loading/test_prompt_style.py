"""How closed questions are worded: what a model says of itself, and what a setting says instead."""

from dataclasses import replace
from typing import Any, cast

import pytest

from spinf_serve.engine.loading.open import OpenedModel, in_style, open_checkpoint
from spinf_serve.engine.work import PromptStyle
from spinf_serve.packs.errors import Unusable
from tests.support.stub_engine import SERVED
from tests.support.toy_tokenizers import ByteTokenizer

CHAT = {"<|im_start|>": 257, "<|im_end|>": 258}
ANYTHING: Any = None


class Controlled(ByteTokenizer):
    """Bytes, and control tokens of given texts."""

    def __init__(self, controls: dict[str, int]) -> None:
        super().__init__()
        self.controls = controls


def opened(controls: dict[str, int], style: PromptStyle = "cloze") -> OpenedModel:
    return OpenedModel(
        served=replace(SERVED, prompt_style=style),
        spec=ANYTHING,
        checkpoint=ANYTHING,
        tokenizer=cast(Any, Controlled(controls)),
        digest=ANYTHING,
        limits={},
        token_budget=None,
    )


def test_a_model_is_asked_in_its_own_way():
    assert in_style(opened(CHAT), "auto").served.frame is None
    served = in_style(opened(CHAT, "chat"), "auto").served
    assert served.frame is not None and served.frame.close == (258,)


def test_a_setting_says_otherwise():
    served = in_style(opened(CHAT), "chat").served
    assert served.prompt_style == "chat" and served.frame is not None
    served = in_style(opened(CHAT, "chat"), "cloze").served
    assert (served.prompt_style, served.frame) == ("cloze", None)


@pytest.mark.parametrize("controls", [{}, {"<|im_start|>": 257}])
def test_a_model_without_the_marks_of_a_chat_cannot_be_asked_in_one(controls):
    with pytest.raises(Unusable, match="start it with --prompt-style cloze"):
        in_style(opened(controls), "chat")


@pytest.mark.weights
def test_the_embedded_model_can_chat_when_it_is_told_to():
    model = open_checkpoint("embedded", offline=True)
    assert in_style(model, "auto").served.frame is None
    frame = in_style(model, "chat").served.frame
    assert frame is not None
    encode = model.tokenizer.encode
    assert frame.before == (1, *encode("user\n"))
    assert frame.behind == (2, *encode("\n"), 1, *encode("assistant\n"))
    assert frame.close == (2,)
    assert not {1, 2} & set(encode("<|im_start|>user\nHi<|im_end|>"))
