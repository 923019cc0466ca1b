"""Decision logs: a running server's, and files of made-up entries."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from spinf_serve.server.decision_log.entries import (
    Decided,
    Entry,
    Identity,
    PackFacts,
    content_digest,
)
from spinf_serve.server.decision_log.log import DecisionLog
from spinf_serve.server.decision_log.tables import connect, create
from spinf_serve.server.decision_log.writing import write
from tests.support.servers import Running


def log_of(server: Running) -> DecisionLog:
    """The log of a server that has one."""
    (log,) = (one for one in server.service.observers if isinstance(one, DecisionLog))
    return log


_PACKS = {"c" * 64: "demo/support", "d" * 64: "demo/support", "e" * 64: "demo/other"}
IDENTITY = Identity("stub/words-1", "a" * 64, "b" * 64)


def decided(scores: Mapping[str, float], /, **changes: Any) -> Decided:
    """What a pack said: safe, with these scores and thresholds of 0.5."""
    categories = {
        name: {
            "score": score,
            "percentile": None,
            "threshold": 0.5,
            "flagged": score >= 0.5,
            "band": None,
        }
        for name, score in scores.items()
    }
    unsafe = any(one["flagged"] for one in categories.values())
    made = Decided(
        pack="demo/support",
        version="0.1.0",
        digest="c" * 64,
        context="email",
        state="provisional",
        call={},
        decision={"unsafe": unsafe, "mode": "per_category", "band": None},
        route=None,
        reason="as it was made",
        categories=categories,
        reads={},
    )
    return replace(made, **changes)


def entry(text: str, /, **changes: Any) -> Entry:
    """An entry of the random sample, with its text and no pack."""
    made = Entry(
        request=f"req-{content_digest(text)[:8]}",
        input="0",
        at=1_800_000_000,
        caller="shop",
        route="score",
        endpoint="inbox",
        identity=IDENTITY,
        digest=content_digest(text),
        text=text,
        parameters={},
        chunks=1,
        drawn=True,
        rate=0.25,
    )
    return replace(made, **changes)


def written(path: Path, entries: Sequence[Entry]) -> Path:
    """A log with entries."""
    create(path)
    with closing(connect(path)) as connection:
        write(connection, entries, lambda digest: PackFacts(_PACKS[digest], "0.1.0", digest))
    return path
