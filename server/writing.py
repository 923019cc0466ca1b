"""From the bytes of a request to a text that the model writes: pieces as they come, then how it ended.

Shares admission and priorities with scoring, and has what it leaves of the engine's passes; a client that leaves stops it before
the next token.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from functools import partial

from spinf_serve.engine.api import Engine, Job, Turn
from spinf_serve.engine.extraction.answers import GeneratedAnswer
from spinf_serve.engine.work import Counts
from spinf_serve.packs.errors import Fault, Refused, SpinfError
from spinf_serve.server.exchange import Ended, Written, tell
from spinf_serve.server.features import features_of
from spinf_serve.server.service import Arrival, Service
from spinf_serve.server.waiting import while_wanted
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.texts import TextRequest, read_text_request
from spinf_serve.server.worker import Failed, Outcome


@dataclass(frozen=True, slots=True)
class Begun:
    """The request was read and taken: what was asked."""

    request: TextRequest
    created: int


@dataclass(frozen=True, slots=True)
class Done:
    """The text is whole: it, and what its prompt cost."""

    text: GeneratedAnswer
    counts: Counts


Event = Begun | str | Done


@dataclass(slots=True)
class _Progress:
    start: float = field(default_factory=time.perf_counter)
    first_at: float | None = None
    written: Written | None = None

    def ended(self, counts: Counts, text: GeneratedAnswer, queue_seconds: float) -> None:
        """The text is whole."""
        now = time.perf_counter()
        first_at = now if self.first_at is None else self.first_at
        self.written = Written(
            prompt_tokens=counts.content_tokens,
            generated_tokens=text.tokens,
            queue_seconds=queue_seconds,
            first_seconds=first_at - self.start,
            decode_seconds=now - first_at,
        )


async def text_events(
    service: Service, arrival: Arrival, document: Document, chat: bool
) -> AsyncGenerator[Event, None]:
    """What happens to a request for a text: it is begun, pieces of text, and the end.

    Close it to drop the request.

    Raises:
        SpinfError: the request is refused, cannot be taken now, or failed.
        Gone: nobody waits for the answer any more.
    """
    created = int(time.time())
    error: SpinfError | None = None
    progress = _Progress()
    try:
        async for event in _events(service, arrival, document, chat, created, progress):
            yield event
    except SpinfError as fault:
        error = fault
        raise
    finally:
        tell(
            service.observers,
            Ended(
                request_id=arrival.request_id,
                created=created,
                route="chat_text" if chat else "completions",
                caller=arrival.caller,
                scored=None,
                error=error,
                asked=None,
                written=progress.written,
            ),
        )


async def _events(
    service: Service,
    arrival: Arrival,
    document: Document,
    chat: bool,
    created: int,
    progress: _Progress,
) -> AsyncGenerator[Event, None]:
    service.check_draining()
    engine = service.worker.engine
    with service.admission.slot(arrival.priority, len(arrival.body)) as slot:
        pieces: asyncio.Queue[str | Outcome] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(item: str | Outcome) -> None:
            # After a shutdown that could not wait, the loop is gone and nobody reads.
            if not loop.is_closed():
                loop.call_soon_threadsafe(pieces.put_nowait, item)

        preparing = service.on_host(partial(_prepared, service, engine, document, chat, put))
        request, job = await while_wanted(preparing, arrival.gone, arrival.deadline)
        slot.weigh(job.counts.packed_tokens + request.wanted.max_tokens)
        yield Begun(request, created)
        turn = Turn(arrival.caller.party, arrival.priority, writes=True)
        ticket = service.worker.ask((job,), put, turn)
        ended = False
        try:
            while True:
                item = await while_wanted(pieces.get(), arrival.gone, arrival.deadline)
                if isinstance(item, str):
                    if progress.first_at is None:
                        progress.first_at = time.perf_counter()
                    yield item
                    continue
                ended = True
                if isinstance(item, Failed):
                    raise _located(item.error, chat)
                [result] = item.results
                [[answers]] = result.slots
                [text] = answers.generated
                progress.ended(result.counts, text, item.queue_seconds)
                yield Done(text, result.counts)
                return
        finally:
            if not ended:
                service.worker.cancel(ticket)


def _prepared(
    service: Service,
    engine: Engine,
    document: Document,
    chat: bool,
    put: Callable[[str], None],
) -> tuple[TextRequest, Job]:
    features_of(engine, service.switches).require_generation(None)
    most = service.config.max_completion_tokens
    request = read_text_request(document, engine, chat, most)
    try:
        return request, engine.compile_generation(request.wanted, put)
    except Refused as refused:
        raise _located(refused, chat) from None


def _located(error: SpinfError, chat: bool) -> SpinfError:
    """An engine's error about a prompt, with the field in the request that it was made of."""
    path = "messages" if chat else "prompt"
    if isinstance(error, Refused):
        return Refused(error.code, error.message, path if error.param else None)
    return Fault(error.message, path) if isinstance(error, Fault) else error
