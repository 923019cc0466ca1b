"""Starts the workbench: Streamlit in this process, with nothing sent or fetched from elsewhere."""

import ctypes
import importlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.shield import put_up
from spinf_serve.workbench.started import Started, start_as
from spinf_serve.workbench.warm import warm_up

MOST_UPLOAD_MB: Final = 1_024

_ARENA_MAX: Final = -8
_ARENAS: Final = 2

OPTIONS: Final[dict[str, Any]] = {
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "viewer",
    "client.showErrorDetails": "none",
    "global.developmentMode": False,
    # A value stands in a widget's default too, as `parts.synced` says.
    "global.disableWidgetStateDuplicationWarning": True,
    "runner.magicEnabled": False,
    # Whatever asks in another way than a browser would come past the user header.
    "server.enableAgentApi": False,
    "server.enableCORS": True,
    "server.enableStaticServing": False,
    "server.enableXsrfProtection": True,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": MOST_UPLOAD_MB,
    "server.runOnSave": False,
    "server.showEmailPrompt": False,
    # A reload or a dropped connection finds its session again for so many seconds.
    "server.disconnectedSessionTTL": 3_600,
    # One for each, so that the browser's choice of light or dark is followed.
    "theme.light.primaryColor": "#0072B2",
    "theme.dark.primaryColor": "#56B4E9",
}
"""Settings of Streamlit that hold whatever its own configuration files say."""


def run(how: Started, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve the workbench until it is stopped.

    Args:
        say: told what is being done, and where the workbench is.

    Raises `Unusable` when the project cannot be opened.
    """
    _take_few_arenas()
    open_desk(how.folder, say)
    say(f"the workbench is at http://{host}:{port} (Ctrl-C stops it)")
    start_as(how)
    put_up()
    bootstrap = importlib.import_module("streamlit.web.bootstrap")
    flags = {**OPTIONS, "server.address": host, "server.port": port}
    named = {name.replace(".", "_"): value for name, value in flags.items()}
    bootstrap.load_config_options(flag_options=named)
    warm_up()
    script = str(Path(__file__).parent / "entry" / "app.py")
    bootstrap.run(script, False, [], named)


def _take_few_arenas() -> None:
    """Every run of a page is a thread, and glibc would keep memory aside for each; others have none."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
