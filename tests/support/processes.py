"""Programs in processes of their own, for tests of signals, streams and exit codes."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


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


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """The next line of its log with these words in it."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"{words!r} was not said")
