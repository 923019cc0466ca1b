"""A model on a backend as passes that are started and finished, on the CPU and on a GPU."""

import time
import weakref
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from spinf_serve.engine.api import DeviceMemory, Engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.models.registry import build
from spinf_serve.engine.pipeline import OutOfDeviceMemory
from spinf_serve.engine.tree.packing import PackedPass, Reads, new_tree, next_pass
from spinf_serve.engine.tree.trie import build_trie
from spinf_serve.engine.work import Limits, Work
from tests.engine.test_api import SERVED, ask
from tests.support.tiny_models import TINY, random_checkpoint
from tests.support.toy_tokenizers import ByteTokenizer

GIB = 2**28  # of float32


def packed_of(*columns: int) -> PackedPass:
    """A pass of one token, of which some columns are wanted."""
    trie, empty = build_trie([(1,)]), np.zeros(0, np.int32)
    ids = np.array(columns, np.int32)
    reads = Reads(trie.end, np.array([0, len(ids)], np.int32), ids)
    packed = next_pass(deque([new_tree(1, empty, empty, trie, reads)]), 64)
    assert packed is not None
    return packed


class MadeUp:
    """A model whose log-probabilities are the wanted ids, negated.

    Attributes:
        gib: gibibytes that the next forward takes on top; taken once.
        faults: raised by the next forwards behind that, the last one first.
        held: a weak reference to what a forward took.
        cycles: how long a forward keeps a GPU busy.
    """

    def __init__(self, device: str) -> None:
        self.ops: Any = SimpleNamespace(device=torch.device(device), release=lambda key: None)
        self.gib = 0
        self.faults: list[Exception] = []
        self.held: weakref.ref[torch.Tensor] | None = None
        self.cycles = 0

    def layout(self, plan):
        time.sleep(0.02)
        columns = torch.from_numpy(plan.columns)
        if self.ops.device.type == "cuda":
            columns = columns.pin_memory().to(self.ops.device, non_blocking=True)
        return SimpleNamespace(columns=columns, column_start=None, top_reads=())

    def forward(self, layout):
        if self.ops.device.type == "cuda":
            torch.cuda._sleep(self.cycles)
        else:
            time.sleep(0.03)
        taken = torch.empty(self.gib * GIB + 1, device=self.ops.device)
        self.held, self.gib = weakref.ref(taken), 0
        if self.faults:
            raise self.faults.pop()
        return taken[:1]

    def read(self, hidden, column_start, columns):
        return -columns.float()


def forward_on(device: str) -> tuple[MadeUp, ModelForward]:
    model = MadeUp(device)
    return model, ModelForward(cast(Any, model), model.ops)


def test_on_the_cpu_a_pass_is_done_when_it_is_started():
    _, forward = forward_on("cpu")
    assert forward.ahead == 0
    first, second = (forward.start(packed_of(*ids)) for ids in ((3, 5), (7,)))
    assert forward.done(first)
    assert first.layout_seconds >= 0.02
    assert first.device_seconds >= 0.03
    assert forward.finish(first).logprobs.tolist() == [-3, -5]
    assert forward.finish(second).logprobs.tolist() == [-7]


def test_memory_that_is_not_there_is_told_and_what_was_taken_is_free():
    model, forward = forward_on("cpu")
    model.faults.append(torch.OutOfMemoryError("tried to allocate 2.00 GiB"))
    with pytest.raises(OutOfDeviceMemory, match=r"2\.00 GiB") as caught:
        forward.start(packed_of(3))
    assert model.held is not None
    assert model.held() is None
    assert caught.value.__context__ is None
    assert forward.finish(forward.start(packed_of(3))).logprobs.tolist() == [-3]


def test_another_fault_is_passed_on_as_it_is():
    model, forward = forward_on("cpu")
    model.faults.append(OSError("no device"))
    with pytest.raises(OSError, match="no device"):
        forward.start(packed_of(3))


