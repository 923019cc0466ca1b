"""A job's process with kinds of its own, for tests: it counts, and can be told to go wrong."""

import sys
import time
from pathlib import Path
from typing import Any

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import job
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job_kinds import KINDS, Report

COMMAND = [sys.executable, "-m", "tests.support.job_process"]


def count(desk: Desk, arguments: dict[str, Any], report: Report) -> dict[str, Any]:
    """Counts up to `of`, a step every `seconds`; goes on where the file `count` says it was."""
    kept = report.folder / "count"
    at = int(kept.read_text()) if kept.exists() else 0
    first = at
    while at < arguments["of"]:
        report.check()
        report.progress(at, arguments["of"], "counting", refused=at // 2)
        time.sleep(arguments.get("seconds", 0.01))
        at += 1
        part = Path(f"{kept}.part")
        part.write_text(str(at))
        part.replace(kept)
        if at == arguments.get("wrong_at") and not first:
            raise Unusable("the count went wrong")
        if at == arguments.get("fault_at") and not first:
            raise ZeroDivisionError("by mistake")
    report.say("counted")
    return {"from": first, "to": at}


def deaf(desk: Desk, arguments: dict[str, Any], report: Report) -> dict[str, Any]:
    """A step that hears nothing of a stop."""
    report.progress(0, 0, "deep in thought")
    time.sleep(60)
    return {}


KINDS.update(
    {
        "count": "tests.support.job_process:count",
        "deaf": "tests.support.job_process:deaf",
    }
)

if __name__ == "__main__":
    job.INTERRUPT_SECONDS = 0.5  # type: ignore[misc]
    sys.exit(job.main(*sys.argv[1:]))
