"""What the documents say of GPUs: the memory a model takes by formula, and the measured figures."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from spinf_serve.bench_cli import bench
from spinf_serve.engine.bench.synthetic import SyntheticCheckpoint
from spinf_serve.engine.bench.synthetic_models import SYNTHETIC_MODELS
from spinf_serve.engine.config import GPU_TOKEN_BUDGET
from spinf_serve.engine.graph_shapes import POSITIONS, SIZES
from spinf_serve.engine.kernels.tiles import CAPABILITIES
from spinf_serve.engine.loading.sizes import model_sizes
from spinf_serve.engine.quantization.choose import Scheme, fitting_scheme, memory_of

_GIB = 1 << 30
_CARDS = {
    (8, 0): "A100",
    (8, 6): "RTX 30, A10, A40",
    (8, 9): "RTX 40, L4, L40S",
    (9, 0): "H100, H200",
    (12, 0): "RTX 50, RTX PRO Blackwell",
}
_MODELS = ("gemma-4-12b", "gemma-4-31b")
_SCHEMES: tuple[Scheme, ...] = ("fp8", "int8", "bf16")
_BUDGETS = (4096, GPU_TOKEN_BUDGET)
_CLASSES = ("linears", "attention", "element-wise", "head", "copies", "other")

Row = dict[str, Any]


def page(note: str) -> str:
    """docs/gpu.md."""
    cards = "".join(
        f"| {'.'.join(map(str, capability))} | {_CARDS[capability]} | "
        f"{fitting_scheme(capability, has_fp8=True)} |\n"
        for capability in CAPABILITIES
    )
    return f"""{note}# On a GPU

The engine computes on one NVIDIA card: `--device cuda`, or by itself where torch finds a usable one
(`--device auto`, the default). Its kernels are written in Triton and compiled at first use; Triton
keeps them in its cache folder for the next start. It needs Linux, a torch with CUDA (2.11 or newer)
and the Triton that comes with it: what `make setup` installs from the ordinary package index, without
`TORCH_INDEX`. Where torch's CPU build is in place, the start-up log and `spinf-serve doctor` say so.

| compute capability | such as | weights with `--quant auto` |
|---|---|---|
{cards}
`fp8` are 8-bit floats, a scale each row of a weight, under activations in 8-bit floats, with a scale a
row or, where the checkpoint has one, a static scale. `int8` are 8-bit integers under activations in 16
bits. `bf16` are plain 16-bit floats. `spinf-serve doctor` says what is chosen here, and why. A card
that is not here takes the kernels' tiles of the nearest older one; what its weights are kept in,
`doctor` says. Only an H200 was measured.

## Memory

GiB that a model takes, by formula (`engine/quantization/choose.py`): weights, keys and values that
are kept of a content longer than a pass, the activations of one pass, and 1 GiB for everything else.
The engine compares the sum with what is free before it loads anything. `--token-budget` sets the
tokens of a pass.

{_memory()}
## Measuring

```console
$ spinf-serve bench --synthetic gemma-4-12b --jobs main,http --profile --out figures.json
```

makes a model of that size from a seed on the card, so it needs no weights, and asks it made-up
questions. Its answers mean nothing; their bits and its speed are those of any model of that shape. The
tokenizer is the embedded model's (`spinf-serve models fetch`), or a `tokenizer.json` named by
`--tokenizer`. `--scheme` says how the weights present themselves: `static` as float8 with one scale a
tensor and a static one for each input, `rows` as float8 with a scale for each row of weights and
activations, `int8`, `bf16`. `--synthetic gemma-4-tiny` is small enough for Triton's interpreter on a
CPU, with `TRITON_INTERPRET=1` set and a few contents and questions: a test, not a measurement.

`--jobs` takes a list of these; without `--synthetic` they are measured on the configured model.

| name | what is asked |
|---|---|
| `main` | {_default("contents")} contents of {_default("content_tokens"):.0f} tokens, \
{_default("questions")} questions of two options on each |
| `sustained` | five times as many contents, in one go |
| `packs` | the official packs: moderation on messages of 200 tokens, news on stories of 466 |
| `growth` | 7, 56 and 448 questions on each content; contents of 128, 512, 4,096 and 32,768 tokens |
| `http` | `main` over HTTP: {_default("clients")} clients, each request a content that nobody asked \
about before with all questions, for {_default("seconds"):.0f} s; clients are a process of their own |

Every repeat begins with nothing but the weights in memory: questions are compiled and floors read
anew. A question is a filled template; its floor is not counted as one, but its tokens are among the
rows. A run that is not counted comes first. Over HTTP all requests ask the same questions, which are
compiled, and their floors read, once.

