"""Moments as people write them on a command line, in UTC."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from spinf_serve.packs.errors import Unusable

_UNITS = {"h": 3_600, "d": 86_400}

Since = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN",
        help="from then on, in UTC: 2026-11-30, 2026-11-30T08:15, today, yesterday, 12h, 7d",
    ),
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="before then, written likewise")]


def when(text: str, option: str, now: datetime | None = None) -> int:
    """A moment as people write it, in unix seconds. Raises `Unusable` naming the option."""
    present = now or datetime.now(UTC)
    midnight = present.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"today": midnight, "yesterday": midnight - timedelta(days=1)}
    if text in named:
        return int(named[text].timestamp())
    ago = re.fullmatch(r"(\d{1,6})([hd])", text)
    if ago is not None:
        return int(present.timestamp()) - int(ago[1]) * _UNITS[ago[2]]
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise Unusable(
            f"{option} {text}: write 2026-11-30, 2026-11-30T08:15, today, yesterday, 12h or 7d"
        ) from None
    return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
