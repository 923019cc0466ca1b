"""What a kept content saves: `python -m tests.support.trunk_cache_cost` prints rows and seconds.

The embedded model reads a content of about 500 tokens for 20 questions, then is asked 20 others
about it, and then reads 2 contents of about 250 tokens that no one asked about before. An engine that
keeps contents does the same beside one that does not, in turns. Seconds are CPU time of one thread,
the median of 3 runs; all answers have the same bits.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.engine.config import EMBEDDED, EngineConfig
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import Prompt, Question

RUNS = 3
SUBJECTS = (
    "box",
    "price",
    "date",
    "order",
    "agent",
    "refund",
    "parcel",
    "invoice",
    "driver",
    "name",
)
SENTENCE = "On day {} the driver left parcel {} at the wrong door and nobody called about it. "


def questions(about: str) -> tuple[Question, ...]:
    """20 questions of one prompt without floors."""
    texts = [f"\nDoes the text {about} the {x} {n}? Answer:" for x in SUBJECTS for n in (1, 2)]
    return tuple(
        Question(f"q{n}", (Prompt(text),), (" yes", " no"), False, False)
        for n, text in enumerate(texts)
    )


def content(first: int, sentences: int) -> str:
    """Sentences of about 24 tokens, numbered from `first` on."""
    return "".join(SENTENCE.format(n, 7 * n) for n in range(first, first + sentences))


def main(out: str | None = None) -> None:
    """Prints the figures, and writes them as JSON to the file that is named."""
    keeping, reading = (_opened(cache) for cache in (None, 0))
    long, fresh = content(1000, 21), [content(2000 + 100 * n, 10) for n in range(2)]
    asks = {
        "first ask": [Work(long, questions("name"))],
        "second ask": [Work(long, questions("doubt"))],
        "2 other contents": [Work(text, questions("name")) for text in fresh],
    }
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in asks}
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(RUNS):
        bits: list[list[object]] = []
        for kind, engine in (("kept", keeping), ("read again", reading)):
            engine.forget()
            bits.append([])
            for name, works in asks.items():
                rows, start = engine.stats.rows, time.thread_time()
                results = engine.run(works)
                seconds.setdefault((name, kind), []).append(time.thread_time() - start)
                bits[-1] += map(answer_bits, results)
                found[name][kind] = {"rows": engine.stats.rows - rows}
                found[name][kind]["cached_tokens"] = sum(x.counts.cached_tokens for x in results)
        if bits[0] != bits[1]:
            raise SystemExit("the engines gave different bits")
    for (name, kind), times in seconds.items():
        found[name][kind]["seconds"] = round(median(times), 4)
    for name, kinds in found.items():
        for kind, figures in kinds.items():
            print(f"{name:<18}{kind:<12}", *(f"{key} {value}" for key, value in figures.items()))
    if out is not None:
        facts = {
            "command": f"python -m tests.support.trunk_cache_cost {out}",
            "commit": commit(),
            "processor": processor_name(),
            "model": keeping.served.id,
            "dtype": keeping.config.dtype,
            "threads": 1,
            "content_tokens": keeping.compile(asks["first ask"][0]).counts.content_tokens,
            "kept_bytes": keeping.stats.trunk_bytes,
            "kept_contents": keeping.stats.trunk_entries,
            "asks": found,
        }
        Path(out).write_text(json.dumps(facts, indent=1) + "\n")


def _opened(cache_bytes: int | None) -> Engine:
    config = EngineConfig(
        model=EMBEDDED, device="cpu", threads=1, offline=True, trunk_cache_bytes=cache_bytes
    )
    return open_engine(config, Limits(), lambda line: None)


if __name__ == "__main__":
    main(*sys.argv[1:2])
