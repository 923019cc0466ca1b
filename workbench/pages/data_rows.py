"""The part Rows of the page Data: all rows of a dataset, searched, filtered, sorted, page by page."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import rows
from spinf_serve.workbench.actions.rows import DISPUTED, NO_LABEL, SORTS, Filter, Names
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench, param, set_param, stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages import data_row
from spinf_serve.workbench.parts.job_box import job_box
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.texts import is_about_harm, shown_text
from spinf_serve.workbench.parts.words import code, plain
from spinf_serve.workbench.parts.words import count as counted

MOST_TARGETS: Final = 6
"""Columns of labels that a table begins with."""

ANY: Final = "any"
_FORMATS: Final = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}


def draw(found: Bench) -> None:
    """Draw the part."""
    dataset = found.need_dataset()
    desk, key = found.desk, key_of(found.desk.file, dataset)
    wanted = _wanted(found, dataset, key)
    total = _count(str(desk.file), dataset, wanted, stamp(desk))
    known = names_of(found, dataset)
    everything = rows_in(found, dataset)
    in_split = _count(str(desk.file), dataset, Filter(split=found.split), stamp(desk))
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.caption(
        f"{counted(total, 'row')} of **{plain(dataset)}**"
        + (f", of {in_split:,} in all" if total < in_split else "")
        + ". Click the box before a row to see all of it."
    )
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        targets = _targets(known, key, wanted)
        _download(found, dataset, everything)

    def fetch(first: int, most: int) -> Any:
        data = rows.page(desk.project, dataset, wanted, first, most, targets)
        return _shown(found, data)

    if not total:
        st.info("No row is like that. Take a filter away, or search for less.")
    else:
        table = key_of(key, wanted)
        paged(
            total,
            fetch,
            f"rows-{table}",
            on_choose=lambda place: _follow(found, dataset, wanted, place),
            chosen=_opened(found, dataset, wanted, table),
            column_config={
                "id": st.column_config.TextColumn(width="small"),
                # Wider, and labels would be out of sight on a narrow screen.
                "text": st.column_config.TextColumn(width="medium"),
            },
        )
    row_id = param("row")
    if row_id is not None:
        st.divider()
        data_row.draw(found, dataset, row_id)
    elif total and total < in_split:
        _delete_these(found, dataset, wanted, total, everything)


def names_of(found: Bench, dataset: str) -> Names:
    """What rows can be filtered by, kept until the project changes."""
    return _names(str(found.desk.file), dataset, stamp(found.desk))


def rows_in(found: Bench, dataset: str) -> int:
    """All rows of a dataset."""
    return _count(str(found.desk.file), dataset, Filter(), stamp(found.desk))


def _wanted(found: Bench, dataset: str, key: str) -> Filter:
    """The filter as the widgets have it; a group or a text comes from the address."""
    known = names_of(found, dataset)
    first, second = st.columns([3, 1.4])
    word = first.text_input(
        "Search", key=f"word-{key}", placeholder="words of a text, an id, a group",
        icon=":material/search:",
    )  # fmt: skip
    order = second.selectbox(
        "Sort by", [one + end for one in SORTS for end in ("", ", backwards")], key=f"sort-{key}"
    )
    sort, _, backwards = order.partition(", ")
    wanted = Filter(word, sort=sort, descending=bool(backwards), split=found.split)
    cells = st.columns(4)
    target = cells[0].selectbox(
        "Label", [ANY, *known.targets], key=f"target-{key}", help=meaning("label")
    )
    if target != ANY:
        values = [*known.targets.get(target, ()), NO_LABEL, DISPUTED]
        value = cells[1].selectbox("is", values, key=f"value-{key}-{target}")
        wanted = replace(wanted, target=target, value=value)
    else:
        cells[1].selectbox("is", [ANY], key=f"value-{key}", disabled=True)
    slices = [f"{name}: {value}" for name, values in known.slices.items() for value in values]
    pairs = [(name, value) for name, values in known.slices.items() for value in values]
    chosen = cells[2].selectbox(
        "Slice", [ANY, *slices], key=f"slice-{key}", help=meaning("slice"), disabled=not slices
    )
    if chosen != ANY:
        wanted = replace(wanted, slice=pairs[slices.index(chosen)])
    drawn = cells[3].selectbox(
        "How drawn", [ANY, *known.drawn], key=f"drawn-{key}", help=meaning("drawn")
    )
    if drawn != ANY:
        wanted = replace(wanted, drawn=drawn)
    group, digest = param("group"), param("same")
    if group is not None or digest is not None:
        what = f"the group {plain(repr(group))}" if group is not None else "one text"
        told_of, clear = st.columns([4, 1], vertical_alignment="center")
        told_of.info(f"Only rows of {what}.")
        clear.button("Show all rows", key=f"all-{key}", on_click=_show_all)
        wanted = replace(wanted, group=group, digest=digest)
    return wanted


def _show_all() -> None:
    set_param("group", None)
    set_param("same", None)


def _targets(known: Names, key: str, wanted: Filter) -> list[str]:
    """Targets whose labels have a column."""
    every = list(known.targets)
    if len(every) <= MOST_TARGETS:
        return every
    first = [one for one in every if one == wanted.target]
    first += [one for one in every if one != wanted.target]
    with st.popover("Columns", icon=":material/view_column:"):
        chosen: list[str] = st.multiselect(
            "Labels to show", every, default=first[:MOST_TARGETS], key=f"columns-{key}"
        )
    return chosen


def _shown(found: Bench, data: Any) -> Any:
    """A table's texts as the project wants them: hidden for a pack about harm, or masked."""
    loaded = found.loaded()
    pack = None if loaded is None else loaded.pack
    if pack is not None and is_about_harm(pack) and not found.desk.settings().get("open_texts"):
        data["text"] = "hidden: open the row"
    else:
        data["text"] = [shown_text(found.desk, text) for text in data["text"]]
    return data


