"""Programs in processes of their own, for tests of signals, streams and exit codes."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Timer


def start_process(root: Path, command: Sequence[str]) -> subprocess.Popen[str]:
    """A command that finds this checkout, on one thread, its output and log held for the test."""
    return subprocess.Popen(
        command,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


_SILENCE_SECONDS = 120.0


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """The next line of its log with these words in it; the process is killed if it never says them."""
    assert process.stderr is not None
    watch = Timer(_SILENCE_SECONDS, process.kill)
    watch.start()
    try:
        for line in process.stderr:
            if words in line:
                return line
    finally:
        watch.cancel()
    raise AssertionError(f"{words!r} was not said")
