"""The tour of a first visit, on top of the pages: six steps, each with a way to its page.

Whether it was closed, and which steps were ticked, is remembered in the project.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from spinf_serve.workbench import audit
from spinf_serve.workbench.desk import Desk

if TYPE_CHECKING:
    from spinf_serve.workbench.frame import Bench

_EXAMPLE: Final = (
    "This project is an example: 600 messages to a support team, labelled by people, with the"
    " answers of a small model already kept. Nothing can break in it."
)
_BOUND: Final = {"tab", "form"}
_CHOSEN: Final = ("scores-target", "scores-subject", "thresholds-cut", "thresholds-part")

EXAMPLE_FILE: Final = Path("packs") / "triage" / "pack.yaml"


@dataclass(frozen=True, slots=True)
class Step:
    """A step.

    Attributes:
        name: under which it is remembered.
        title, words: what is to be done.
        page: of `page_list`.
        params: of the page's address.
    """

    name: str
    title: str
    words: str
    page: str
    params: tuple[tuple[str, str], ...] = ()


STEPS: Final = (
    Step(
        "question", "Edit a question",
        "Choose the question `tone` in the form and reword it: once saved, its answers are asked anew,"
        " and all others are kept. Take it back with Undo, since the next steps go by kept answers.",
        "pack", (("tab", "Form"), ("form", "Questions"), ("question", "tone")),
    ),
    Step(
        "scores", "Look at the scores",
        "Each point is a message: how high it scored, coloured by its label. Good questions keep"
        " the colours apart.",
        "scores", (("target", "praise"), ("question", "category:praise")),
    ),
    Step(
        "label", "Find the wrong label",
        "One message of thanks is labelled as if it were none. It stands alone, far on the right:"
        " click it, read it, and set its label of `praise` to yes. `case` has one too.",
        "scores", (("target", "praise"), ("question", "category:praise")),
    ),
    Step(
        "cut", "Choose a cut",
        "A precision of 90 % for the category `case`: press **Put into the table**, then"
        " **Certify**. The page promises it, and says what it costs in missed messages.",
        "thresholds", (("part", "certify"), ("cut", "case")),
    ),
    Step(
        "save", "Save",
        "Below what the certification found, press **Save into the pack**. Its file then holds the"
        " cut with its proof; your comments are where they were.",
        "thresholds", (("part", "certify"), ("cut", "case")),
    ),
    Step(
        "ci", "Hand it over",
        "Press **Measure**. The report is for colleagues, and the command below it tells on every change whether the"
        " pack still keeps its promises.",
        "report",
    ),
)  # fmt: skip


def is_example(desk: Desk) -> bool:
    """Whether the project is the one of a first visit."""
    return (desk.folder / EXAMPLE_FILE).is_file()


def draw_tour(bench: "Bench") -> None:
    """Draw the step that comes next on top of a page, unless the tour was closed or is of no use."""
    desk = bench.desk
    kept = _kept(desk)
    if kept.get("closed") or not is_example(desk):
        return
    done = set(kept.get("done", ()))
    left = [step for step in STEPS if step.name not in done]
    with st.container(border=True, gap="small"):
        step = left[0] if left else None
        if step is not None:
            if step is STEPS[0]:
                st.markdown(f"**Welcome.** {_EXAMPLE}")
            st.markdown(
                f":material/explore: **{STEPS.index(step) + 1} of {len(STEPS)}:"
                f" {step.title}.** {step.words}"
            )
        else:
            st.markdown(
                ":material/explore: **That was the tour.** Begin a pack of your own with"
                " **New pack** on the page **Pack**."
            )
        with st.container(horizontal=True, gap="small"):
            if step is not None:
                if st.button("Go there", key="tour-go", type="primary"):
                    _go(step)
                st.button(
                    "Done", key="tour-done", icon=":material/check:",
                    on_click=_tick, args=(desk, step.name),
                )  # fmt: skip
            with st.popover("All steps"):
                _all(desk, done)
            st.button(
                "Close the tour", key="tour-close", type="tertiary", icon=":material/close:",
                help="History brings it back.", on_click=_set, args=(desk, bench.user, True),
            )  # fmt: skip


def _all(desk: Desk, done: set[str]) -> None:
    st.markdown(_EXAMPLE)
    for number, step in enumerate(STEPS, start=1):
        key = f"tour-{step.name}"
        st.session_state[key] = step.name in done
        st.checkbox(
            f"{number}. {step.title}", key=key, on_change=_ticked, args=(desk, step.name, key)
        )
        st.caption(step.words)


def _go(step: Step) -> None:
    from spinf_serve.workbench.parts.links import go_to

    for key in _CHOSEN:
        # What was looked at before would go before the address.
        st.session_state.pop(key, None)
    params = dict(step.params)
    for key in _BOUND & params.keys():
        # A widget holds these, and the address follows it.
        st.session_state[key] = params.pop(key)
    go_to(step.page, params)


def show_again(bench: "Bench") -> None:
    """Draw the button that brings the tour back."""
    if not is_example(bench.desk):
        st.caption("The tour is about the example, which this project is not.")
    elif _kept(bench.desk).get("closed"):
        st.button(
            "Show the tour again", key="tour-again", icon=":material/explore:",
            on_click=_set, args=(bench.desk, bench.user, False),
        )  # fmt: skip
    else:
        st.caption("The tour is shown on top of every page.")


def _kept(desk: Desk) -> dict[str, Any]:
    kept = desk.settings().get("tour")
    return kept if isinstance(kept, dict) else {}


def _ticked(desk: Desk, name: str, key: str) -> None:
    _tick(desk, name, st.session_state[key])


def _tick(desk: Desk, name: str, is_done: bool = True) -> None:
    done = set(_kept(desk).get("done", ()))
    desk.set(tour={**_kept(desk), "done": sorted(done | {name} if is_done else done - {name})})


def _set(desk: Desk, user: str, closed: bool) -> None:
    desk.set(tour={**_kept(desk), "closed": closed})
    audit.note(desk, user, "close tour" if closed else "show tour", "tour")
