"""The part Import of the page Data: bring a file, say what its columns mean, try, import."""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Literal

import streamlit as st

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import importing, uploads
from spinf_serve.workbench.actions.columns_guessed import Peek, guessed, peek
from spinf_serve.workbench.actions.importing import Plan
from spinf_serve.workbench.actions.uploads import ENDINGS, Upload
from spinf_serve.workbench.frame import Bench, choose, param, set_param, told
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.pages import data_columns, data_report
from spinf_serve.workbench.pages.data_row import pack_of
from spinf_serve.workbench.parts.job_box import job_box
from spinf_serve.workbench.parts.kept import keeping, kept_value, used
from spinf_serve.workbench.parts.words import count as counted
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.started import started

WAYS: Final = {
    "file": "Upload a file",
    "paste": "Paste from a spreadsheet",
    "path": "A file on this machine",
    "log": "A server's decision log",
}
KIND: Final = "import"


def draw(found: Bench) -> None:
    """Draw the part: how to bring a file, or the file that is being brought."""
    _last(found)
    id = param("upload")
    file = None
    if id is not None:
        with told():
            file = uploads.upload(found.desk, id)
    if file is None:
        set_param("upload", None)
        _bring(found)
    else:
        _file(found, file)


def _bring(found: Bench) -> None:
    if "import-way" not in st.session_state:
        given = param("way") or ("paste" if kept_value(found, "import-pasted") else "file")
        st.session_state["import-way"] = given if given in WAYS else "file"
    way = st.segmented_control(
        "From where?",
        list(WAYS),
        default=st.session_state["import-way"],
        format_func=WAYS.__getitem__,
        key="import-way",
        required=True,
    )
    set_param("way", None if way == "file" else way)
    with told():
        if way == "file":
            _upload(found)
        elif way == "paste":
            _paste(found)
        else:
            _path(found, way or "path")
    waiting = uploads.uploads(found.desk)
    if waiting:
        st.markdown("**Brought, and not imported yet**")
    for one in waiting[:20]:
        left, middle, right = st.columns([5, 1, 1], vertical_alignment="center")
        left.markdown(f"{plain(one.name)} · {one.at[:16].replace('T', ' ')} UTC by {plain(one.by)}")
        middle.button("Go on", key=f"upload-{one.id}", on_click=_open, args=(one.id,))
        right.button(
            "Drop", key=f"drop-{one.id}", type="tertiary", on_click=_drop, args=(found, one.id)
        )


def _upload(found: Bench) -> None:
    # A key of its own for each file: what was uploaded leaves the memory then.
    number = st.session_state.setdefault("import-number", 0)
    given = st.file_uploader(
        "CSV, TSV, JSON lines, Parquet or Excel, with a line of column names",
        type=[*ENDINGS, "sqlite", "db"],
        key=f"import-file-{number}",
    )
    if given is not None:
        with st.spinner("Keeping the file…"):
            kept = uploads.keep_file(found.desk, found.user, given.name, given)
        st.session_state["import-number"] = number + 1
        _open(kept.id)
        st.rerun()


def _paste(found: Bench) -> None:
    # No form: it would hold back what is typed until it is sent.
    text = keeping(
        found, "import-pasted", st.text_area, "Cells, copied in the spreadsheet", start="",
        height=220, placeholder="id\ttext\tangry\n1\tWhere is my parcel?\tno",
    )  # fmt: skip
    names = keeping(
        found, "import-names", st.checkbox, "The first line names the columns", start=True
    )
    if st.button("Take these", key="import-take", icon=":material/content_paste:"):
        brought = uploads.keep_pasted(found.desk, found.user, text, has_names=names)
        used(found, "import-pasted", "import-names")
        _open(brought.id)
        st.rerun()


def _path(found: Bench, way: str) -> None:
    shared = started().user_header is not None
    st.caption(
        "The file is read where it lies"
        + (", which has to be in the project's folder." if shared else " and stays there.")
        + (
            " A server keeps its log where it was started with `--decision-log`."
            if way == "log"
            else ""
        )
    )
    with st.form(f"import-path-{way}"):
        written = st.text_input(
            "Its path", placeholder="sheets/new.csv" if way == "path" else "decisions.sqlite",
            key=f"import-written-{way}",
        )  # fmt: skip
        if st.form_submit_button("Open", icon=":material/folder_open:"):
            kept = uploads.keep_path(found.desk, found.user, written, anywhere=not shared)
            if way == "log" and not kept.is_log:
                uploads.drop(found.desk, kept.id)
                raise Unusable(f"{kept.name} is no decision log of a server")
            _open(kept.id)
            st.rerun()


