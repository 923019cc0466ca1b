"""The page Calibration: of messages that score 80 %, do 80 % hold? With what chance alone would show."""

from typing import Any, Final

import streamlit as st

from spinf_serve.evals.judged import QUESTION
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.calibrating import (
    AT_ONCE,
    BINS,
    KIND,
    Stated,
    labelled_rows,
    stated,
    targets_of,
    worked_out,
)
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench, bench, empty, param, set_param, stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.calibration_charts import (
    maps_table,
    reliability_chart,
    slices_table,
)
from spinf_serve.workbench.parts.figures import figure, row
from spinf_serve.workbench.parts.job_box import job_box, latest
from spinf_serve.workbench.parts.rows_digest import digest_of
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.view import need_answers, need_view
from spinf_serve.workbench.parts.words import count, percent, plain
from spinf_serve.workbench.views import View

LOG_LOSS: Final = (
    "Mean of -ln of the probability that was given to what was so: 0 is best, and a sure score that is"
    " wrong costs much."
)
BINNINGS: Final = {"width": "of equal width", "mass": "of equally many rows"}


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Calibration")
    st.markdown(
        "Of messages that score 80 %, do 80 % hold? Compare what scores say with what people said,"
        " beside what chance alone would show.",
        help=meaning("calibration"),
    )
    with told():
        _draw(found)


def _draw(found: Bench) -> None:
    pack, dataset, model = found.pack(), found.need_dataset(), found.need_model()
    constants = found.constants(pack)
    targets = _targets(
        str(found.desk.file), stamp(found.desk), dataset, pack.digest, found.desk, pack
    )
    if not targets:
        empty(
            f"Nothing in **{plain(dataset)}** is labelled for this pack yet.",
            "Label rows on the page **Data**: calibration compares scores with labels.",
        )
    target, mapped, binning = _choices(pack, constants, targets)
    if constants is None and not target.startswith(QUESTION):
        need_answers(need_view(found, pack), dataset)
        st.info(
            f"**{plain(pack.id)}** is a draft on {plain(model.served)}: no numbers make scores of its answers yet."
            " Fit some on the page **Thresholds**; labels of single questions can be looked at here."
        )
        return
    view = need_view(found, pack)
    labelled = _labelled(
        str(found.desk.file), stamp(found.desk), dataset, target, found.split, found.desk
    )
    if labelled <= AT_ONCE:
        key = (str(found.desk.file), view.key, stamp(found.desk), dataset, target, found.split)
        rows = _stated((*key, mapped), found.desk, view, pack)
        figures = _worked_out((*key, mapped), binning, rows) if len(rows.p) else {"rows": 0}
    else:
        worked = _by_job(found, view, pack, labelled, target, mapped, binning)
        if worked is None:
            return
        figures = worked
    if not figures["rows"]:
        where = "" if found.split is None else f" of the split {plain(found.split)}"
        st.info(
            f"No answered row{where} has a yes or no for this. Label rows on the page **Data**."
        )
        return
    _show(figures, target, pack, found)


def _choices(pack: Pack, constants: Constants | None, targets: list[str]) -> tuple[str, bool, str]:
    left, middle, right = st.columns([4, 3, 3], vertical_alignment="bottom")
    given = param("target")
    key = "calibration-target"
    if st.session_state.get(key) not in targets:
        st.session_state[key] = given if given in targets else targets[0]
    with left:
        target: str = st.selectbox(
            "Score of",
            targets,
            format_func=lambda one: title_of(pack, one),
            key=key,
            **begins(st.selectbox, st.session_state[key], targets),
        )
    set_param("target", target)
    mapped = False
    has_map = (
        constants is not None
        and target in constants.categories
        and constants.categories[target].beta is not None
    )
    if has_map:
        with middle:
            mapped = (
                st.segmented_control(
                    "What is compared",
                    ["score", "calibrated"],
                    default="score",
                    key=f"calibration-mapped-{target}",
                    required=True,
                    help=meaning("calibrated"),
                )
                == "calibrated"
            )
    with right:
        binning = st.selectbox(
            "Bins",
            list(BINNINGS),
            format_func=BINNINGS.__getitem__,
            key="calibration-binning",
            help="Rows of like score are counted together. Where most scores are near 0 or 1, bins of"
            " equally many rows tell more.",
        )
    return target, mapped, binning


def title_of(pack: Pack, target: str) -> str:
    """A target for people."""
    if target.startswith(QUESTION):
        return f"Question {target.removeprefix(QUESTION)}"
    return pack.categories[target].label or target


