"""The page History: who changed what and when, and the project's settings."""

import json
from functools import partial
from typing import Any, Final

import pandas as pd
import streamlit as st

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions.project_settings import change
from spinf_serve.workbench.audit import AUDIT_FILE, Event
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, bench, told
from spinf_serve.workbench.parts.calm import is_change
from spinf_serve.workbench.parts.synced import synced
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.tour import show_again
from spinf_serve.workbench.parts.words import UNKNOWN, plain
from spinf_serve.workbench.started import started

MOST: Final = 5_000
"""Changes that the page looks through, the newest."""

_EVERYBODY: Final = "everybody"


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("History")
    st.caption("Who changed what in this project, and when; and the project's settings.")
    changes, settings = st.tabs(["Changes", "Settings"], key="tab", bind="query-params")
    if changes.open:
        with changes, told():
            _changes(found)
    if settings.open:
        with settings, told():
            _settings(found)


def _changes(found: Bench) -> None:
    path = found.desk.folder / AUDIT_FILE
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    word = left.text_input(
        "Search", key="history-search", placeholder="Who, what, or which file or row",
        icon=":material/search:",
    )  # fmt: skip
    events = _found(str(found.desk.folder), _stamp(found), word or "")
    people = sorted({event.user for event in events})
    who = right.selectbox("By", [_EVERYBODY, *people], key="history-who")
    if who != _EVERYBODY:
        events = [event for event in events if event.user == who]
    if not events:
        st.info(
            "No change has this in it. Search for a shorter word."
            if word or who != _EVERYBODY
            else "Nothing was changed yet. Every label, saved pack and cut will stand here."
        )
        return
    chosen = paged(
        len(events),
        lambda first, rows: _table(events[first : first + rows]),
        f"history-{key_of(word, who)}",
        selectable=True,
    )
    if len(events) >= MOST:
        st.caption(f"The newest {MOST:,} changes; older ones stand in `{AUDIT_FILE}`.")
    if chosen is None:
        st.caption("Click the box before a row to see all of it.")
    else:
        _details(events[chosen])
    st.download_button(
        "All changes (JSON lines)",
        path.read_bytes,
        file_name=AUDIT_FILE,
        mime="application/jsonl",
        key="history-download",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )


def _stamp(found: Bench) -> int:
    """Changes with every line, since lines are only ever added."""
    try:
        return (found.desk.folder / AUDIT_FILE).stat().st_size
    except FileNotFoundError:
        return 0


@st.cache_data(show_spinner=False, max_entries=8)
def _found(folder: str, stamp: int, word: str) -> list[Event]:
    from pathlib import Path

    from spinf_serve.workbench.desk import Desk

    place = Path(folder)
    return audit.events(Desk(place, place), newest=MOST, word=word)


def _table(events: list[Event]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "When (UTC)": [event.at.replace("T", " ").removesuffix("+00:00") for event in events],
            "Who": [event.user for event in events],
            "What": [event.action for event in events],
            "To what": [event.subject for event in events],
            "Details": [_short(event.details) for event in events],
        }
    )


def _short(details: dict[str, Any]) -> str:
    told = ", ".join(f"{name}: {_value(value)}" for name, value in details.items())
    return told if len(told) <= 120 else f"{told[:119]}…"


def _value(value: Any) -> str:
    if value is None:
        return UNKNOWN
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A digest is known by its beginning.
    is_digest = len(text) == 64 and all(one in "0123456789abcdef" for one in text)
    return f"{text[:12]}…" if is_digest else text


def _details(event: Event) -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(event.action)}** · {plain(event.at)} · {plain(event.user)}")
        st.text(event.subject)
        for name, value in event.details.items():
            left, right = st.columns([1, 5])
            left.caption(plain(name))
            if isinstance(value, (dict, list)):
                right.json(value, expanded=False)
            else:
                right.text(str(value))


def _settings(found: Bench) -> None:
    kept = found.desk.settings()

    def keep(name: str, key: str) -> None:
        if not is_change(key):
            return
        try:
            change(found.desk, found.user, name, st.session_state[key])
        except Unusable as fault:
            st.session_state["setting-fault"] = (name, str(fault))

    def held(name: str, value: Any) -> dict[str, Any]:
        """Key, value and callback of a setting's widget."""
        key, shown = synced(f"setting-{name}", value)
        return {"key": key, "value": shown, "on_change": partial(keep, name, key)}

    fault = st.session_state.pop("setting-fault", None)
    if fault is not None:
        st.error(plain(fault[1]))
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Traffic")
        per_day = kept.get("per_day")
        st.number_input(
            "Messages a day", min_value=0, step=100,
            **held("per_day", None if per_day is None else int(per_day)),
            placeholder="not known",
            help="Pages then show figures per day beside those per 1,000 messages.",
        )  # fmt: skip
        st.subheader("You")
        _name(found, kept.get("user"), held)
        st.subheader("Tour")
        show_again(found)
    with right:
        st.subheader("Texts")
        st.toggle(
            "Mask personal data", **held("mask", bool(kept.get("mask"))),
            help="Addresses, numbers of accounts, cards and telephones, links, handles, and names"
            " behind words such as \"my name is\". Only on screen: rows, runs and exports keep the"
            " texts as they are.",
        )  # fmt: skip
        if kept.get("mask"):
            st.toggle(
                "Mask numbers of orders and customers too",
                **held("mask_orders", bool(kept.get("mask_orders"))),
            )  # fmt: skip
            st.caption("Names of people stay where no phrase introduces them.")
        st.toggle(
            "Show texts of packs about harm at once",
            **held("open_texts", bool(kept.get("open_texts"))),
            help="Otherwise such a text is hidden until you ask for it.",
        )  # fmt: skip


def _name(found: Bench, own: Any, held: Any) -> None:
    how = started()
    if how.user_header is not None:
        st.markdown(
            f"You are **{plain(found.user)}**: the proxy in front of this workbench says so."
        )
    elif how.approvers:
        st.markdown(
            f"You are **{plain(found.user)}**, as the workbench was started. A name of your own is not"
            " taken here, since only some may approve."
        )
    else:
        st.text_input(
            "Your name", **held("user", str(own or "")), placeholder=how.user, max_chars=80,
            help="Stands beside your labels and changes.",
        )  # fmt: skip
    st.caption(
        "You may publish versions and put cuts in force."
        if found.approver
        else "Publishing versions and putting cuts in force is for: "
        + ", ".join(map(plain, sorted(how.approvers)))
    )
