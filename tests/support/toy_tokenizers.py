"""Small tokenizers for tests, each of another kind; all implement `engine.text.tokenizer.Tokenizer`.

Vocabularies are learned from a few lines below, in some milliseconds, once a process.
"""

import json
from collections.abc import Sequence
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from spinf_serve.packs.errors import Refused

TRAINING_LINES = [
    "The light changed and the lorry moved off. Next the driver decided to go ahead.",
    "Is the order late? Answer: yes. Is it about a refund? Answer: no. Yes, No, YES, NO.",
    "Order 8841 came two days late in a crushed box. $12 went back to the card.",
    "going gone goes go ahead; the north gate, the north door, the south gate",
    "Question: was it late?\nAnswer: yes\n\nQuestion: was it lost?\nAnswer: no\n\n",
    "店员说今天不能退货。今天可以退货吗？可以。不可以。",
    "def read(path):\n    with open(path) as file:\n        return file.read()\n\n\n",
    "unbelievable, believable, believe; reworded, words, word; lower, Lower, LOWER",
]

# Unicode White_Space, which is what `\s` means to the pre-tokenizer.
_WHITE_SPACE = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class ByteTokenizer:
    """One token per UTF-8 byte; `bos_id` 256 or None."""

    def __init__(self, with_bos: bool = True) -> None:
        self.vocab_size = 257
        self.bos_id: int | None = 256 if with_bos else None
        self.control_ids = frozenset({256})

    def encode(self, text: str) -> list[int]:
        _check(text)
        return list(text.encode())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        tokens: list[int] = []
        ends: list[int] = []
        _check(text)
        for index, char in enumerate(text):
            piece = char.encode()
            tokens += piece
            ends += [index + 1] * len(piece)
        return tokens, ends

    def breaks_before(self, char: str) -> bool:
        return True

    def token_bytes(self, token_id: int) -> bytes:
        return b"" if token_id == 256 else bytes([token_id])


class LearnedTokenizer:
    """A trained vocabulary behind the protocol.

    Args:
        inner: the tokenizer of the `tokenizers` library, without post-processing.
        proven: characters before which a border is proven.
        with_bos: whether the id behind the vocabulary is bos.
    """

    def __init__(self, inner: Tokenizer, proven: frozenset[str], with_bos: bool) -> None:
        self._inner = inner
        self._proven = proven
        size = inner.get_vocab_size()
        self.vocab_size = size + with_bos
        self.bos_id: int | None = size if with_bos else None
        self.control_ids = frozenset({size} if with_bos else set())

    def encode(self, text: str) -> list[int]:
        return self.encode_with_ends(text)[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        _check(text)
        encoding = self._inner.encode(text, add_special_tokens=False)
        return list(encoding.ids), [end for _, end in encoding.offsets]

    def breaks_before(self, char: str) -> bool:
        return char in self._proven

    def token_bytes(self, token_id: int) -> bytes:
        if token_id in self.control_ids:
            return b""
        piece = self._inner.id_to_token(token_id)
        assert piece is not None, f"{token_id} is not in the vocabulary"
        if piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:-1], 16)])
        if self._inner.pre_tokenizer is not None:
            to_byte = {char: byte for byte, char in _byte_chars().items()}
            return bytes(to_byte[char] for char in piece)
        return piece.replace("▁", " ").encode()


@cache
def regex_bpe(with_bos: bool = False, compose: bool = False) -> LearnedTokenizer:
    """Byte-level BPE behind single digits and the GPT-2 pattern; optionally NFC-normalising."""
    inner = Tokenizer(models.BPE())
    if compose:
        inner.normalizer = normalizers.NFC()
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TRAINING_LINES * 4, trainer)
    return LearnedTokenizer(inner, _WHITE_SPACE | frozenset("0123456789"), with_bos)


@cache
def sentencepiece_bpe(with_bos: bool = True) -> LearnedTokenizer:
    """BPE over whole texts with `▁` for the space; no piece holds a space behind another sign."""
    inner = _unsplit_bpe(pre_tokenizers.Split(Regex("▁"), "merged_with_next"))
    pieces = inner.get_vocab()
    proven = {
        char
        for char in " \nabc店"
        if not any((char if char != " " else "▁") in piece[1:] for piece in pieces)
    }
    return LearnedTokenizer(inner, frozenset(proven), with_bos)


@cache
def crossing_bpe(with_bos: bool = True) -> LearnedTokenizer:
    """BPE over whole texts whose pieces run across spaces and newlines: no border is ever proven."""
    return LearnedTokenizer(_unsplit_bpe(None), frozenset(), with_bos)


def _unsplit_bpe(training_split: pre_tokenizers.PreTokenizer | None) -> Tokenizer:
    """BPE with byte fallback and no pre-tokenizer in use; one may shape what is learned."""
    learner = Tokenizer(models.BPE(unk_token=None))
    learner.normalizer = normalizers.Replace(" ", "▁")
    if training_split is not None:
        learner.pre_tokenizer = training_split
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=[f"<0x{byte:02X}>" for byte in range(256)],
        initial_alphabet=["▁"],
        show_progress=False,
    )
    learner.train_from_iterator(TRAINING_LINES * 4, trainer)
    pieces = learner.get_vocab()
    inner = Tokenizer(
        models.BPE(vocab=pieces, merges=_merges(learner), byte_fallback=True, fuse_unk=True)
    )
    inner.normalizer = normalizers.Replace(" ", "▁")
    return inner


def _merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(merge) for merge in merges]


@cache
def _byte_chars() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {byte: chr(byte) for byte in plain}
    rest = [byte for byte in range(256) if byte not in chars]
    chars.update((byte, chr(256 + place)) for place, byte in enumerate(rest))
    return chars


def _check(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(
            "invalid_field", "the text is not valid Unicode; send whole characters"
        ) from None