`--extraction` instead of `--jobs` measures what [slots](extraction.md) cost.

## Small passes

A pass of at most {SIZES[-1]:,} rows takes the card less time than the host needs to launch its kernels,
so that such passes are recorded when a model is opened, and replayed: passes of questions, and those in
which slots and written texts go on by a token. Those that reach position {POSITIONS:,} are launched as
larger ones are. What slots go on from lies beside the kept contents: at most as many rows as two passes
have (or 8,192), {_row_bytes(_MODELS[0]) / 1000:.0f} kB each for a gemma-4-12b; works with slots wait where more might
be wanted.

## Reading the figures

- **by the wall** from the first work to the last answer; **by the device** by the card's own clock,
  summed over passes.
- **linears alone** what the rate would be if the card made nothing but the products of the linear
  layers of the same passes: each product is timed in the same run, with our kernel and with the
  vendor's, and the better one counts. *in sequence*: those products one behind the other, as in a
  pass, where a card that is held to its power runs slower.
- **reached** the rate by the wall of that ceiling.
- **idle, by the wall** the part of the wall in which the device computed no pass, so that it also counts
  what the host does before the first and behind the last; *profiled* the part without any kernel of the
  time from the first kernel of a profiled repeat to its last. The mark, at most 3 %, is of the job
  `24x56` by the wall; shorter contents with more questions leave the host more to do at both ends.
- shares by class of kernels are of the sum of their times. `head` is the output head with softmax
  and choice of columns, `element-wise` norms, rotary embedding, residual and rounding, `copies` moves
  of memory.

The measured ones are in [figures.md](figures.md).
"""


def figures(folder: Path) -> str:
    """Sections of docs/figures.md: what a folder's files of a card hold; empty without such files.

    `gpu-*.json` are of `spinf-serve bench`, `load-*.json` of `tests.support.gpu_load`,
    `golden-*.json` of `spinf-serve doctor --invariance --out`, `extraction-*.json` of
    `spinf-serve bench --extraction`.
    """
    return _measured(folder) + _slots(folder) + _loads(folder) + _golden(folder)


def golden_faults(folder: Path) -> list[str]:
    """Lines on what `golden-*.json` of a folder should not say: a check that failed, or other bits
    than a file with the same bits digest has."""
    faults = []
    answers: dict[str, tuple[str, str]] = {}
    for name, found in _found(folder, "golden-*.json").items():
        failed = [one["name"] for one in found["checks"] if not one["passed"]]
        if failed or not found["checks"]:
            faults.append(f"{name}: checks failed: {', '.join(failed) or 'none was made'}")
        first, digest = answers.setdefault(found["bits_digest"], (name, found["answers_sha256"]))
        if digest != found["answers_sha256"]:
            faults.append(f"{name}: other bits than {first}, with the same bits digest")
    return faults


def _found(folder: Path, pattern: str) -> dict[str, Any]:
    return {file.name: json.loads(file.read_text()) for file in sorted(folder.glob(pattern))}


def _measured(folder: Path) -> str:
    found = _found(folder, "gpu-*.json")
    if not found:
        return ""
    text = """
## On a GPU

What the columns mean, and how to measure: [gpu.md](gpu.md).
"""
    for name, rows in found.items():
        text += _file(name, rows)
    return text


def _slots(folder: Path) -> str:
    found = _found(folder, "extraction-*.json")
    if not found:
        return ""
    text = """
## Slots on a card

What a slot costs in tokens that are scored in the same time, each figure a ratio within one run: the
jobs differ in their slots alone. Weights from a seed give no text much probability, so that a search
would end at once. There one goes on with one continuation in each step up to the last token, about as
many as a search on real weights reads, and a written text goes on to its last token; *to the end* is a
search with all six continuations in each of these steps.
"""
    for name, one in found.items():
        libraries = ", ".join(f"{lib} {one['versions'][lib]}" for lib in ("torch", "triton"))
        text += f"""
### `{name}`

{one["model"]}, {one["dtype"]}. `{one["command"]}` at `{one["commit"]}` on {one["date"]}; {one["card"]}; \
{libraries}. A scored token takes {1000 * one["token_seconds"]:.3f} ms.

"""
        text += _table(_SLOTS, [one])
    return text


def _loads(folder: Path) -> str:
    found = _found(folder, "load-*.json")
    if not found:
        return ""
    text = """
## Opening a checkpoint on a card

