"""POST /v1/completions, and what its route shares with chats: a text, whole or piece by piece."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from spinf_serve.packs.errors import SpinfError
from spinf_serve.server.problems import envelope
from spinf_serve.server.routes.score import MODEL_HEADER, arrival_of, body_of, served_id
from spinf_serve.server.service import Arrival, Service
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.texts_reply import (
    TextHead,
    begin_event,
    end_events,
    error_event,
    piece_event,
    text_usage,
    whole_answer,
)
from spinf_serve.server.writing import Begun, Done, Event, text_events

router = APIRouter()


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    """What the model writes behind a prompt."""
    service: Service = request.app.state.service
    body = await body_of(request)
    return await written(request, body, await service.decoded(body), chat=False)


async def written(request: Request, body: bytes, document: Document, chat: bool) -> Response:
    """The answer to a request for a text."""
    service: Service = request.app.state.service
    arrival = arrival_of(request, body, document)
    events = text_events(service, arrival, document, chat)
    headers = {MODEL_HEADER: served_id(service)}
    fingerprint = service.worker.engine.fingerprint.short
    async for event in events:
        match event:
            case Begun(request=asked, created=created):
                head = TextHead(asked, arrival.request_id, created, fingerprint)
                if asked.stream:
                    return EventStream(head, events, arrival, headers)
            case Done(text=text):
                answer = whole_answer(head, text.text, text.finish, _usage(event))
                return Response(answer, media_type="application/json", headers=headers)
    raise AssertionError("a text that is begun ends or fails")


class EventStream(Response):
    """A text as server-sent events.

    It reads no messages of the connection: who waits for pieces does, to know when the client leaves.
    """

    def __init__(
        self,
        head: TextHead,
        events: AsyncGenerator[Event, None],
        arrival: Arrival,
        headers: dict[str, str],
    ) -> None:
        # Proxies that gather an answer would hold the pieces back.
        told = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **headers}
        super().__init__(media_type="text/event-stream", headers=told)
        del self.headers["content-length"]
        self._head = head
        self._events = events
        self._arrival = arrival

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events; a fault is one too, and is raised behind it for the log."""

        async def send_piece(piece: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": more})

        async with aclosing(self._events):
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await send_piece(begin_event(self._head))
            try:
                async for event in self._events:
                    if isinstance(event, Done):
                        usage = _usage(event)
                        await send_piece(end_events(self._head, event.text.finish, usage))
                    elif isinstance(event, str):
                        await send_piece(piece_event(self._head, event))
            except SpinfError as fault:
                told = envelope(fault, self._arrival.request_id, self._arrival.caller)
                await send_piece(error_event(told), more=False)
                raise
            await send_piece(b"", more=False)


def _usage(done: Done) -> dict[str, object]:
    counts = done.counts
    return text_usage(counts.content_tokens, counts.cached_tokens, done.text.tokens)
