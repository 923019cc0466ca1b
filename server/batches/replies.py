"""Files, batches and lists of them as OpenAI's clients read them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from spinf_serve.server.batches.records import ENDED, EXPIRING, FINALIZING, Batch, KeptFile

_TIMES = (
    "in_progress",
    "finalizing",
    "completed",
    "failed",
    "expired",
    "cancelling",
    "cancelled",
)

T = TypeVar("T", KeptFile, Batch)


def file_body(file: KeptFile) -> dict[str, Any]:
    """A file object."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def batch_body(batch: Batch) -> dict[str, Any]:
    """A batch object."""
    progress = batch.progress
    times = dict(batch.times)
    if EXPIRING in times:
        times[FINALIZING] = times[EXPIRING]
    ended = batch.status in ENDED
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": _errors(batch) if batch.flaws else None,
        "input_file_id": batch.input_file_id,
        "completion_window": batch.completion_window,
        "status": FINALIZING if batch.status == EXPIRING else batch.status,
        "output_file_id": batch.output_file_id if ended and progress.output_bytes else None,
        "error_file_id": batch.error_file_id if ended and progress.error_bytes else None,
        "created_at": batch.created_at,
        "expires_at": batch.expires_at,
        **{f"{name}_at": times.get(name) for name in _TIMES},
        "request_counts": {
            "total": batch.total or 0,
            "completed": progress.completed,
            "failed": progress.failed,
        },
        "metadata": dict(batch.metadata) or None,
    }


def list_body(
    found: Sequence[T], limit: int, body_of: Callable[[T], dict[str, Any]]
) -> dict[str, Any]:
    """A page of up to `limit` entries, made from one more than that where there are more."""
    page = found[:limit]
    return {
        "object": "list",
        "data": [body_of(entry) for entry in page],
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
        "has_more": len(found) > limit,
    }


def _errors(batch: Batch) -> dict[str, Any]:
    return {"object": "list", "data": [asdict(flaw) for flaw in batch.flaws]}
