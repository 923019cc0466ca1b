"""Byte-pair encoding written out plainly, as an independent definition for tests."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import regex  # type: ignore[import-untyped]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Each pattern splits what the one before it left whole.
SPLITS = {"gpt-2": [GPT2], "smollm": [r"\p{N}", GPT2], "llama-bpe": [LLAMA3]}


def split(text: str, patterns: Sequence[str]) -> list[str]:
    """Pre-tokens of a text: matches, and what lies between matches."""
    parts = [text]
    for pattern in patterns:
        parts = [piece for part in parts for piece in _split_once(part, pattern)]
    return parts


def byte_level(
    text: str,
    patterns: Sequence[str],
    ids: Mapping[bytes, int],
    ranks: Mapping[tuple[bytes, bytes], int],
    *,
    whole_first: bool = False,
) -> list[int]:
    """Token ids; `whole_first` takes a pre-token that is in the vocabulary as it is."""
    found: list[int] = []
    for part in split(text, patterns):
        data = part.encode()
        if whole_first and data in ids:
            found.append(ids[data])
            continue
        merged = _merge([bytes([byte]) for byte in data], ranks)
        found += [ids[piece] for piece in merged]
    return found


def sentence_pieces(
    text: str,
    pieces: Mapping[str, tuple[int, float]],
    added: Mapping[str, int],
    bytes_: Sequence[int],
) -> list[int]:
    """SentencePiece's rule: added texts first (longest at each place), then best score first.

    Args:
        text: anything.
        pieces: text of a piece, spaces as `▁`, to its id and score.
        added: texts that are one token wherever they stand, to their ids.
        bytes_: ids of the 256 byte tokens.
    """
    text = text.replace(" ", "▁")
    added = {word.replace(" ", "▁"): number for word, number in added.items()}
    symbols: list[str | int] = []
    place = 0
    while place < len(text):
        longest = max((word for word in added if text.startswith(word, place)), key=len, default="")
        symbols.append(added[longest] if longest else text[place])
        place += max(1, len(longest))
    while (best := _best_pair(symbols, pieces)) is not None:
        symbols[best : best + 2] = [f"{symbols[best]}{symbols[best + 1]}"]
    found: list[int] = []
    for symbol in symbols:
        if isinstance(symbol, int):
            found.append(symbol)
        elif symbol in pieces:
            found.append(pieces[symbol][0])
        else:
            found += [bytes_[byte] for byte in symbol.encode()]
    return found


def _best_pair(symbols: Sequence[str | int], pieces: Mapping[str, tuple[int, float]]) -> int | None:
    scored = [
        (-pieces[left + right][1], place)
        for place, (left, right) in enumerate(pairwise(symbols))
        if isinstance(left, str) and isinstance(right, str) and left + right in pieces
    ]
    return min(scored)[1] if scored else None


def _split_once(text: str, pattern: str) -> list[str]:
    parts: list[str] = []
    end = 0
    for match in regex.finditer(pattern, text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        parts.append(match.group())
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    return [part for part in parts if part]


def _merge(pieces: list[bytes], ranks: Mapping[tuple[bytes, bytes], int]) -> list[bytes]:
    while True:
        ranked = [
            (ranks[pair], place) for place, pair in enumerate(pairwise(pieces)) if pair in ranks
        ]
        if not ranked:
            return pieces
        place = min(ranked)[1]
        pieces = [*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :]]
