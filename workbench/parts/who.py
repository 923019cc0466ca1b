"""The choice of who answers: the server given at the start, the model on this machine, another server."""

from typing import Final, Literal

import streamlit as st

from spinf_serve.workbench.actions.project_settings import change
from spinf_serve.workbench.answering import Who, given_who, local_who
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.parts.words import code, plain

_URL: Final = "other_server"

Kind = Literal["given", "local", "other"]


def choose_who(
    desk: Desk, user: str, key: str, label: str = "Who answers", *, url: str | None = None
) -> Who | None:
    """Draw the choice; None while the address of another server is missing.

    Args:
        user: who chooses, for the audit trail.
        key: of the widgets.
        url: of a server that is chosen at first, out of an address.
    """
    given = given_who()
    titles: dict[Kind, str] = {"given": f"The server {given.server}"}
    if given.server is None:
        titles = {"local": "The model on this machine"}
    else:
        titles["local"] = "The model on this machine"
    titles["other"] = "Another server"
    kind: Kind = st.selectbox(
        label,
        list(titles),
        index=list(titles).index("other") if url not in (None, given.server) else 0,
        format_func=titles.__getitem__,
        key=f"{key}-who",
        help="A running spinf-serve by its address, or the model that `spinf-serve workbench` was"
        " given, in a process of its own.",
    )
    if kind == "local":
        return local_who()
    if kind == "given":
        return given
    left, right = st.columns([3, 2])
    address = left.text_input(
        "Address",
        value=url or str(desk.settings().get(_URL, "")),
        key=f"{key}-url",
        placeholder="http://127.0.0.1:8000",
    ).strip()
    token = right.text_input(
        "Token", key=f"{key}-token", type="password", help="Sent to that server only; not kept."
    ).strip()
    if not address:
        st.caption("Write the address of a running spinf-serve.")
        return None
    if not address.startswith(("http://", "https://")):
        st.error("An address begins with http:// or https://, such as http://127.0.0.1:8000")
        return None
    change(desk, user, _URL, address)
    return Who(address.rstrip("/"), token or None)


def marked(who: str) -> str:
    """Who answers, for Markdown: an address as it is, without becoming a link."""
    return code(who) if "://" in who else plain(who)
