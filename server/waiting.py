"""Work for somebody who may leave, or who needs its outcome by a time. Knows nothing of either."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from spinf_serve.packs.errors import SpinfError

T = TypeVar("T")


class Gone(Exception):
    """The client closed its connection before the answer was ready."""


async def while_wanted(
    work: Awaitable[T], gone: Callable[[], Awaitable[None]], deadline: float
) -> T:
    """The outcome of work, which is cancelled as soon as nobody wants it.

    Args:
        gone: returns when whoever waits has left.
        deadline: in seconds of `time.monotonic`.

    Raises:
        Gone: nobody waits any more.
        SpinfError: `deadline_exceeded`, or what the work raised.
    """
    begun = time.monotonic()
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(gone())
    seconds = None if deadline == math.inf else max(0.0, deadline - begun)
    try:
        waiting: set[asyncio.Future[Any]] = {working, leaving}
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            leaving.result()
            raise Gone
        raise SpinfError(
            "deadline_exceeded",
            f"there was no answer within {time.monotonic() - begun:.3g} seconds; what was asked is "
            "dropped: ask for less at once, or allow for more time",
        )
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            # What it holds is given back before anybody goes on.
            await asyncio.wait({working})
            if not working.cancelled():
                # Asked for, so that asyncio does not tell of it as of one that got lost.
                working.exception()
