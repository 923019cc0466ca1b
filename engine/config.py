"""Settings of the engine, with their defaults. Reads no environment and no file."""

from dataclasses import dataclass, field
from typing import Final, Literal

AUTO: Final = "auto"
"""What stands for a choice that is made when the engine is opened, and told then."""

EMBEDDED: Final = "embedded"
"""The name of the model that comes in a package."""

CPU_TOKEN_BUDGET: Final = 2048
GPU_TOKEN_BUDGET: Final = 16_384

CPU_TRUNK_CACHE_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How an engine is opened.

    Attributes:
        model: `auto`, `embedded`, a served model's id or alias, `owner/name[@revision]` on the hub,
            a folder with config.json and safetensors, or a .gguf file.
        device: what computes; `auto` is a usable card where there is one, else the CPU.
        quant: what the linear layers' weights are kept in on a card; `auto` follows card and
            checkpoint.
        dtype: compute dtype on the CPU.
        token_budget: rows of one pass; work memory grows with it. None until the engine is opened:
            then the model's on a card, else the device's.
        threads: torch intra-op threads; None leaves torch's own choice.
        offline: never ask the hub, use what is in the cache.
        prompt_style: how closed questions are worded; `auto` is the model's own way.
        trunk_cache_bytes: device memory for keys and values of contents that were read; 0 keeps
            none, None follows the device.
        floor_cache_size: floors kept in memory, least recently used ones leave first.
        open_limits: names of the limits that nobody set, so that the model may. Not compared, as
            it says where values came from.
    """

    model: str = AUTO
    device: Literal["auto", "cpu", "cuda"] = "auto"
    quant: Literal["auto", "fp8", "int8", "bf16"] = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    token_budget: int | None = None
    threads: int | None = None
    offline: bool = False
    prompt_style: Literal["auto", "cloze", "chat"] = "auto"
    trunk_cache_bytes: int | None = 0
    floor_cache_size: int = 200_000
    open_limits: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def pass_tokens(self) -> int:
        """Rows of one pass: the budget, or the CPU's where none is set yet."""
        return CPU_TOKEN_BUDGET if self.token_budget is None else self.token_budget
