"""The page Run for a sheet without labels: upload or paste, decide, look through, download."""

from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.asking import copied_pack
from spinf_serve.workbench.actions.sheet_rows import Table, table_of
from spinf_serve.workbench.actions.sheets import (
    ENDINGS,
    MOST_COUNTED,
    Laid,
    Look,
    laid,
    lay,
    lay_text,
    look_at,
    output_of,
    sheets_near,
    start_measure_sheet,
    start_sheet,
    tabs_of,
)
from spinf_serve.workbench.frame import Bench, param, set_param, told
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.pages.run_cost import show_cost
from spinf_serve.workbench.pages.run_jobs import ended, live
from spinf_serve.workbench.pages.run_rows import choose_pack
from spinf_serve.workbench.parts.kept import keeping, kept_value, used
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.texts import hides_texts, is_about_harm, shown_text
from spinf_serve.workbench.parts.who import choose_who
from spinf_serve.workbench.parts.words import count, percent, plain, volume

PASTE_HELP = "One text a line; or a table copied out of a spreadsheet, with its first line naming the columns."

_DECISIONS = {"unsafe": "flagged", "safe": "not flagged"}
"""The file's words for a decision, in those of the pages."""


def draw_sheet(found: Bench) -> None:
    """One run of this half of the page; the sheet stands in the address."""
    id = param("sheet")
    if id is None:
        _bring(found)
        return
    sheet = None
    with told():
        sheet = laid(found.desk, id)
    if sheet is None:
        _another()
        return
    _head(sheet)
    with told():
        if not jobs.known(found.desk, id):
            _prepare(found, sheet)
            return
        job = jobs.job(found.desk, id)
        if job.is_live:
            live(found, id)
        elif job.state == "done":
            _result(found, job)
        else:
            with st.container(border=True):
                ended(found, job)


def _bring(found: Bench) -> None:
    st.markdown(
        "Bring texts without labels, such as an export of your tickets. Each gets the pack's decision,"
        " categories and reason in columns behind its own."
    )
    ways = ["Upload a file", "Paste", "In the project's folder"]
    upload, paste, near = st.tabs(
        ways, default=ways[1] if kept_value(found, "sheet-paste") else None
    )
    with upload:
        given = st.file_uploader(
            "A CSV, TSV, Excel, JSONL or Parquet file",
            type=list(ENDINGS),
            key="sheet-upload",
        )
        if given is not None:
            with told(), st.spinner("Laying it into the project…"):
                _open(lay(found.desk, given.name, given).id)
    with paste:
        text = keeping(
            found, "sheet-paste", st.text_area, "Texts", start="", height=180, help=PASTE_HELP
        )
        st.caption(PASTE_HELP)
        if st.button("Use these texts", key="sheet-paste-use", disabled=not text.strip()):
            with told():
                id = lay_text(found.desk, text).id
                used(found, "sheet-paste")
                _open(id)
    with near:
        files = sheets_near(found.desk)
        if not files:
            st.caption("No file lies in the folder `sheets` of the project.")
        for file in files:
            if st.button(
                plain(file.name, 120), key=f"sheet-near-{file.name}", icon=":material/table_view:"
            ):
                with told(), file.open("rb") as data:
                    id = lay(found.desk, file.name, data).id
                _open(id)


def _open(id: str) -> None:
    set_param("sheet", id)
    st.rerun()


def _head(sheet: Laid) -> None:
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.subheader(plain(sheet.name), width="content")
        _another()


def _another() -> None:
    if st.button("Another sheet", key="sheet-another", icon=":material/upload_file:"):
        set_param("sheet", None)
        st.session_state.pop("sheet-upload", None)
        st.rerun()


def _prepare(found: Bench, sheet: Laid) -> None:
    """Column, pack, who answers, cost, start."""
    tabs = tabs_of(sheet)
    tab = st.selectbox("Worksheet", tabs, key=f"sheet-tab-{sheet.id}") if len(tabs) > 1 else None
    encoding = None
    if sheet.file.suffix in (".csv", ".tsv", ".jsonl", ".ndjson"):
        with st.expander("The file's encoding"):
            encoding = (
                st.text_input(
                    "Encoding",
                    key=f"sheet-encoding-{sheet.id}",
                    placeholder="UTF-8; cp1252 for older exports",
                ).strip()
                or None
            )
    look = _look(sheet, None, tab, encoding)
    columns = list(dict.fromkeys(look.columns))
    text = st.selectbox(
        "Column of the texts",
        columns,
        index=columns.index(look.text) if look.text in columns else None,
        placeholder="Which column holds the texts?",
        key=f"sheet-text-{sheet.id}-{tab}",
    )
    if text is None:
        return
    if text != look.text or look.rows is None:
        look = _look(sheet, text, tab, encoding)
    rows = look.rows or 0
    more = " or more" if rows >= MOST_COUNTED else ""
    st.caption(f"{count(rows, 'row')}{more}. The first texts:")
    first = st.container()
    left, right = st.columns(2)
    with left:
        chosen = choose_pack(found, "run-sheet")
    with first:
        _first_texts(found, look, None if chosen is None else chosen[1], sheet.id)
    with right:
        who = choose_who(found.desk, found.user, "run-sheet")
    if chosen is None or who is None:
        return
    name, pack = chosen
    context, parameters = _presenting(pack, sheet)
    show_cost(
        found,
        who,
        pack,
        rows,
        1.0,
        about="about ",
        name=name,
        sample=lambda: [one for one in look.first if one.strip()],
        measure=lambda: start_measure_sheet(
            found.desk, found.user, who, sheet, name, text=text, tab=tab, encoding=encoding,
            context=context,
        ),
        key="run-sheet",
    )  # fmt: skip
    if not pack.fitted:
        st.warning(
            f"{plain(pack.id)} is a draft: it has no numbers for any model yet, so it decides nothing. Fit"
            " it on the page **Thresholds** first."
        )
    if st.button(
        f"Decide {count(rows, 'row')}{more}",
        type="primary",
        key="sheet-start",
        icon=":material/play_arrow:",
        disabled=not rows or not pack.fitted,
    ):
        job = start_sheet(
            found.desk,
            found.user,
            who,
            sheet,
            name,
            text=text,
            tab=tab,
            encoding=encoding,
            context=context,
            parameters=parameters,
        )
        _open(job.id)


