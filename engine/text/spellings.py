"""The spellings of a question's options: the texts that count for an option, in tokens alone.

Does not know what stands before an option; `spinf_serve.engine.text.joins` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.packs.errors import Refused


@dataclass(frozen=True, slots=True)
class Spelling:
    """A text that counts for an option.

    Attributes:
        text: the spelling.
        tokens: its token ids alone.
    """

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpelledOptions:
    """The options of a question and their other spellings.

    Attributes:
        given: each option as the caller wrote it, any number of tokens.
        others: for each option, its other spellings, of any number of tokens.
        extra_tokens: sum over the options as given of their tokens but one, for usage.
    """

    given: tuple[Spelling, ...]
    others: tuple[tuple[Spelling, ...], ...]
    extra_tokens: int


def spell(
    tokenizer: Tokenizer, options: Sequence[str], case_insensitive: bool, max_option_tokens: int
) -> SpelledOptions:
    """Tokenise options alone and find their other spellings.

    Raises `Refused("option_too_long")` for an option of more than `max_option_tokens` tokens and
    `Refused("invalid_field")` for one of none; `param` is `options.N`.
    """
    others = [_others(option) if case_insensitive else () for option in options]
    texts = list(options)
    for more in others:
        texts.extend(more)
    encoded = iter(tokenizer.encode_batch(texts))
    given = []
    for index, option in enumerate(options):
        tokens = next(encoded)
        _check_length(f"options.{index}", option, len(tokens), max_option_tokens)
        given.append(Spelling(option, tuple(tokens)))
    spelled = [tuple(Spelling(text, tuple(next(encoded))) for text in more) for more in others]
    extra = sum(len(spelling.tokens) - 1 for spelling in given)
    return SpelledOptions(tuple(given), tuple(spelled), extra)


def _others(option: str) -> tuple[str, ...]:
    """Lower case, first letter upper, all upper; each with and without one leading space."""
    bare = option.strip()
    if not bare:
        return ()
    cased = (bare.lower(), bare[:1].upper() + bare[1:].lower(), bare.upper())
    texts = dict.fromkeys(text for word in cased for text in (" " + word, word))
    texts.pop(option, None)
    return tuple(texts)


def _check_length(where: str, option: str, tokens: int, max_option_tokens: int) -> None:
    if tokens > max_option_tokens:
        raise Refused(
            "option_too_long",
            f"option {option[:80]!r} has {tokens} tokens, more than the {max_option_tokens}"
            " allowed (max_option_tokens); use a shorter label and explain it in the template",
            where,
        )
    if not tokens:
        raise Refused(
            "invalid_field", f"option {option[:80]!r} is nothing to this model's tokenizer", where
        )