def _file(found: Bench, file: Upload) -> None:
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.subheader(plain(file.name), width="content")
        st.button(
            "Drop", key="import-drop", icon=":material/close:", on_click=_drop,
            args=(found, file.id),
        )  # fmt: skip
    plan = importing.plan_for(found.desk, file) or _first_plan(found, file)
    seen = _peek(found, file, plan)
    st.markdown("##### 1. What the columns mean")
    if seen is not None:
        plan = data_columns.draw(found, file, plan, seen, pack_of(found))
    st.markdown("##### 2. How the rows were chosen")
    plan = _how(file, plan)
    st.markdown("##### 3. Where they go")
    plan = _where(found, plan)
    uploads.keep_plan(found.desk, file.id, plan.as_json())
    if seen is None:
        return
    st.markdown("##### 4. Try, then import")
    _try(found, file, plan)


def _first_plan(found: Bench, file: Upload) -> Plan:
    if file.is_log:
        return Plan(dataset="log", annotator=found.user)
    try:
        seen = peek(importing.source_of(file, Plan()))
    except Unusable:
        return Plan(annotator=found.user)
    pack = pack_of(found)
    told_of = guessed(seen, () if pack is None else pack.categories)
    name = file.path.stem if file.path.stem != "pasted" else "pasted rows"
    return replace(importing.plan_of(told_of), dataset=name, annotator=found.user)


def _peek(found: Bench, file: Upload, plan: Plan) -> Peek | None:
    """The beginning of the file; None, and a way to help, where it cannot be read."""
    try:
        source = importing.source_of(file, plan)
        return _peeked(
            str(file.path), file.state, file.is_log,
            (plan.encoding, plan.delimiter, plan.sheet, plan.log_rows, plan.log_pack), source,
        )  # fmt: skip
    except Unusable as fault:
        st.error(plain(fault))
        return None


@st.cache_data(show_spinner="Looking at the file…", max_entries=8)
def _peeked(
    path: str, state: tuple[int, int], is_log: bool, how: tuple[Any, ...], _source: Any
) -> Peek:
    return peek(_source)


def _how(file: Upload, plan: Plan) -> Plan:
    """How rows were drawn, and what that means for promises."""
    key = file.id
    if file.is_log:
        options = list(importing.LOG_ROWS)
        chosen = st.radio(
            "Which entries", options, index=options.index(plan.log_rows), key=f"log-rows-{key}",
            format_func=lambda one: importing.LOG_ROWS[one][1],
        )  # fmt: skip
        pack = st.text_input(
            "Only of the pack", value=plan.log_pack or "", key=f"log-pack-{key}",
            placeholder="any; such as demo/support",
        )  # fmt: skip
        return replace(plan, log_rows=chosen, log_pack=pack.strip() or None)
    drawn_options = list(importing.HOW_DRAWN)
    drawn = st.radio(
        "How were these rows chosen?",
        drawn_options,
        index=drawn_options.index(plan.drawn),
        format_func=lambda one: importing.HOW_DRAWN[one][0],
        captions=[words for _, words in importing.HOW_DRAWN.values()],
        key=f"drawn-{key}",
    )
    left, right = st.columns(2)
    annotator = left.text_input("Labels were given by", value=plan.annotator, key=f"by-{key}")
    visible = right.checkbox(
        "They saw the model's scores meanwhile", value=plan.score_visible, key=f"visible-{key}"
    )
    return replace(plan, drawn=drawn, annotator=annotator, score_visible=visible)


def _where(found: Bench, plan: Plan) -> Plan:
    known = [one.name for one in _datasets(found)]
    options: list[Literal["new", "append"]] = ["new", "append"] if known else ["new"]
    left, right = st.columns([1, 2])
    key = param("upload")
    way = left.radio(
        "Rows are", options, key=f"where-{key}", index=int(plan.append and bool(known)),
        format_func={"new": "a new dataset", "append": "added to one"}.__getitem__,
        horizontal=True,
    )  # fmt: skip
    if way == "append":
        index = known.index(plan.dataset) if plan.dataset in known else 0
        name = right.selectbox("Dataset", known, index=index, key=f"append-{key}")
        return replace(plan, append=True, dataset=name)
    name = right.text_input("Its name", value=plan.dataset, key=f"name-{key}")
    if name.strip() in known:
        right.warning(
            f"There is a dataset {plain(repr(name.strip()))} already: add to it, or write another."
        )
    return replace(plan, append=False, dataset=name.strip())


