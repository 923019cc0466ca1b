"""How long a card takes to open a checkpoint from files, and in how much of the host's memory.

`python -m tests.support.gpu_load FOLDER OUT.json` writes a checkpoint in bf16 with weights from a
seed, as a published one lies in a folder, and opens it in a fresh process. A folder that holds the
checkpoint already is opened as it is. Knows nothing of speed afterwards: that is `spinf-serve bench`.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shlex
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import torch

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.bench.machine import card_of, commit, processor_name, versions
from spinf_serve.engine.bench.results import Circumstances, today
from spinf_serve.engine.bench.synthetic import SyntheticCheckpoint
from spinf_serve.engine.bench.synthetic_engine import tokenizer_at
from spinf_serve.engine.bench.synthetic_models import SYNTHETIC_MODELS, synthetic_spec
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.loading.config_json import CONFIG
from spinf_serve.engine.loading.digest import folder_digest
from spinf_serve.engine.loading.json_tokenizer import TOKENIZER
from spinf_serve.engine.loading.weights import INDEX, weight_files
from spinf_serve.engine.models.spec import ModelSpec
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable
from tests.support.tokenizer_json import tokenizer_json

Device = Literal["auto", "cpu", "cuda"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_TINY = "gemma-4-tiny"
_BF16_BYTES = 2
# The tokenizer that is lent to the tiny model is larger than its vocabulary; as in the bench.
_VOCAB_STEP = 64


@dataclass(frozen=True, slots=True)
class Load:
    """What opening a checkpoint took. Its file also has the fields of `Circumstances`, whose
    `load_seconds` counts from a process that has imported torch and woken the card.

    Attributes:
        job: `load`.
        write_seconds: of the files, when they were written just before; None for ones that lay there.
        checkpoint_bytes, largest_shard_bytes: of the files of weights.
        shards: number of these files.
        steps: lines said on the way, each with the seconds since the start.
        host_peak_bytes: largest resident set of the process (ru_maxrss).
        host_peak_bytes_before: the same when opening began: Python, torch, the driver.
        device_peak_gib: largest sum of tensors on the card, with its checks and small passes; None on
            the CPU.
        digest_seconds: of the sha256 of the files of weights alone, which opening makes beside reading.
    """

    job: str
    write_seconds: float | None
    checkpoint_bytes: int
    largest_shard_bytes: int
    shards: int
    steps: list[tuple[float, str]]
    host_peak_bytes: int
    host_peak_bytes_before: int
    device_peak_gib: float | None
    digest_seconds: float


def spec_of(model: str, folder: Path) -> ModelSpec:
    """The sizes of a model; the tiny one takes the tokenizer of the folder as it is."""
    spec = synthetic_spec(model)
    if model != _TINY:
        return spec
    size = tokenizer_at(folder / TOKENIZER).vocab_size
    return replace(spec, vocab=-(-size // _VOCAB_STEP) * _VOCAB_STEP)


def config_of(spec: ModelSpec) -> dict[str, Any]:
    """config.json of a synthetic model, as published ones say it."""
    full = next(layer for layer in spec.layers if layer.window is None)
    sliding = next(layer for layer in spec.layers if layer.window is not None)
    return {
        "model_type": "gemma4_unified_text",
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.intermediate,
        "num_hidden_layers": len(spec.layers),
        "num_attention_heads": spec.heads,
        "num_key_value_heads": sliding.kv_heads,
        "head_dim": sliding.head_dim,
        "global_head_dim": full.head_dim,
        "num_global_key_value_heads": full.kv_heads,
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tied,
        "max_position_embeddings": spec.context,
        "sliding_window": sliding.window,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_k_eq_v": full.k_is_v,
        "final_logit_softcapping": spec.logit_soft_cap,
        "layer_types": [
            "sliding_attention" if layer.window else "full_attention" for layer in spec.layers
        ],
        "rope_parameters": {
            "full_attention": {
                "rope_type": full.rope.kind,
                "rope_theta": full.rope.theta,
                "partial_rotary_factor": full.rope.moving,
            },
            "sliding_attention": {
                "rope_type": sliding.rope.kind,
                "rope_theta": sliding.rope.theta,
            },
        },
    }


def write_checkpoint(
    folder: Path, model: str, shards: int, tokenizer: Path | None, device: torch.device
) -> float:
    """Writes a checkpoint, made on a device; the seconds that took. The index comes last.

    Args:
        shards: files of about the same size, at most.
        tokenizer: a tokenizer.json; None is the embedded model's.
    """
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(tokenizer_json()) if tokenizer is None else tokenizer.read_text("utf-8")
    _write(folder / TOKENIZER, text)
    spec = spec_of(model, folder)
    _write(folder / CONFIG, json.dumps(config_of(spec), indent=1))
    checkpoint = SyntheticCheckpoint(spec, "bf16", device)
    groups = list(_groups(checkpoint, shards))
    index: dict[str, str] = {}
    for number, names in enumerate(groups, 1):
        file = f"model-{number:05}-of-{len(groups):05}.safetensors"
        _write_shard(folder / file, checkpoint, names, device)
        index |= dict.fromkeys(names, file)
    _write(folder / INDEX, json.dumps({"metadata": {}, "weight_map": index}))
    return time.perf_counter() - start


def _groups(checkpoint: SyntheticCheckpoint, shards: int) -> Iterator[list[str]]:
    """Names of the tensors of each file: a tensor goes where its first byte lies in the whole."""
    names = sorted(checkpoint.names())
    sizes = [prod(checkpoint.shape(name)) for name in names]
    total = sum(sizes)
    place: dict[str, int] = {}
    before = 0
    for name, size in zip(names, sizes, strict=True):
        place[name] = before * shards // total
        before += size
    for _, group in groupby(names, key=place.__getitem__):
        yield list(group)


def _write_shard(
    path: Path, checkpoint: SyntheticCheckpoint, names: list[str], device: torch.device
) -> None:
    """One file, tensor by tensor: a header's length in 8 bytes, the header, the values."""
    header, end = {}, 0
    for name in names:
        shape = checkpoint.shape(name)
        start, end = end, end + _BF16_BYTES * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    beside = path.with_suffix(path.suffix + ".part")
    with open(beside, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            made = torch.empty(checkpoint.shape(name), dtype=torch.bfloat16, device=device)
            checkpoint.read_into(name, made)
            file.write(made.cpu().view(torch.uint8).view(-1).numpy().data)
    beside.replace(path)


def open_folder(
    folder: Path,
    model: str,
    device: Device,
    *,
    command: str,
    named: str | None,
    write_seconds: float | None,
) -> dict[str, Any]:
    """Opens a checkpoint in this process, which should be a fresh one; the result file's object.

    Args:
        command: as it should be told.
        named: the commit, where no checkout says it.
        write_seconds: see `Load`.

    Raises `Unusable` when the folder holds another model.
    """
    if json.loads((folder / CONFIG).read_text("utf-8")) != config_of(spec_of(model, folder)):
        raise Unusable(f"{folder} holds another model than {model}; name another folder")
    on = torch_device(device)
    if on.type == "cuda":
        # Waking the card takes seconds and host memory of its own, whatever is loaded.
        torch.zeros(1, device=on)
    steps: list[tuple[float, str]] = []
    before = _host_peak()
    start = time.perf_counter()

    def said(line: str) -> None:
        steps.append((time.perf_counter() - start, line.replace(str(folder), folder.name)))
        print(f"{steps[-1][0]:8.2f} s  {steps[-1][1]}", flush=True)

    config = EngineConfig(model=str(folder), device="cuda" if on.type == "cuda" else "cpu")
    engine = open_engine(config, Limits(), said)
    seconds = time.perf_counter() - start
    peak = _host_peak()
    card = card_of(on)
    facts = engine.fingerprint.facts
    files = weight_files(folder)
    sizes = [file.stat().st_size for file in files]
    start = time.perf_counter()
    folder_digest(files)
    load = Load(
        job="load",
        write_seconds=write_seconds,
        checkpoint_bytes=sum(sizes),
        largest_shard_bytes=max(sizes),
        shards=len(sizes),
        steps=steps,
        host_peak_bytes=peak,
        host_peak_bytes_before=before,
        device_peak_gib=torch.cuda.max_memory_allocated(on) / 2**30 if on.type == "cuda" else None,
        digest_seconds=time.perf_counter() - start,
    )
    about = Circumstances(
        model=f"synthetic/{model}",
        scheme=facts["scheme"] if on.type == "cuda" else engine.config.dtype,
        card=card.name,
        card_line=card.line,
        processor=processor_name(),
        versions=versions(),
        commit=named or commit(),
        date=today(),
        command=command,
        fingerprint=engine.fingerprint.bits,
        token_budget=engine.config.pass_tokens,
        load_seconds=seconds,
    )
    return asdict(about) | asdict(load)


def torch_device(device: Device) -> torch.device:
    """The device that is meant: `auto` is a card where torch sees one."""
    on_card = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return torch.device("cuda", torch.cuda.current_device()) if on_card else torch.device("cpu")


def fresh(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What a function gives in a process of its own.

    On Linux a largest resident set outlives exec: this process must itself stay as small as its
    imports, so that the other one's is its own.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        return other.submit(function, *args, **kwargs).result()


def _host_peak() -> int:
    """Bytes; Linux counts in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _write(path: Path, text: str) -> None:
    beside = path.with_suffix(path.suffix + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _shown(path: Path) -> str:
    """A path as a result may tell it: where it lies on a machine is nobody's concern."""
    relative = os.path.relpath(path)
    return path.name if relative.startswith("..") else relative


def main(arguments: list[str] | None = None) -> None:
    """Writes the checkpoint where there is none, opens it, writes the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.gpu_load", description=__doc__)
    parser.add_argument("folder", type=Path, help="of the checkpoint")
    parser.add_argument("out", type=Path, help="gets the result as JSON")
    parser.add_argument("--model", default="gemma-4-12b", choices=list(SYNTHETIC_MODELS))
    parser.add_argument("--shards", type=int, default=5, help="files of weights, at most")
    parser.add_argument(
        "--tokenizer", type=Path, help="a tokenizer.json; else the embedded model's"
    )
    parser.add_argument("--commit", help="its name, where there is no checkout")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    asked = parser.parse_args(arguments)
    if asked.shards < 1:
        parser.error(f"--shards {asked.shards}: at least one file is needed")
    if asked.model != _TINY and torch_device(asked.device).type == "cpu":
        parser.error(f"{asked.model} needs an NVIDIA GPU; without one, --model {_TINY}")
    if asked.tokenizer is not None and not asked.tokenizer.is_file():
        parser.error(f"--tokenizer {asked.tokenizer} is no file; a tokenizer.json is needed")
    command = ["python", "-m", "tests.support.gpu_load", _shown(asked.folder), _shown(asked.out)]
    command += ["--model", asked.model, "--shards", str(asked.shards), "--device", asked.device]
    if asked.tokenizer is not None:
        command += ["--tokenizer", _shown(asked.tokenizer)]
    seconds = None
    if not (asked.folder / INDEX).is_file():
        made_on = torch_device(asked.device)
        seconds = fresh(
            write_checkpoint, asked.folder, asked.model, asked.shards, asked.tokenizer, made_on
        )
        print(f"wrote {asked.folder} in {seconds:.1f} s", flush=True)
    found = fresh(
        open_folder,
        asked.folder,
        asked.model,
        asked.device,
        command=shlex.join(command),
        named=asked.commit,
        write_seconds=seconds,
    )
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    _write(asked.out, json.dumps(found, indent=1) + "\n")
    print(
        f"opened in {found['load_seconds']:.2f} s, host peak {found['host_peak_bytes'] / 2**30:.2f} GiB"
    )


if __name__ == "__main__":
    main()
