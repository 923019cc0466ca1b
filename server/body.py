"""Request bodies within a limit of bytes, from clients that go on sending."""

import asyncio

from starlette.requests import Request

from spinf_serve.packs.errors import Refused
from spinf_serve.server.problems import Stalled


def check_declared(content_length: str | None, limit_bytes: int) -> None:
    """Refuses a body whose `Content-Length` says that it is too large, before it is read."""
    digits = content_length or "0"
    # Python refuses to read integers of thousands of digits, and none of 19 is within a limit.
    if digits.isdecimal() and (len(digits) > 18 or int(digits) > limit_bytes):
        raise _too_large(f" of {digits[:32]} bytes", limit_bytes)


async def read_body(request: Request, limit_bytes: int, idle_seconds: float) -> bytes:
    """The whole body.

    Raises:
        Refused: `body_too_large` as soon as more than `limit_bytes` have come; no more is kept.
        Stalled: `invalid_json` when nothing has come for `idle_seconds`.
    """
    pieces: list[bytes] = []
    size = 0
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(idle_seconds) as deadline:
            async for piece in request.stream():
                deadline.reschedule(clock() + idle_seconds)
                size += len(piece)
                if size > limit_bytes:
                    raise _too_large("", limit_bytes)
                pieces.append(piece)
    except TimeoutError:
        raise Stalled(
            "invalid_json",
            f"the body stopped after {size} bytes and nothing came for {idle_seconds} seconds; "
            "send all of it, or start the server with a larger --body-idle-seconds",
        ) from None
    return b"".join(pieces)


def _too_large(size: str, limit_bytes: int) -> Refused:
    return Refused(
        "body_too_large",
        f"the request body{size} is over the limit of {limit_bytes} bytes; "
        "split the request, or start the server with a larger --max-body-bytes",
    )
