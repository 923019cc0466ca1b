"""What an engine did and how long each part took: plain counters. Knows nothing else."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of a device's memory.

    Attributes:
        used: what tensors of this process take.
        reserved: what this process holds for tensors, those that it has and those to come.
        free: what no process holds.
        total: all.
    """

    used: int
    reserved: int
    free: int
    total: int


@dataclass(slots=True)
class Stats:
    """What an engine did since it was opened. Seconds are wall time.

    With passes in flight the times of host and device overlap, so that they add up to more than
    the time that went by. The host's own parts and `forward_seconds` do not overlap each other,
    apart from `compile` on other threads: what is left of a run is waiting for work.

    Attributes:
        passes: forwards that came back.
        rows: tokens in them.
        reads: rows whose next-token distribution was read.
        decode_rows: of the rows, those of steps: one for each continuation that a slot asked about.
        nan_faults: works that failed because the model returned NaN.
        trunk_hits: works that continued a trunk that was read for another.
        trunk_misses: works that read their trunk themselves, where trunks are kept.
        trunk_cached_tokens: trunk tokens that hits did not read.
        trunk_evictions: trunks that made room for others.
        trunk_entries: trunks that are kept now.
        trunk_bytes: what their keys and values take now.
        compile_seconds: host, texts to trees, summed over the threads that compile.
        pack_seconds: host, trees to passes.
        layout_seconds: host, passes to what the model's operations index by.
        assemble_seconds: host, log-probabilities to answers.
        forward_seconds: host, launching passes and waiting for them to end. On the CPU that is the
            model's whole time; a device that runs one pass ahead hides its own behind host work.
        device_seconds: how long passes ran on the device, from its own clock, one by one; on the
            CPU how long the model took.
    """

    HOST_PARTS: ClassVar[tuple[str, ...]] = ("compile", "pack", "layout", "assemble")

    passes: int = 0
    rows: int = 0
    reads: int = 0
    nan_faults: int = 0
    decode_rows: int = 0
    trunk_hits: int = 0
    trunk_misses: int = 0
    trunk_cached_tokens: int = 0
    trunk_evictions: int = 0
    trunk_entries: int = 0
    trunk_bytes: int = 0
    compile_seconds: float = 0.0
    pack_seconds: float = 0.0
    layout_seconds: float = 0.0
    assemble_seconds: float = 0.0
    forward_seconds: float = 0.0
    device_seconds: float = 0.0
