"""What Prometheus reads of a server as it is now, and the counters that the engine keeps itself.

Looked up at every scrape, on a thread that owns none of it: single numbers, read as they are.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from spinf_serve import __version__
from spinf_serve.engine.api import Engine, Priority, Stats
from spinf_serve.packs.errors import Busy
from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.connection import Connections
from spinf_serve.server.decision_log.log import DecisionLog, LogCounts
from spinf_serve.server.keys import KeyRing
from spinf_serve.server.service import Service
from spinf_serve.server.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Watched:
    """What there is to look at in a server.

    Attributes:
        log: the decision log, if one is kept.
        ledger: of its batches, if it keeps any.
    """

    service: Service
    traffic: Traffic
    connections: Connections
    keys: KeyRing
    log: DecisionLog | None = None
    ledger: Ledger | None = None


class Gauges:
    """A collector of Prometheus' client."""

    def __init__(self, watched: "Watched") -> None:
        self._watched = watched
        self._service = watched.service

    def describe(self) -> Iterator[Metric]:
        """The families as they are without an engine; the registry checks their names."""
        yield from self._of_server()

    def collect(self) -> Iterator[Metric]:
        """The families with their values of now; those of the engine once there is one."""
        yield from self._of_server()
        try:
            engine = self._service.worker.engine
        except Busy:
            return
        yield from _of_engine(engine)

    def _of_server(self) -> Iterator[Metric]:
        service, worker = self._service, self._service.worker
        stuck = worker.step_seconds > service.config.stuck_seconds
        ready = worker.ready and not service.draining and not stuck
        yield _gauge("ready", "1 when requests are answered, as /readyz says", ready)
        yield _gauge("draining", "1 when new requests are turned away", service.draining)
        yield _gauge(
            "http_requests_running", "HTTP requests in work", self._watched.traffic.running
        )
        held = service.admission.held
        yield _by_priority(
            "requests_in_flight",
            "Scoring requests in work, those that wait included",
            {priority: held[priority].requests for priority in Priority},
        )
        yield _by_priority(
            "tokens_in_flight",
            "Tokens read for the requests in work",
            {priority: held[priority].tokens for priority in Priority},
        )
        yield _by_priority(
            "body_bytes_in_flight",
            "Bytes of the bodies of requests in work",
            {priority: held[priority].size_bytes for priority in Priority},
        )
        yield _gauge("queue_limit", "Requests that may wait", service.config.queue)
        yield _gauge("queue_tokens_limit", "Tokens that may wait", service.config.queue_tokens)
        yield _gauge(
            "step_running_seconds", "How long the pass that runs has taken", worker.step_seconds
        )
        yield _gauge(
            "stuck_limit_seconds",
            "How long a pass may take before the engine counts as stuck",
            service.config.stuck_seconds,
        )
        yield _gauge(
            "read_tokens_per_second",
            "How fast the latest passes were; 0 before the first",
            worker.pace.tokens_per_second or 0.0,
        )
        yield _gauge("load_seconds", "How long the model took to load", worker.load_seconds)
        yield _gauge(
            "keys_file_fault",
            "1 when the file of keys as it is now is not in effect",
            self._watched.keys.fault is not None,
        )
        yield _gauge(
            "packs_faults", "Packs that could not be taken up", len(service.packs.catalogue.faults)
        )
        yield from _of_connections(self._watched.connections)
        if self._watched.log is not None:
            yield from _of_log(self._watched.log.counts())
        if self._watched.ledger is not None:
            yield from _of_batches(self._watched.ledger)


def _of_connections(connections: Connections) -> Iterator[Metric]:
    yield _gauge("connections", "Open connections", connections.open)
    ended = CounterMetricFamily(
        "spinf_connections_ended",
        "Connections that the server ended: the head of a request was none of HTTP, too large or too "
        "slow; idle: no request came; body_abandoned: the rest of a body that was not waited for did "
        "not come; answer_not_read: the client did not read its answer",
        labels=("reason",),
    )
    for reason, count in connections.ended.items():
        ended.add_metric((reason,), count)
    yield ended


