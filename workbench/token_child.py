"""The process that holds a tokenizer for the workbench: a question a line in, an answer a line out.

Torch and the model's files stay out of the workbench's own process, and away with this one. No
weight is read. Ends with its standard input, or after a while without a question.
"""

import json
import select
import sys
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.token_counts import count_tokens
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.workbench.answering import counting, kept_who, work_of

IDLE_SECONDS: Final = 900.0


def main(folder: Path, served: str | None = None) -> None:
    """Answer questions until nobody asks any more.

    Args:
        folder: holds who answers, as `answering.keep_who` laid it there.
        served: id of a server's model for which this one stands in, see `answering.counting`.
    """
    out = sys.stdout
    # What libraries print would be taken for an answer.
    sys.stdout = sys.stderr
    try:
        model = counting(kept_who(folder), served)
    except (SpinfError, Unusable) as fault:
        print(json.dumps({"fault": str(fault)}), file=out, flush=True)
        return
    lint = {"residual": model.lint_residual, "floor": model.lint_floor}
    print(json.dumps({"model": model.model, "lint": lint}), file=out, flush=True)
    while select.select([sys.stdin], [], [], IDLE_SECONDS)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        asked = json.loads(line)
        try:
            do = _pieces if asked.pop("do") == "pieces" else _cost
            answer = do(model, **asked)
        except (SpinfError, Unusable, InvalidPack) as fault:
            answer = {"fault": str(fault)}
        print(json.dumps(answer), file=out, flush=True)


def _pieces(model: Any, texts: list[str]) -> dict[str, Any]:
    """Each text's tokens: id, and the characters that end with it."""
    found = []
    for text in texts:
        ids, ends = model.tokenizer.encode_with_ends(text)
        starts = [0, *ends[:-1]]
        found.append(
            [[id, text[a:b]] for id, a, b in zip(ids, starts, ends, strict=True)] if ids else []
        )
    return {"texts": found, "start": model.tokenizer.bos_id}


def _cost(model: Any, pack: str, name: str, contents: list[str]) -> dict[str, Any]:
    """Tokens of contents under a pack, and of each of its filled templates."""
    read = read_pack(pack.encode(), name, fitted=False)
    start = 0 if model.tokenizer.bos_id is None else 1
    works = [[work_of(content, read.questions)] for content in contents]
    counted, refused = count_tokens(model.count, start, works)
    texts = [prompt.text for question in read.questions for prompt in question.prompts]
    return {
        "counted": {name: getattr(counted, name) for name in counted.__slots__},
        "refused": dict(refused),
        "prompts": [len(ids) for ids in model.tokenizer.encode_batch(texts)],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
