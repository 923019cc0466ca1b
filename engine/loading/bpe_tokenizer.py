"""The tokenizer every supported checkpoint ends up with: byte-pair encoding, always literal.

Wraps the `tokenizers` library. Does not know where vocabulary and merges came from.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import tokenizers

from spinf_serve.engine.loading.ascii_words import WordMemory
from spinf_serve.engine.loading.borders import SPACE_MARK
from spinf_serve.packs.errors import Refused

# Every byte that UTF-8 text can hold.
_IN_UTF8: Final = (*range(0xC0), *range(0xC2, 0xF5))


class BpeTokenizer:
    """Implements `spinf_serve.engine.text.tokenizer.Tokenizer`.

    The vocabulary given to the library holds no control token, so no text can become one.

    Attributes:
        controls: text -> id of the control tokens, for who puts them in by id.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        pieces: Sequence[bytes],
        *,
        bos_id: int | None,
        control_ids: frozenset[int],
        controls: Mapping[str, int],
        borders: frozenset[str],
        marks_spaces: bool,
        keeps_bytes: bool,
        words: re.Pattern[str] | None = None,
    ) -> None:
        """Args:
        inner: without control tokens, without post-processing.
        pieces: the bytes of every token id; empty for control tokens.
        bos_id: see the protocol.
        control_ids: see the protocol.
        controls: text -> id of those of them that have a text.
        borders: characters that `breaks_before` claims; see `spinf_serve.engine.loading.borders`.
        marks_spaces: the vocabulary writes a space as `SPACE_MARK`, so the two are one character.
        keeps_bytes: the pieces of a text's tokens, one after the other, are the text's bytes.
        words: splits an ASCII text exactly as `inner` does, if there is such a pattern.
        """
        self.vocab_size = len(pieces)
        self.bos_id = bos_id
        self.control_ids = control_ids
        self.controls = controls
        self._inner = inner
        self._pieces = tuple(pieces)
        self._lengths = np.fromiter((len(piece) for piece in pieces), np.int64, len(pieces))
        self._borders = borders
        self._marks_spaces = marks_spaces
        self._keeps_bytes = keeps_bytes
        self._memory = None if words is None else WordMemory(words, self._plain)
        single = {piece for piece in pieces if len(piece) == 1}
        self._missing = bytes(byte for byte in _IN_UTF8 if bytes((byte,)) not in single)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without bos.

        Raises `Refused` for text that is not valid Unicode, or holds a character that the
        vocabulary cannot express.
        """
        if self._memory is not None and text.isascii():
            if self._missing:
                self._refuse_missing(text)
            return self._memory.encode(text)
        ids: list[int] = self._encoding(text).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`[encode(t) for t in texts]`, faster."""
        # The library's own batch call starts threads.
        return [self.encode(text) for text in texts]

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids, and for each token the character offset behind its last character."""
        if not self._keeps_bytes:
            encoding = self._encoding(text)
            return encoding.ids, _ends(encoding.offsets, len(text))
        ids = self.encode(text)
        ends = np.cumsum(self._lengths[ids])
        if not text.isascii():
            data = np.frombuffer(self._normal(text).encode(), np.uint8)
            started = np.cumsum((data & 0xC0) != 0x80)
            ends = started[ends - 1]
        return ids, ends.tolist()

    def breaks_before(self, char: str) -> bool:
        """Whether a token border always stands between a non-space character and this character."""
        return char in self._borders

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        return self._pieces[token_id]

    def _normal(self, text: str) -> str:
        return text.replace(SPACE_MARK, " ") if self._marks_spaces else text

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        return ids

    def _encoding(self, text: str) -> tokenizers.Encoding:
        normal = self._normal(text)
        if self._missing:
            self._refuse_missing(normal)
        try:
            return self._inner.encode(normal, add_special_tokens=False)
        except TypeError:
            # What the library says of text that has no UTF-8 form.
            _utf8(text)
            raise

    def _refuse_missing(self, text: str) -> None:
        """Refuse a text with a byte that no token stands for; the library would drop it silently."""
        data = _utf8(text)
        if len(data.translate(None, self._missing)) == len(data):
            return
        place = next(place for place, char in enumerate(text) if self._lacks(char))
        raise Refused(
            "invalid_field",
            f"the model has no token for U+{ord(text[place]):04X}, which is character {place + 1} "
            "of the text; remove it",
        )

    def _lacks(self, char: str) -> bool:
        return any(byte in self._missing for byte in char.encode())


def _ends(offsets: Sequence[tuple[int, int]], length: int) -> list[int]:
    """Ends of tokens behind a normaliser: what it dropped or joined belongs to the token before.

    The library says where the first character that went into a token ends, so an accent that was
    joined to its letter lies between two tokens.
    """
    ends = [0] * len(offsets)
    behind, same = length, (-1, -1)
    for place in reversed(range(len(offsets))):
        if offsets[place] == same:
            ends[place] = ends[place + 1]
        else:
            ends[place] = max(offsets[place][1], behind)
        behind, same = offsets[place][0], offsets[place]
    return ends


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            "invalid_field",
            f"the text is not valid Unicode: character {error.start + 1} is "
            f"U+{ord(text[error.start]):04X}, half of a surrogate pair; send both halves",
        ) from None