def _of_batches(ledger: Ledger) -> Iterator[Metric]:
    try:
        states = ledger.states()
    except sqlite3.Error:
        # Their folder is told of where it fails; the other metrics go on.
        return
    family = GaugeMetricFamily("spinf_batches", "Batches kept, by state", labels=("status",))
    for state, count in states.items():
        family.add_metric((state,), count)
    yield family


def _of_log(counts: LogCounts) -> Iterator[Metric]:
    yield _count("decision_log_written", "Contents written to the decision log", counts.written)
    yield _count("decision_log_lost", "Contents that it could not take", counts.lost)
    yield _gauge("decision_log_waiting", "Requests that wait to be written", counts.waiting)
    yield _gauge("decision_log_failing", "1 when the last try to write failed", counts.failing)


def _of_engine(engine: Engine) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "spinf_build",
        "What is served",
        value={
            "version": __version__,
            "model": engine.served.id,
            "fingerprint": engine.fingerprint.short,
        },
    )
    waiting = {priority: engine.schedule.backlog(priority) for priority in Priority}
    yield _by_priority(
        "waiting_requests",
        "Requests with tokens that are in no pass yet",
        {priority: waiting[priority].requests for priority in Priority},
    )
    yield _by_priority(
        "waiting_tokens",
        "Tokens that are in no pass yet",
        {priority: waiting[priority].rows for priority in Priority},
    )
    yield _gauge("pass_tokens_limit", "Tokens that a pass has room for", engine.config.pass_tokens)
    yield from _of_stats(engine.stats)
    memory = engine.device_memory
    if memory is not None:
        family = GaugeMetricFamily(
            "spinf_device_memory_bytes",
            "The card's memory: used by tensors, reserved by this process, free, total",
            labels=("kind",),
        )
        for kind in ("used", "reserved", "free", "total"):
            family.add_metric((kind,), getattr(memory, kind))
        yield family


def _of_stats(stats: Stats) -> Iterator[Metric]:
    yield _count("passes", "Forward passes", stats.passes)
    yield _count("pass_tokens", "Tokens read in passes", stats.rows)
    yield _count("reads", "Tokens whose next token was read", stats.reads)
    yield _count("nan", "Contents whose answer was no number", stats.nan_faults)
    yield _count(
        "trunk_cache_hits", "Contents found on the device as others had left them", stats.trunk_hits
    )
    yield _count("trunk_cache_misses", "Contents that were read", stats.trunk_misses)
    yield _count(
        "trunk_cache_tokens_saved", "Tokens that hits did not read", stats.trunk_cached_tokens
    )
    yield _count("trunk_cache_evictions", "Contents that made room", stats.trunk_evictions)
    yield _gauge("trunk_cache_entries", "Contents kept on the device", stats.trunk_entries)
    yield _gauge("trunk_cache_bytes", "What they take there", stats.trunk_bytes)
    host = CounterMetricFamily(
        "spinf_host_seconds", "The host's time by part of the work", labels=("part",)
    )
    for part in stats.HOST_PARTS:
        host.add_metric((part,), getattr(stats, f"{part}_seconds"))
    yield host
    yield _count(
        "forward_seconds", "The host's time launching and awaiting passes", stats.forward_seconds
    )
    yield _count("device_seconds", "The device's time in passes", stats.device_seconds)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"spinf_{name}", meaning, value=float(value))


def _count(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"spinf_{name}", meaning, value=float(value))


def _by_priority(name: str, meaning: str, values: Mapping[Priority, float]) -> Metric:
    family = GaugeMetricFamily(f"spinf_{name}", meaning, labels=("priority",))
    for priority, value in values.items():
        family.add_metric((priority.label,), float(value))
    return family
