"""Templates and options inside the control tokens of a chat: the tokens of paths and of options.

Control tokens stand between template and options, so neither merges with the other; content and
template are one text as everywhere. Knows no chat template: `Frame` holds its tokens.
"""

from collections.abc import Sequence
from dataclasses import replace

from spinf_serve.engine.text.cut import Cut
from spinf_serve.engine.text.joins import PromptTokens, joins_cleanly
from spinf_serve.engine.text.spellings import spell
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Frame
from spinf_serve.packs.errors import Refused


def compile_framed(
    tokenizer: Tokenizer,
    prompt_texts: Sequence[str],
    options: Sequence[str],
    frame: Frame,
    max_option_tokens: int,
) -> list[PromptTokens]:
    """Tokens of a question's filled templates, without any content; options count as given only.

    Raises `Refused`: `option_too_long`; `invalid_field` for an option without a token;
    `duplicate_option` for options of the same tokens; `param` is `options.N`.
    """
    spelled = spell(tokenizer, options, False, max_option_tokens)
    _check_distinct(options, [given.tokens for given in spelled.given])
    paths = tuple(((*given.tokens, *frame.close),) for given in spelled.given)
    single = all(len(path) == 1 for of_option in paths for path in of_option)
    # The close is part of each option.
    behind = len(frame.behind) + spelled.extra_tokens + len(options) * len(frame.close)
    return [
        PromptTokens(
            path=(*tokens, *frame.behind),
            options=paths,
            query_tokens=len(tokens) + behind,
            template_tokens=len(tokens),
            single_read=single,
            merged=True,
            border=0,
            tokens_behind=0,
        )
        for tokens in tokenizer.encode_batch(prompt_texts)
    ]


def join_framed(
    tokenizer: Tokenizer,
    cut: Cut,
    prompt_texts: Sequence[str],
    compiled: Sequence[PromptTokens],
    frame: Frame,
) -> list[PromptTokens]:
    """A question's filled templates behind the trunk of a content; see `joins.join`.

    Args:
        cut: the content's; `EMPTY_CUT` for a floor.
        prompt_texts: the filled templates.
        compiled: `compile_framed` of them.
    """
    made = []
    for text, prompt in zip(prompt_texts, compiled, strict=True):
        if joins_cleanly(tokenizer, cut, text):
            path = cut.stem + prompt.path
        else:
            path = (*cut.held, *tokenizer.encode(cut.tail + text), *frame.behind)
        made.append(replace(prompt, path=path))
    return made


def _check_distinct(options: Sequence[str], tokens: Sequence[tuple[int, ...]]) -> None:
    first: dict[tuple[int, ...], int] = {}
    for index, path in enumerate(tokens):
        same = first.setdefault(path, index)
        if same != index:
            raise Refused(
                "duplicate_option",
                f"options {same} ({options[same]!r}) and {index} ({options[index]!r}) are the same"
                " tokens to this model; remove one",
                f"options.{index}",
            )
