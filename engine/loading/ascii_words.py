"""A fast way to encode ASCII text: split it with Python's `re`, remember the tokens of each word.

The patterns are those of `borders`, with the letters, digits and white space of ASCII written out.
Pre-tokens are tokenised one by one, so a text's tokens are those of its words in a row.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from spinf_serve.engine.loading.borders import GPT2_PATTERN, LLAMA3_PATTERN

# Together a few megabytes. A longer word is no word, and would not be met again.
_REMEMBERED: Final = 50_000
_LONGEST_WORD: Final = 32

_GPT2: Final = r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
# Digits leave first, so to the rest a digit is the end of the text.
_GPT2_DIGITS: Final = (
    r"[0-9]|'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?![^\s0-9])|\s+"
)
_LLAMA3: Final = (
    r"'(?i:[stmd]|re|ve|ll)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]{1,3}"
    r"| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# By the pattern, and whether each digit is split off before.
WORDS: Final[Mapping[tuple[str, bool], re.Pattern[str]]] = MappingProxyType(
    {
        (GPT2_PATTERN, False): re.compile(_GPT2, re.ASCII),
        (GPT2_PATTERN, True): re.compile(_GPT2_DIGITS, re.ASCII),
        (LLAMA3_PATTERN, False): re.compile(_LLAMA3, re.ASCII),
    }
)


class WordMemory:
    """Encodes ASCII texts word by word."""

    def __init__(self, words: re.Pattern[str], encode: Callable[[str], list[int]]) -> None:
        """Args:
        words: splits an ASCII text into its pre-tokens; one of `WORDS`.
        encode: the tokens of a text; asked once for each word.
        """
        self._split = words.findall
        self._encode = encode
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of an ASCII text."""
        known = self._known
        found: list[int] = []
        for word in self._split(text):
            try:
                found += known[word]
            except KeyError:
                found += self._learn(word)
        return found

    def _learn(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return self._encode(word)
        # Starting afresh is rare and cheap, and needs no bookkeeping on every look-up.
        if len(self._known) >= _REMEMBERED:
            self._known = {}
        ids = self._encode(word)
        self._known[word] = ids
        return ids
