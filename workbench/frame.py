"""What every page stands in: who uses it, which pack, rows and scores it is about, and its errors.

The choice lives in the address (`?pack=…&data=…&split=…&bits=…`), so that a link or a reload shows the
same page; the session carries it from page to page.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import streamlit as st

from spinf_serve.evals.data.overview import Dataset, datasets
from spinf_serve.evals.score_tables import Identity, identities
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions.drafts import is_unsaved
from spinf_serve.workbench.actions.project_settings import MOST_NAME
from spinf_serve.workbench.desk import Desk, open_desk
from spinf_serve.workbench.parts.calm import is_change, shows
from spinf_serve.workbench.parts.glossary import glossary_button
from spinf_serve.workbench.parts.tour import draw_tour
from spinf_serve.workbench.parts.words import message as as_message
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.started import Started, approves, started

CHOICE: Final = ("pack", "data", "split", "bits")
"""Parameters of an address that every page has."""

_SCORES_OF: Final = (
    "Whose kept answers the pages show. Answers of a model on another kind of machine are kept apart,"
    " under another digest: the last digits differ."
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pack's file, read.

    Attributes:
        pack: None when the file has faults.
        faults: all of them, with line and column.
        data: the bytes.
    """

    pack: Pack | None
    faults: tuple[PackFault, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Bench:
    """What a page is about.

    Attributes:
        desk: the project's folder.
        user: who looks at it.
        approver: whether they may publish, and put cuts in force.
        file: of the chosen pack; None when the project has none.
        dataset: None when the project has none.
        split: None for all rows.
        model: whose kept scores are shown; None while nothing is kept.
    """

    desk: Desk
    user: str
    approver: bool
    file: Path | None
    dataset: str | None
    split: str | None
    model: Identity | None

    @property
    def bits(self) -> str | None:
        """Digest of the model and machine whose scores are shown."""
        return None if self.model is None else self.model.bits

    def loaded(self) -> Loaded | None:
        """The chosen pack as it lies on disk; None without one."""
        return None if self.file is None else load(self.file)

    def pack(self) -> Pack:
        """The chosen pack. Stops the page with what to do when there is none, or it has faults."""
        found = self.loaded()
        if found is None:
            empty("This project has no pack yet.", "Make one on the page **Pack**.")
        if found.pack is None:
            st.error(
                f"**{plain(self.desk.name_of(self.file))}** has faults, so nothing can be shown"  # type: ignore[arg-type]
                " for it. Mend them on the page **Pack**."
            )
            for fault in found.faults[:10]:
                st.markdown(
                    f"- line {fault.line}, column {fault.column}: {as_message(fault.message)}"
                )
            st.stop()
        return found.pack

    def constants(self, pack: Pack) -> Constants | None:
        """The pack's numbers for the model whose scores are shown; None for a draft there."""
        if self.model is None:
            return None
        return pack.constants((self.model.served,))

    def need_dataset(self) -> str:
        """The chosen dataset; stops the page with what to do when there is none."""
        if self.dataset is None:
            empty("This project has no rows yet.", "Import some on the page **Data**.")
        return self.dataset

    def need_model(self) -> Identity:
        """Whose scores are shown; stops the page with what to do when nothing was scored."""
        if self.model is None:
            empty(
                "No row of this project has been scored yet.",
                "Ask a model on the page **Run**; its answers are kept.",
            )
        return self.model


def bench() -> Bench:
    """What this run of a page is about, drawn as the choices of the sidebar."""
    how = started()
    desk = _desk(how.folder)
    user = _user(how, desk)
    approver = approves(user)
    _take_address()
    files = {desk.name_of(file): file for file in desk.pack_files()}
    sets = _datasets(desk)
    known = models(desk)
    with st.sidebar:
        name = _choose("Pack", "pack", list(files))
        if name is not None and is_unsaved(desk, files[name]):
            st.caption(
                ":orange-badge[unsaved draft]",
                help="Other pages work on the file as it was saved. Save the draft on the page Pack.",
            )
        data = _choose("Rows", "data", [one.name for one in sets])
        split = _split(desk, data)
        labels = {one.bits: f"{one.served} · {one.bits[:8]}" for one in known}
        bits = _choose("Scores of", "bits", list(labels), labels.__getitem__, help=_SCORES_OF)
        glossary_button()
    _give_address()
    by_bits = {one.bits: one for one in known}
    found = Bench(desk, user, approver, files.get(name or ""), data, split, by_bits.get(bits or ""))
    draw_tour(found)
    return found


def choose(**values: str | None) -> None:
    """Change what all pages are about, from a page's callback: `pack`, `data`, `split` or `bits`."""
    for name, value in values.items():
        st.session_state[f"choice-{name}"] = value


def param(name: str) -> str | None:
    """A parameter of the page's own in the address, such as `question` or `row`."""
    value: str | None = st.query_params.get(name)
    return value


def set_param(name: str, value: str | None) -> None:
    """Put such a parameter into the address, or take it out."""
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def empty(what: str, then: str) -> NoReturn:
    """Say that there is nothing yet and what to do, and end the page."""
    st.info(f"{what} {then}")
    st.stop()


@contextmanager
def told() -> Iterator[None]:
    """Shows what cannot be done as a message: a traceback helps nobody who uses a page."""
    try:
        yield
    except InvalidPack as invalid:
        for fault in invalid.faults[:20]:
            st.error(as_message(fault))
    except (SpinfError, Unusable) as fault:
        st.error(as_message(fault))
    except OSError as fault:
        st.error(_of_system(fault))


def _of_system(fault: OSError) -> str:
    """What the system would not do: a full disk, a folder that may not be written, a lock held."""
    name = "" if fault.filename is None else f"{Path(str(fault.filename)).name}: "
    return plain(
        f"{name}{fault.strerror or fault or type(fault).__name__}. Look after the project's folder,"
        " then try again."
    )


def load(file: Path) -> Loaded:
    """A pack's file, read; the same bytes are parsed once."""
    try:
        data = read_regular(file)
    except OSError as error:
        raise Unusable(f"{file.name} cannot be read: {error.strerror}") from None
    return read(data, file.name)


@st.cache_resource(show_spinner=False, max_entries=64)
def read(data: bytes, name: str) -> Loaded:
    """The bytes of a pack's file as a pack, or all of its faults."""
    try:
        return Loaded(read_pack(data, name), (), data)
    except InvalidPack as invalid:
        faults = tuple(invalid.faults)
    try:
        # Numbers of an earlier wording are no reason to show nothing.
        return Loaded(read_pack(data, name, fitted=False), (), data)
    except InvalidPack:
        return Loaded(None, faults, data)


@st.cache_resource(show_spinner="Opening the project…")
def _desk(folder: Path) -> Desk:
    return open_desk(folder)


def _user(how: Started, desk: Desk) -> str:
    if how.user_header is None:
        # A name of one's own choice must not be an approver's.
        return how.user if how.approvers else str(desk.settings().get("user") or how.user)
    given = st.context.headers.get_all(how.user_header)
    name = " ".join(given[0].split()) if given else ""
    if len(given) > 1 or len(name) > MOST_NAME or not name.isprintable():
        st.error(
            f"The header {plain(how.user_header)} names nobody: it comes {len(given)} times, or is no"
            " name. The proxy in front has to take away what clients send under it."
        )
        st.stop()
    if not name:
        st.error(
            f"The proxy in front of this workbench names nobody: no header {plain(how.user_header)}."
            " Open it through the proxy."
        )
        st.stop()
    return name


def _take_address() -> None:
    """An address that was opened goes before what the session held."""
    if "choice-taken" not in st.session_state:
        st.session_state["choice-taken"] = True
        for name in CHOICE:
            value = st.query_params.get(name)
            if value is not None:
                st.session_state[f"choice-{name}"] = value


def _give_address() -> None:
    for name in CHOICE:
        set_param(name, st.session_state.get(f"choice-{name}"))


def _choose(
    label: str,
    name: str,
    options: list[str],
    shown: Callable[[str], str] = str,
    none: str | None = None,
    help: str | None = None,
) -> str | None:
    """One of some names; a choice that is gone falls back to the first."""
    key = f"choice-{name}"
    if none is None and not options:
        st.session_state.pop(key, None)
        return None
    given: list[str | None] = [*([None] if none is not None else []), *options]
    if key not in st.session_state or st.session_state[key] not in given:
        st.session_state[key] = given[0]
    # Widgets of pages that are not shown lose their keys; the choice is kept beside.
    index = given.index(st.session_state[key])

    widget = f"widget-{name}"

    def taken() -> None:
        if is_change(widget):
            st.session_state[key] = st.session_state[widget]

    st.session_state[widget] = given[index]
    shows(widget, given[index])
    st.selectbox(
        label,
        given,
        format_func=lambda one: str(none) if one is None else shown(one),
        key=widget,
        on_change=taken,
        help=help,
    )
    chosen: str | None = st.session_state[key]
    return chosen


def _split(desk: Desk, data: str | None) -> str | None:
    if data is None:
        return None
    names = _splits(str(desk.file), data, stamp(desk))
    if not names:
        st.session_state.pop("choice-split", None)
    return _choose("Split", "split", names, none="all rows") if names else None


def stamp(desk: Desk) -> tuple[int, int]:
    """Key for what is read from a project and kept for a while: changes with every write to it."""
    try:
        found = desk.file.stat()
    except OSError as error:
        raise Unusable(f"{desk.file.name} cannot be read: {error.strerror}") from None
    return found.st_mtime_ns, found.st_size


@st.cache_data(show_spinner=False, max_entries=16)
def _splits(file: str, data: str, at: tuple[int, int]) -> list[str]:
    with Desk(Path(file).parent, Path(file)).project.open(write=False) as connection:
        found = connection.execute(
            "SELECT DISTINCT split FROM item WHERE dataset = ? AND split IS NOT NULL ORDER BY split",
            [data],
        ).fetchall()
    return [name for (name,) in found]


def _datasets(desk: Desk) -> list[Dataset]:
    return _datasets_of(str(desk.file), stamp(desk))


@st.cache_data(show_spinner=False, max_entries=4)
def _datasets_of(file: str, at: tuple[int, int]) -> list[Dataset]:
    return datasets(Desk(Path(file).parent, Path(file)).project)


def models(desk: Desk) -> list[Identity]:
    """The models whose scores a project keeps, see `identities`."""
    return _models_of(str(desk.file), stamp(desk))


@st.cache_data(show_spinner=False, max_entries=4)
def _models_of(file: str, at: tuple[int, int]) -> list[Identity]:
    with Desk(Path(file).parent, Path(file)).project.open(write=False) as connection:
        return identities(connection)
