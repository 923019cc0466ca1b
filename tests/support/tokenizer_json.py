"""The embedded model's tokenizer as a tokenizer.json: `python -m tests.support.tokenizer_json FOLDER`.

For a machine that has no room or no way for the model itself; `spinf-serve bench --tokenizer` takes
the file.
"""

import json
import sys
from pathlib import Path
from typing import Any

from spinf_serve.engine.loading.embedded import embedded_file, embedded_source
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.json_tokenizer import TOKENIZER

_NORMAL = 1


def tokenizer_json() -> dict[str, Any]:
    """The file as a value: byte-level BPE, each digit apart, control tokens as special ones."""
    file = read_gguf(embedded_file(embedded_source()))
    texts = file.texts("tokenizer.ggml.tokens")
    kinds = [int(kind) for kind in file.numbers("tokenizer.ggml.token_type")]
    assert file.text("tokenizer.ggml.pre") == "smollm", "the steps below are of this kind"
    digits = {"type": "Digits", "individual_digits": True}
    split = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, text in enumerate(texts)
            if kinds[number] != _NORMAL
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, split]},
        "post_processor": None,
        "decoder": {**split, "type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {text: number for number, text in enumerate(texts)},
            "merges": file.texts("tokenizer.ggml.merges"),
        },
    }


def main(folder: str) -> None:
    """Writes the file into a folder."""
    path = Path(folder, TOKENIZER)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tokenizer_json(), ensure_ascii=False))
    print(f"{path}, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:2])
