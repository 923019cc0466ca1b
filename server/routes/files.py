"""/v1/files: uploads for batches, and what batches wrote, in the shape of OpenAI's clients."""

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse

from spinf_serve.packs.errors import Refused
from spinf_serve.server.batches.reading import FILE_ID, kept_seconds, read_page, read_word
from spinf_serve.server.batches.records import INPUT_PURPOSE, OUTPUT_PURPOSE, KeptFile
from spinf_serve.server.batches.replies import file_body, list_body
from spinf_serve.server.batches.runner import Runner
from spinf_serve.server.batches.upload import receive
from spinf_serve.server.ids import new_id
from spinf_serve.server.problems import NotFound
from spinf_serve.server.routes.folder_route import FolderRoute
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode

router = APIRouter(route_class=FolderRoute)

_MOST_LISTED = 10_000


@router.post("/v1/files")
async def upload(request: Request) -> Response:
    """Keeps a file of rows; it is on the disk when it is answered."""
    folder = runner_of(request).folder
    service: Service = request.app.state.service
    room_bytes = await asyncio.to_thread(folder.room_bytes)
    id = new_id(FILE_ID)
    path = folder.path(id)
    got = await receive(request, path, room_bytes, service.config.body_idle_seconds)
    try:
        now = int(time.time())
        file = KeptFile(
            id=id,
            owner=request.state.caller.name,
            filename=got.filename,
            purpose=INPUT_PURPOSE,
            size_bytes=got.size_bytes,
            created_at=now,
            expires_at=now + kept_seconds(got.fields, folder.keep_seconds),
        )
        await asyncio.to_thread(folder.ledger.add_file, file)
    except BaseException:
        path.unlink()
        raise
    return answer(file_body(file))


@router.get("/v1/files")
async def files(request: Request) -> Response:
    """The caller's files."""
    ledger = runner_of(request).folder.ledger
    query = request.query_params
    page = read_page(query, _MOST_LISTED, _MOST_LISTED)
    purpose = read_word(query, "purpose", (INPUT_PURPOSE, OUTPUT_PURPOSE))
    oldest = read_word(query, "order", ("asc", "desc")) == "asc"
    found = await asyncio.to_thread(
        ledger.files, owner_of(request), purpose, page.after, page.limit + 1, oldest
    )
    return answer(list_body(found, page.limit, file_body))


@router.get("/v1/files/{file_id}")
async def file(request: Request) -> Response:
    """One file's description."""
    return answer(file_body(await _file(request)))


@router.get("/v1/files/{file_id}/content")
async def content(request: Request) -> Response:
    """One file's bytes."""
    found = await _file(request)
    path = runner_of(request).folder.path(found.id)
    if not await asyncio.to_thread(path.is_file):
        raise FileNotFoundError(f"{path} is not there any more")
    return FileResponse(
        path,
        media_type="application/jsonl",
        filename=found.filename,
    )


@router.delete("/v1/files/{file_id}")
async def delete(request: Request) -> Response:
    """Deletes a file."""
    found = await _file(request)
    await asyncio.to_thread(runner_of(request).folder.remove, found)
    return answer({"id": found.id, "object": "file", "deleted": True})


async def _file(request: Request) -> KeptFile:
    ledger = runner_of(request).folder.ledger
    id = request.path_params["file_id"]
    found = await asyncio.to_thread(ledger.file, id, owner_of(request))
    if found is None:
        raise NotFound("unknown_file", f"no file {id[:64]!a} is kept", "file_id")
    return found


def runner_of(request: Request) -> Runner:
    """The server's batches. Raises `Refused` (`batches_disabled`) when it keeps none."""
    runner: Runner | None = request.app.state.batches
    if runner is None:
        raise Refused(
            "batches_disabled",
            "this server keeps no batch files: start it with --batch-dir FOLDER",
        )
    return runner


def owner_of(request: Request) -> str | None:
    """Whose files and batches a caller sees: its own, a trusted one everybody's (None)."""
    caller = request.state.caller
    return None if caller.trusted else caller.name


def answer(body: dict[str, Any]) -> Response:
    """A body as JSON."""
    return Response(encode(body), media_type="application/json")
