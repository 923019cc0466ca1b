"""What the workbench's answers forbid browsers: to fetch from, send to, or stand in pages of elsewhere.

Names and texts are escaped where pages draw them; what slips through is stopped here.
"""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_Message = MutableMapping[str, Any]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, Callable[[], Awaitable[_Message]], _Send], Awaitable[None]]

_INLINE: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def policy(index: bytes) -> str:
    """The Content-Security-Policy for pages with Streamlit's `index.html`.

    Charts compile expressions, the editor's code comes as a blob, and styles stand in the page.
    """
    digests = (hashlib.sha256(script).digest() for script in _INLINE.findall(index))
    inline = "".join(f" 'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'unsafe-eval' blob:{inline}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "media-src 'self' data: blob:",
            "connect-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "frame-src 'self' data: blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        )
    )


class Shield:
    """Adds the headers to every answer; an ASGI app around another."""

    def __init__(self, app: _App) -> None:
        streamlit = Path(str(import_module("streamlit").__file__)).parent
        told = {
            "content-security-policy": policy((streamlit / "static/index.html").read_bytes()),
            "x-content-type-options": "nosniff",
            # Addresses name packs and rows.
            "referrer-policy": "same-origin",
        }
        self._app = app
        self._headers = [(name.encode(), value.encode()) for name, value in told.items()]

    async def __call__(
        self, scope: _Message, receive: Callable[[], Awaitable[_Message]], send: _Send
    ) -> None:
        """One request."""

        async def with_headers(message: _Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in self._headers}
                kept = [one for one in message.get("headers", ()) if one[0].lower() not in names]
                message["headers"] = [*kept, *self._headers]
            await send(message)

        await self._app(scope, receive, with_headers)


def put_up() -> None:
    """Have Streamlit's server answer through the shield, and ask nobody for this machine's address.

    Before it starts. Streamlit has no setting for either.
    """
    starlette_app = import_module("streamlit.web.server.starlette.starlette_app")
    middleware = import_module("starlette.middleware").Middleware
    own = starlette_app.create_streamlit_middleware
    vars(starlette_app)["create_streamlit_middleware"] = lambda: [middleware(Shield), *own()]
    # A connection from a page of elsewhere would have it fetch that from a server of Amazon's.
    vars(import_module("streamlit.net_util"))["get_external_ip"] = lambda: None
