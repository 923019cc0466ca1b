"""Labelling with the keyboard: one row of a queue after another, saved with each key."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import streamlit as st

from spinf_serve.evals.counting import Counting
from spinf_serve.evals.data.labels import UNSURE
from spinf_serve.evals.data.overview import Alike
from spinf_serve.evals.judged import QUESTION
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.workbench.actions import checks, labelling, queues
from spinf_serve.workbench.actions.queue_orders import ORDERS
from spinf_serve.workbench.actions.queues import Progress, Queue, Shown
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, set_param, stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.data_row import (
    SCORE_COLUMNS,
    about,
    pack_of,
    scores_on,
)
from spinf_serve.workbench.parts.kept import keeping, kept_value, used
from spinf_serve.workbench.parts.synced import synced
from spinf_serve.workbench.parts.texts import is_about_harm
from spinf_serve.workbench.parts.words import count as counted
from spinf_serve.workbench.parts.words import percent, plain

KEYS: Final = {"yes": "Y", "no": "N", UNSURE: "U"}
SHARES: Final = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
DELTA: Final = 0.05

_SLOW_SECONDS: Final = 0.5
"""A count that takes longer is not taken anew with each key, but when it is asked for."""


def draw(found: Bench, queue: Queue, who: str) -> None:
    """Draw a queue at an annotator's place."""
    titles = {one.target: one for one in labelling.targets_of(pack_of(found), [queue.target])}
    named = titles[queue.target]
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.subheader(f"{plain(named.title)}: {ORDERS[queue.order][0].lower()}", width="content")
        st.button("All queues", key="queue-close", icon=":material/list:", on_click=_close)
    if queue.left_out:
        st.caption(f"{counted(queue.left_out, 'row')} without a score are not in this queue.")
    _work(found, queue, who, named.values)


@dataclass(slots=True)
class _Memory:
    """What a tab knows of a queue.

    Callbacks change it and nothing else of the session: each look at the session may end a run for
    the sake of the next one, between what is stored and what is known of it.

    Attributes:
        seen: row on the screen -> what it shows as the annotator's own answer.
        scored: rows whose scores were shown.
        notes: row -> key of the field of its note, and the note as it is kept.
        fault: what went wrong in a callback, until it is shown.
    """

    state: Progress
    seen: dict[str, str | None] = field(default_factory=dict)
    scored: set[str] = field(default_factory=set)
    notes: dict[str, tuple[str, str]] = field(default_factory=dict)
    fault: str | None = None

    @contextmanager
    def told(self) -> Iterator[None]:
        """Keeps what went wrong for the next drawing."""
        try:
            yield
        except (SpinfError, Unusable) as fault:
            self.fault = str(fault)


@st.fragment
def _work(found: Bench, queue: Queue, who: str, values: tuple[str, ...]) -> None:
    """What one key changes; nothing else of the page is drawn anew for it."""
    work, side = st.columns([3, 2], gap="medium")
    with work, told():
        _place(found, queue, who, values)
    with side, told():
        _guideline(found, queue.target)
        _standing(found, queue.dataset, queue.target)


def _place(found: Bench, queue: Queue, who: str, values: tuple[str, ...]) -> None:
    """Draw the row where an annotator is, and its keys."""
    memory = _memory(found, queue, who)
    _keep_notes(found, queue, who, memory)
    place = memory.state.place
    st.progress(
        place / queue.rows,
        text=f"Row {min(place + 1, queue.rows):,} of {queue.rows:,} · labelling as {plain(who)}",
    )
    if memory.fault is not None:
        st.error(memory.fault)
        memory.fault = None
    at = queues.shown(found.desk, queue, place)
    if at.row_id is None:
        _end(found, queue, who, memory)
    else:
        _row(found, queue, who, memory, at)
    _keys(found, queue, who, memory, values, place, at)
    if at.row is not None:
        _beside(found, queue, who, memory, at)


