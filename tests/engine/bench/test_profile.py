"""Kernels by class, gaps between them, and operations by class where there are no records."""

import ast
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import spinf_serve.engine.kernels
from spinf_serve.engine.bench.profile import (
    OTHER,
    Kernel,
    class_of,
    kernels_of,
    of_kernels,
    profiled,
    table,
)
from spinf_serve.engine.bench.synthetic import SyntheticCheckpoint
from spinf_serve.engine.bench.synthetic_models import SYNTHETIC_MODELS
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models.registry import build
from tests.engine.test_api import engine_of


class Place(Enum):
    CPU = 0
    CUDA = 1


def launched_kernels() -> set[str]:
    """Names of our functions that end in `_kernel` and are compiled for a card."""
    root = Path(spinf_serve.engine.kernels.__file__).parent
    return {
        node.name
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.name.endswith("_kernel")
        and any("jit" in ast.unparse(one) for one in node.decorator_list)
    }


def test_every_kernel_of_ours_has_a_class():
    found = {name: class_of(name) for name in launched_kernels()}
    assert OTHER not in found.values()
    assert {"linears", "attention", "head", "element-wise"} <= set(found.values())


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("product_kernel", "linears"),
        ("nvjet_qqtst_128x256_128x4_2x1_v_bz_coopA_TNT", "linears"),
        ("void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel<...>>", "linears"),
        ("tree_kernel", "attention"),
        ("add_norm_kernel", "element-wise"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor>",
            "element-wise",
        ),
        ("tile_kernel", "head"),
        ("Memcpy DtoH (Device -> Pinned)", "copies"),
        ("something new", OTHER),
    ],
)
def test_classes_by_name(name: str, title: str):
    assert class_of(name) == title


def test_time_by_class_and_gaps():
    # Two overlap from 2,000 to 3,000; there is none from 4,000 to 5,000.
    profile = of_kernels(
        [
            Kernel("tree_kernel", 2000.0, 4000.0),
            Kernel("product_kernel", 0.0, 3000.0),
            Kernel("product_kernel", 5000.0, 10_000.0),
            Kernel("norm_kernel", 6000.0, 7000.0),
        ]
    )
    assert profile.device_ms == {"linears": 8.0, "attention": 2.0, "element-wise": 1.0}
    assert profile.shares["linears"] == pytest.approx(8 / 11)
    assert profile.kernels["product_kernel"] == (2, 8.0)
    assert list(profile.kernels) == ["product_kernel", "tree_kernel", "norm_kernel"]
    assert profile.busy_seconds == pytest.approx(0.009)
    assert profile.idle_share == pytest.approx(0.1)
    lines = table(profile)
    assert lines[0].split() == ["linears", "8.0", "ms", "72.7", "%"]
    assert lines[-1].strip() == "idle between kernels 10.0 %"


def test_events_of_the_host_are_no_kernels():
    def event(name: str, place: Place, note: bool = False) -> SimpleNamespace:
        span = SimpleNamespace(start=1.0, end=3.0)
        return SimpleNamespace(
            name=name, device_type=place, time_range=span, is_user_annotation=note
        )

    events = [
        event("cudaLaunchKernel", Place.CPU),
        event("product_kernel", Place.CUDA),
        event("a step", Place.CUDA, note=True),
    ]
    assert kernels_of(events) == [Kernel("product_kernel", 1.0, 3.0)]


def test_the_profiler_s_events_have_what_is_read_of_them():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as records:
        torch.ones(3).add_(1)
    events = records.events()
    assert events
    assert all(one.device_type.name == "CPU" for one in events)
    assert all(one.time_range.end >= one.time_range.start for one in events)
    assert not kernels_of(events)


def test_without_records_operations_are_timed_and_the_model_is_left_as_it_was():
    spec = SYNTHETIC_MODELS["gemma-4-tiny"]
    cpu = torch.device("cpu")
    ops = CpuOps(torch.float32)
    model = build(spec, SyntheticCheckpoint(spec, "bf16", cpu), ops)
    engine = engine_of(token_budget=512)
    engine = type(engine)(
        served=engine.served,
        tokenizer=engine.tokenizer,
        forward=ModelForward(model, ops),
        fingerprint=engine.fingerprint,
        config=engine.config,
        limits=engine.limits,
        context_tokens=1000,
    )
    from spinf_serve.engine.bench.workload import closed_questions

    works = closed_questions(engine.tokenizer, 1, 2, 20.0, 4.0)
    profile = profiled(lambda: engine.run(works), cpu, model)
    assert set(profile.device_ms) == {"linears", "attention", "element-wise", "head"}
    assert all(ms > 0 for ms in profile.device_ms.values())
    assert sum(profile.shares.values()) == pytest.approx(1)
    assert profile.idle_share is None
    assert model.ops is ops
    assert profiled(lambda: engine.run(works), cpu, None).device_ms == {}
