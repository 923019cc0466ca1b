"""Routes that work on the folder of batch files: what its disk refuses is answered 503."""

import logging
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from spinf_serve.packs.errors import Busy

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 30


class FolderRoute(APIRoute):
    """A route whose failures of disk and database are told as such: nobody's request is at fault."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, which raises `Busy` (`storage_unavailable`) for them."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except (OSError, sqlite3.Error) as fault:
                logger.error("the folder of batch files cannot be used: %s", fault)
                raise Busy(
                    "storage_unavailable",
                    "the folder of batch files cannot be read or written now, and the server's log "
                    f"says why: ask again in {_RETRY_SECONDS} seconds",
                    _RETRY_SECONDS,
                ) from fault

        return handled
