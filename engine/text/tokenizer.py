"""What the engine asks of a tokenizer. Implementations are built in `spinf_serve.engine.loading`."""

from collections.abc import Sequence
from typing import Protocol


class Tokenizer(Protocol):
    """Text to token ids, always literally: no text can become a control token.

    Attributes:
        vocab_size: number of token ids.
        bos_id: the id that starts every sequence, or None when the model was trained without one.
        control_ids: ids that text must never produce.
    """

    vocab_size: int
    bos_id: int | None
    control_ids: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without bos.

        Raises `Refused` for text that is not valid Unicode, or holds a character that the
        vocabulary cannot express (some byte-level ones lack a few control characters).
        """
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`[encode(t) for t in texts]`, faster."""
        ...

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids, and for each token the character offset behind its last character.

        Tokens that split one character all end behind that character.
        """
        ...

    def breaks_before(self, char: str) -> bool:
        """Whether a token border always stands between a non-space character and this character.

        True is a proof from the vocabulary and the pre-tokenizer; then for texts a, b with a ending
        in a non-space character (`not a[-1].isspace()`) and b starting with `char`,
        `encode(a + b) == encode(a) + encode(b)`.
        """
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        ...