@st.cache_data(show_spinner=False, max_entries=8)
def _targets(
    file: str, stamp: tuple[int, int], dataset: str, digest: str, _desk: Desk, _pack: Pack
) -> list[str]:
    return targets_of(_desk, _pack, dataset)


@st.cache_resource(show_spinner="Reading scores…", max_entries=8)
def _stated(key: tuple[Any, ...], _desk: Desk, _view: View, _pack: Pack) -> Stated:
    dataset, target, split, mapped = key[3:]
    return stated(_desk, _view, _pack, dataset, target, split, mapped=mapped)


@st.cache_data(show_spinner=False, max_entries=32)
def _labelled(
    file: str,
    stamp: tuple[int, int],
    dataset: str,
    target: str,
    split: str | None,
    _desk: Desk,
) -> int:
    return labelled_rows(_desk, dataset, target, split)


def _by_job(
    found: Bench,
    view: View,
    pack: Pack,
    labelled: int,
    target: str,
    mapped: bool,
    binning: str,
) -> dict[str, Any] | None:
    """All figures; None while a job works them out, which is drawn then."""
    if found.file is None or found.model is None or found.dataset is None:
        raise AssertionError("a page with scores has a pack, rows and a model")
    arguments = {
        "file": found.desk.name_of(found.file),
        "digest": pack.digest,
        "dataset": found.dataset,
        "data": digest_of(found.desk, found.dataset),
        "bits": found.model.bits,
        "served": found.model.served,
        "view": view.key,
        "target": target,
        "split": found.split,
        "mapped": mapped,
        "bins": BINS,
        "binning": binning,
    }
    job = latest(found.desk, KIND, arguments)
    if job is None:
        title = f"Calibration of {title_of(pack, target)}"
        job = jobs.start(found.desk, found.user, KIND, title, arguments)
    result = job.result() if job.state == "done" else None
    if result is None:
        st.info(
            f"{labelled:,} labelled rows take a moment. This is worked out once, and goes on when"
            " the page is left."
        )
        job_box(found.desk, found.user, job.id)
    return result


@st.cache_data(show_spinner="Working out what chance would show…", max_entries=32)
def _worked_out(key: tuple[Any, ...], binning: str, _rows: Stated) -> dict[str, Any]:
    return worked_out(_rows, BINS, "mass" if binning == "mass" else "width")


def _show(figures: dict[str, Any], target: str, pack: Pack, found: Bench) -> None:
    whole, title = figures["whole"], title_of(pack, target)
    where = "" if found.split is None else f" of the split {plain(found.split)}"
    st.caption(
        f"{count(figures['rows'], 'labelled row')}{where}, {figures['positives']:,} of which hold;"
        f" compared is {figures['about']}."
        + (" Figures are weighted." if figures["weighted"] else "")
    )
    if figures["queued"]:
        st.warning(
            f"{count(figures['queued'], 'row')} came from a queue and have no weight: figures are those"
            " of these rows, not those of the traffic."
        )
    _metrics(whole)
    reliability_chart(figures, title, f"{target}-{found.split}")
    st.subheader("Maps", help=meaning("calibrated"))
    maps_table(figures, key_of(target))
    if figures["slices"]:
        st.subheader("Slice by slice", help=meaning("slice"))
        slices_table(figures, key_of(target))
    with st.expander("What calibration does not change"):
        st.markdown(
            "- **Verdicts.** A map never changes the order of messages. A cut on the same score flags"
            " the same messages, however well or badly the score is calibrated: move the cut with the"
            " map, and nothing changes.\n"
            "- **Promises.** They are about which messages are flagged, not about what a score says.\n"
            "- It matters for percentages that people read, for cuts that are set by prices, and for"
            " comparing the scores of two categories."
        )


def _metrics(whole: dict[str, Any]) -> None:
    noise, below = whole["noise"], []
    if noise is not None:
        below.append(f"by chance: {percent(noise['mean'])}, up to {percent(noise['high'])}")
        more = "More than" if whole["ece"] > noise["high"] else "No more than"
        below.append(f"{more} chance makes of a perfect score.")
    with row():
        figure(
            "Calibration error (ECE)", percent(whole["ece"]), below, meaning("calibration error")
        )
        for name, label, help in (
            ("brier", "Brier score", meaning("Brier score")),
            ("log_loss", "Log loss", LOG_LOSS),
        ):
            one, ends = whole[name], whole[name]["interval"]
            told = [] if ends is None else [f"95 %: {ends['low']:.4f} to {ends['high']:.4f}"]
            figure(label, f"{one['value']:.4f}", told, help)
        figure("Said on average", percent(whole["mean_p"]), [f"{percent(whole['rate'])} hold"])
