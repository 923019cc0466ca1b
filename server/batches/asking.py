"""One row asked of the service, again while that is busy, until it has its line.

An unforeseen exception is the row's, as at the border it is the request's: logged, and answered 500.
"""

import asyncio
import logging

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Busy, Fault, SpinfError
from spinf_serve.server import problems
from spinf_serve.server.auth import Caller
from spinf_serve.server.batches.endpoints import ENDPOINTS, form_of
from spinf_serve.server.batches.rows import Row
from spinf_serve.server.batches.spool import Line, answered
from spinf_serve.server.exchange import Wire
from spinf_serve.server.ids import new_request_id
from spinf_serve.server.logs import without_message
from spinf_serve.server.service import Arrival, Service
from spinf_serve.server.wire.json_text import encode

logger = logging.getLogger(__name__)

# A pass that fails takes every request along that had a part in it, so a row gets a second one.
_TRIES = 2
# Rows are the first to be turned away; they look again sooner than a client would.
_MOST_RETRY_SECONDS = 5
_OK = 200
_FAULT = 500


async def ask(service: Service, row: Row, endpoint: str, caller: Caller) -> Line:
    """The line of a row, once it was answered or refused; it waits for as long as that takes."""
    for tries_left in reversed(range(_TRIES)):
        request_id = new_request_id()
        wire = ENDPOINTS[endpoint](service.switches)
        arrival = Arrival(request_id, caller, row.body, _stays, Priority.BATCH)
        try:
            return answered(row, _OK, request_id, await _when_free(service, arrival, wire))
        except SpinfError as error:
            fault = error
        except Exception as error:
            told = without_message(error)
            logger.exception("row %s failed\n%s", request_id, told, exc_info=False)
            fault = Fault(f"the server failed on this row; its log says why ({request_id})")
        if fault.status < _FAULT or not tries_left:
            break
    form = form_of(wire)
    body = encode(problems.envelope(fault, request_id, caller, form))
    return answered(row, problems.status_of(fault, form), request_id, body)


async def _when_free(service: Service, arrival: Arrival, wire: Wire) -> bytes:
    while True:
        try:
            return await service.answer(arrival, wire)
        except Busy as busy:
            await asyncio.sleep(min(busy.retry_after_seconds, _MOST_RETRY_SECONDS))


async def _stays() -> None:
    """Never returns: a row that nobody waits for any more is cancelled as a task."""
    await asyncio.Event().wait()
