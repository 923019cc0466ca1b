"""What is kept of a file and of a batch. Knows no folder, no database and no HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import Caller

INPUT_PURPOSE = "batch"
OUTPUT_PURPOSE = "batch_output"

VALIDATING = "validating"
IN_PROGRESS = "in_progress"
FINALIZING = "finalizing"
EXPIRING = "expiring"
CANCELLING = "cancelling"
COMPLETED = "completed"
FAILED = "failed"
EXPIRED = "expired"
CANCELLED = "cancelled"

UNFINISHED = (VALIDATING, IN_PROGRESS, FINALIZING, EXPIRING, CANCELLING)
"""States that a batch leaves by itself; the others are ends. Callers see `EXPIRING` as finalizing."""

ENDED = (COMPLETED, FAILED, EXPIRED, CANCELLED)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that callers can read.

    Attributes:
        id: `file-` and a ULID; also its name in the folder.
        owner: name of the caller whose it is.
        filename: what the caller calls it.
        purpose: `INPUT_PURPOSE` or `OUTPUT_PURPOSE`.
        size_bytes: its size.
        created_at: unix seconds.
        expires_at: unix seconds from which on it may be deleted.
    """

    id: str
    owner: str
    filename: str
    purpose: str
    size_bytes: int
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch has come. All of it is written at once, after the lines that it counts.

    Attributes:
        input_bytes: of the input file, up to the end of the last row that has its line.
        output_bytes: of the output file that count; what lies behind them is of a run cut short.
        error_bytes: the same of the error file.
        completed: rows that were answered 200.
        failed: the other rows that have their line.
    """

    input_bytes: int = 0
    output_bytes: int = 0
    error_bytes: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a batch failed: a line of its input that is no request. `line` counts from 1."""

    code: str
    message: str
    param: str | None
    line: int | None

    @classmethod
    def of(cls, refused: Refused, line: int | None) -> "Flaw":
        """A refusal as the flaw of a line."""
        return cls(refused.code, refused.message, refused.param, line)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch.

    Attributes:
        id: `batch_` and a ULID.
        caller: whoever made it; its rows run with their rights.
        endpoint: path of the route that every row asks.
        input_file_id: file of rows.
        output_file_id: file of answers; callers see it once the batch has ended.
        error_file_id: file of refused, failed and unanswered rows; the same.
        completion_window: in the caller's words, such as `24h`.
        metadata: of the caller.
        output_seconds: how long output and error file are kept.
        status: where it stands.
        times: unix seconds at which it came into each state.
        created_at: unix seconds.
        expires_at: unix seconds at which rows without an answer are given up.
        total: rows of the input; None before they were counted.
        progress: how far it has come.
        flaws: why it failed.
    """

    id: str
    caller: Caller
    endpoint: str
    input_file_id: str
    output_file_id: str
    error_file_id: str
    completion_window: str
    metadata: Mapping[str, str]
    output_seconds: int
    created_at: int
    expires_at: int
    status: str = VALIDATING
    times: Mapping[str, int] = field(default_factory=dict)
    total: int | None = None
    progress: Progress = Progress()
    flaws: tuple[Flaw, ...] = ()

    @property
    def unfinished(self) -> bool:
        """Whether it has not ended."""
        return self.status in UNFINISHED
