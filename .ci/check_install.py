"""Checks a server that deploy/install.sh installed: it starts, lives, answers, and ends when told.

    python .ci/check_install.py FOLDER

FOLDER is the environment that the script made, with the embedded model in it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 120
_OPENER = build_opener(ProxyHandler({}))


def main(folder: Path) -> None:
    """Runs the checks. Raises what the first one that fails raises."""
    port = _free_port()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SPINF_PORT": str(port)}
    command = [str(folder / "bin" / "spinf-serve"), "serve", "embedded", "--device", "cpu"]
    # From another folder, so that the checkout itself cannot be what is found.
    server = subprocess.Popen(command, cwd="/", env=environment)
    try:
        _wait(f"http://127.0.0.1:{port}/readyz", server)
        subprocess.run(
            [str(folder / "bin" / "python"), str(ROOT / "deploy" / "healthcheck.py")],
            env=environment,
            cwd="/",
            check=True,
        )
        _ask(f"http://127.0.0.1:{port}/v1/score")
        server.send_signal(signal.SIGTERM)
        assert server.wait(_SECONDS) == 0, server.returncode
    finally:
        server.kill()
        server.wait()
    print("the installed server works")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            with _OPENER.open(url, timeout=5):
                return
        except URLError:
            assert time.monotonic() < deadline, f"{url} did not answer 200 in {_SECONDS} seconds"
            time.sleep(0.2)


def _ask(url: str) -> None:
    body = {
        "messages": [{"role": "user", "content": "The kettle arrived broken."}],
        "scoring": {
            "packs": [{"id": "spinf/reviews"}],
            "queries": [
                {"id": "q", "template": "\nIt arrived{?}", "options": [" broken", " early"]}
            ],
        },
    }
    headers = {"Content-Type": "application/json"}
    with _OPENER.open(Request(url, json.dumps(body).encode(), headers), timeout=60) as answer:
        result = json.load(answer)["results"][0]
    ps = [option["p"] for option in result["queries"][0]["combinations"][0]["options"]]
    assert abs(sum(ps) - 1) < 1e-5, ps
    assert result["packs"][0]["decision"], result


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
