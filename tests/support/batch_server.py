"""A server with batch files on the stub engine, in a process that a test may end suddenly.

`python -m tests.support.batch_server FOLDER SECONDS [ROWS]`: the folder of batches, how long a pass
takes, and how many rows may be in work. Writes its address as the only line of stdout.
"""

import sys

import uvicorn

from spinf_serve.server.app import bind, create_app, http_config
from spinf_serve.server.config import ServerConfig
from tests.support.servers import no_packs
from tests.support.stub_engine import StubEngine


def main(folder: str, step_seconds: str, rows: str = "4") -> None:
    """Serves until the process is ended."""
    stub = StubEngine()
    stub.step_seconds = float(step_seconds)
    config = ServerConfig(batch_dir=folder, batch_rows=int(rows))
    app = create_app(stub.as_engine, config, no_packs())
    listening = bind("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(http_config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