@pytest.mark.gpu
def test_a_gpu_works_while_the_host_goes_on():
    model, forward = forward_on("cuda")
    forward.finish(forward.start(packed_of(1)))
    model.cycles = 200_000_000
    before = time.perf_counter()
    started = [forward.start(packed_of(*range(n + 1))) for n in range(3)]
    launched = time.perf_counter() - before
    assert not any(map(forward.done, started))
    found = [forward.finish(one) for one in started]
    waited = time.perf_counter() - before
    assert all(map(forward.done, started))
    assert [one.logprobs.tolist() for one in found] == [[-0.0], [-0.0, -1.0], [-0.0, -1.0, -2.0]]
    # A tenth of a second each at 2 GHz.
    assert launched < waited / 2
    assert waited >= sum(one.device_seconds for one in started) > 0.15


@pytest.mark.gpu
def test_results_stay_as_they_are_while_later_passes_run():
    _, forward = forward_on("cuda")
    found = [forward.finish(forward.start(packed_of(n, n + 1))) for n in range(20)]
    assert [one.logprobs.tolist() for one in found] == [[-n, -n - 1] for n in range(20)]


@pytest.mark.gpu
def test_a_pass_that_a_gpu_cannot_hold_leaves_room_for_the_next():
    model, forward = forward_on("cuda")
    before = torch.cuda.memory_reserved()
    model.gib = 4096
    with pytest.raises(OutOfDeviceMemory):
        forward.start(packed_of(3))
    assert torch.cuda.memory_reserved() <= before + 2**21
    model.gib = 0
    assert forward.finish(forward.start(packed_of(3))).logprobs.tolist() == [-3]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_an_engine_on_a_gpu_waits_for_no_pass_while_it_starts_one(monkeypatch):
    gpu = pytest.importorskip("spinf_serve.engine.kernels.gpu")
    ops_module = pytest.importorskip("spinf_serve.engine.kernels.ops")
    spec = TINY["gemma3"][0]
    device = torch.device("cuda")
    ops = gpu.GpuOps(torch.bfloat16, device, ops_module.WeightScheme())
    forward = ModelForward(build(spec, random_checkpoint(spec), ops), ops)
    works = [Work("word " * (30 + 40 * n), (ask("q", "\nx:", "\ny:"),)) for n in range(6)]

    def engine() -> Engine:
        return Engine(
            served=SERVED,
            tokenizer=ByteTokenizer(),
            forward=forward,
            fingerprint=cpu_fingerprint("0" * 64, "bfloat16", "test"),
            config=EngineConfig(token_budget=256),
            limits=Limits(),
            context_tokens=8192,
        )

    # Compiles the kernels, and makes the tables and pools, which may wait.
    warm = engine().run(works)
    launch = forward._launch

    def watched(packed):
        torch.cuda.set_sync_debug_mode("error")
        try:
            return launch(packed)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(forward, "_launch", watched)
    ahead = engine()
    assert list(map(answer_bits, ahead.run(works))) == list(map(answer_bits, warm))
    assert ahead.stats.passes > 6
    assert 0 < ahead.stats.device_seconds
    forward.ahead = 0
    assert list(map(answer_bits, engine().run(works))) == list(map(answer_bits, warm))


def test_the_memory_of_the_cpu_is_the_hosts_own():
    made_up = MadeUp("cpu")
    assert ModelForward(cast(Any, made_up), made_up.ops).memory() is None


def test_the_memory_of_a_card_is_told_in_four_figures(monkeypatch):
    made_up = MadeUp("cuda:0")
    asked = []

    def answer(figure):
        def asked_of(device):
            asked.append(device)
            return figure

        return asked_of

    monkeypatch.setattr(torch.cuda, "mem_get_info", answer((3, 7)))
    monkeypatch.setattr(torch.cuda, "memory_allocated", answer(1))
    monkeypatch.setattr(torch.cuda, "memory_reserved", answer(2))
    memory = ModelForward(cast(Any, made_up), made_up.ops).memory()
    assert memory == DeviceMemory(used=1, reserved=2, free=3, total=7)
    assert set(asked) == {made_up.ops.device}


@pytest.mark.gpu
def test_the_memory_of_a_card_grows_with_a_tensor():
    made_up = MadeUp("cuda:0")
    forward = ModelForward(cast(Any, made_up), made_up.ops)
    before = forward.memory()
    taken = torch.empty(2**20, device="cuda:0")
    after = forward.memory()
    assert before is not None and after is not None
    assert after.used - before.used == taken.nbytes
    assert after.used <= after.reserved < after.total
