"""What a measurement is made with: commit, processor, card, versions. Everything here may be absent."""

import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

_LIBRARIES = ("torch", "triton", "numpy", "tokenizers", "fastapi", "uvicorn")


@dataclass(frozen=True, slots=True)
class Card:
    """The device of a measurement.

    Attributes:
        name: of the GPU, or of the processor for the CPU backend.
        line: what the driver's tool says of it: name, driver, power limit, clocks, memory; empty
            without one.
    """

    name: str
    line: str


def card_of(device: torch.device) -> Card:
    """The card behind a device."""
    if device.type == "cpu":
        return Card(processor_name(), "")
    fields = "name,driver_version,power.limit,clocks.max.sm,memory.total"
    command = ("nvidia-smi", f"--id={device.index or 0}", f"--query-gpu={fields}")
    line = _said(*command, "--format=csv,noheader").strip()
    return Card(torch.cuda.get_device_name(device), line)


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if torch.version.cuda is not None:
        found["cuda"] = torch.version.cuda
    return found


def commit() -> str:
    """The commit of the checkout one stands in, marked when files other than results differ."""
    name = _said("git", "rev-parse", "--short", "HEAD").strip() or "unknown"
    # A second figure is measured beside the file of the first.
    changed = _said("git", "status", "--porcelain", "-uno", ":!*/results/*").strip()
    return f"{name}-dirty" if changed else name


def processor_name() -> str:
    """What the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _said(*command: str) -> str:
    """What a program prints; nothing when it is not installed or fails."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
