"""Request bodies within a limit of bytes, from clients that go on sending."""

import asyncio

from starlette.requests import Request

from spinf_serve.packs.errors import Busy, Refused
from spinf_serve.server.problems import Stalled

FREE_BYTES = 64 * 1024
"""What a body may have before it counts among those that arrive."""

_RETRY_SECONDS = 2


def check_declared(content_length: str | None, limit_bytes: int) -> None:
    """Refuses a body whose `Content-Length` says that it is too large, before it is read."""
    digits = content_length or "0"
    # Python refuses to read integers of thousands of digits, and none of 19 is within a limit.
    if digits.isdecimal() and (len(digits) > 18 or int(digits) > limit_bytes):
        raise _too_large(f" of {digits[:32]} bytes", limit_bytes)


class Arriving:
    """The memory that bodies take while they arrive, all together. Belongs to the event loop's thread.

    The first `FREE_BYTES` of each are not counted: large bodies that come slowly turn no small ones
    away.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.held_bytes = 0
        self._limit_bytes = limit_bytes

    def take(self, own_bytes: int, more_bytes: int) -> None:
        """Takes room for more of a body that has some.

        Raises `Busy` (`concurrency_limit`) where there is none beside others.
        """
        others_bytes = self.held_bytes - own_bytes
        if others_bytes and self.held_bytes + more_bytes > self._limit_bytes:
            raise Busy(
                "concurrency_limit",
                f"large bodies are arriving, {self.held_bytes} bytes so far, and {self._limit_bytes} "
                f"are the most (--queue-bytes): ask again in {_RETRY_SECONDS} seconds",
                _RETRY_SECONDS,
            )
        self.held_bytes += more_bytes

    def give_back(self, own_bytes: int) -> None:
        """Gives room back."""
        self.held_bytes -= own_bytes


async def read_body(
    request: Request, limit_bytes: int, idle_seconds: float, most_seconds: float, arriving: Arriving
) -> bytes:
    """The whole body.

    Raises:
        Refused: `body_too_large` as soon as more than `limit_bytes` have come; no more is kept.
        Stalled: `invalid_json` when nothing has come for `idle_seconds`, or it is not whole after
            `most_seconds`.
        Busy: there is no room for it beside other bodies that arrive.
    """
    body = bytearray()
    held = 0
    clock = asyncio.get_running_loop().time
    end = clock() + most_seconds
    try:
        async with asyncio.timeout(min(idle_seconds, most_seconds)) as deadline:
            async for piece in request.stream():
                deadline.reschedule(min(clock() + idle_seconds, end))
                if len(body) + len(piece) > limit_bytes:
                    raise _too_large("", limit_bytes)
                body += piece
                more = max(0, len(body) - FREE_BYTES) - held
                arriving.take(held, more)
                held += more
    except TimeoutError:
        why = (
            f"was not whole after {most_seconds} seconds: send it faster"
            if clock() >= end
            else f"nothing came for {idle_seconds} seconds; send all of it, or start the server with "
            "a larger --body-idle-seconds"
        )
        raise Stalled(
            "invalid_json", f"the body stopped after {len(body)} bytes and {why}"
        ) from None
    finally:
        arriving.give_back(held)
    return bytes(body)


def _too_large(size: str, limit_bytes: int) -> Refused:
    return Refused(
        "body_too_large",
        f"the request body{size} is over the limit of {limit_bytes} bytes; "
        "split the request, or start the server with a larger --max-body-bytes",
    )
