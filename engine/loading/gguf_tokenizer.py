"""Rebuilds a tokenizer from the metadata of a GGUF file, exactly.

Knows the two kinds in use, byte-level BPE (`gpt2`) and SentencePiece BPE (`llama`), and the
pre-tokenizers that can be expressed without approximation; any other is refused by name.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Replace
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from spinf_serve.engine.loading.ascii_words import WORDS
from spinf_serve.engine.loading.borders import (
    GPT2_PATTERN,
    LLAMA3_PATTERN,
    SPACE_MARK,
    borders_of_pattern,
    borders_of_pieces,
)
from spinf_serve.engine.loading.bpe_tokenizer import BpeTokenizer
from spinf_serve.engine.loading.gguf import GgufFile
from spinf_serve.engine.loading.pieces import (
    MARKERS,
    byte_level_piece,
    fallback_byte,
    require_all_bytes,
)
from spinf_serve.packs.errors import Unusable

_NORMAL: Final = 1
_USER_DEFINED: Final = 4
_BYTE: Final = 6

_ALIASES: Final = MappingProxyType(
    {"gpt2": "gpt-2", "llama3": "llama-bpe", "llama-v3": "llama-bpe", "smaug-bpe": "llama-bpe"}
)


def _gpt2_split() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm_split() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _gpt2_split()])


def _llama3_split() -> PreTokenizer:
    return Sequence(
        [
            Split(Regex(LLAMA3_PATTERN), "isolated"),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


# How to split, by which pattern, and whether each digit is split off before it. Splitting digits off
# moves no border at white space.
_SPLITS: Final[Mapping[str, tuple[Callable[[], PreTokenizer], str, bool]]] = MappingProxyType(
    {
        "gpt-2": (_gpt2_split, GPT2_PATTERN, False),
        "smollm": (_smollm_split, GPT2_PATTERN, True),
        "llama-bpe": (_llama3_split, LLAMA3_PATTERN, False),
    }
)


def tokenizer_from_gguf(file: GgufFile) -> BpeTokenizer:
    """The tokenizer in the file.

    Raises `Unusable` when there is none, or when its kind or its pre-tokenizer is not supported.
    """
    kind = file.text("tokenizer.ggml.model")
    if kind == "gpt2":
        return _byte_level(file)
    if kind == "llama":
        return _sentence_pieces(file)
    raise Unusable(
        f"{file.path}: the tokenizer {kind} is not supported (supported are gpt2 and llama)"
    )


def _byte_level(file: GgufFile) -> BpeTokenizer:
    pre = file.text("tokenizer.ggml.pre")
    pre = _ALIASES.get(pre, pre)
    if pre not in _SPLITS:
        raise Unusable(
            f"{file.path}: the pre-tokenizer {pre} is not supported "
            f"(supported are {', '.join(_SPLITS)})"
        )
    split, pattern, digits_apart = _SPLITS[pre]
    texts, kinds = _tokens(file)
    added = _added(texts, kinds)
    known = {text: number for number, text in enumerate(texts) if kinds[number] == _NORMAL}
    merges = [_pair(file, merge) for merge in file.texts("tokenizer.ggml.merges")]
    # Llama 3 takes a pre-token that is in the vocabulary as it is, whatever the merges give.
    inner = _tokenizer(file, {**known, **added}, merges, ignore_merges=pre == "llama-bpe")
    inner.pre_tokenizer = split()
    _add(inner, added)
    pieces = [
        byte_level_piece(text)
        if kinds[number] == _NORMAL
        else text.encode()
        if text in added
        else b""
        for number, text in enumerate(texts)
    ]
    controls = frozenset(range(len(texts))) - set(known.values()) - set(added.values())
    return BpeTokenizer(
        inner,
        pieces,
        bos_id=_bos_id(file, always=pre == "llama-bpe"),
        control_ids=controls,
        controls={texts[number]: number for number in sorted(controls)},
        borders=borders_of_pattern(pattern, added),
        marks_spaces=False,
        keeps_bytes=True,
        # Added texts are matched before words are.
        words=None if added else WORDS[pattern, digits_apart],
    )


def _sentence_pieces(file: GgufFile) -> BpeTokenizer:
    if file.flag("tokenizer.ggml.add_space_prefix", True):
        raise Unusable(
            f"{file.path}: a SentencePiece tokenizer that puts a space before every text is not "
            f"supported from GGUF (tokenizer.ggml.add_space_prefix); use the safetensors folder"
        )
    texts, kinds = _tokens(file)
    added = _added(texts, kinds)
    known = {text: number for number, text in enumerate(texts) if kinds[number] == _NORMAL}
    bytes_ = {text: number for number, text in enumerate(texts) if kinds[number] == _BYTE}
    require_all_bytes(bytes_, file.path)
    scores: list[float] = file.numbers("tokenizer.ggml.scores").tolist()
    everything = {**known, **bytes_, **added}
    merges = _merges_by_score(known, everything, scores)
    inner = _tokenizer(file, everything, merges, byte_fallback=True)
    inner.normalizer = Replace(" ", SPACE_MARK)
    _add(inner, added)
    pieces = [b""] * len(texts)
    for text, number in known.items():
        pieces[number] = text.replace(SPACE_MARK, " ").encode()
    for text, number in added.items():
        pieces[number] = text.encode()
    for text, number in bytes_.items():
        pieces[number] = fallback_byte(text)
    controls = frozenset(range(len(texts))) - set(everything.values())
    return BpeTokenizer(
        inner,
        pieces,
        bos_id=_bos_id(file, always=True),
        control_ids=controls,
        controls={texts[number]: number for number in sorted(controls)},
        borders=borders_of_pieces([*known, *added]),
        marks_spaces=True,
        keeps_bytes=True,
    )


def _tokens(file: GgufFile) -> tuple[list[str], list[int]]:
    texts = file.texts("tokenizer.ggml.tokens")
    kinds: list[int] = file.numbers("tokenizer.ggml.token_type").tolist()
    if len(kinds) != len(texts):
        raise Unusable(f"{file.path}: {len(texts)} tokens but {len(kinds)} token types")
    return texts, kinds


def _added(texts: list[str], kinds: list[int]) -> dict[str, int]:
    """Texts that are one token wherever they stand."""
    return {
        text: number
        for number, text in enumerate(texts)
        if kinds[number] == _USER_DEFINED and text not in MARKERS
    }


def _add(inner: Tokenizer, added: Mapping[str, int]) -> None:
    inner.add_tokens([AddedToken(text, normalized=False) for text in added])


def _pair(file: GgufFile, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not (left and space and right):
        raise Unusable(f"{file.path}: {merge!r} in tokenizer.ggml.merges is not a pair")
    return left, right


def _merges_by_score(
    known: Mapping[str, int], everything: Mapping[str, int], scores: list[float]
) -> list[tuple[str, str]]:
    """SentencePiece keeps no merges: each piece is made from any two known ones, best score first."""
    merges: list[tuple[str, str]] = []
    for text in sorted(known, key=lambda text: -scores[known[text]]):
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in everything and right in everything:
                merges.append((left, right))
    return merges


def _tokenizer(
    file: GgufFile,
    vocab: dict[str, int],
    merges: list[tuple[str, str]],
    *,
    byte_fallback: bool = False,
    ignore_merges: bool = False,
) -> Tokenizer:
    try:
        model = BPE(vocab, merges, byte_fallback=byte_fallback, ignore_merges=ignore_merges)
    # The library raises the bare class for merges that do not fit the vocabulary.
    except Exception as error:
        raise Unusable(f"{file.path}: vocabulary and merges do not fit ({error})") from error
    return Tokenizer(model)


def _bos_id(file: GgufFile, *, always: bool) -> int | None:
    """The id that starts every sequence; `always` is what the tokenizer's kind does unasked."""
    if not file.flag("tokenizer.ggml.add_bos_token", always):
        return None
    return file.integer("tokenizer.ggml.bos_token_id")
