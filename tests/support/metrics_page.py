"""docs/metrics.md: every metric of /metrics, from the code that makes them."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from spinf_serve.engine.api import DeviceMemory
from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.connection import Connections, Patience
from spinf_serve.server.decision_log.log import DecisionLog, LogCounts
from spinf_serve.server.gauges import Gauges, Watched
from spinf_serve.server.keys import KeyRing
from spinf_serve.server.metrics import Described, Metrics
from spinf_serve.server.service import Service
from spinf_serve.server.traffic import Traffic
from spinf_serve.server.worker import Worker
from tests.support.servers import no_packs
from tests.support.stub_engine import StubEngine

_INTRODUCTION = """# Metrics

`GET /metrics` gives these in Prometheus' text format, beside the `process_…` figures of its client.
Histograms have `_bucket`, `_sum` and `_count`. Labels never hold ids, addresses or texts of callers:
`key` is the name of a [key](operations.md#keys), `token` or `trusted_token` for those of the settings,
`anonymous` without one. Those of the engine are there once the model is loaded, those of the card on a
card, those of the decision log and of batches where these are kept.

| Metric | Kind | Labels | What it is |
|---|---|---|---|
"""


def described() -> list[Described]:
    """Every metric, those of requests first."""
    return [*Metrics().described, *_of_gauges()]


def page(note: str) -> str:
    """The document."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{name}`' for name in one.labels)} "
        f"| {one.meaning} |\n"
        for one in described()
    ]
    return note + _INTRODUCTION + "".join(rows)


def _of_gauges() -> Iterator[Described]:
    stub = StubEngine()
    stub.memory = DeviceMemory(0, 0, 0, 0)
    opened = threading.Event()
    worker = Worker(stub.as_engine, opened.set)
    worker.start()
    assert opened.wait(30)
    service = Service(ServerConfig(), worker, no_packs())
    log: Any = SimpleNamespace(counts=lambda: LogCounts(0, 0, 0, False))
    try:
        watched = Watched(
            service,
            Traffic(),
            Connections(Patience(1, 1, 1, 1)),
            KeyRing((), None),
            cast(DecisionLog, log),
            cast(Ledger, SimpleNamespace(states=lambda: {"completed": 0})),
        )
        for family in Gauges(watched).collect():
            end = {"counter": "_total", "info": "_info"}.get(family.type, "")
            labels = tuple(family.samples[0].labels)
            kind = "gauge" if family.type == "info" else family.type
            yield Described(family.name + end, kind, labels, family.documentation)
    finally:
        service.stop()