def _presenting(pack: Pack, sheet: Laid) -> tuple[str | None, dict[str, str]]:
    """The pack's context and its parameters, where it has a choice."""
    context = None
    if len(pack.contexts) > 1:
        context = st.selectbox(
            "Context", list(pack.contexts), key=f"sheet-context-{sheet.id}-{pack.digest[:8]}"
        )
    parameters = {}
    for name, parameter in pack.parameters.items():
        value = st.text_input(
            plain(parameter.label or name),
            value=parameter.default or "",
            key=f"sheet-{sheet.id}-{pack.digest[:8]}-{name}",
            help=f"{plain(parameter.description or '')} A column parameters.{plain(name)} goes before it.".strip(),
        )
        if value:
            parameters[name] = value
    return context, parameters


def _first_texts(found: Bench, look: Look, pack: Pack | None, id: str) -> None:
    if hides_texts(found.desk, pack) and not st.toggle(
        "Show the texts: this pack is about harm", key=f"sheet-first-{id}"
    ):
        return
    for text in look.first[:3]:
        # Masked before it is cut: half an address is known for one no more.
        shown = shown_text(found.desk, text)
        st.text((shown if len(shown) <= 200 else f"{shown[:200]}…") or "(empty)")


def _look(sheet: Laid, text: str | None, tab: str | None, encoding: str | None) -> Look:
    try:
        return _looked(str(sheet.file), sheet.id, sheet.name, text, tab, encoding)
    except (SpinfError, Unusable) as fault:
        # Where the copy lies tells nothing about the file that was given.
        raise Unusable(str(fault).replace(str(sheet.file), sheet.name)) from None


@st.cache_data(show_spinner="Looking through the sheet…", max_entries=16)
def _looked(
    file: str, id: str, name: str, text: str | None, tab: str | None, encoding: str | None
) -> Look:
    sheet = Laid(id, Path(file).parent, name, Path(file))
    return look_at(sheet, text=text, tab=tab, encoding=encoding)


def _result(found: Bench, job: Job) -> None:
    result = job.result() or {}
    if result.get("warning"):
        st.warning(plain(result["warning"][:1].upper() + result["warning"][1:] + "."))
    with st.container(border=True):
        ended(found, job)
    decided = sum(result["verdicts"].values())
    if decided:
        share = result["verdicts"].get("unsafe", 0) / decided
        per_day = found.desk.settings().get("per_day")
        st.caption(f"Flagged: {percent(share)}, {volume(share, per_day)}.")
    name, file = output_of(job)
    st.download_button(
        f"Download {plain(name, 80)}",
        file.read_bytes,
        file_name=name,
        mime="application/octet-stream",
        type="primary",
        icon=":material/download:",
        key=f"sheet-download-{job.id}",
        on_click="ignore",
    )
    only = st.segmented_control(
        "Rows to show",
        ["all", "unsafe", "refused", "safe"],
        format_func={
            "all": "All, flagged first",
            "unsafe": "Flagged",
            "refused": "Without an answer",
            "safe": "Not flagged",
        }.__getitem__,
        default="all",
        required=True,
        key=f"sheet-only-{job.id}",
        label_visibility="collapsed",
    )
    table = table_of(job, None if only == "all" else only)
    _table(found, job, table, only)


def _table(found: Bench, job: Job, table: Table, only: str) -> None:
    pack = copied_pack(job.folder)
    hidden = is_about_harm(pack) and not found.desk.settings().get("open_texts")
    if hidden:
        hidden = not st.toggle("Show the texts: this pack is about harm", key=f"open-{job.id}")

    def fetch(offset: int, size: int) -> pd.DataFrame:
        rows = table.fetch(offset, size)
        if "decision" in rows:
            rows = rows.assign(decision=rows["decision"].replace(_DECISIONS))
        if hidden:
            return rows.drop(columns="text")
        shown = rows["text"].map(partial(shown_text, found.desk), na_action="ignore")
        return rows.assign(text=shown)

    paged(
        table.count(), fetch, f"sheet-{job.id}-{only}", page_rows=25,
        column_config={
            # Not so wide that decisions and reasons are out of sight.
            "text": st.column_config.TextColumn(width="medium"),
            # A row that is not flagged may hold categories which decide nothing.
            "flagged": st.column_config.TextColumn(
                "at their cuts",
                help="Categories that reach their cuts: the file's column of flagged categories."
                " Which of them decide, the pack says.",
            ),
        },
    )  # fmt: skip