def _row(found: Bench, queue: Queue, who: str, memory: _Memory, at: Shown) -> None:
    if at.row is None:
        st.info(f"Row {plain(at.row_id)} was deleted since; go on to the next.")
        return
    about(found, at.row, key=f"{queue.dataset}-{at.row_id}")
    slices = [f"{plain(name)}: {plain(value)}" for name, value in at.row.slices.items()]
    st.caption(" · ".join([f"Row {plain(at.row_id)}", *slices]))
    own = labelling.own_of(at.row.labels, queue.target, who)
    memory.seen = {at.row.id: None if own is None else own.value}
    if queue.settles:
        others = [
            f"**{plain(one.annotator)}** says {plain(one.value)}"
            for one in at.row.labels
            if one.target == queue.target and one.annotator not in (who, who + labelling.SETTLED)
        ]
        if others:
            st.markdown(", ".join(others) + ". Your answer settles it.")
    if own is not None:
        st.markdown(f"You said **{plain(own.value)}**.")


def _keys(
    found: Bench,
    queue: Queue,
    who: str,
    memory: _Memory,
    values: tuple[str, ...],
    place: int,
    at: Shown,
) -> None:
    """Buttons with their keys. Their names carry the row, so that a key never means another one."""
    key = key_of(queue.id, who, place)
    closed = at.row is None
    given = (found, queue, who, memory)
    with st.container(horizontal=True):
        for number, value in enumerate((*values, UNSURE)):
            pressed = KEYS.get(value) or (str(number + 1) if number < 9 else None)
            st.button(
                value.capitalize() if value in KEYS else plain(value), key=f"say-{key}-{number}",
                shortcut=pressed, on_click=_say, args=(*given, place, at.row_id, value), disabled=closed,
                type="primary" if value in ("yes", "no") else "secondary",
            )  # fmt: skip
    with st.container(horizontal=True):
        if at.row is not None and _is_hidden(found, queue, at):
            st.button(
                "Show text", key=f"text-{key}", shortcut="T", on_click=_show_text,
                args=(queue, at), type="tertiary",
            )  # fmt: skip
        st.button(
            "Skip", key=f"skip-{key}", shortcut="S", on_click=_move, args=(*given, place, 1),
            disabled=at.row_id is None, type="tertiary",
        )  # fmt: skip
        st.button(
            "Undo", key=f"undo-{key}", shortcut="Z", on_click=_undo, args=(*given, len(memory.state.given)),
            disabled=not memory.state.given, type="tertiary",
        )  # fmt: skip
        st.button(
            "Back", key=f"back-{key}", shortcut="Left", on_click=_move, args=(*given, place, -1),
            disabled=place == 0, type="tertiary",
        )  # fmt: skip
        st.button(
            "Forward", key=f"forward-{key}", shortcut="Right", on_click=_move,
            args=(*given, place, 1), disabled=at.row_id is None, type="tertiary",
        )  # fmt: skip


def _beside(found: Bench, queue: Queue, who: str, memory: _Memory, at: Shown) -> None:
    """A note, and the scores when they are asked for."""
    if at.row is None:
        return
    mine = [one.text for one in at.row.notes if (one.target, one.annotator) == (queue.target, who)]
    written = mine[0] if mine else ""
    key, value = synced(f"note-{key_of(queue.dataset, queue.target, at.row.id, who)}", written)
    st.text_input(
        "Note", value, key=key, placeholder="what makes it hard; saved when you leave the field"
    )
    memory.notes[at.row.id] = (key, written)
    pack = pack_of(found)
    if pack is None or found.model is None:
        return
    show = st.toggle(
        "Show scores", key=_scores_key(queue),
        help="Who sees the score is swayed by it. Labels that are given meanwhile are marked.",
    )  # fmt: skip
    if show:
        memory.scored.add(at.row.id)
        lines = scores_on(found, pack, queue.dataset, at.row.id)
        if lines is None:
            st.caption("There are no scores of this row.")
        else:
            st.dataframe(
                lines, key=f"queue-scores-{queue.id}", hide_index=True, column_config=SCORE_COLUMNS
            )


def _end(found: Bench, queue: Queue, who: str, memory: _Memory) -> None:
    left, first = queues.open_places(found.desk, queue, who)
    if not left or first is None:
        st.success(f"All {counted(queue.rows, 'row')} of this queue have your answer.")
    else:
        st.info(f"The end. {counted(left, 'row')} have no answer of yours.")
        st.button(
            "Go to the first of them", key=f"open-{queue.id}", on_click=_jump,
            args=(found, queue, who, memory, first),
        )  # fmt: skip
    for one in checks.agreements(found.desk.project, queue.dataset, queue.target):
        st.markdown(agreement_words(one))


