"""The NVIDIA card of this machine: its facts, or why there is none that the engine can use.

Asks torch, and so is imported where an engine is opened only. Decides nothing.
"""

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch

OLDEST: Final = (8, 0)
"""Oldest compute capability with a tile table."""

_FP8_FROM: Final = (8, 9)
_GIB: Final = 1 << 30
_DRIVER: Final = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class Card:
    """A card that the engine can use.

    Attributes:
        index: among those that the process sees.
        name: as the driver says it.
        capability: compute capability, major and minor.
        total_bytes, free_bytes: memory; the free one as it was when the card was looked at.
        processors: multiprocessors.
        driver: version of the driver, or `unknown`.
        has_fp8: whether the libraries at hand compute in fp8 on it.
    """

    index: int
    name: str
    capability: tuple[int, int]
    total_bytes: int
    free_bytes: int
    processors: int
    driver: str
    has_fp8: bool

    @property
    def device(self) -> torch.device:
        """What torch calls it."""
        return torch.device("cuda", self.index)

    def __str__(self) -> str:
        major, minor = self.capability
        return (
            f"{self.name}, compute capability {major}.{minor}, {self.processors} multiprocessors, "
            f"{self.free_bytes / _GIB:.1f} of {self.total_bytes / _GIB:.1f} GiB free, "
            f"driver {self.driver}"
        )


@dataclass(frozen=True, slots=True)
class NoCard:
    """Why no card can be used, and what helps; each a clause."""

    why: str
    remedy: str


def find_card() -> Card | NoCard:
    """The card that torch would use, or why it can use none."""
    if torch.version.cuda is None:
        return NoCard(
            f"torch {torch.__version__} is built without CUDA",
            "install torch's CUDA build",
        )
    with warnings.catch_warnings(record=True) as said:
        # torch explains here why it could not begin, for instance that a driver is too old.
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        return _no_device([str(one.message) for one in said])
    if find_spec("triton") is None:
        return NoCard("triton is not installed", "install triton (`pip install triton`)")
    try:
        return _checked(_facts(torch.cuda.current_device()))
    except RuntimeError as error:
        return NoCard(
            f"the card cannot be used ({_line(str(error))})",
            "look at `nvidia-smi` whether another process holds it, or it has failed",
        )


def _facts(index: int) -> Card:
    about = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    capability = (about.major, about.minor)
    return Card(
        index=index,
        name=about.name,
        capability=capability,
        total_bytes=total,
        free_bytes=free,
        processors=about.multi_processor_count,
        driver=_driver(),
        has_fp8=capability >= _FP8_FROM,
    )


def _checked(card: Card) -> Card | NoCard:
    if card.capability >= OLDEST:
        return card
    major, minor = card.capability
    return NoCard(
        f"{card.name} has compute capability {major}.{minor}, older than {OLDEST[0]}.{OLDEST[1]}",
        "take a card of the Ampere generation or newer",
    )


def _no_device(said: list[str]) -> NoCard:
    if said:
        return NoCard(f"CUDA does not start ({_line(said[0])})", "update the NVIDIA driver")
    if not _DRIVER.exists():
        return NoCard(
            "no NVIDIA driver is loaded", "install it (in a container: run it with --gpus)"
        )
    return NoCard(
        "the driver shows no card to this process",
        "see that `nvidia-smi` lists one and CUDA_VISIBLE_DEVICES does not hide it",
    )


def _driver() -> str:
    """Version of the loaded driver, from the line in which its module introduces itself."""
    try:
        words = _DRIVER.read_text().split("\n", 1)[0].split()
    except OSError:
        return "unknown"
    return next((word for word in words if word[0].isdigit() and "." in word), "unknown")


def _line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no reason given"
