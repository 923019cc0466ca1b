"""The page Try: picking a text out of the rows, a decided sheet, or those that were tried last."""

from collections.abc import Sequence

import streamlit as st

from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.sheet_rows import table_of
from spinf_serve.workbench.actions.trying import (
    MOST_FOUND,
    Content,
    forget_tried,
    found_in_sheet,
    found_rows,
    note_tried,
    recent,
)
from spinf_serve.workbench.frame import Bench, param, set_param, told
from spinf_serve.workbench.parts.texts import is_about_harm, shown_text
from spinf_serve.workbench.parts.words import plain

SHORT = 110


def pick(found: Bench) -> None:
    """Draw the ways to a text; what is picked is put into the address and asked about."""
    _from_address(found)
    rows, sheets, last = st.columns(3)
    with rows.popover("From the rows", icon=":material/table_rows:", width="stretch"), told():
        _of_rows(found)
    with sheets.popover("From a sheet", icon=":material/table_view:", width="stretch"), told():
        _of_sheets(found)
    with last.popover("Tried before", icon=":material/history:", width="stretch"), told():
        _of_recent(found)


def _from_address(found: Bench) -> None:
    """A link from another page names a row."""
    row = param("row")
    if row is None or found.dataset is None:
        return
    exact = [one for id, one in found_rows(found.desk, found.dataset, row) if id == row]
    set_param("row", None)
    if exact:
        _take(found, exact[0])


def _of_rows(found: Bench) -> None:
    if found.dataset is None:
        st.caption("This project has no rows yet. Import some on the page **Data**.")
        return
    words = st.text_input(
        f"Words in texts of {plain(found.dataset)}, or a row's id", key="try-rows-words"
    )
    _choose(found, found_rows(found.desk, found.dataset, words), "try-rows")


def _of_sheets(found: Bench) -> None:
    done = {
        one.id: f"{one.title}, {one.started[:10]}"
        for one in jobs.jobs(found.desk, "sheet", most=20)
        if one.state == "done"
    }
    if not done:
        st.caption("No sheet was decided yet. Do that on the page **Run**.")
        return
    id = st.selectbox("Sheet", list(done), format_func=done.__getitem__, key="try-sheet")
    words = st.text_input("Words in its texts", key="try-sheet-words")
    table = table_of(jobs.job(found.desk, id))
    _choose(found, found_in_sheet(table.file, words), "try-sheet")


def _choose(found: Bench, rows: Sequence[tuple[str, Content]], key: str) -> None:
    if not rows:
        st.caption("No text with these words.")
        return
    for place, (id, content) in enumerate(rows):
        if st.button(
            f"{plain(id, 60)}: {_short(found, content)}",
            key=f"{key}-{place}-{id}",
            type="tertiary",
            width="stretch",
        ):
            _take(found, content)
    if len(rows) == MOST_FOUND:
        st.caption(f"The first {MOST_FOUND}; write words to find others.")


def _of_recent(found: Bench) -> None:
    contents = recent(found.desk)
    if not contents:
        st.caption("Nothing was tried yet.")
        return
    for one in contents:
        left, right = st.columns([8, 1], vertical_alignment="center")
        if left.button(
            _short(found, one), key=f"try-recent-{one.id}", type="tertiary", width="stretch"
        ):
            _take(found, one)
        if right.button(
            "",
            key=f"try-forget-{one.id}",
            icon=":material/close:",
            type="tertiary",
            help="Forget this text",
        ):
            forget_tried(found.desk, one.id)
            st.rerun()
    if st.button("Forget all", key="try-forget-all", icon=":material/delete:"):
        forget_tried(found.desk, None)
        set_param("try", None)
        st.rerun()


def _short(found: Bench, content: Content) -> str:
    loaded = found.loaded()
    pack = None if loaded is None else loaded.pack
    if pack is not None and is_about_harm(pack) and not found.desk.settings().get("open_texts"):
        return f"hidden, {len(content.text):,} characters"
    text = " ".join(content.text.split())
    text = shown_text(found.desk, text)
    text = text if len(text) <= SHORT else f"{text[:SHORT]}…"
    return plain(text)


def _take(found: Bench, content: Content) -> None:
    noted = note_tried(found.desk, content)
    set_param("try", noted.id)
    st.rerun()
