"""How long the official packs take to load: `python -m tests.support.pack_load FILE` writes figures.

Every run is a fresh process, timed from before its start to its end. `cold` has an empty cache of
parsed packs, `warm` finds them there, as every start after the first one does.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spinf_serve.engine.bench.machine import commit, processor_name

RUNS = 7
LOAD = """
import pathlib, sys
from spinf_serve.packs.catalogue import load_catalogue, official_folder
from spinf_serve.packs.sources import Access
access = Access(pathlib.Path(sys.argv[1]))
found = load_catalogue([], official=str(official_folder()), access=access, say=print)
assert not found.faults
heavy = {"torch", "pydantic", "ruamel", "numpy"} & set(sys.modules)
print(len(found.entries), sum(len(found.get(e.id).questions) for e in found.entries), *sorted(heavy))
"""


def run(cache: Path) -> tuple[float, list[str]]:
    """Seconds of one process, and what it says."""
    start = time.perf_counter()
    command = [sys.executable, "-c", LOAD, str(cache)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return time.perf_counter() - start, said


def measured() -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        cold = [run(Path(folder) / str(number))[0] for number in range(3)]
        runs = [run(Path(folder) / "0") for _ in range(RUNS)]
    empty = [sys.executable, "-c", ""]
    start = time.perf_counter()
    subprocess.run(empty, check=True)
    return {
        "command": f"python -m tests.support.pack_load {' '.join(sys.argv[1:])}".strip(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor_name(),
        "packs": int(runs[0][1][0]),
        "questions": int(runs[0][1][1]),
        "heavy_modules": runs[0][1][2:],
        "cold_seconds": cold,
        "warm_seconds": [seconds for seconds, _ in runs],
        "empty_python_seconds": time.perf_counter() - start,
    }


if __name__ == "__main__":
    text = json.dumps(measured(), indent=2) + "\n"
    print(text, end="")
    for name in sys.argv[1:]:
        Path(name).write_text(text)
