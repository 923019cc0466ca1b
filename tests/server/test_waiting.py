"""Work for somebody who may leave or who has no more time."""

import asyncio
import math
import time

import pytest

from spinf_serve.packs.errors import SpinfError
from spinf_serve.server.waiting import Gone, while_wanted


async def stays() -> None:
    await asyncio.Event().wait()


async def leaves() -> None:
    await asyncio.sleep(0.02)


class Work:
    """Work that takes a while, and knows how it ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ended = ""

    async def run(self) -> str:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return "answer"


def test_work_that_is_wanted_is_done():
    work = Work(0.01)
    assert asyncio.run(while_wanted(work.run(), stays, math.inf)) == "answer"
    assert asyncio.run(while_wanted(Work(0.0).run(), stays, time.monotonic() + 9)) == "answer"


def test_work_is_over_before_anybody_is_told_that_the_client_left():
    work = Work(30)
    with pytest.raises(Gone):
        asyncio.run(while_wanted(work.run(), leaves, math.inf))
    assert work.ended == "cancelled"


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 0.03])
def test_work_is_over_at_the_deadline(seconds):
    work = Work(30)
    start = time.monotonic()
    with pytest.raises(SpinfError) as caught:
        asyncio.run(while_wanted(work.run(), stays, start + seconds))
    assert caught.value.code == "deadline_exceeded"
    assert max(0, seconds) <= time.monotonic() - start < 5
    assert work.ended in ("cancelled", "")


def test_what_work_raises_comes_through():
    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(while_wanted(broken(), stays, math.inf))


def test_a_cancel_from_outside_ends_the_work():
    work = Work(30)

    async def cancelled() -> None:
        task = asyncio.ensure_future(while_wanted(work.run(), stays, math.inf))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert work.ended == "cancelled"


def test_work_that_fails_while_it_is_cancelled_is_not_told_as_lost():
    told: list[dict[str, object]] = []

    async def clumsy() -> None:
        try:
            await stays()
        finally:
            raise ValueError("on the way out")

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        with pytest.raises(Gone):
            await while_wanted(clumsy(), leaves, math.inf)

    asyncio.run(run())
    assert told == []