def _datasets(found: Bench) -> list[Any]:
    from spinf_serve.evals.data.overview import datasets

    return list(datasets(found.desk.project))


def _try(found: Bench, file: Upload, plan: Plan) -> None:
    """The trial, and the import once it was looked at. A large file is a job's work."""
    large = importing.is_large(file)
    job = _job(found, file)
    if job is not None and job.is_live:
        job_box(found.desk, found.user, job.id)
        return
    tried = importing.previewed(found.desk, file, plan)
    left, right = st.columns(2)
    rows = importing.about_rows(file)
    with told():
        if left.button(
            "Try", key="import-try", type="secondary" if tried else "primary",
            icon=":material/preview:", help="Reads everything and writes nothing.",
        ):  # fmt: skip
            _run(found, file, plan, large=large, dry_run=True)
        if right.button(
            "Import", key="import-now", type="primary" if tried else "secondary",
            icon=":material/download_done:", disabled=tried is None or not _taken(tried),
            help="Try first." if tried is None else None,
        ):  # fmt: skip
            _run(found, file, plan, large=large, dry_run=False)
    if tried is not None:
        data_report.draw(found.desk, tried, trial=True)
    elif job is not None and job.state != "done":
        job_box(found.desk, found.user, job.id)
    elif large:
        st.caption(
            f"About {counted(rows, 'line')}: read in the background, you may leave the page."
        )


def _taken(tried: Any) -> int:
    return int(tried.rows_read - tried.refused_count)


def _run(found: Bench, file: Upload, plan: Plan, *, large: bool, dry_run: bool) -> None:
    if large:
        title = f"{'Try' if dry_run else 'Import'} {file.name}"
        arguments = importing.job_arguments(file, plan, found.user, dry_run=dry_run)
        job = jobs.start(
            found.desk, found.user, KIND, title, arguments, subject=f"import {file.id}"
        )
        st.session_state["import-job"] = job.id
        st.rerun()
    if dry_run:
        with st.spinner("Reading all rows…"):
            importing.preview(found.desk, file, plan)
        st.rerun()
    with st.spinner("Importing…"):
        report = importing.take(found.desk, found.user, file, plan)
    st.session_state["import-done"] = report
    _arrived(plan.dataset)
    st.rerun()


def _arrived(dataset: str) -> None:
    choose(data=dataset, split=None)
    set_param("upload", None)


def _job(found: Bench, file: Upload) -> Job | None:
    """The newest job about a file."""
    return next(
        (one for one in jobs.jobs(found.desk, KIND) if one.arguments.get("upload") == file.id), None
    )


def _last(found: Bench) -> None:
    """What the last import of this tab came to."""
    id = st.session_state.get("import-job")
    if id is not None:
        with told():
            job = jobs.job(found.desk, id)
            if not job.is_live and not job.arguments["dry_run"]:
                del st.session_state["import-job"]
                result = job.result()
                if job.state == "done" and result is not None:
                    st.session_state["import-done"] = importing.report_of(result)
                    _arrived(result["dataset"])
    report = st.session_state.get("import-done")
    if report is None:
        return
    out = report.refused_count
    left_out = f" {out:,} {'was' if out == 1 else 'were'} left out." if out else ""
    verb = "is" if report.rows_taken == 1 else "are"
    st.success(
        f"{counted(report.rows_taken, 'row')} {verb} in **{plain(report.dataset)}**.{left_out}"
    )
    with st.expander("What was found"):
        data_report.draw(found.desk, report, trial=False)
    left, right = st.columns(2)
    left.button("See the rows", key="import-see", on_click=_leave, args=("rows",))
    right.button("Bring more", key="import-more", on_click=_leave, args=(None,))


def _leave(part: str | None) -> None:
    st.session_state.pop("import-done", None)
    if part is not None:
        st.session_state["data-go"] = part


def _open(id: str) -> None:
    st.session_state.pop("import-done", None)
    set_param("upload", id)


def _drop(found: Bench, id: str) -> None:
    with suppress(Unusable):
        # Gone is what it was to be.
        uploads.drop(found.desk, id)
    set_param("upload", None)
