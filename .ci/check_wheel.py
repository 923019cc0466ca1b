"""Checks a wheel in the clean environment it was installed in: base dependencies, nothing else.

Usage: check_wheel.py CHECKOUT. Exits 1 with a line for the first thing that is wrong.
"""

import importlib
import json
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

COMMAND = Path(sys.executable).with_name("spinf-serve")
FOLDERS = ("engine", "evals", "packs", "server", "workbench")


class Echo(BaseHTTPRequestHandler):
    """Answers every POST with the body it got."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: stderr is what is checked."""


def expect(holds: bool, fault: str) -> None:
    if not holds:
        sys.exit(f"error: the wheel: {fault}")


def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments], capture_output=True, text=True, check=False, input=stdin
    )


def holds_the_whole_tree(root: Path) -> None:
    (wheel,) = (root / "dist").glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.is_file() and path.suffix not in (".pyc", ".md"):
                name = f"spinf_serve/{path.relative_to(root)}"
                expect(name in inside, f"lacks {name}")
    expect("spinf_serve/py.typed" in inside, "lacks py.typed")
    top = {name.split("/")[0] for name in inside}
    expect(len(top) == 2, f"installs more than spinf_serve: {sorted(top)}")


def light_parts_import() -> None:
    for name in ("torch", "fastapi", "tokenizers"):
        expect(find_spec(name) is None, f"a base install brings {name}")
    import spinf_serve.packs

    folder = Path(spinf_serve.packs.__path__[0])
    names = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    expect("question" in names, "packs is empty")
    for name in [*(f"packs.{name}" for name in names), "server.config", "cli"]:
        importlib.import_module(f"spinf_serve.{name}")


def command_works() -> None:
    version = run("--version")
    expect(version.returncode == 0 and version.stdout.startswith("spinf-serve "), "--version fails")
    expect("serve" in run("--help").stdout, "--help fails")
    served = run("serve")
    one_line = served.stderr.startswith("error: ") and served.stderr.count("\n") == 1
    expect(served.returncode == 2 and one_line, f"serve without extras says {served.stderr!r}")
    server = HTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked = json.dumps({"messages": [], "scoring": {}})
    url = f"http://127.0.0.1:{server.server_port}"
    scored = run("score", "-", "--server", url, stdin=asked)
    server.shutdown()
    expect(scored.returncode == 0, f"score --server says {scored.stderr!r}")
    expect(json.loads(scored.stdout) == json.loads(asked), "score --server changes the answer")


def packs_work(root: Path) -> None:
    listed = run("packs", "list", "--json")
    expect(listed.returncode == 0, f"packs list says {listed.stderr!r}")
    names = {folder.name for folder in (root / "packs" / "spinf").glob("*/") if folder.is_dir()}
    ids = {pack["id"] for pack in json.loads(listed.stdout)["packs"]}
    expect(ids == {f"spinf/{name}" for name in names}, f"serves the packs {sorted(ids)}")
    valid = run("packs", "validate", str(root / "packs" / "spinf"))
    expect(valid.returncode == 0, f"packs validate says {valid.stdout!r} {valid.stderr!r}")
    without = run("packs", "lint", "spinf/reviews", "--content", "Good.")
    one_line = without.stderr.startswith("error: ") and without.stderr.count("\n") == 1
    expect(without.returncode == 2 and one_line, f"packs lint without torch: {without.stderr!r}")


if __name__ == "__main__":
    holds_the_whole_tree(Path(sys.argv[1]))
    light_parts_import()
    command_works()
    packs_work(Path(sys.argv[1]))
    print("the wheel is whole, and works with its base dependencies alone")