def agreement_words(one: Alike) -> str:
    """How far two annotators agree, in words."""
    told_of = (
        f"**{plain(one.annotators[0])}** and **{plain(one.annotators[1])}** say the same of {one.same:,} of"
        f" {counted(one.rows, 'row')}"
    )
    if one.kappa is None:
        return told_of + "; beyond chance nothing can be said."
    told_of += f"; kappa {one.kappa:.2f}"
    if one.interval is not None:
        told_of += f" ({one.interval[0]:.2f} to {one.interval[1]:.2f})"
    return told_of + "."


def _guideline(found: Bench, target: str) -> None:
    text = labelling.guideline(found.desk, target)
    with st.container(border=True):
        st.markdown("**When does it hold?**")
        if text:
            st.markdown(text)
        else:
            st.caption("Nobody has written down yet what counts. Write what two people would need.")
        key = f"guideline-{key_of(target, text)}"
        # As it is at first: a box that opens while Save is pressed would swallow the press.
        is_begun = st.session_state.setdefault(
            f"{key}-begun", kept_value(found, key) not in (None, text)
        )
        with st.expander("Change the guideline", expanded=is_begun, icon=":material/edit:"):
            new = keeping(found, key, st.text_area, "Guideline", start=text, height=180)
            if st.button("Save", key=f"{key}-save"):
                with told():
                    labelling.write_guideline(found.desk, found.user, target, new, seen=text)
                    used(found, key)
                    st.rerun()


@st.fragment
def standing_of(found: Bench, dataset: str, target: str) -> None:
    """How many labels count for a promise, and how many one takes at least."""
    _standing(found, dataset, target)


def _standing(found: Bench, dataset: str, target: str) -> None:
    with st.container(border=True):
        counts, is_current = _counted(found, dataset, target)
        st.markdown(
            f"**{counted(counts.counted, 'label')}** of {plain(target)} count for a promise.",
            help=meaning("drawn"),
        )
        values = ", ".join(f"{count:,} {plain(value)}" for value, count in counts.values.items())
        lines = [values] if values else []
        if counts.chosen:
            lines.append(
                f"{counted(counts.chosen, 'random row')} labelled out of a queue by score: meet them"
                " in a queue at random, and they count"
            )
        lines += map(plain, counts.left_out)
        if counts.unsure:
            lines.append(f"{counted(counts.unsure, 'row')} unsure")
        if counts.disputed:
            lines.append(f"{counted(counts.disputed, 'row')} disputed: settle them under Conflicts")
        st.caption("  \n".join(lines))
        if target.startswith(QUESTION):
            st.caption("Promises are about categories; these labels tell how good the question is.")
        else:
            _needed(found, counts, target)
        if not is_current:
            st.button(
                "Count again", key=f"count-{key_of(dataset, target)}", type="tertiary",
                icon=":material/refresh:", on_click=_forget, args=(found, dataset, target),
                help="With so many labels this takes a while; rows were labelled since.",
            )  # fmt: skip


def _needed(found: Bench, counts: Counting, target: str) -> None:
    share = st.select_slider(
        "Promise", SHARES, value=0.9, format_func=lambda one: percent(one, 0),
        key=f"promise-{key_of(target)}",
    )  # fmt: skip
    need = labelling.needed(counts, share, DELTA)
    missing = max(0, need.flawless - need.holds)
    recall = (
        f"{need.holds:,} are there, which may do"
        if not missing
        else f"{need.holds:,} are there, {missing:,} more are needed"
    )
    st.markdown(
        f"- **{percent(share, 0)} of those where it holds are found**: at least"
        f" {need.flawless:,} counted rows where it holds, {need.one_wrong:,} if one is missed;"
        f" {recall}.\n"
        f"- **{percent(share, 0)} of the flagged are right**: at least {need.flawless:,} counted rows"
        f" that the cut flags, {need.one_wrong:,} if one is wrong; {need.rows:,} rows count in all.\n"
    )
    st.caption(
        f"Each with a chance of at most {percent(DELTA, 0)} to be wrong. The page **Thresholds** tells"
        " what these labels reach."
    )