def _follow(found: Bench, dataset: str, wanted: Filter, place: int) -> None:
    """A row that is chosen goes into the address."""
    ids = rows.ids_of(found.desk.project, dataset, wanted, 1, place)
    if ids:
        set_param("row", ids[0])


def _opened(found: Bench, dataset: str, wanted: Filter, table: str) -> int | None:
    """Place of the row in the address when the table is first drawn: its page is opened."""
    row_id, key = param("row"), f"opened-{table}"
    if key not in st.session_state:
        st.session_state[key] = (
            None if row_id is None else rows.position(found.desk.project, dataset, wanted, row_id)
        )
    place: int | None = st.session_state[key]
    return place


def _download(found: Bench, dataset: str, everything: int) -> None:
    with st.popover("Export", icon=":material/download:"):
        what = st.radio(
            "What",
            ["rows", "labels"],
            format_func={
                "rows": "Rows with what holds of them",
                "labels": "Every label as it was given, without texts",
            }.__getitem__,
            key="export-what",
        )
        ending = st.selectbox(
            "Format", list(_FORMATS), format_func=_FORMATS.__getitem__, key="export-ending"
        )
        text = st.checkbox("with the texts", value=True, key="export-text", disabled=what != "rows")
        if everything <= rows.LARGE:
            st.download_button(
                "Download",
                lambda: rows.export(
                    found.desk, dataset, ending, text=text, labels=what == "labels"
                ),
                file_name=f"{dataset}-{what}.{ending}",
                key="export-now",
                on_click="ignore",
                icon=":material/download:",
            )
        elif st.button("Write the file", key="export-job", icon=":material/download:"):
            given = {
                "dataset": dataset, "what": what, "ending": ending, "text": text,
                "user": found.user,
            }  # fmt: skip
            with told():
                jobs.start(found.desk, found.user, "export", f"Export {dataset}", given)
        if everything > rows.LARGE:
            _jobs_of(found, "export", dataset)


def _jobs_of(found: Bench, kind: str, dataset: str) -> None:
    """The latest job of a kind on a dataset, and what came of it."""
    for job in jobs.jobs(found.desk, kind, most=20):
        if job.arguments.get("dataset") == dataset:
            if job.state == "done":
                result = job.result() or {}
                if "file" in result:
                    st.caption(
                        f"{result['rows']:,} lines are in {code(result['file'])} of the project."
                    )
            else:
                job_box(found.desk, found.user, job.id)
            return


def _delete_these(found: Bench, dataset: str, wanted: Filter, total: int, everything: int) -> None:
    if st.button(
        f"Delete these {counted(total, 'row')}", key="delete-these", icon=":material/delete:",
        type="tertiary",
    ):  # fmt: skip
        confirm_delete(found, dataset, wanted, total, everything)
    _jobs_of(found, "delete", dataset)


@st.dialog("Delete rows for good?")
def confirm_delete(found: Bench, dataset: str, wanted: Filter, total: int, everything: int) -> None:
    """Ask, and delete the rows that a filter leaves."""
    with told():
        rows.check_deletable(total)
        st.markdown(
            f"**{counted(total, 'row')}** of **{plain(dataset)}** would be deleted with all labels, notes"
            " and scores. This cannot be undone. The audit trail keeps their ids."
        )
        sure = st.text_input(f"Write {total} to confirm", key=f"sure-{key_of(dataset, wanted)}")
        if st.button("Delete", type="primary", key="delete-sure", icon=":material/delete:"):
            if sure.replace(",", "").strip() != str(total):
                raise Unusable(f"write {total} into the field to confirm; nothing was deleted")
            delete(found, dataset, wanted, everything)
            set_param("row", None)
            st.rerun()


def delete(found: Bench, dataset: str, wanted: Filter, everything: int) -> None:
    """Delete rows now, or as a job where the project is large."""
    ids = rows.ids_of(found.desk.project, dataset, wanted, rows.MOST_DELETED)
    if everything <= rows.LARGE:
        gone = rows.delete(found.desk, found.user, dataset, ids)
        st.toast(f"{counted(gone, 'row')} deleted")
        return
    given = {"dataset": dataset, "ids": ids, "user": found.user}
    title = f"Delete {counted(len(ids), 'row')} of {dataset}"
    jobs.start(found.desk, found.user, "delete", title, given)


@st.cache_data(show_spinner=False, max_entries=64)
def _count(file: str, dataset: str, wanted: Filter, state: tuple[int, int]) -> int:
    return rows.count(_desk(file).project, dataset, wanted)


@st.cache_data(show_spinner=False, max_entries=16)
def _names(file: str, dataset: str, state: tuple[int, int]) -> Names:
    return rows.names(_desk(file).project, dataset)


def _desk(file: str) -> Desk:
    return Desk(Path(file).parent, Path(file))
