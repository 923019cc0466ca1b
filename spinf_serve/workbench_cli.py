"""`spinf-serve workbench`: the screens on which packs are written, seen and made right."""

import getpass
from pathlib import Path
from typing import Annotated, Final

import typer

from spinf_serve.flags import EVALS_PACKAGES, require, takes_settings
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain

WORKBENCH_PACKAGES = (*EVALS_PACKAGES, "altair", "streamlit")
PORT: Final = 8501
EMBEDDED: Final = "embedded"


@takes_settings("engine", "limits", also=("token",), positional=False)
def workbench(
    config: ServerConfig,
    project: Annotated[
        Path,
        typer.Argument(
            metavar="PROJECT",
            help="folder of the project; made, with an example, if it is not there",
        ),
    ] = Path("spinf-project"),
    server: Annotated[
        str,
        typer.Option(
            metavar="URL|embedded",
            help="who answers: a running server, to which token is sent, or the model, in a process"
            " of its own",
        ),
    ] = EMBEDDED,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="listen there; others reach it by 0.0.0.0")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=1, max=65535, metavar="NUMBER", help="listen on that port")
    ] = PORT,
    user_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="HTTP header in which a proxy in front names the user, trusted"
        ),
    ] = None,
    approver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER",
            help="who may publish and put cuts in force, else everybody; may be given again",
        ),
    ] = None,
) -> None:
    """Open the workbench in a browser: packs, data, runs, scores, thresholds, reports.

    The first visit opens an example with 600 labelled messages. A server has to be given for
    models that need a GPU elsewhere; without one the model runs on this machine.
    """
    require(WORKBENCH_PACKAGES)
    from spinf_serve.workbench.launch import run
    from spinf_serve.workbench.started import Started

    if approver and user_header is None:
        raise Unusable("--approver names users, and nobody does: say --user-header too")
    url = None if server == EMBEDDED else server
    if url is not None and not url.startswith(("http://", "https://")):
        raise Unusable(
            f"--server {server}: write {EMBEDDED}, or a URL such as http://127.0.0.1:8000"
        )
    if host not in ("127.0.0.1", "localhost", "::1") and user_header is None:
        complain(
            f"warning: {host} lets everybody on the network in, without a password: put a proxy in"
            " front that asks for one, and name its header with --user-header"
        )
    how = Started(
        project,
        url,
        config,
        config.token,
        user_header,
        frozenset(approver or ()),
        getpass.getuser(),
    )
    run(how, host, port, complain)
