"""/v1/batches: files of requests, answered in the background, in the shape of OpenAI's clients."""

import asyncio

from fastapi import APIRouter, Request, Response

from spinf_serve.packs.errors import Refused
from spinf_serve.server.batches.reading import read_batch, read_page
from spinf_serve.server.batches.records import CANCELLED, CANCELLING, Batch
from spinf_serve.server.batches.replies import batch_body, list_body
from spinf_serve.server.routes.files import answer, owner_of, runner_of
from spinf_serve.server.routes.folder_route import FolderRoute
from spinf_serve.server.routes.score import body_of
from spinf_serve.server.wire.json_text import decode

router = APIRouter(route_class=FolderRoute)

_MOST_LISTED = 100
_LISTED = 20


@router.post("/v1/batches")
async def create(request: Request) -> Response:
    """Begins a batch: its file is checked, then its rows are answered."""
    runner = runner_of(request)
    batch = read_batch(
        decode(await body_of(request)), request.state.caller, runner.folder.keep_seconds
    )
    ledger = runner.folder.ledger
    if await asyncio.to_thread(ledger.file, batch.input_file_id, owner_of(request)) is None:
        raise Refused("unknown_file", f"no file {batch.input_file_id!a} is kept", "input_file_id")
    await runner.add(batch)
    return answer(batch_body(batch))


@router.get("/v1/batches")
async def batches(request: Request) -> Response:
    """The caller's batches, the newest first."""
    ledger = runner_of(request).folder.ledger
    page = read_page(request.query_params, _MOST_LISTED, _LISTED)
    found = await asyncio.to_thread(ledger.batches, owner_of(request), page.after, page.limit + 1)
    return answer(list_body(found, page.limit, batch_body))


@router.get("/v1/batches/{batch_id}")
async def batch(request: Request) -> Response:
    """One batch, and how far it has come."""
    return answer(batch_body(await _batch(request)))


@router.post("/v1/batches/{batch_id}/cancel")
async def cancel(request: Request) -> Response:
    """Has a batch stop; what was answered is in its output file, the rest in its error file."""
    found = await _batch(request)
    if not await runner_of(request).cancel(found.id):
        found = await _batch(request)
        if found.status not in (CANCELLING, CANCELLED):
            raise Refused(
                "batch_ended",
                f"the batch is {found.status} and cannot be cancelled any more",
                "batch_id",
            )
    return answer(batch_body(await _batch(request)))


async def _batch(request: Request) -> Batch:
    ledger = runner_of(request).folder.ledger
    id = request.path_params["batch_id"]
    found = await asyncio.to_thread(ledger.batch, id, owner_of(request))
    if found is None:
        raise Refused("unknown_batch", f"no batch {id[:64]!a} is kept", "batch_id")
    return found