A checkpoint in bf16 with weights from a seed, opened from its files in a fresh process, up to an engine
that answers: what opening says on the way, with the seconds it begins at. The process had imported
torch and woken the card before; the memory of the host counts both (largest resident set). Files that
were written just before come from the page cache. The digest of the files is made beside reading.
"""
    for name, load in found.items():
        text += f"\n### `{name}`\n\n{_origin(load)}\n\n"
        text += _table(_LOAD, [load])
        text += "\n| at, s | step |\n|---|---|\n"
        text += "".join(f"| {seconds:.2f} | {line} |\n" for seconds, line in load["steps"])
    return text


def _golden(folder: Path) -> str:
    found = _found(folder, "golden-*.json")
    if not found:
        return ""
    groups: dict[str, list[str]] = {}
    for name, one in found.items():
        groups.setdefault(one["bits_digest"], []).append(f"`{name}`")
    text = """
## The same bits on another machine

Each file is what `spinf-serve doctor --invariance --out` found on a machine that was started for it:
answers to contents of many lengths, compared bit for bit with the same ones in other passes, and
the sha256 of their bits. A test compares the files with each other. A file says by which command, at
which commit and when it was made, unless an earlier `doctor` wrote it, which kept none of these.

"""
    rows = [one | {"file": name} for name, one in found.items()]
    text += _table(_GOLDEN, rows)
    for names in groups.values():
        if len(names) > 1:
            digests = {found[name.strip("`")]["answers_sha256"] for name in names}
            verdict = "the same bits" if len(digests) == 1 else "DIFFERENT BITS"
            text += f"\n{' and '.join(names)}: {verdict}.\n"
    same: dict[tuple[str, str], set[str]] = {}
    for one in found.values():
        key = (one["model"], one["answers_sha256"])
        same.setdefault(key, set()).add(one["facts"].get("kernels", ""))
    if any(len(kernels) > 1 for kernels in same.values()):
        text += (
            "\nA bits digest changes with every line of the kernels' code. Where the sha256 is the same "
            "all the\nsame, no answer has changed with it.\n"
        )
    return text


def _file(name: str, rows: list[Row]) -> str:
    text = f"\n### `{name}`\n\n{_origin(rows[0])}\n\n"
    text += _table(_RATES, [row for row in rows if row["path"] == "in-process"])
    profiled = [row for row in rows if row["device_ms"]]
    if profiled:
        text += "\nShares of the device's time, %:\n\n"
        text += _table(
            [("job", lambda row: row["job"]), *((name, _share(name)) for name in _CLASSES)],
            profiled,
        )
    over_http = [row for row in rows if row["path"] == "http"]
    if over_http:
        text += "\nOver HTTP:\n\n" + _table(_HTTP, over_http)
    return text


def _origin(row: Row) -> str:
    """What was measured, with which command, and on what."""
    machine = row["card_line"] or row["card"]
    versions = ", ".join(f"{lib} {row['versions'][lib]}" for lib in ("torch", "triton", "python"))
    return f"""{row["model"]}, scheme {row["scheme"]}, passes of {row["token_budget"]:,} tokens, ready in \
{row["load_seconds"]:.1f} s. `{row["command"]}` at `{row["commit"]}` on {row["date"]}; {machine}; \
{versions}."""


def _table(columns: list[tuple[str, Callable[[Row], str]]], rows: list[Row]) -> str:
    text = "| " + " | ".join(title for title, _ in columns) + " |\n" + "|---" * len(columns) + "|\n"
    return text + "".join(
        "| " + " | ".join(cell(row) for _, cell in columns) + " |\n" for row in rows
    )


def _number(name: str, form: str = ",.0f") -> Callable[[Row], str]:
    return lambda row: "–" if row[name] is None else format(row[name], form)


def _percent(name: str) -> Callable[[Row], str]:
    return lambda row: "–" if row[name] is None else f"{100 * row[name]:.1f} %"


def _made(row: Row) -> str:
    """How a golden file was made; files of before `doctor` wrote that say nothing of it."""
    return f"`{row['command']}` at `{row['commit']}` on {row['date']}" if "command" in row else "–"


def _share(name: str) -> Callable[[Row], str]:
    return lambda row: f"{100 * row['device_share'].get(name, 0.0):.1f}"


def _extra(name: str, form: str, factor: float = 1.0) -> Callable[[Row], str]:
    return lambda row: format(factor * row["extra"][name], form) if name in row["extra"] else "–"


_RATES: list[tuple[str, Callable[[Row], str]]] = [
    ("job", lambda row: row["job"]),
    ("contents × tokens", lambda row: f"{row['contents']} × {row['content_tokens']:,.0f}"),
    ("questions", _number("questions")),
    ("questions/s by the wall", _number("questions_per_s_wall")),
    ("by the device", _number("questions_per_s_device")),
    ("linears alone", _number("linears_ceiling_questions_per_s")),
    ("in sequence", _number("linears_sequence_questions_per_s")),
    ("reached", _percent("linears_share")),
    ("tokens/s", _number("work_tokens_per_s")),
    ("contents/h", _number("contents_per_hour")),
    ("idle, by the wall", _percent("wall_idle_share")),
    ("idle, profiled", _percent("device_idle_share")),
    ("host, ms", lambda row: f"{1000 * median(sum(t.values()) for t in row['host_seconds']):.0f}"),
    ("peak GiB", _number("peak_memory_gib", ".1f")),
]
_HTTP: list[tuple[str, Callable[[Row], str]]] = [
    ("job", lambda row: row["job"]),
    ("clients", _extra("clients", "d", 1)),
    ("questions/s", _number("questions_per_s_wall")),
    ("of in process", _extra("of_in_process", ".3f")),
    ("requests", _extra("requests", "d", 1)),
    ("latency p50, ms", _extra("latency_p50_seconds", ".0f", 1000)),
    ("p99, ms", _extra("latency_p99_seconds", ".0f", 1000)),
    ("clients alone, requests/s", _extra("client_alone_requests_per_s", ",.0f")),
]

_SLOTS: list[tuple[str, Callable[[Row], str]]] = [
    ("contents × tokens", lambda row: "{contents} × {content_tokens:.0f}".format(**row["shape"])),
    ("most tokens", lambda row: str(row["shape"]["max_tokens"])),
    ("searched text", _number("searched")),
    ("number", _number("number")),
    ("written text", _number("generated")),
    ("searched, to the end", _number("farthest")),
    ("searched, alone on one content", _number("lone")),
    ("100 questions with 10 slots, times those without", _number("slowdown", ".2f")),
]
_LOAD: list[tuple[str, Callable[[Row], str]]] = [
    ("open after, s", _number("load_seconds", ".1f")),
    ("checkpoint, GB", lambda row: f"{row['checkpoint_bytes'] / 1e9:.1f}"),
    ("files", _number("shards")),
    ("the largest, GB", lambda row: f"{row['largest_shard_bytes'] / 1e9:.1f}"),
    ("written before, s", _number("write_seconds", ".1f")),
    ("digest alone, s", _number("digest_seconds", ".1f")),
    ("host peak, GiB", lambda row: f"{row['host_peak_bytes'] / _GIB:.2f}"),
    ("before opening", lambda row: f"{row['host_peak_bytes_before'] / _GIB:.2f}"),
    ("card peak, GiB", _number("device_peak_gib", ".1f")),
]
_GOLDEN: list[tuple[str, Callable[[Row], str]]] = [
    ("file", lambda row: f"`{row['file']}`"),
    ("model", lambda row: row["model"]),
    ("scheme", lambda row: row["facts"]["scheme"]),
    ("machine", lambda row: row["card"] or "CPU"),
    ("torch", lambda row: row["libraries"]["torch"]),
    ("command, commit, date", _made),
    (
        "checks passed",
        lambda row: f"{sum(c['passed'] for c in row['checks'])} of {len(row['checks'])}",
    ),
    ("answers compared", lambda row: f"{sum(c['compared'] for c in row['checks']):,}"),
    ("bits digest", lambda row: f"`{row['bits_digest'][:16]}`"),
    ("sha256 of the answers", lambda row: f"`{row['answers_sha256'][:16]}`"),
]


def _memory() -> str:
    text = "| model | weights in | weights | kept | a pass | in all |\n|---|---|---|---|---|---|\n"
    meta = torch.device("meta")
    for name in _MODELS:
        spec = SYNTHETIC_MODELS[name]
        sizes = model_sizes(spec, SyntheticCheckpoint(spec, "bf16", meta))
        for scheme in _SCHEMES:
            for budget in _BUDGETS:
                memory = memory_of(sizes, scheme, budget, budget)
                parts = (memory.weights, memory.kept, memory.working, memory.total)
                cells = " | ".join(f"{part / _GIB:.1f}" for part in parts)
                text += f"| {name}, passes of {budget:,} | {scheme} | {cells} |\n"
    return text


def _row_bytes(model: str) -> int:
    """Keys and values of a row in all layers, in 16 bits."""
    return sum(4 * layer.kv_heads * layer.head_dim for layer in SYNTHETIC_MODELS[model].layers)


def _default(name: str) -> Any:
    defaults = bench.__signature__.parameters  # type: ignore[attr-defined]
    return defaults[name].default
