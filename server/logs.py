"""The server's log: lines for people or JSON objects, and a line for each request that is over.

Lines hold no contents, no questions, no answers and no keys.
"""

import copy
import json
import logging
import traceback
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


def log_request(handled: Handled, ended: Ended | None) -> None:
    """Logs a request that is over; a health check or scrape that went well is for debugging."""
    quiet = handled.path in _QUIET_PATHS and handled.status == 200
    level = logging.DEBUG if quiet else logging.INFO
    if not logger.isEnabledFor(level):
        return
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
    # Requests are logged by `log_request`, which knows more of them; stdout may be closed.
    del config["handlers"]["access"], config["formatters"]["access"]
    config["loggers"]["uvicorn.access"] = {"handlers": [], "propagate": False}
    ours = {"handlers": ["default"], "level": "INFO", "propagate": False}
    config["loggers"]["spinf_serve"] = ours
    config["root"] = {"handlers": ["default"], "level": "WARNING"}
    return config
