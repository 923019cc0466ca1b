"""Where a content, a filled template and its options meet: the tokens of paths and of options.

All three are tokenised as one text. The *path* of a prompt is what its own tokenisation and those
with each option appended have in common; an option's tokens are what its joint tokenisation has
behind the path. So no option is empty, and none is read at a place that its text never has.

`compile_prompts` knows no content; `join` puts its result behind a content, and tokenises anew
only where the content's end and the template's beginning might merge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spinf_serve.engine.text.cut import Cut, border_before, first_border, last_border
from spinf_serve.engine.text.spellings import SpelledOptions, Spelling, spell
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.packs.errors import Refused

TokenPath = tuple[int, ...]
OptionPaths = tuple[tuple[TokenPath, ...], ...]


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """One filled template in tokens.

    Attributes:
        path: token ids up to where the options part. Without a content it is empty where the
            template is, or where the template merges with an option as a whole.
        options: for each option the token paths of its spellings behind `path`, the option as given
            first; no path is empty and no two of a prompt are equal.
        query_tokens: tokens of the filled template alone, plus for each option its tokens but one.
        template_tokens: tokens of the filled template alone.
        single_read: whether every option is decided by one token.
        merged: False when the options are tokenised apart, because nothing stands before the place
            where they would merge with the template.
        border: index of the template's character at its first proven token border, 0 without one;
            what stands before the template changes no token behind it.
        tokens_behind: how many of the path's tokens stand behind that border.
    """

    path: TokenPath
    options: OptionPaths
    query_tokens: int
    template_tokens: int
    single_read: bool
    merged: bool
    border: int
    tokens_behind: int


@dataclass(frozen=True, slots=True)
class _Ending:
    """The stretch of a text behind a proven border, joined with the options.

    Attributes:
        tokens: the stretch's own token ids.
        kept: those that the path keeps.
        options: as in `PromptTokens`.
        single_read: as in `PromptTokens`.
    """

    tokens: TokenPath
    kept: TokenPath
    options: OptionPaths
    single_read: bool


def compile_prompt(
    tokenizer: Tokenizer,
    prompt_text: str,
    options: Sequence[str],
    case_insensitive: bool,
    max_option_tokens: int,
) -> PromptTokens:
    """`compile_prompts` of one prompt."""
    return compile_prompts(tokenizer, [prompt_text], options, case_insensitive, max_option_tokens)[
        0
    ]


def compile_prompts(
    tokenizer: Tokenizer,
    prompt_texts: Sequence[str],
    options: Sequence[str],
    case_insensitive: bool,
    max_option_tokens: int,
) -> list[PromptTokens]:
    """Tokens of a question's filled templates, or without options of a slot's, without any content.

    Raises `Refused`: `option_too_long`; `invalid_field` for an option without a token;
    `duplicate_option` for options of the same tokens; `param` is `options.N`.
    """
    if not prompt_texts:
        return []
    spelled = spell(tokenizer, options, case_insensitive, max_option_tokens)
    borders = [last_border(tokenizer, text) for text in prompt_texts]
    heads = _encode_all(
        tokenizer, [text[:border] for text, border in zip(prompt_texts, borders, strict=True)]
    )
    firsts = [first_border(tokenizer, text) for text in prompt_texts]
    leads = _encode_beginnings(tokenizer, prompt_texts, firsts)
    endings: dict[str, _Ending] = {}
    made = []
    for text, border, head, first in zip(prompt_texts, borders, heads, firsts, strict=True):
        ending = _ending(tokenizer, text[border:], spelled, endings)
        template_tokens = len(head) + len(ending.tokens)
        path = head + ending.kept
        made.append(
            PromptTokens(
                path,
                ending.options,
                template_tokens + spelled.extra_tokens,
                template_tokens,
                ending.single_read,
                True,
                first,
                len(path) - len(leads[text[:first]]),
            )
        )
    return made


def joins_cleanly(tokenizer: Tokenizer, cut: Cut, prompt_text: str) -> bool:
    """Whether a token border between this content and this prompt is proven."""
    return border_before(tokenizer, cut.tail, prompt_text[:1])


def join(
    tokenizer: Tokenizer,
    cut: Cut,
    prompt_texts: Sequence[str],
    compiled: Sequence[PromptTokens],
    options: Sequence[str],
    case_insensitive: bool,
    max_option_tokens: int,
) -> list[PromptTokens]:
    """A question's filled templates behind the trunk of a content.

    Paths begin with the content's stem. A path is empty only where no text stands before the
    options; without bos there is nothing to read then, and the caller has to refuse.

    Args:
        cut: the content's; `EMPTY_CUT` for a floor.
        prompt_texts: the filled templates.
        compiled: `compile_prompts` of them; the other arguments are the same as there.
    """
    clean = {first: joins_cleanly(tokenizer, cut, first) for first in {t[:1] for t in prompt_texts}}
    stem = cut.stem
    made = []
    anew = []
    for index, (text, prompt) in enumerate(zip(prompt_texts, compiled, strict=True)):
        if not clean[text[:1]] or not (stem or prompt.path or tokenizer.bos_id is not None):
            anew.append(index)
        made.append(replace(prompt, path=stem + prompt.path) if stem else prompt)
    if anew:
        joined = join_anew(
            tokenizer,
            cut,
            [prompt_texts[index] for index in anew],
            [compiled[index] for index in anew],
            options,
            case_insensitive,
            max_option_tokens,
        )
        for index, prompt in zip(anew, joined, strict=True):
            made[index] = prompt
    return made


def join_anew(
    tokenizer: Tokenizer,
    cut: Cut,
    prompt_texts: Sequence[str],
    compiled: Sequence[PromptTokens],
    options: Sequence[str],
    case_insensitive: bool,
    max_option_tokens: int,
) -> list[PromptTokens]:
    """What `join` gives, the content's tail tokenised together with each template.

    Right for every content and template; equal to the cheap form wherever `joins_cleanly` holds.
    """
    made = list(compiled)
    borders = [prompt.border for prompt in compiled]
    leads = _encode_beginnings(tokenizer, prompt_texts, borders, cut.tail)
    for index, (text, prompt) in enumerate(zip(prompt_texts, compiled, strict=True)):
        if prompt.border:
            behind = prompt.path[len(prompt.path) - prompt.tokens_behind :]
            path = cut.held + leads[text[: prompt.border]] + behind
            made[index] = replace(prompt, path=path)
    whole = [index for index, border in enumerate(borders) if not border]
    if not whole:
        return made
    spelled = spell(tokenizer, options, case_insensitive, max_option_tokens)
    endings: dict[str, _Ending] = {}
    for index in whole:
        text = cut.tail + prompt_texts[index]
        border = last_border(tokenizer, text)
        ending = _ending(tokenizer, text[border:], spelled, endings)
        joined = replace(
            compiled[index],
            path=(*cut.held, *tokenizer.encode(text[:border]), *ending.kept),
            options=ending.options,
            single_read=ending.single_read,
        )
        if text and not joined.path and tokenizer.bos_id is None:
            joined = _apart(tokenizer, text, joined, spelled)
        made[index] = joined
    return made


def _encode_beginnings(
    tokenizer: Tokenizer, texts: Sequence[str], ends: Sequence[int], before: str = ""
) -> dict[str, TokenPath]:
    """The beginnings of texts, each distinct one once -> their tokens with `before` in front."""
    distinct = list(dict.fromkeys(text[:end] for text, end in zip(texts, ends, strict=True)))
    encoded = _encode_all(tokenizer, [before + beginning for beginning in distinct])
    return dict(zip(distinct, encoded, strict=True))


def _ending(
    tokenizer: Tokenizer, stretch: str, spelled: SpelledOptions, known: dict[str, _Ending]
) -> _Ending:
    """A stretch joined with the options; most prompts of a question end in the same one."""
    ending = known.get(stretch)
    if ending is None:
        ending = known[stretch] = _compile_ending(tokenizer, stretch, spelled)
    return ending


def _compile_ending(tokenizer: Tokenizer, stretch: str, spelled: SpelledOptions) -> _Ending:
    """Join one stretch with the options.

    The options as given decide what the path keeps. Another spelling counts if it is one token:
    alone and behind the stretch, or, where its option, as given, merges with the stretch's end,
    behind what that option alone would keep. So which count does not depend on the list, but for
    those that another option claims.
    """
    base, joints = _joint(tokenizer, stretch, spelled.given)
    own = [min(_common(base, joint), len(joint) - 1) for joint in joints]
    # Without options, as before a slot, all of it is path.
    kept = min(own, default=len(base))
    if kept < 0:
        raise AssertionError("a tokenizer gave no token for a text with an option in it")
    others = [
        [other for other in more if at < len(base) or len(other.tokens) == 1]
        for more, at in zip(spelled.others, own, strict=True)
    ]
    _, rest = _joint(tokenizer, stretch, [other for more in others for other in more])
    joint_of = iter(rest)
    found: list[list[TokenPath]] = []
    for more, at in zip(others, own, strict=True):
        found.append([])
        for other in more:
            joint = next(joint_of)
            alone = len(other.tokens) == 1 and joint == base + other.tokens
            merged = at < len(base) and len(joint) == at + 1 and joint[:at] == base[:at]
            if alone or merged:
                found[-1].append(joint[kept:])
    options = _option_paths(spelled, [joint[kept:] for joint in joints], found)
    return _Ending(base, base[:kept], options, _is_single_read(options))


def _joint(
    tokenizer: Tokenizer, stretch: str, spellings: Sequence[Spelling]
) -> tuple[TokenPath, list[TokenPath]]:
    """Tokens of the stretch, and of the stretch with each spelling appended."""
    proven = {
        first: border_before(tokenizer, stretch, first)
        for first in {spelling.text[0] for spelling in spellings}
    }
    texts = [stretch]
    texts += [stretch + each.text for each in spellings if not proven[each.text[0]]]
    encoded = iter(_encode_all(tokenizer, texts))
    base = next(encoded)
    joints = [base + each.tokens if proven[each.text[0]] else next(encoded) for each in spellings]
    return base, joints


def _option_paths(
    spelled: SpelledOptions, given: Sequence[TokenPath], others: Sequence[Sequence[TokenPath]]
) -> OptionPaths:
    """The token paths of each option; none counts twice.

    Options as given always count, before any other spelling; then an earlier option's come first.
    """
    first: dict[TokenPath, int] = {}
    for index, path in enumerate(given):
        same = first.setdefault(path, index)
        if same != index:
            raise Refused(
                "duplicate_option",
                f"options {same} ({spelled.given[same].text!r}) and {index}"
                f" ({spelled.given[index].text!r}) are the same tokens to this model; remove one",
                f"options.{index}",
            )
    for index, more in enumerate(others):
        for path in more:
            first.setdefault(path, index)
    paths: list[list[TokenPath]] = [[] for _ in given]
    for path, index in first.items():
        paths[index].append(path)
    return tuple(tuple(of_option) for of_option in paths)


def _apart(
    tokenizer: Tokenizer, text: str, prompt: PromptTokens, spelled: SpelledOptions
) -> PromptTokens:
    """A prompt whose options are tokenised apart from its text."""
    options = _option_paths(
        spelled,
        [given.tokens for given in spelled.given],
        [[other.tokens for other in more if len(other.tokens) == 1] for more in spelled.others],
    )
    return replace(
        prompt,
        path=tuple(tokenizer.encode(text)),
        options=options,
        single_read=_is_single_read(options),
        merged=False,
    )


def _encode_all(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenPath]:
    return [tuple(tokens) for tokens in tokenizer.encode_batch(texts)]


def _is_single_read(options: OptionPaths) -> bool:
    return all(len(path) == 1 for of_option in options for path in of_option)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
