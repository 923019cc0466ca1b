"""The server's log: lines for people or JSON objects, and a line for each request that is over.

Lines hold no contents, no questions, no answers and no keys.
"""

import asyncio
import copy
import json
import logging
import math
import traceback
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from uvicorn.config import LOGGING_CONFIG

from spinf_serve.server.auth import ANONYMOUS, OPEN_PATHS
from spinf_serve.server.exchange import Ended
from spinf_serve.server.traffic import Handled

logger = logging.getLogger(__name__)

FIELDS = "fields"
"""Attribute of a log record that holds what JSON lines have besides the usual."""

TOO_MANY = 429
"""Status of requests that are turned away, of which not each has a line."""

_TOLD_REFUSALS = 10
_SUM_SECONDS = 1.0
_MAX_PATH_CHARS = 200
# What asks these every few seconds would fill the log.
_QUIET_PATHS = OPEN_PATHS | {"/metrics"}


class JsonFormatter(logging.Formatter):
    """One JSON object a record: `time`, `level`, `logger`, `message`, then the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, in ASCII."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields: Mapping[str, Any] = getattr(record, FIELDS, {})
        line |= fields
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class RequestLog:
    """Logs requests that are over. Belongs to the event loop's thread.

    Health checks and scrapes that go well are for debugging, and so is one that says what the one
    before it said. Of requests that are turned away a few a second are told of, and the others by
    their number: the server has better things to do just then.
    """

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._refused_since = -math.inf
        self._refused = 0
        self._uncounted: Counter[tuple[str, str]] = Counter()

    def handled(self, handled: Handled, ended: Ended | None) -> None:
        """A request is over."""
        if handled.status == TOO_MANY and self._is_one_too_many(handled):
            return
        level = logging.DEBUG if self._is_quiet(handled) else logging.INFO
        if logger.isEnabledFor(level):
            _log(level, handled, ended)

    def _is_quiet(self, handled: Handled) -> bool:
        if handled.path not in _QUIET_PATHS or handled.status not in (200, 503):
            return False
        before = self._said.get(handled.path, 200)
        self._said[handled.path] = handled.status
        return handled.status == before

    def _is_one_too_many(self, handled: Handled) -> bool:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._refused_since >= _SUM_SECONDS:
            self._refused_since, self._refused = now, 0
        self._refused += 1
        if self._refused <= _TOLD_REFUSALS:
            return False
        if not self._uncounted:
            loop.call_later(self._refused_since + _SUM_SECONDS - now, self._sum_up)
        self._uncounted[handled.caller.name, handled.code or ""] += 1
        return True

    def _sum_up(self) -> None:
        for (key, code), requests in self._uncounted.items():
            fields = {"status": TOO_MANY, "code": code, "key": key, "requests": requests}
            logger.info(
                "%d more requests were answered %d within a second (key %s, %s)",
                requests,
                TOO_MANY,
                key,
                code,
                extra={FIELDS: fields},
            )
        self._uncounted.clear()


def _log(level: int, handled: Handled, ended: Ended | None) -> None:
    fields = _facts(handled) | _cost(ended)
    # A path may hold line ends and control characters.
    path = quote(handled.path[:_MAX_PATH_CHARS], safe="/:@+,;=()[]!$&' ")
    rest = [f"key {handled.caller.name}"] if handled.caller.name != ANONYMOUS else []
    rest += [handled.code] if handled.code else []
    rest += [f"prompts {fields['prompts']}"] if "prompts" in fields else []
    logger.log(
        level,
        "%s %s %d in %.1f ms (%s)",
        handled.method,
        path,
        handled.status,
        1e3 * handled.seconds,
        ", ".join([handled.request_id, *rest]),
        extra={FIELDS: fields},
    )


def _facts(handled: Handled) -> dict[str, Any]:
    facts = {
        "request_id": handled.request_id,
        "client_request_id": handled.client_id,
        "trace_id": handled.trace_id,
        "method": handled.method,
        "route": handled.route,
        "status": handled.status,
        "code": handled.code,
        "ms": round(1e3 * handled.seconds, 3),
        "key": handled.caller.name,
        "address": handled.caller.address,
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, "")}


def _cost(ended: Ended | None) -> dict[str, Any]:
    if ended is not None and ended.written is not None:
        return {
            "prompt_tokens": ended.written.prompt_tokens,
            "generated_tokens": ended.written.generated_tokens,
        }
    if ended is None or ended.scored is None:
        return {}
    usage, timing = ended.scored.usage, ended.scored.timing
    return {
        "inputs": usage.inputs,
        "questions": usage.questions,
        "prompts": usage.prompts,
        "content_tokens": usage.content_tokens,
        "query_tokens": usage.query_tokens,
        "floor_tokens": usage.floor_tokens,
        "read_tokens": usage.processed_tokens,
        "cached_tokens": usage.cached_tokens,
        "packs": [f"{used.pack.id}@{used.pack.version}" for used in ended.scored.asked.call.packs],
        "queue_ms": round(timing.queue, 3),
        "compile_ms": round(timing.compile, 3),
        "score_ms": round(timing.score, 3),
        "warnings": sorted({warning.code for warning in ended.scored.warnings}),
    }


def without_message(fault: BaseException) -> str:
    """The traceback of an exception and of what led to it, without their messages.

    A message may quote what a caller sent; file names, lines and code cannot.
    """
    parts = []
    seen: set[int] = set()
    now: BaseException | None = fault
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        frames = "".join(traceback.format_list(traceback.extract_tb(now.__traceback__)))
        parts.append(f"{frames}{type(now).__module__}.{type(now).__qualname__}")
        now = now.__cause__ or now.__context__
    return "\nwhile or after:\n".join(parts)


def log_config(form: str) -> dict[str, Any]:
    """For `logging.config`: uvicorn's loggers and ours, all to stderr.

    Args:
        form: `text` or `json`.
    """
    config: dict[str, Any] = copy.deepcopy(LOGGING_CONFIG)
    if form == "json":
        config["formatters"]["default"] = {"()": JsonFormatter}
    # Requests are logged by `RequestLog`, which knows more of them; stdout may be closed.
    del config["handlers"]["access"], config["formatters"]["access"]
    config["loggers"]["uvicorn.access"] = {"handlers": [], "propagate": False}
    ours = {"handlers": ["default"], "level": "INFO", "propagate": False}
    config["loggers"]["spinf_serve"] = ours
    config["root"] = {"handlers": ["default"], "level": "WARNING"}
    return config
