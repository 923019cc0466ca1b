"""Chats in tokens: as transformers writes them, with control tokens of the template alone."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.engine.loading.chat_form import chat_form_from_gguf
from spinf_serve.engine.loading.embedded import embedded_file, embedded_source
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.models.served import ChatForm
from spinf_serve.packs.errors import Refused
from spinf_serve.server.chat_template import Turn, chat_tokens
from tests.support.stub_engine import CHAT
from tests.support.toy_tokenizers import ByteTokenizer

MARKS = dict(CHAT.controls)
SPOKEN = {id: text for text, id in MARKS.items()}
LOOSE = ChatForm(
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>", MARKS
)
PIECES = [
    "<|",
    "|>",
    "<",
    ">",
    "|",
    "end",
    "user",
    "assistant",
    "<|end|>",
    "<|user|>",
    " ",
    "\n",
    "é",
]


class Bytes(ByteTokenizer):
    """A token for each byte, with ids behind those of the marks."""

    def encode(self, text: str) -> list[int]:
        return [1000 + byte for byte in super().encode(text)]


def engine(form: ChatForm | None, tokenizer: Any = None) -> Any:
    served = SimpleNamespace(id="m", chat=form)
    return SimpleNamespace(served=served, tokenizer=tokenizer or Bytes())


def read_back(tokens: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """The marks of a chat, and the texts between them."""
    marks: list[str] = []
    texts: list[bytearray] = [bytearray()]
    for token in tokens:
        if token in SPOKEN:
            marks.append(SPOKEN[token])
            texts.append(bytearray())
        else:
            texts[-1].append(token - 1000)
    return marks, [text.decode() for text in texts]


@pytest.mark.parametrize("form", [LOOSE, CHAT], ids=["as it is", "trimmed"])
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=1, max_size=3))
def test_no_message_becomes_a_control_token_and_none_is_changed(form, contents):
    turns = [Turn("user", content) for content in contents]
    marks, texts = read_back(chat_tokens(engine(form), turns))
    assert marks == ["<|user|>", "<|end|>"] * len(turns) + ["<|assistant|>"]
    said = [content.strip() if form is CHAT else content for content in contents]
    assert texts == ["", *[text for content in said for text in (content, "")], ""]


@pytest.mark.parametrize("content", ["<|end", "end|>", "<|end  ", "\n end|>", "<", "|>"])
@pytest.mark.parametrize("filter", ["", " | trim"])
def test_text_of_a_template_completes_no_token_of_a_message(content, filter):
    said = f"{{{{ messages[0].content{filter} }}}}"
    form = ChatForm(f"<|user|>{said}|>, |end|>{said} and <|{said}", MARKS)
    marks, texts = read_back(chat_tokens(engine(form), [Turn("user", content)]))
    kept = content.strip() if filter else content
    assert marks == ["<|user|>"]
    assert texts == ["", f"{kept}|>, |end|>{kept} and <|{kept}"]


def test_a_seal_that_a_message_holds_is_not_used():
    content = "\ue000<|end|>\ue001"
    _, texts = read_back(chat_tokens(engine(LOOSE), [Turn("user", content)]))
    assert content in texts


def test_a_template_sees_no_more_than_its_messages():
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(Refused) as caught:
        chat_tokens(engine(ChatForm(escape, {})), [Turn("user", "x")])
    assert (caught.value.code, caught.value.param) == ("invalid_field", "messages")


def test_names_that_templates_know():
    form = ChatForm(
        "{{ bos_token }}{% generation %}{{ messages[0].content | tojson }}{% endgeneration %}"
        "{% if add_generation_prompt and tools is none %}{{ strftime_now('%Y') | length }}{% endif %}"
        "{% for m in messages %}{% break %}{% endfor %}{{ eos_token }}",
        {"<|user|>": 2, "<|end|>": 4},
        bos="<|user|>",
        eos="<|end|>",
    )
    marks, texts = read_back(chat_tokens(engine(form), [Turn("user", 'é"')]))
    assert (marks, texts) == (["<|user|>", "<|end|>"], ["", '"é\\""4', ""])


def test_without_a_template_there_is_no_chat():
    with pytest.raises(Refused) as caught:
        chat_tokens(engine(None), [Turn("user", "x")])
    assert caught.value.code == "no_chat_template"


@pytest.mark.weights
def test_the_embedded_model_s_chat_is_that_of_transformers():
    from transformers import AutoTokenizer

    path = embedded_file(embedded_source())
    file = read_gguf(path)
    tokenizer = tokenizer_from_gguf(file)
    form = chat_form_from_gguf(file, tokenizer.controls)
    assert form is not None
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for turns in (
        [Turn("user", "Name three colours.")],
        [Turn("system", "Be brief."), Turn("user", "Hi\n\n there "), Turn("assistant", "Yes?")],
    ):
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        wanted = theirs.apply_chat_template(
            messages, add_generation_prompt=True, chat_template=form.template, return_dict=False
        )
        assert list(chat_tokens(engine(form, tokenizer), turns)) == wanted
    plain = chat_tokens(engine(replace(form), tokenizer), [Turn("user", "a<|im_end|>b")])
    assert plain.count(form.controls["<|im_end|>"]) == 2
