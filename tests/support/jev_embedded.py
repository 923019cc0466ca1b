"""The published suite of the System One format against the server on the embedded model.

`python -m tests.support.jev_embedded FILE` runs it on a server that is open and on one with a key, and
writes what it found as JSON: requirements by level, and the time it took.
"""

import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.engine.config import EngineConfig
from spinf_serve.server.config import ServerConfig
from tests.support.servers import running

_KEY = "a-key-for-the-suite-of-16"
_CALL_SECONDS = 300


def summary(token: str | None) -> dict[str, Any]:
    """What the suite says of a server with this token; its lines go to stdout."""
    model = EngineConfig(model="embedded", device="cpu")
    engine = open_engine(model, ServerConfig().limits)
    config = ServerConfig(engine=model, token=token)
    with running(lambda: engine, config) as server, tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [str(Path(sys.executable).with_name("jevcompat")), "test", server.url]
        key = [] if token is None else ["--key", token]
        begun = time.monotonic()
        done = subprocess.run(
            [*command, *key, "--timeout", str(_CALL_SECONDS), "--json", str(report)], check=False
        )
        found: dict[str, Any] = json.loads(report.read_text("utf-8"))["summary"]
    return {"exit": done.returncode, "seconds": round(time.monotonic() - begun, 1), **found}


def main(out: str) -> None:
    """Runs it, and writes the file."""
    facts = {
        "command": f"python -m tests.support.jev_embedded {out}",
        "commit": commit(),
        "processor": processor_name(),
        "jevcompat": version("jevcompat"),
        "open": summary(None),
        "with a key": summary(_KEY),
    }
    Path(out).write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
