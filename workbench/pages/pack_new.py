"""Begins a pack: from plain sentences, shown for approval first, or as a copy of another."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.workbench import glossary
from spinf_serve.workbench.actions import wizard
from spinf_serve.workbench.actions.sentences import Ask, Proposal, propose
from spinf_serve.workbench.actions.wizard import KINDS, Offer
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import Bench, choose, param, set_param
from spinf_serve.workbench.parts.calm import is_change, shows, whole
from spinf_serve.workbench.parts.fields import subject
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.words import code, count, percent, plain
from spinf_serve.workbench.parts.words import message as as_message

WAYS: Final = ("From plain sentences", "Copy an official pack", "Copy one of this project")
MOST_SENTENCES: Final = 40

_KEPT: Final = "wizard"
_EXAMPLES: Final = (
    "the customer threatens to leave\nthe writer is angry\nthe customer wants a refund"
)


def is_open() -> bool:
    """Whether the address asks for a new pack."""
    return param("new") is not None


def open_button() -> None:
    """Draw the button that opens this."""
    st.button(
        "New pack", key="new-pack", icon=":material/add:",
        on_click=set_param, args=("new", "1"),
    )  # fmt: skip


def draw(bench: Bench) -> None:
    """Draw the ways to begin a pack."""
    with st.container(border=True):
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
        ):
            st.subheader("New pack", width="content")
            st.button("Close", key="new-close", on_click=set_param, args=("new", None))
        way = st.segmented_control(
            "How", WAYS, default=WAYS[0], key="new-way", required=True,
            label_visibility="collapsed",
        )  # fmt: skip
        _say()
        if way == WAYS[1]:
            _copies(bench, _official(), "official")
        elif way == WAYS[2]:
            _copies(bench, _own(bench), "own")
        else:
            _sentences(bench)


@st.cache_data(show_spinner=False)
def _official() -> list[Offer]:
    return wizard.official()


def _own(bench: Bench) -> list[Offer]:
    files = [file for file in bench.desk.pack_files() if file.suffix != ".json"]
    return [Offer(file, bench.desk.name_of(file), "") for file in files]


def _copies(bench: Bench, offers: list[Offer], key: str) -> None:
    if not offers:
        st.info("This project has no pack yet. Copy an official one, or write sentences.")
        return
    st.caption(
        "The copy is a file of this project, yours to change; the numbers that were fitted come with"
        " it."
        if bench.approver
        else "The copy is a file of this project, yours to change. The numbers that were fitted do not"
        " come with it: only an approver puts cuts in force."
    )
    for offer in offers:
        words, button = st.columns([7, 3], vertical_alignment="center")
        told = [f"**{plain(offer.name)}**", plain(offer.description)]
        if offer.categories:
            shown = ", ".join(offer.categories[:8]) + (" …" if len(offer.categories) > 8 else "")
            told.append(
                f":gray[{count(len(offer.categories), 'category', 'categories')}: {plain(shown)}]"
            )
        if offer.auc is not None:
            told.append(
                f":gray[On {offer.rows:,} test messages, read by {plain(offer.model)}: right in"
                f" {percent(offer.auc, 0)} of pairs (mean ROC area {offer.auc:.2f}).]"
            )
        words.markdown("  \n".join(told), help=glossary.help("ROC area") if offer.auc else None)
        with button.popover("Copy", width="stretch"):
            name = st.text_input(
                "Name of the copy", value=f"My {offer.name.rsplit('/')[-1]}",
                key=f"new-{key}-{subject(offer.file)}",
            )  # fmt: skip
            st.caption(f"Id: `{wizard.id_from(name or '')}`")
            st.button(
                "Make the copy", key=f"new-{key}-make-{subject(offer.file)}", type="primary",
                on_click=partial(_copy, bench, offer.file, f"new-{key}-{subject(offer.file)}"),
            )  # fmt: skip


@whole
def _copy(bench: Bench, source: Path, key: str) -> None:
    with _noted():
        name = st.session_state[key]
        _opened(
            bench, wizard.copy_pack(bench.desk, bench.user, source, name, approver=bench.approver)
        )


def _sentences(bench: Bench) -> None:
    kept = _kept(bench.desk)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _field(
            bench, "sentences", st.text_area, "What is to be noticed? One sentence a line.",
            height=150, placeholder=_EXAMPLES,
            help="Who and what, such as: the customer threatens to leave. English sentences are"
            " understood; for other languages write the questions in the form.",
        )  # fmt: skip
    with right:
        _field(bench, "name", st.text_input, "Name of the pack", placeholder="Customers at risk")
        _field(
            bench, "kind", st.selectbox, "One text is a", options=list(KINDS),
            help="The model is told so before it reads the text.",
        )  # fmt: skip
        _field(
            bench, "large", st.checkbox, "The model is a large one that follows instructions",
            help="Then the sentence itself is asked too, as true or false. Small models (up to about"
            " 3 billion parameters) answer that badly, and words of a sentence well.",
        )  # fmt: skip
    lines = [line.strip() for line in str(kept.get("sentences", "")).splitlines() if line.strip()]
    if not lines:
        st.info("Write a sentence, and its questions appear here for you to approve.")
        return
    if len(lines) > MOST_SENTENCES:
        st.warning(f"The first {MOST_SENTENCES} sentences are taken; add others later in the form.")
    st.markdown("**These questions come out.** Untick what you do not want, reword what you like.")
    st.caption(
        "The model goes on where **{?}** stands. The first word speaks for what you wrote, the second against it. Short everyday words that"
        " are about as likely there work best. Nothing is written before you press the button below."
    )
    given = [
        (one, _approved(bench, one))
        for one in (propose(line, large=bool(kept.get("large"))) for line in lines[:MOST_SENTENCES])
    ]
    _create(bench, given, kept)


def _approved(bench: Bench, proposal: Proposal) -> list[Ask]:
    """The questions of a sentence as they stand ticked and reworded."""
    st.markdown(f"**{plain(proposal.label)}**")
    if proposal.advice:
        st.warning(plain(proposal.advice), icon=":material/lightbulb:")
    asks = []
    for number, ask in enumerate(proposal.asks):
        key = f"ask-{subject(proposal.sentence, number, ask.template)}"
        tick, wording, first, second = st.columns([0.5, 6, 2, 2], vertical_alignment="center")
        shown = ask.template.removeprefix("\n")
        with tick:
            ticked = _field(
                bench, f"{key}-on", st.checkbox, f"Ask: {plain(shown)}", start=ask.small or bool(_kept(bench.desk).get("large")),
                label_visibility="collapsed",
            )  # fmt: skip
        texts = []
        for column, name, label, start in (
            (wording, "template", "Wording", shown),
            (first, "first", "Speaks for it", ask.options[0]),
            (second, "second", "Speaks against it", ask.options[1]),
        ):
            with column:
                texts.append(
                    _field(
                        bench,
                        f"{key}-{name}",
                        st.text_input,
                        f"{label}: {plain(shown)}",
                        start=start,
                        label_visibility="collapsed",
                    )
                )
        template, one, other = (str(text or "").strip() for text in texts)
        if ticked:
            asks.append(Ask(f"\n{template}", (one, other), ask.small))
    return asks


def _create(bench: Bench, given: list[tuple[Proposal, list[Ask]]], kept: dict[str, Any]) -> None:
    name = str(kept.get("name", "")).strip()
    text, said = "", ""
    try:
        text = wizard.written(name or "pack", str(kept.get("kind") or next(iter(KINDS))), given)
        found = wizard.findings(text)
    except InvalidPack as invalid:
        said = "\n".join(f"- {as_message(fault.message)}" for fault in invalid.faults[:5])
    except Unusable as fault:
        said = as_message(fault)
    else:
        said = "\n".join(
            f"- {code(one.on)}: {as_message(one.message)}; {as_message(one.remedy)}"
            for one in found
        )
    if said:
        st.error(f"Not yet:\n\n{said}", icon=":material/error:")
    elif not name:
        st.info("Give the pack a name.")
    silent = [plain(one.label) for one, asks in given if not asks]
    if silent and not said:
        st.warning(f"Left out, since no question of theirs is ticked: {'; '.join(silent)}.")
    with st.expander("The file that will be written"):
        st.code(text or "", language="yaml")
    st.button(
        f"Create the pack {wizard.id_from(name)}" if name else "Create the pack",
        key="new-create", type="primary", disabled=bool(said) or not name,
        on_click=partial(_write, bench, name, text),
    )  # fmt: skip


@whole
def _write(bench: Bench, name: str, text: str) -> None:
    with _noted():
        file = wizard.create(bench.desk, bench.user, name, text)
        bench.desk.set(**{_KEPT: None})
        for key in [key for key in st.session_state if str(key).startswith("new-field-")]:
            del st.session_state[key]
        _opened(bench, file)


def _opened(bench: Bench, file: Path) -> None:
    choose(pack=bench.desk.name_of(file))
    set_param("new", None)
    st.session_state["tab"] = "Form"
    st.toast(f"Made {plain(bench.desk.name_of(file))}.", icon=":material/check:")


def _field(
    bench: Bench, name: str, widget: Any, label: str, *, start: Any = None, **options: Any
) -> Any:
    """A widget whose value is kept in the project, so that a reload loses nothing."""
    key = f"new-field-{name}"
    value = st.session_state[key] if key in st.session_state else _kept(bench.desk).get(name, start)
    drawn = widget(
        label,
        key=key,
        on_change=_keep,
        args=(bench.desk, name, key),
        **(options | begins(widget, value, options.get("options", ()))),
    )
    shows(key, drawn)
    return drawn


@whole
def _keep(desk: Desk, name: str, key: str) -> None:
    if is_change(key):
        desk.set(**{_KEPT: {**_kept(desk), name: st.session_state[key]}})


def _kept(desk: Desk) -> dict[str, Any]:
    found = desk.settings().get(_KEPT)
    return found if isinstance(found, dict) else {}


class _noted:
    """Keeps what could not be done for the next run of the page."""

    def __enter__(self) -> None:
        st.session_state.pop("new-told", None)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, (InvalidPack, SpinfError, Unusable)):
            st.session_state["new-told"] = str(error)
            return True
        return False


def _say() -> None:
    words = st.session_state.pop("new-told", None)
    if words:
        st.error(as_message(words))
