"""Settings of the engine, with their defaults. Reads no environment and no file."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How an engine is opened.

    Attributes:
        model: `embedded`, a served model's id or alias, `owner/name[@revision]` on the hub, a
            folder with config.json and safetensors, or a .gguf file.
        dtype: compute dtype on the CPU.
        token_budget: rows of one pass; work memory grows with it.
        threads: torch intra-op threads; None leaves torch's own choice.
        offline: never ask the hub, use what is in the cache.
        floor_cache_size: floors kept in memory, least recently used ones leave first.
    """

    model: str = "embedded"
    dtype: Literal["float32", "bfloat16"] = "float32"
    token_budget: int = 2048
    threads: int | None = None
    offline: bool = False
    floor_cache_size: int = 200_000
