"""Reads a tokenizer from the tokenizer.json of a model folder.

The file describes the tokenizer whole, so it is run as it is, with three changes that make it
literal: control tokens leave the vocabulary, nothing is added around a text, nothing is cut.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from spinf_serve.engine.loading.ascii_words import WORDS
from spinf_serve.engine.loading.borders import (
    GPT2_PATTERN,
    SPACE_MARK,
    borders_of_pattern,
    borders_of_pieces,
)
from spinf_serve.engine.loading.bpe_tokenizer import BpeTokenizer
from spinf_serve.engine.loading.json_files import read_json, read_json_if_there
from spinf_serve.engine.loading.pieces import (
    MARKERS,
    byte_level_piece,
    fallback_byte,
    is_fallback,
    require_all_bytes,
)
from spinf_serve.packs.errors import Unusable

TOKENIZER: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"

_MARKS_SPACES: Final = {
    "type": "Replace",
    "pattern": {"String": " "},
    "content": SPACE_MARK,
}


def tokenizer_from_folder(folder: Path) -> BpeTokenizer:
    """The tokenizer in a model folder.

    Raises `Unusable` when tokenizer.json is missing or broken, or is of a kind that could not be
    made literal and exact (anything but byte-pair encoding with a token for every byte).
    """
    where = folder / TOKENIZER
    if not where.is_file() and (folder / "tokenizer.model").is_file():
        raise Unusable(
            f"{folder}: {TOKENIZER} is missing and tokenizer.model alone is not supported; "
            f"convert it with transformers (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
        )
    parts = _Parts(read_json(where), where)
    plain = {text: number for text, number in parts.ids.items() if text not in parts.control}
    pieces = [b""] * (max(parts.ids.values()) + 1)
    for text, number in plain.items():
        pieces[number] = parts.piece(text)
    return BpeTokenizer(
        parts.tokenizer(plain),
        pieces,
        bos_id=_bos_id(folder, parts),
        control_ids=frozenset(range(len(pieces))) - set(plain.values()),
        controls={text: parts.ids[text] for text in sorted(parts.control & parts.ids.keys())},
        borders=parts.borders(plain),
        marks_spaces=parts.normalizer == _MARKS_SPACES,
        keeps_bytes=parts.keeps_bytes(),
        words=parts.words(),
    )


class _Parts:
    """The parts of a tokenizer.json that matter here.

    Attributes:
        ids: every text and its id, control tokens included.
        control: texts of the control tokens.
        added: texts that are one token wherever they stand; no control tokens.
        normalizer: as in the file.
    """

    def __init__(self, values: dict[str, Any], where: Path) -> None:
        self._values = values
        self._where = where
        self._model = _object(values.get("model"))
        kind = self._model.get("type")
        if kind != "BPE":
            raise Unusable(f"{where}: tokenizers of type {kind} are not supported (BPE is)")
        vocab = self._model.get("vocab")
        if not isinstance(vocab, dict) or not all(isinstance(n, int) for n in vocab.values()):
            raise Unusable(f"{where}: model.vocab should give each token its id")
        self._rows = values.get("added_tokens") or []
        if not all(_is_added_token(row) for row in self._rows):
            raise Unusable(f"{where}: added_tokens should list tokens with content and id")
        self.ids: dict[str, int] = vocab | {row["content"]: row["id"] for row in self._rows}
        special = {row["content"] for row in self._rows if row.get("special")}
        self.control = frozenset(special | (MARKERS & self.ids.keys()))
        self.added = frozenset(row["content"] for row in self._rows) - self.control
        self.normalizer = values.get("normalizer")
        self._splitter = _steps(values.get("pre_tokenizer"))
        self._byte_level = any(step.get("type") == "ByteLevel" for step in self._splitter)
        if not self._byte_level:
            if not self._model.get("byte_fallback"):
                raise Unusable(
                    f"{where}: the tokenizer is neither byte-level nor has byte fallback"
                )
            require_all_bytes(vocab, where)

    def piece(self, text: str) -> bytes:
        """The bytes of a token that is not a control token."""
        if text in self.added:
            return text.encode()
        if self._byte_level:
            return byte_level_piece(text)
        return fallback_byte(text) if is_fallback(text) else text.replace(SPACE_MARK, " ").encode()

    def tokenizer(self, plain: Mapping[str, int]) -> Tokenizer:
        """The tokenizer over the vocabulary `plain`."""
        changed = {
            **self._values,
            "model": {**self._model, "vocab": plain, "unk_token": None},
            "added_tokens": [row for row in self._rows if row["content"] in self.added],
            "post_processor": None,
            "truncation": None,
            "padding": None,
        }
        try:
            return Tokenizer.from_str(json.dumps(changed, ensure_ascii=False))
        # The library raises the bare class for whatever it cannot read.
        except Exception as error:
            raise Unusable(f"{self._where}: not a readable tokenizer ({error})") from error

    def keeps_bytes(self) -> bool:
        """Whether the bytes of a text's tokens are the text's bytes, as far as can be told."""
        if self._byte_level:
            prefixed = any(step.get("add_prefix_space") for step in self._splitter)
            return self.normalizer is None and not prefixed
        # The normaliser leaves no space for these to find.
        idle = {"type": "Split", "pattern": {"String": " "}}
        busy = [step for step in self._splitter if {**step, **idle} != step]
        return self.normalizer == _MARKS_SPACES and not busy

    def borders(self, plain: Mapping[str, int]) -> frozenset[str]:
        """See `spinf_serve.engine.loading.borders`."""
        if not self.keeps_bytes():
            # A normaliser may join or move characters; nothing is claimed behind one.
            return frozenset()
        if self._byte_level:
            return borders_of_pattern(_pattern(self._splitter), self.added)
        return borders_of_pieces([text for text in plain if not is_fallback(text)])

    def words(self) -> re.Pattern[str] | None:
        """What splits an ASCII text as the file does; see `spinf_serve.engine.loading.ascii_words`."""
        if not self._byte_level or self.added or not self.keeps_bytes():
            return None
        digits = [step for step in self._splitter if step.get("type") == "Digits"]
        if not all(step.get("individual_digits") for step in digits):
            return None
        return WORDS.get((_pattern(self._splitter), bool(digits)))

    def first_token(self) -> str | None:
        """The control token that the file puts before a text."""
        for step in _steps(self._values.get("post_processor")):
            match step:
                case {
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": str(text)}}, *_],
                }:
                    return text
        return None

    def id_of(self, text: str) -> int:
        """Id of a token. Raises `Unusable` when there is none."""
        if text not in self.ids:
            raise Unusable(f"{self._where}: the vocabulary lacks the token {text!r}")
        return self.ids[text]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_added_token(row: object) -> bool:
    match row:
        case {"content": str(), "id": int()}:
            return True
    return False


def _steps(part: object) -> list[dict[str, Any]]:
    """The steps of a part that may be null, one step or a sequence of them."""
    match part:
        case {"type": "Sequence", "pretokenizers": [*steps]}:
            return [step for step in steps if isinstance(step, dict)]
        case {"type": "Sequence", "processors": [*steps]}:
            return [step for step in steps if isinstance(step, dict)]
    step = _object(part)
    return [step] if step else []


def _pattern(splitter: list[dict[str, Any]]) -> str:
    """The pattern that splits a byte-level text; empty when it is not in a known arrangement.

    Digits split off first move no border at white space.
    """
    match [step for step in splitter if step.get("type") != "Digits"]:
        case [{"type": "ByteLevel"} as last]:
            return GPT2_PATTERN if last.get("use_regex", True) else ""
        case [
            {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated"} as first,
            {"type": "ByteLevel", "use_regex": False},
        ]:
            return "" if first.get("invert") else pattern
    return ""


def _bos_id(folder: Path, parts: _Parts) -> int | None:
    """Whether the tokenizer starts every sequence with a token, and which.

    `add_bos_token` decides where it is given, otherwise what the file puts before a text.
    """
    config = read_json_if_there(folder / TOKENIZER_CONFIG)
    first = parts.first_token()
    adds = config.get("add_bos_token")
    if adds is False or (adds is None and first is None):
        return None
    if first is not None:
        return parts.id_of(first)
    named = config.get("bos_token")
    if isinstance(named, dict):
        named = named.get("content")
    if isinstance(named, str):
        return parts.id_of(named)
    for name in ("generation_config.json", "config.json"):
        number = read_json_if_there(folder / name).get("bos_token_id")
        if isinstance(number, int):
            return number
    raise Unusable(f"{folder}: add_bos_token is set, but no file says which token that is")
