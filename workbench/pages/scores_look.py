"""What the parts of the page Scores look at together."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions.scores import Base, Subject
from spinf_serve.workbench.actions.scores_figures import Figures
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, set_param
from spinf_serve.workbench.views import View


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A pack's answers beside a target's labels.

    Attributes:
        target: None where nothing is labelled.
        given: what can be looked at.
        known: its figures, by key.
        subject: what is looked at; None for all at once.
    """

    found: Bench
    pack: Pack
    constants: Constants | None
    view: View
    base: Base
    target: str | None
    given: list[Subject]
    known: dict[str, Figures]
    subject: Subject | None

    @property
    def main(self) -> Subject:
        """Whose values rows are listed with: the subject, or the first of all."""
        if self.subject is not None:
            return self.subject
        return next((one for one in self.given if one.place is None), self.given[0])

    def key(self, name: str) -> str:
        """A widget's key: state of one subject never shows up for another."""
        subject = "all" if self.subject is None else self.subject.key
        parts = (self.found.file, self.found.dataset, self.found.bits, self.target, subject)
        return f"scores-{name}-{key_of(*parts)}"

    def brushed(self) -> dict[str, Any]:
        """What the chart's selection covers: field -> from and to, or names; empty for nothing."""
        state = st.session_state.get(self.chart_key)
        found = {} if state is None else dict(state.get("selection", {}).get("brush", {}))
        return {name: value for name, value in found.items() if value}

    @property
    def chart_key(self) -> str:
        """Key of the chart; another once its selection was cleared."""
        return self.key(f"chart{st.session_state.get(self.key('cleared'), 0)}")

    def clear(self) -> None:
        """Forget the chart's selection."""
        name = self.key("cleared")
        st.session_state[name] = st.session_state.get(name, 0) + 1

    def picked(self) -> None:
        """The callback of the chart: a click opens the row, once."""
        state = st.session_state.get(self.chart_key)
        points = [] if state is None else state.get("selection", {}).get("pick", [])
        row = points[0].get("row") if points else None
        last = self.key("picked")
        if row is not None and row != st.session_state.get(last):
            set_param("row", str(row))
        st.session_state[last] = row
