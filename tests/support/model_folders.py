"""Model folders as they are published: config.json, safetensors, tokenizer.json."""

import json
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

from spinf_serve.engine.loading.borders import LLAMA3_PATTERN
from tests.support.gguf_files import (
    BYTE,
    CONTROL,
    USER_DEFINED,
    Vocabulary,
    learned_byte_level,
    learned_sentence_pieces,
)
from tests.support.tiny_models import TinyModel, tiny

_GPT2_STEP = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_STEPS = {
    "gpt-2": [{**_GPT2_STEP, "use_regex": True}],
    "smollm": [{"type": "Digits", "individual_digits": True}, {**_GPT2_STEP, "use_regex": True}],
    "llama-bpe": [
        {
            "type": "Split",
            "pattern": {"Regex": LLAMA3_PATTERN},
            "behavior": "Isolated",
            "invert": False,
        },
        {**_GPT2_STEP, "use_regex": False},
    ],
}
_SPLIT_ON_SPACE = {
    "type": "Split",
    "pattern": {"String": " "},
    "behavior": "MergedWithPrevious",
    "invert": False,
}


def tokenizer_json(vocabulary: Vocabulary, pre: str, *, bos: str | None = None) -> dict[str, Any]:
    """What a published tokenizer.json of the vocabulary holds; `pre` "pieces" for SentencePiece."""
    ids = {text: number for number, text in enumerate(vocabulary.texts)}
    kinds = dict(zip(vocabulary.texts, vocabulary.kinds, strict=True))
    pieces = pre == "pieces"
    steps: list[dict[str, Any]] = [_SPLIT_ON_SPACE] if pieces else _STEPS[pre]
    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": 4,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": None,
        "added_tokens": [
            {
                "id": ids[text],
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": kind == CONTROL,
            }
            for text, kind in kinds.items()
            if kind in (CONTROL, USER_DEFINED)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        if pieces
        else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}
        if len(steps) > 1
        else steps[0],
        "post_processor": None if bos is None else _puts_first(bos, ids[bos]),
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": vocabulary.texts[3] if pieces else None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": pieces,
            "byte_fallback": pieces,
            "ignore_merges": pre == "llama-bpe",
            "vocab": ids,
            "merges": [list(pair) for pair in (vocabulary.merges or _merges(vocabulary))],
        },
    }


def save_tiny(folder: Path, name: str, *, shard: str = "5GB") -> TinyModel:
    """Saves one of the tiny models with a tokenizer of its 320 tokens; gemma3 puts a bos first."""
    model = tiny(name)
    model.reference.save_pretrained(folder, max_shard_size=shard)
    if model.spec.family == "llama":
        vocabulary = learned_byte_level([ByteLevel(add_prefix_space=False)], size=318)
        tokenizer = tokenizer_json(vocabulary, "gpt-2")
    else:
        vocabulary = learned_sentence_pieces([chr(0x41 + number) for number in range(60)])
        tokenizer = tokenizer_json(vocabulary, "pieces", bos="<bos>")
    write_json(folder / "tokenizer.json", tokenizer)
    return model


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False), "utf-8")


def edit_json(path: Path, **changes: object) -> None:
    """Sets keys of a JSON object in a file."""
    write_json(path, {**json.loads(path.read_text("utf-8")), **changes})


def _puts_first(text: str, number: int) -> dict[str, Any]:
    return {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": text, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {text: {"id": text, "ids": [number], "tokens": [text]}},
    }


def _merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Pairs of known texts, for each piece in the order of the scores."""
    rows = zip(vocabulary.texts, vocabulary.kinds, vocabulary.scores, strict=True)
    usable = {text: score for text, kind, score in rows if kind not in (CONTROL, BYTE)}
    ids = {text: number for number, text in enumerate(vocabulary.texts)}
    pairs = [
        (-score, ids[text], ids[text[:cut]], ids[text[cut:]], text[:cut], text[cut:])
        for text, score in usable.items()
        for cut in range(1, len(text))
        if text[:cut] in usable and text[cut:] in usable
    ]
    return [(left, right) for *_, left, right in sorted(pairs)]
