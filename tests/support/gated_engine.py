"""A real engine on a made-up model whose passes begin when they are told to."""

import threading
from dataclasses import replace

from spinf_serve.engine.api import Engine
from tests.engine.test_api import engine_of, fake


class Gated:
    """The engine, and how far it is.

    Attributes:
        engine: it scores, fills slots and writes.
        may_begin: gives as many passes leave to begin as it is released by.
        begun: passes that asked for leave.
    """

    def __init__(self) -> None:
        self.engine = engine_of(token_budget=64)
        capabilities = ("score", "extract", "generate")
        self.engine.served = replace(self.engine.served, capabilities=capabilities)
        self.may_begin = threading.Semaphore(0)
        self.begun = 0
        start = fake(self.engine).start

        def gated(packed):
            self.begun += 1
            assert self.may_begin.acquire(timeout=20)
            return start(packed)

        fake(self.engine).start = gated  # type: ignore[method-assign]

    def open(self) -> Engine:
        """The engine, as a server opens it."""
        return self.engine
