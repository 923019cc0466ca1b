"""From a configuration to an engine: finds a model, picks a device, loads, checks.

Everything here needs torch; `engine.api.open_engine` is the door.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.loading.progress import ReportingCheckpoint
from spinf_serve.engine.models.registry import build
from spinf_serve.engine.work import Limits


def opened_engine(config: EngineConfig, limits: Limits, tell: Callable[[str], None]) -> Engine:
    """An engine around the model that a configuration names; see `engine.api.open_engine`."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    tell(f"opening model {config.model}")
    opened = open_checkpoint(config.model, offline=config.offline, say=tell)
    with ThreadPoolExecutor(1) as beside:
        # Reading and hashing the file take about as long; hashing needs no interpreter lock.
        digest = beside.submit(opened.digest)
        tell(f"reading weights of {opened.served.id} as {config.dtype}")
        ops = CpuOps(getattr(torch, config.dtype))
        model = build(opened.spec, ReportingCheckpoint(opened.checkpoint, tell), ops)
        fingerprint = cpu_fingerprint(
            digest.result(), config.dtype, torch.backends.cpu.get_cpu_capability()
        )
    return Engine(
        served=opened.served,
        tokenizer=opened.tokenizer,
        forward=ModelForward(model, ops),
        fingerprint=fingerprint,
        config=config,
        limits=limits,
        context_tokens=opened.spec.context,
    )
