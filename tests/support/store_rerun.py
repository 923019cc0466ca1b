"""What a run with nothing to ask takes: `python -m tests.support.store_rerun FILE` writes figures.

A stub answers, so that only the store's own time is measured: 10,000 rows and 106 questions, asked
once, again with nothing changed, and again with one question edited.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.evals.runner import RunReport, run
from spinf_serve.evals.store import matrix, recording
from tests.support.kept_scores import Counting, pack_with, project_with

T = TypeVar("T")

ROWS = 10_000
QUESTIONS = 106
RERUNS = 5
TEXT = "A parcel was sent and came late, and the writer asks what happens next. " * 8


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds that an action takes, and what it gives."""
    start = time.perf_counter()
    found = action()
    return time.perf_counter() - start, found


def measured(rows: int = ROWS, questions: int = QUESTIONS) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        project = project_with(Path(folder), [f"{number}: {TEXT}" for number in range(rows)])
        pack, edited = pack_with(questions), pack_with(questions, edited=questions // 2)
        bits = Counting().identity.bits

        def ask(pack: Any) -> tuple[RunReport, int]:
            scorer = Counting()
            return run(project, "d", pack, scorer, print), scorer.asked

        first_seconds, (first, _) = timed(lambda: ask(pack))
        again = [timed(lambda: ask(pack)) for _ in range(RERUNS)]
        edit_seconds, (edit, edit_asked) = timed(lambda: ask(edited))
        matrix_seconds, _ = timed(lambda: matrix(project, "d", pack, bits))
        size = project.path.stat().st_size
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        recording_seconds, _ = timed(lambda: recording(project, "d", pack, bits))
    return {
        "command": f"python -m tests.support.store_rerun {' '.join(sys.argv[1:])}".strip(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor_name(),
        "rows": rows,
        "questions": questions,
        "text_chars": len(TEXT),
        "first": {"asked": first.asked, "seconds": first_seconds},
        "rerun": {
            "asked": sum(asked for _, (_, asked) in again),
            "reused": again[0][1][0].reused,
            "seconds": [seconds for seconds, _ in again],
        },
        "one_question_edited": {
            "asked": edit.asked,
            "with_floor": edit_asked,
            "seconds": edit_seconds,
        },
        "matrix_seconds": matrix_seconds,
        "recording_seconds": recording_seconds,
        "file_mib": size / 2**20,
        "peak_mib_before_recording": peak,
    }


if __name__ == "__main__":
    text = json.dumps(measured(), indent=2) + "\n"
    print(text, end="")
    for name in sys.argv[1:]:
        Path(name).write_text(text)
