import shutil
from pathlib import Path

import pytest

from spinf_serve.workbench import started
from spinf_serve.workbench.desk import open_desk


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory) -> Path:
    """A project with the example, made once; not to be changed."""
    return open_desk(tmp_path_factory.mktemp("example") / "project").folder


@pytest.fixture(autouse=True)
def _started_anew(monkeypatch):
    """How a test's pages were started holds for that test alone."""
    monkeypatch.setattr(started, "_started", started._started)


@pytest.fixture
def folder(example_folder, tmp_path) -> Path:
    """A copy of the example's project that a test may change."""
    return Path(shutil.copytree(example_folder, tmp_path / "project"))


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A page waits for another process as long as a busy machine takes, and is then whole."""
    monkeypatch.setattr("spinf_serve.workbench.parts.waiting.PATIENCE_SECONDS", 30.0)
    monkeypatch.setattr("spinf_serve.workbench.pages.try_result.INLINE_SECONDS", 30.0)
