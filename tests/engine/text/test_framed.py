"""Templates and options between the control tokens of a chat, against the definition."""

import pytest

from spinf_serve.engine.text.chat_frames import chat_frame
from spinf_serve.engine.text.cut import EMPTY_CUT, cut
from spinf_serve.engine.text.framed import compile_framed, join_framed
from spinf_serve.engine.work import Frame
from spinf_serve.packs.errors import Refused
from tests.support.toy_tokenizers import ByteTokenizer, crossing_bpe, regex_bpe, sentencepiece_bpe

FRAME = Frame(before=(9001,), behind=(9002, 9003), close=(9004,))
CONTENTS = ["", "x", "It came late.", "two\n\n", "word " * 60, "a" * 200, "ends in a space "]
TEXTS = ["\n\nWho?", " Who?", "Who?", ""]


@pytest.mark.parametrize(
    "tokenizer", [ByteTokenizer(), regex_bpe(), sentencepiece_bpe(), crossing_bpe()]
)
def test_a_path_is_the_joint_text_and_then_the_frame(tokenizer):
    compiled = compile_framed(tokenizer, TEXTS, ["yes", "no"], FRAME, 100)
    for content in CONTENTS:
        parts = cut(tokenizer, content) if content else EMPTY_CUT
        for text, prompt in zip(
            TEXTS, join_framed(tokenizer, parts, TEXTS, compiled, FRAME), strict=True
        ):
            whole = (*parts.trunk, *prompt.path)
            if parts.merged:
                assert whole == (*tokenizer.encode(content + text), *FRAME.behind)
            options = [(*tokenizer.encode(option), 9004) for option in ("yes", "no")]
            assert [path for (path,) in prompt.options] == options


def test_tokens_are_counted_with_the_frame():
    [prompt] = compile_framed(ByteTokenizer(), ["Who?"], ["yes", "no"], FRAME, 100)
    assert prompt.template_tokens == 4
    assert prompt.query_tokens == 4 + 2 + (3 - 1) + (2 - 1) + 2
    assert not prompt.single_read


def test_options_over_the_limit_or_of_the_same_tokens_are_refused():
    with pytest.raises(Refused) as caught:
        compile_framed(ByteTokenizer(), ["Who?"], ["yes", "nobody"], FRAME, 5)
    assert (caught.value.code, caught.value.param) == ("option_too_long", "options.1")
    with pytest.raises(Refused) as caught:
        compile_framed(ByteTokenizer(), ["Who?"], ["yes", "no", "yes"], FRAME, 5)
    assert (caught.value.code, caught.value.param) == ("duplicate_option", "options.2")


def bytes_of(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_chat_is_made_of_the_marks_that_a_vocabulary_has():
    tokenizer = ByteTokenizer()
    assert chat_frame(tokenizer, {"<|im_start|>": 300, "<|im_end|>": 301}) == Frame(
        before=(300, *bytes_of("user\n")),
        behind=(301, *bytes_of("\n"), 300, *bytes_of("assistant\n")),
        close=(301,),
    )
    assert chat_frame(tokenizer, {"<start_of_turn>": 300, "<end_of_turn>": 301}) == Frame(
        before=(300, *bytes_of("user\n")),
        behind=(301, *bytes_of("\n"), 300, *bytes_of("model\n")),
        close=(301,),
    )
    llama3 = {"<|start_header_id|>": 300, "<|end_header_id|>": 301, "<|eot_id|>": 302}
    assert chat_frame(tokenizer, llama3) == Frame(
        before=(300, *bytes_of("user"), 301, *bytes_of("\n\n")),
        behind=(302, 300, *bytes_of("assistant"), 301, *bytes_of("\n\n")),
        close=(302,),
    )


def test_half_a_form_is_none():
    assert chat_frame(ByteTokenizer(), {"<|im_start|>": 300, "<|endoftext|>": 2}) is None
