"""What Prometheus reads of requests that ended, in a registry of its own; `gauges` has what is now.

Names and meanings stand in these two files only; the docs, the dashboard and the alert rules are
tested against them. Labels have few values: routes, codes, named keys, never ids, addresses or texts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

from spinf_serve.engine.work import Result
from spinf_serve.server.calls import Input
from spinf_serve.server.exchange import Ended, Scored
from spinf_serve.server.gauges import Gauges, Watched
from spinf_serve.server.traffic import Handled

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Anybody may send any other word as a method.
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_PROMPTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000)
_Metric = TypeVar("_Metric", Counter, Histogram)
_REUSE = (1, 1.25, 1.5, 2, 3, 5, 8, 13, 20, 50)


@dataclass(frozen=True, slots=True)
class Described:
    """A metric: its name as it is asked for, its kind in Prometheus' words, its labels, its meaning."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


class Metrics:
    """The metrics of a server.

    `handled` and `ended` belong to the event loop's thread; `text` may be called from any.
    """

    def __init__(self) -> None:
        """Registers every counter; `watch` adds what is read when somebody looks."""
        self._registry = CollectorRegistry()
        self._described: list[Described] = []
        self._children: dict[tuple[int, tuple[str, ...]], Counter | Histogram] = {}
        ProcessCollector(registry=self._registry)
        self._requests = self._counter(
            "http_requests", "HTTP requests", "route", "method", "status"
        )
        self._request_seconds = self._histogram(
            "http_request_seconds",
            "From the head of a request to the end of its answer",
            _SECONDS,
            "route",
        )
        self._errors = self._counter("errors", "Refusals and failures by their code", "code")
        self._key_requests = self._counter("key_requests", "Requests by named key", "key")
        self._key_tokens = self._counter("key_tokens", "Tokens read by named key", "key")
        self._scored = self._counter("scored_requests", "Requests that were scored", "route")
        self._inputs = self._counter("inputs", "Contents that were scored")
        self._questions = self._counter("questions", "Questions, once for each content")
        self._prompts = self._counter("prompts", "Filled templates, once for each content")
        self._tokens = self._counter(
            "tokens",
            "Tokens of contents, questions and floors as asked; read: those of their trees and "
            "floors with what they share counted once, and what slots count as; cached: those of "
            "read found on the device; prompt: of completions and chats; generated: written",
            "kind",
        )
        self._packs = self._counter("pack_inputs", "Contents by pack", "pack", "version")
        self._warnings = self._counter("warnings", "Warnings in answers by code", "code")
        self._stages = self._histogram(
            "stage_seconds",
            "Time of scored requests by stage. compile: reading and tokenising; queue: until the "
            "engine takes a request up; score: from its first shared pass to its last; decode: from "
            "then until slots are filled, where there are any; busy: of these two, the model at "
            "work; wall: all of these; wire: upload, writing and sending",
            _SECONDS,
            "stage",
        )
        self._text_stages = self._histogram(
            "text_seconds",
            "Time of completions and chats by stage. queue: until the engine takes a request up; "
            "first: from the arrival of its body to the first piece of text; decode: from then to "
            "the end of the text",
            _SECONDS,
            "stage",
        )
        self._content_tokens = self._histogram("content_tokens", "Tokens of a content", _TOKENS)
        self._content_questions = self._histogram(
            "content_questions",
            "Questions asked of one content in a request, however many combinations they have; "
            "slots do not count",
            _PROMPTS,
        )
        self._content_prompts = self._histogram(
            "content_prompts",
            "Filled templates asked of one content in a request: a question counts once for each "
            "of its combinations; slots do not count",
            _PROMPTS,
        )
        self._reuse = self._histogram(
            "reuse_ratio",
            "Tokens of a content read anew for each of its questions, over those that are read",
            _REUSE,
        )

    def watch(self, watched: Watched) -> None:
        """Adds the gauges of what is now, and the counters that engine and scheduler keep."""
        self._registry.register(Gauges(watched))

    @property
    def described(self) -> tuple[Described, ...]:
        """What is counted of requests; `Gauges` tells the rest."""
        return tuple(self._described)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def handled(self, handled: Handled, ended: Ended | None) -> None:
        """Counts a request that is over."""
        method = handled.method if handled.method in _METHODS else "other"
        self._of(self._requests, handled.route, method, str(handled.status)).inc()
        self._of(self._request_seconds, handled.route).observe(handled.seconds)
        self._of(self._key_requests, handled.caller.name).inc()
        if handled.code is not None:
            self._of(self._errors, handled.code).inc()
        if ended is not None and ended.scored is not None:
            wire_seconds = handled.seconds - ended.scored.timing.wall / 1e3
            self._stages.labels("wire").observe(max(0.0, wire_seconds))

    def ended(self, request: Ended) -> None:
        """Counts what the service did; also for requests that are rows of a file."""
        if request.written is not None:
            written = request.written
            self._tokens.labels("prompt").inc(written.prompt_tokens)
            self._tokens.labels("generated").inc(written.generated_tokens)
            both = written.prompt_tokens + written.generated_tokens
            self._key_tokens.labels(request.caller.name).inc(both)
            for stage in ("queue", "first", "decode"):
                self._text_stages.labels(stage).observe(getattr(written, f"{stage}_seconds"))
        if request.scored is None:
            return
        scored = request.scored
        self._scored.labels(request.route).inc()
        self._inputs.inc(scored.usage.inputs)
        self._prompts.inc(scored.usage.prompts)
        for kind, tokens in _tokens_of(scored):
            self._tokens.labels(kind).inc(tokens)
        self._key_tokens.labels(request.caller.name).inc(scored.usage.processed_tokens)
        for used in scored.asked.call.packs:
            self._packs.labels(used.pack.id, used.pack.version).inc(scored.usage.inputs)
        for warning in scored.warnings:
            self._warnings.labels(warning.code).inc()
        for stage in ("wall", "compile", "queue", "score", "busy"):
            self._stages.labels(stage).observe(getattr(scored.timing, stage) / 1e3)
        if scored.timing.decode is not None:
            self._stages.labels("decode").observe(scored.timing.decode / 1e3)
        for content in _contents(scored):
            self._questions.inc(content.questions)
            self._content_tokens.observe(content.tokens)
            self._content_questions.observe(content.questions)
            self._content_prompts.observe(content.prompts)
            self._reuse.observe(content.reuse)

    def _of(self, metric: _Metric, *labels: str) -> _Metric:
        """A metric's child, which its own `labels` takes much longer to find."""
        key = (id(metric), labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return cast(_Metric, child)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self._described.append(Described(f"spinf_{name}_total", "counter", labels, meaning))
        return Counter(f"spinf_{name}", meaning, labels, registry=self._registry)

    def _histogram(
        self, name: str, meaning: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        self._described.append(Described(f"spinf_{name}", "histogram", labels, meaning))
        return Histogram(f"spinf_{name}", meaning, labels, buckets=buckets, registry=self._registry)


def _tokens_of(scored: Scored) -> Iterable[tuple[str, int]]:
    usage = scored.usage
    return (
        ("content", usage.content_tokens),
        ("query", usage.query_tokens),
        ("floor", usage.floor_tokens),
        ("cached", usage.cached_tokens),
        ("read", usage.processed_tokens),
        ("generated", usage.slots.generated_tokens),
    )


@dataclass(frozen=True, slots=True)
class _Content:
    """One content of a request, whole even where it was read in chunks.

    Attributes:
        tokens: of the content.
        questions, prompts: asked of it.
        reuse: tokens that reading it anew for each prompt takes, over those read; 1 or more but for
            contents of a token or none.
    """

    tokens: int
    questions: int
    prompts: int
    reuse: float


def _contents(scored: Scored) -> Iterator[_Content]:
    pairs = zip(scored.asked.call.inputs, scored.results, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].path):
        yield _content(list(group))


def _content(parts: list[tuple[Input, Result]]) -> _Content:
    first = parts[0][0]
    prompts = sum(len(question.prompts) for question in first.questions)
    tokens = sum(result.counts.content_tokens for _, result in parts)
    asked = sum(result.counts.query_tokens for _, result in parts)
    read = sum(result.counts.packed_tokens for _, result in parts)
    reuse = (prompts * tokens + asked) / max(1, read)
    return _Content(tokens, len(first.questions), prompts, reuse)
