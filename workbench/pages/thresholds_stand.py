"""What the parts of the page Thresholds share: which cut, on which numbers, with the rows as it sees them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import streamlit as st

from spinf_serve.evals.cut_curve import CutCurve
from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.proof import open_cuts
from spinf_serve.evals.score_tables import Identity
from spinf_serve.packs.evaluate import state
from spinf_serve.packs.pack import Constants, Pack, State
from spinf_serve.workbench.actions.certifying import After
from spinf_serve.workbench.actions.cut_plans import Plan
from spinf_serve.workbench.actions.cut_rows import CutRows, curve, cut_rows
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench, stamp
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.views import View

KIND_WORDS: Final = {
    "precision": "Of the flagged, at least so many are right (precision)",
    "recall": "Of those that hold, at least so many are flagged (recall)",
    "npv": "Of those not flagged, at least so many do not hold (npv)",
    "flag_rate": "At most so many of all messages are flagged (flag rate)",
    "bands": "Two cuts: act, review, pass (bands)",
    "cost": "Cheapest, where a miss costs so many false alarms (cost)",
}


@dataclass(frozen=True, slots=True, eq=False)
class Stand:
    """What this run of the page is about.

    Attributes:
        pack, data: the pack in its file, and the file's bytes.
        shown, constants: the pack whose numbers are looked at, and these; None for a draft.
        is_new: whether these are a certification's and not in the file yet.
        name: of the cut: a category, or `decision`.
        plan: what is to be certified.
        last: the newest certification that came to an end.
    """

    found: Bench
    file: Path
    pack: Pack
    data: bytes
    shown: Pack
    constants: Constants | None
    is_new: bool
    name: str
    dataset: str
    model: Identity
    plan: Plan
    last: Job | None = None
    after: After | None = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        subject = (self.found.desk.name_of(self.file), self.dataset, self.model.bits, self.name)
        object.__setattr__(self, "key", key_of(*subject))

    @property
    def desk(self) -> Desk:
        return self.found.desk

    @property
    def file_name(self) -> str:
        """Of the pack's file in the project."""
        return self.desk.name_of(self.file)

    @property
    def per_day(self) -> float | None:
        """Messages a day, where somebody said."""
        return self.desk.per_day

    @property
    def is_layer(self) -> bool:
        """Whether the score is on a micro layer's scale, and no number from 0 to 1."""
        return self.name == DECISION and self.shown.decision.mode == "micro_layer"

    def in_force(self) -> float | None:
        """The cut that the numbers have."""
        if self.constants is None:
            return None
        if self.name != DECISION:
            return self.constants.categories[self.name].threshold
        if self.shown.decision.mode == "max":
            return self.constants.max_threshold
        layer = self.constants.layer
        return None if layer is None else layer.weights[-1]

    def bands(self) -> tuple[float, float] | None:
        """The cuts of the bands, upper and lower; None without."""
        bands = None if self.constants is None else self.constants.bands
        if bands is None:
            return None
        cuts = bands.decision if self.name == DECISION else bands.categories.get(self.name)
        return None if cuts is None else (cuts.act, cuts.review)


def cut_slider(
    label: str, low: float, high: float, cut: float, key: str, help: str | None = None
) -> None:
    """A slider of a cut that other widgets set too: the cut stands in the session under `key`.

    Args:
        low, high: ends of its scale.
        cut: what it shows, at most at one of the ends.
    """
    slider = f"{key}-slider"

    def slid() -> None:
        st.session_state[key] = float(st.session_state[slider])

    st.session_state[slider] = min(max(cut, low), high)
    step = (high - low) / 1000
    st.slider(label, low, high, step=step, format="%.3f", key=slider, on_change=slid, help=help)


def title_of(pack: Pack, name: str) -> str:
    """What a cut is called for people."""
    if name == DECISION:
        return "Decision"
    return pack.categories[name].label or name


def state_of(pack: Pack, constants: Constants | None, model: Identity) -> tuple[State, list[str]]:
    """The state of a pack on a model, and the cuts in force that nothing is promised of."""
    found = state(pack, constants, model.model)
    if constants is None:
        return found, []
    promises: dict[str, Any] = dict((constants.proof or {}).get("promises", {}))
    return found, open_cuts(pack, constants, promises)


def name_words(pack: Pack, name: str) -> str:
    """A cut of a proof, such as `angry/act`, for people."""
    target, slash, band = name.partition("/")
    known = target == DECISION or target in pack.categories
    told = title_of(pack, target) if known else target
    return f"{told} ({band})" if slash else told


def listed(words: Sequence[str], most: int = 12) -> str:
    """Some words with a count of those beyond."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


@st.cache_resource(show_spinner="Reading scores…", max_entries=2)
def _rows(
    desk_file: str,
    view_key: str,
    stamp: tuple[int, int],
    dataset: str,
    name: str,
    _desk: Desk,
    _view: View,
    _pack: Pack,
    _constants: Constants,
) -> CutRows:
    return cut_rows(_desk, _view, _pack, _constants, dataset, name)


def rows_of(stand: Stand, view: View) -> CutRows:
    """The rows as the cut sees them; read again when something was written to the project."""
    if stand.constants is None:
        raise ValueError("a draft has no scores")
    return _rows(
        str(stand.desk.file),
        view.key,
        stamp(stand.desk),
        stand.dataset,
        stand.name,
        stand.desk,
        view,
        stand.shown,
        stand.constants,
    )


@st.cache_resource(show_spinner=False, max_entries=16)
def _curve(key: tuple[Any, ...], base_rate: float | None, _rows: CutRows) -> CutCurve:
    return curve(_rows, base_rate)


def curve_of(stand: Stand, view: View, rows: CutRows, base_rate: float | None) -> CutCurve:
    """The rates at the cuts that the chart shows."""
    key = (str(stand.desk.file), view.key, stamp(stand.desk), stand.dataset, stand.name)
    return _curve(key, base_rate, rows)
