"""What a measurement is, and the file that measurements are kept in: a JSON list, an object each."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from spinf_serve.engine.bench.output import write_json

Times = dict[str, float]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What all measurements of a run share.

    Attributes:
        model: its served id.
        scheme: how weights and activations of its linear layers are kept.
        card: name of the GPU, or of the processor for the CPU backend.
        card_line: name, driver, power limit, clock and memory as the driver's tool says them.
        processor: of the host.
        versions: of Python, the libraries and CUDA.
        commit: of this program.
        date: UTC.
        command: as it was typed.
        fingerprint: `Fingerprint.bits` of the engine.
        token_budget: rows of a pass at most.
        load_seconds: from nothing to an open engine.
    """

    model: str
    scheme: str
    card: str
    card_line: str
    processor: str
    versions: dict[str, str]
    commit: str
    date: str
    command: str
    fingerprint: str
    token_budget: int
    load_seconds: float


@dataclass(slots=True)
class Measurement:
    """One job, measured. Rates are medians over the repeats; times are raw, one entry a repeat.

    Attributes:
        job: its name.
        path: `in-process`, or `http` for clients on loopback connections.
        contents, questions: of one repeat; questions are filled templates, without their floors.
        content_tokens: mean tokens of a content as it is asked, without bos.
        rows, reads: rows of a repeat's passes, floors included, and those that were read from.
        questions_per_s_wall: by the time from the first work's compilation to the last answer.
        questions_per_s_device: by the device's own clock, summed over passes.
        work_tokens_per_s: rows by the wall: every token counts once, however many questions share it.
        contents_per_hour: by the wall.
        linears_ceiling_questions_per_s: what the rate would be if the device did nothing but the
            linear layers of these passes, each as the better of our and the vendor's product does it.
        linears_share: questions_per_s_wall of that.
        linears_sequence_questions_per_s: likewise, the linears of a pass run one behind the other.
        linears: the single products behind the ceiling.
        device_ms: milliseconds on the device by class of kernels, one profiled repeat.
        device_share: each class's share of their sum.
        kernels: name -> [launches, milliseconds] of that repeat, the longest ones.
        device_idle_share: 1 - device busy / time from its first kernel to its last, profiled.
        wall_idle_share: 1 - device time / wall: also what the host does before and after.
        wall_seconds, device_seconds, host_seconds: raw; host_seconds by part.
        pass_times: per repeat and pass its rows, reads, device seconds and when it had ended.
        answers_sha256: digest over the bits of all answers, the same in every repeat.
        peak_memory_gib: largest sum of tensors on the device, weights included; of a process without
            a GPU its largest resident set.
        extra: what belongs to this job alone.
    """

    job: str
    path: Literal["in-process", "http"]
    contents: int
    questions: int
    content_tokens: float = 0.0
    rows: int = 0
    reads: int = 0
    questions_per_s_wall: float = 0.0
    questions_per_s_device: float | None = None
    work_tokens_per_s: float | None = None
    contents_per_hour: float = 0.0
    linears_ceiling_questions_per_s: float | None = None
    linears_share: float | None = None
    linears_sequence_questions_per_s: float | None = None
    linears: list[dict[str, Any]] = field(default_factory=list)
    device_ms: Times = field(default_factory=dict)
    device_share: Times = field(default_factory=dict)
    kernels: dict[str, tuple[int, float]] = field(default_factory=dict)
    device_idle_share: float | None = None
    wall_idle_share: float | None = None
    wall_seconds: list[float] = field(default_factory=list)
    device_seconds: list[float] = field(default_factory=list)
    host_seconds: list[Times] = field(default_factory=list)
    pass_times: list[list[Times]] = field(default_factory=list)
    answers_sha256: str = ""
    peak_memory_gib: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


class ResultFile:
    """Measurements of one run; written after each, so that a run that is cut short loses none."""

    def __init__(self, path: Path | None, circumstances: Circumstances) -> None:
        self.measurements: list[Measurement] = []
        self._path = path
        self._circumstances = asdict(circumstances)

    def add(self, measurement: Measurement) -> None:
        """Keeps a measurement."""
        self.measurements.append(measurement)
        self.changed()

    def changed(self) -> None:
        """Writes the file anew, since a measurement that it holds is another."""
        if self._path is None:
            return
        rows = [self._circumstances | asdict(one) for one in self.measurements]
        write_json(self._path, rows)


def today() -> str:
    """The date, UTC."""
    return datetime.now(UTC).date().isoformat()