def _counted(found: Bench, dataset: str, target: str) -> tuple[Counting, bool]:
    """The count, and whether it is as of now: where counting takes long, it may be older."""
    key = f"counting-{key_of(found.desk.file, dataset, target, found.split)}"
    kept: tuple[Any, float, Counting] | None = st.session_state.get(key)
    state = stamp(found.desk)
    if kept is not None and (kept[0] == state or kept[1] > _SLOW_SECONDS):
        return kept[2], kept[0] == state
    began = time.monotonic()
    counts = labelling.counted(found.desk, dataset, target, found.split)
    st.session_state[key] = (state, time.monotonic() - began, counts)
    return counts, True


def _forget(found: Bench, dataset: str, target: str) -> None:
    st.session_state.pop(f"counting-{key_of(found.desk.file, dataset, target, found.split)}", None)


def _memory(found: Bench, queue: Queue, who: str) -> _Memory:
    """What this tab knows of a queue; at first as it was kept."""
    key = f"queue-at-{key_of(queue.id, who)}"
    if key not in st.session_state:
        st.session_state[key] = _Memory(queues.progress(found.desk, queue.id, who))
    memory: _Memory = st.session_state[key]
    return memory


def _go(found: Bench, queue: Queue, who: str, memory: _Memory, state: Progress) -> None:
    memory.state = state
    queues.go(found.desk, queue.id, who, state)


def _say(
    found: Bench, queue: Queue, who: str, memory: _Memory, place: int, row_id: str, value: str
) -> None:
    """A key that answers. One that comes after the row has gone from the screen does nothing."""
    state = memory.state
    if state.place != place:
        return
    with memory.told():
        given = labelling.answer(
            found.desk, found.user, queue.dataset, row_id, queue.target, value,
            annotator=who,
            chosen=queue.chosen,
            score_visible=row_id in memory.scored,
            seen=memory.seen.get(row_id),
            settle=queue.settles,
        )  # fmt: skip
        _go(found, queue, who, memory, Progress(place + 1, (*state.given, (place, given))))


def _move(found: Bench, queue: Queue, who: str, memory: _Memory, place: int, step: int) -> None:
    if memory.state.place == place:
        _go(found, queue, who, memory, Progress(place + step, memory.state.given))


def _jump(found: Bench, queue: Queue, who: str, memory: _Memory, place: int) -> None:
    _go(found, queue, who, memory, Progress(place, memory.state.given))


def _undo(found: Bench, queue: Queue, who: str, memory: _Memory, number: int) -> None:
    """Takes the latest answer back, of as many as there were on the screen."""
    if not memory.state.given or len(memory.state.given) != number:
        return
    place, given = memory.state.given[-1]
    # Also when it cannot be undone any more: the one before may be.
    _go(found, queue, who, memory, Progress(place, memory.state.given[:-1]))
    with memory.told():
        labelling.undo(found.desk, found.user, queue.dataset, given)


def _keep_notes(found: Bench, queue: Queue, who: str, memory: _Memory) -> None:
    """Keeps what was written into the fields of notes, also of the row before this one."""
    for row_id, (key, kept) in list(memory.notes.items()):
        text = st.session_state.get(key)
        if text is not None and text.strip() != kept.strip():
            with memory.told():
                labelling.write_note(
                    found.desk, found.user, queue.dataset, row_id, queue.target, who, text
                )
        del memory.notes[row_id]


def _is_hidden(found: Bench, queue: Queue, at: Shown) -> bool:
    """Whether the text is behind a click, which a key does too."""
    pack = pack_of(found)
    if pack is None or not is_about_harm(pack) or found.desk.settings().get("open_texts"):
        return False
    return not st.session_state.get(_open_key(queue, at))


def _show_text(queue: Queue, at: Shown) -> None:
    st.session_state[_open_key(queue, at)] = True


def _open_key(queue: Queue, at: Shown) -> str:
    # As `parts.texts.show_text` has it.
    return f"open-{queue.dataset}-{at.row_id}"


def _close() -> None:
    set_param("queue", None)


def _scores_key(queue: Queue) -> str:
    return f"scores-shown-{queue.id}"
