"""A server on recorded answers, which serves the packs of a folder, in a process of its own.

`python -m tests.support.recorded_server FOLDER TOKEN [STEP_SECONDS]`: the folder of the packs, which it
watches, a trusted token, and how long a pass takes. Writes its address as the only line of stdout.
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

import uvicorn

from spinf_serve.packs.catalogue import load_catalogue
from spinf_serve.packs.sources import Access
from spinf_serve.server.app import bind, create_app, http_config
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import ServedPacks
from tests.support.recorded_engine import RecordedEngine


def main(folder: str, token: str, step_seconds: str = "0") -> None:
    """Serves until the process is ended."""
    engine = RecordedEngine()
    engine.step_seconds = float(step_seconds)
    access = Access(cache=Path(mkdtemp(prefix="packs-")))
    packs = ServedPacks(
        load_catalogue((folder,), official=None, access=access, say=print, strict=False)
    )
    app = create_app(engine.as_engine, ServerConfig(trusted_token=token), packs)
    listening = bind("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(http_config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
