"""Compiled code is launched again only for what it was compiled for, with arguments in their order."""

from typing import Any

import torch

from spinf_serve.engine.kernels.launch import Launcher


class FakeKernel:
    """As a function under `triton.jit`: remembers what was compiled and what was launched."""

    arg_names = ("x", "y", "count", "SIZE", "FLAG")

    def __init__(self, interprets: bool = False) -> None:
        self.interprets = interprets
        self.compiled: list[tuple[Any, ...]] = []
        self.launched: list[tuple[Any, ...]] = []

    def __getitem__(self, grid):
        def launch(*arguments, **constants):
            self.compiled.append((grid, arguments, constants))
            return None if self.interprets else FakeCompiled(self)

        return launch


class FakeCompiled:
    def __init__(self, kernel: FakeKernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *arguments: self.kernel.launched.append((grid, arguments))


X = torch.zeros(64)
CONSTANTS = {"FLAG": True, "SIZE": 4, "num_warps": 8}


def test_code_is_launched_again_with_constants_in_the_kernels_order():
    kernel = FakeKernel()
    launch = Launcher(kernel)
    launch("code", 3, (X, None, 7), CONSTANTS)
    assert kernel.compiled == [((3,), (X, None, 7), CONSTANTS)] and not kernel.launched
    other = torch.ones(32)
    launch("code", 5, (other, None, 8), CONSTANTS)
    assert len(kernel.compiled) == 1
    [(grid, arguments)] = kernel.launched
    assert grid == (5, 1, 1)
    assert arguments[0] is other and arguments[1:] == (None, 8, 4, True)


def test_another_code_dtype_alignment_or_missing_tensor_compiles_anew():
    kernel = FakeKernel()
    launch = Launcher(kernel)
    launches = (
        ("code", (X, X, 7)),
        ("other code", (X, X, 7)),
        ("code", (X.double(), X, 7)),
        ("code", (X[1:], X, 7)),
        ("code", (X, None, 7)),
    )
    for count, (code, arguments) in enumerate(launches, start=1):
        launch(code, 1, arguments, CONSTANTS)
        assert len(kernel.compiled) == count
    for code, arguments in launches:
        launch(code, 1, arguments, CONSTANTS)
    assert len(kernel.compiled) == len(launches) == len(kernel.launched)


def test_the_interpreter_is_called_each_time():
    kernel = FakeKernel(interprets=True)
    launch = Launcher(kernel)
    for _ in range(3):
        launch("code", 1, (X, None, 7), CONSTANTS)
    assert len(kernel.compiled) == 3 and not kernel.launched
