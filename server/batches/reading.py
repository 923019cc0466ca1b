"""What callers say when they upload a file, make a batch or leaf through a list."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import Caller
from spinf_serve.server.batches.endpoints import ENDPOINTS
from spinf_serve.server.batches.records import INPUT_PURPOSE, Batch
from spinf_serve.server.ids import new_id
from spinf_serve.server.wire.fields import Fields
from spinf_serve.server.wire.json_text import Document, half_pair

FILE_ID = "file-"
BATCH_ID = "batch_"

_CREATE = frozenset(
    {"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"}
)
_EXPIRY = frozenset({"anchor", "seconds"})
_WINDOW = re.compile(r"([1-9][0-9]{0,3})([hd])")
_SECONDS = {"h": 60 * 60, "d": 24 * 60 * 60}
_MOST_WINDOW_SECONDS = 30 * 24 * 60 * 60
_LEAST_KEPT_SECONDS = 60 * 60
_MAX_PAIRS, _MAX_KEY_CHARS, _MAX_VALUE_CHARS = 16, 64, 512


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted.

    Attributes:
        after: id of the entry before it; None for the beginning.
        limit: the most entries.
    """

    after: str | None
    limit: int


def read_page(query: Mapping[str, str], most: int, default: int) -> Page:
    """The page that a query string asks for. Raises `Refused` for an impossible limit."""
    text = query.get("limit")
    if text is None:
        limit = default
    elif text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= most:
        limit = int(text)
    else:
        raise _refused("limit", f"is {text[:40]!a}; a whole number from 1 to {most} is needed")
    return Page(query.get("after"), limit)


def read_word(query: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | None:
    """A word of a query string; None when it is not given."""
    value = query.get(name)
    if value is not None and value not in words:
        raise _refused(name, f"is {value[:40]!a}; {' or '.join(words)} is needed")
    return value


def kept_seconds(fields: Mapping[str, str], most: int) -> int:
    """How long an uploaded file is kept. Raises `Refused` for fields of no meaning."""
    known = {"purpose", "expires_after[anchor]", "expires_after[seconds]"}
    for name in fields:
        if name not in known:
            raise _refused(name[:64], "is not a part of an upload")
    if fields.get("purpose") != INPUT_PURPOSE:
        raise _refused("purpose", f"must be {INPUT_PURPOSE!r}: nothing else is done with files")
    seconds = fields.get("expires_after[seconds]")
    anchor = fields.get("expires_after[anchor]")
    if seconds is None and anchor is None:
        return most
    number = int(seconds) if seconds and seconds.isdecimal() and len(seconds) < 10 else seconds
    return _expiry({"anchor": anchor, "seconds": number}, most, "expires_after")


def read_batch(document: Document, caller: Caller, keep_seconds: int) -> Batch:
    """The batch that a body asks for. Raises `Refused` with the path of the field at fault."""
    found = half_pair(document.value) if document.may_hold_half_pairs else None
    if found is not None:
        raise Refused("invalid_field", f"{found[0]}: {found[1]}", found[0])
    fields = Fields(document.value, "", _CREATE)
    if fields.unknown:
        raise _refused(fields.unknown[0][:64], f"is not a field; they are {_listed(_CREATE)}")
    endpoint = fields.text("endpoint")
    if endpoint not in ENDPOINTS:
        raise fields.refused("endpoint", f"is {endpoint[:64]!a}; use {_listed(ENDPOINTS)}")
    window = fields.text("completion_window")
    expiry = fields.mapping("output_expires_after")
    now = int(time.time())
    return Batch(
        id=new_id(BATCH_ID),
        caller=caller,
        endpoint=endpoint,
        input_file_id=fields.text("input_file_id", max_chars=128),
        output_file_id=new_id(FILE_ID),
        error_file_id=new_id(FILE_ID),
        completion_window=window,
        metadata=_metadata(fields),
        output_seconds=(
            keep_seconds
            if expiry is None
            else _expiry(expiry, keep_seconds, "output_expires_after")
        ),
        created_at=now,
        expires_at=now + _window_seconds(fields, window),
    )


def _window_seconds(fields: Fields, window: str) -> int:
    match = _WINDOW.fullmatch(window)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _MOST_WINDOW_SECONDS:
        raise fields.refused(
            "completion_window",
            f"is {window[:40]!a}; hours or days up to 30 are needed, such as 24h or 7d",
        )
    return seconds


def _expiry(value: Mapping[str, Any], most: int, path: str) -> int:
    fields = Fields(dict(value), path, _EXPIRY)
    if fields.unknown:
        raise _refused(f"{path}.{fields.unknown[0][:64]}", "is not a field")
    if fields.get("anchor") != "created_at":
        raise fields.refused("anchor", "must be 'created_at'")
    seconds = fields.get("seconds")
    if type(seconds) is not int or not _LEAST_KEPT_SECONDS <= seconds <= most:
        raise fields.refused(
            "seconds",
            f"must be a whole number from {_LEAST_KEPT_SECONDS} to {most}, as long as this server "
            "keeps files (--batch-days)",
        )
    return seconds


def _metadata(fields: Fields) -> dict[str, str]:
    found = fields.mapping("metadata") or {}
    if len(found) > _MAX_PAIRS:
        raise fields.refused("metadata", f"has {len(found)} keys; at most {_MAX_PAIRS} are allowed")
    for key, value in found.items():
        if len(key) > _MAX_KEY_CHARS:
            raise fields.refused("metadata", f"has a key of over {_MAX_KEY_CHARS} characters")
        if type(value) is not str or len(value) > _MAX_VALUE_CHARS:
            raise _refused(
                f"metadata.{key}", f"must be a text of at most {_MAX_VALUE_CHARS} characters"
            )
    return found


def _listed(names: Mapping[str, Any] | frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _refused(path: str, problem: str) -> Refused:
    return Refused("invalid_field", f"{path} {problem}", path)
