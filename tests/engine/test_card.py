"""What is said of a card, and of every reason why there is none, with torch's answers made up."""

import warnings
from types import SimpleNamespace

import pytest
import torch

from spinf_serve.engine import card as card_module
from spinf_serve.engine.card import Card, NoCard, find_card

GIB = 1 << 30
H200 = {"name": "NVIDIA H200", "major": 9, "minor": 0, "multi_processor_count": 132}


@pytest.fixture
def a_card(monkeypatch, tmp_path):
    """A machine with one card, as torch would tell of it."""
    driver = tmp_path / "version"
    driver.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC 12.3\n"
    )
    monkeypatch.setattr(card_module, "_DRIVER", driver)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (100 * GIB, 139 * GIB))

    def properties(**changes):
        about = SimpleNamespace(**{**H200, **changes})
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: about)

    properties()
    return properties


def test_a_usable_card_is_told_with_its_facts(a_card):
    found = find_card()
    assert found == Card(1, "NVIDIA H200", (9, 0), 139 * GIB, 100 * GIB, 132, "580.65.06", True)
    assert found.device == torch.device("cuda", 1)
    assert str(found) == (
        "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 100.0 of 139.0 GiB free, "
        "driver 580.65.06"
    )


@pytest.mark.parametrize(
    ("major", "minor", "has_fp8"), [(8, 0, False), (8, 9, True), (12, 0, True)]
)
def test_which_cards_compute_in_fp8(a_card, major, minor, has_fp8):
    a_card(major=major, minor=minor)
    found = find_card()
    assert isinstance(found, Card) and found.has_fp8 is has_fp8


def test_a_driver_that_says_nothing_is_unknown(a_card, monkeypatch, tmp_path):
    monkeypatch.setattr(card_module, "_DRIVER", tmp_path / "absent")
    found = find_card()
    assert isinstance(found, Card) and found.driver == "unknown"


def test_a_torch_without_cuda_is_named(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    found = find_card()
    assert isinstance(found, NoCard)
    assert found.why == f"torch {torch.__version__} is built without CUDA"
    assert "CUDA build" in found.remedy


def test_no_driver_no_card_and_an_old_driver_are_told_apart(a_card, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    hidden = find_card()
    monkeypatch.setattr(card_module, "_DRIVER", tmp_path / "absent")
    absent = find_card()

    def too_old():
        warnings.warn("CUDA initialization: the driver is too old (12010).\nUpdate.", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", too_old)
    old = find_card()
    assert isinstance(hidden, NoCard) and "shows no card" in hidden.why
    assert "CUDA_VISIBLE_DEVICES" in hidden.remedy
    assert isinstance(absent, NoCard) and absent.why == "no NVIDIA driver is loaded"
    assert isinstance(old, NoCard)
    assert old.why.endswith("(CUDA initialization: the driver is too old (12010).)")


def test_without_triton_there_is_no_card(a_card, monkeypatch):
    monkeypatch.setattr(card_module, "find_spec", lambda name: None)
    found = find_card()
    assert found == NoCard("triton is not installed", "install triton (`pip install triton`)")


def test_a_card_of_an_old_generation_is_refused_by_name(a_card):
    a_card(name="Tesla T4", major=7, minor=5)
    found = find_card()
    assert isinstance(found, NoCard)
    assert found.why == "Tesla T4 has compute capability 7.5, older than 8.0"


def test_a_card_that_fails_is_no_card(a_card, monkeypatch):
    def busy(index):
        raise RuntimeError("CUDA error: device is busy or unavailable\nCompile with …")

    monkeypatch.setattr(torch.cuda, "mem_get_info", busy)
    found = find_card()
    assert isinstance(found, NoCard)
    assert found.why == "the card cannot be used (CUDA error: device is busy or unavailable)"
