"""Imports many rows: `python -m tests.support.import_load FILE [ROWS]` writes time and memory as JSON.

A CSV file of random words is made, about 200 characters a row with ids, a label, a slice and one
near-duplicate in a hundred, and imported in a process of its own, whose peak memory is told. CPU
seconds are told beside the time, which other work on the machine only adds to.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.project import create

WORDS, NEAR_EVERY = 35, 100


def write_rows(path: Path, rows: int) -> None:
    """A CSV file, the same for the same number."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, length)) for length in random.integers(2, 9, 5000)]
    text = ""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "spam", "language"])
        for number in range(rows):
            chosen = random.integers(0, len(words), WORDS)
            # The row before with one word more is near to it.
            text = (
                f"{text} {words[chosen[0]]}"
                if number % NEAR_EVERY == 1
                else " ".join(words[n] for n in chosen)
            )
            said = "yes" if chosen[0] < 500 else "no"
            table.writerow([number, text, said, "en" if chosen[1] < 2500 else "de"])


def measure(path: Path) -> dict[str, float | int]:
    """Import a file here; seconds, CPU seconds, and peak bytes of this process."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        project = create(Path(folder) / "project.duckdb")
        columns = Columns(text="text", id="id", labels={"spam": "spam"}, slices=("language",))
        wall, processor = time.perf_counter(), time.process_time()
        report = import_rows(project, "rows", Source(path), columns, Origin())
        return {
            "rows": report.rows_taken,
            "near_duplicates": report.doubles.near,
            "wall_seconds": round(time.perf_counter() - wall, 1),
            "cpu_seconds": round(time.process_time() - processor, 1),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "project_bytes": project.path.stat().st_size,
        }


def main(out: Path, rows: int) -> None:
    """Write the figures of an import in another process."""
    # With torch, which the process that is measured does without.
    from spinf_serve.engine.bench.machine import commit, processor_name

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(path, rows)
        before = os.getloadavg()[0]
        code = "import sys, json; from tests.support.import_load import measure, Path"
        ran = subprocess.run(
            [sys.executable, "-c", f"{code}; print(json.dumps(measure(Path(sys.argv[1]))))", path],
            stdout=subprocess.PIPE,
            check=True,
        )
        told = {
            "command": f"python -m tests.support.import_load {out} {rows}",
            "commit": commit(),
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "load_before": round(before, 2),
            "csv_bytes": path.stat().st_size,
            **json.loads(ran.stdout),
        }
    out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
