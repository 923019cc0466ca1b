"""Fields of a form that write into a draft as they change, each with its faults below it.

A field shows the draft's value whoever changed it last, and keeps what was typed where that could not
be taken. Knows no pack: what a change means comes with the field.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.workbench.actions.editing import Mark
from spinf_serve.workbench.actions.forms import Edit
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.parts.calm import calmly, is_change, shows, whole
from spinf_serve.workbench.parts.synced import synced
from spinf_serve.workbench.parts.words import message as as_message

NONE: Final = "(none)"

EditOf = Callable[[Any], Edit]
"""From a field's new value to the edit of the text."""


@dataclass(slots=True)
class Fields:
    """The fields of one draft.

    Attributes:
        key: of the file; begins every widget's key.
        marks: the text's faults.
        apply: makes an edit; raises `InvalidPack`, `Unusable`.
        jump: shows a line and column in the editor, from a button's callback.
        shown: faults that stood beside a field.
    """

    key: str
    marks: Sequence[Mark]
    apply: Callable[[Edit], object]
    jump: Callable[[int, int], None]
    shown: list[Mark] = field(default_factory=list)

    def text(
        self,
        label: str,
        name: str,
        current: str,
        edit: EditOf,
        place: str = "",
        *,
        lines: int = 0,
        help: str | None = None,
        placeholder: str | None = None,
    ) -> None:
        """A text; in an area of so many lines where `lines` is given.

        Args:
            name: of the field and its subject, for its key.
            place: dotted path in the file, whose faults are shown.
        """
        key, value = self._sync(name, current)
        if lines:
            st.text_area(
                label, value, key=key, help=help, placeholder=placeholder, height=28 * lines + 24,
                on_change=whole(self._take), args=(name, key, edit),
            )  # fmt: skip
        else:
            st.text_input(
                label, value, key=key, help=help, placeholder=placeholder,
                on_change=whole(self._take), args=(name, key, edit),
            )  # fmt: skip
        self.faults(name, place)

    def lines(
        self,
        label: str,
        name: str,
        current: Sequence[str],
        edit: EditOf,
        place: str = "",
        *,
        help: str | None = None,
    ) -> None:
        """A list of texts, one a line; empty lines do not count."""

        def of_lines(value: str) -> Edit:
            return edit([line.strip() for line in value.splitlines() if line.strip()])

        shown = "\n".join(current)
        tall = min(max(len(current) + 1, 3), 12)
        self.text(label, name, shown, of_lines, place, lines=tall, help=help)

    def choice(
        self,
        label: str,
        name: str,
        current: Any,
        options: Sequence[Any],
        edit: EditOf,
        place: str = "",
        *,
        help: str | None = None,
        format_func: Callable[[Any], str] = str,
        new: bool = False,
        collapsed: bool = False,
    ) -> None:
        """One of several; with `new` also one that is typed in."""
        key, value = self._sync(name, current)
        given = list(dict.fromkeys([*options, current, value]))
        st.selectbox(
            label, given, given.index(value), key=key, help=help, format_func=format_func,
            accept_new_options=new, on_change=whole(self._take), args=(name, key, edit),
            label_visibility="collapsed" if collapsed else "visible",
        )  # fmt: skip
        self.faults(name, place)

    def several(
        self,
        label: str,
        name: str,
        current: Sequence[str],
        options: Sequence[str],
        edit: EditOf,
        place: str = "",
        *,
        help: str | None = None,
        new: bool = False,
    ) -> None:
        """Any of several."""
        key, value = self._sync(name, list(current))
        given = list(dict.fromkeys([*options, *current, *value]))
        st.multiselect(
            label, given, value, key=key, help=help,
            accept_new_options=new, on_change=whole(self._take), args=(name, key, edit),
        )  # fmt: skip
        self.faults(name, place)

    def tick(
        self, label: str, name: str, current: bool, edit: EditOf, *, help: str | None = None
    ) -> None:
        """Yes or no."""
        key, value = self._sync(name, current)
        st.checkbox(
            label, value, key=key, help=help,
            on_change=whole(self._take), args=(name, key, edit),
        )  # fmt: skip
        self.faults(name, "")

    def share(
        self,
        label: str,
        name: str,
        current: float | None,
        edit: EditOf,
        place: str = "",
        *,
        help: str | None = None,
    ) -> None:
        """A number between 0 and 1; may be empty."""
        key, value = self._sync(name, None if current is None else float(current))
        st.number_input(
            label, min_value=0.0, max_value=1.0, step=0.05, format="%.4g", value=value,
            key=key, help=help, on_change=whole(self._take), args=(name, key, edit),
        )  # fmt: skip
        self.faults(name, place)

    def button(
        self,
        label: str,
        name: str,
        edit: Callable[[], Edit],
        *,
        then: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        """A button that makes an edit, and then does something else when that went well."""
        st.button(
            label, key=f"form-{self.key}-{name}", on_click=whole(self._press), args=(name, edit, then),
            **options,
        )  # fmt: skip
        self.faults(name, "")

    def pick(
        self, name: str, names: Sequence[str], chosen: str | None, shown: Callable[[str], str]
    ) -> None:
        """A list of which one is edited, kept in the address under `name`.

        Args:
            shown: a name -> Markdown.
        """
        key = f"form-{self.key}-pick-{name}-{subject(*names)}"
        st.session_state[key] = chosen if chosen in names else None
        shows(key, st.session_state[key])
        st.radio(
            f"Choose a {name}", names, index=None, key=key, format_func=shown,
            label_visibility="collapsed", on_change=_picked, args=(name, key),
        )  # fmt: skip

    def faults(self, name: str, place: str) -> None:
        """Draw what is wrong with a field: an edit that could not be made, and the text's faults."""
        key = f"form-{self.key}-{name}"
        failed = _failures().get(key)
        if failed is not None:
            message, line, column = failed
            st.error(as_message(message), icon=":material/error:")
            if line:
                self._in_text(f"Line {line} in the text", f"{key}-jump", line, column)
        if not place:
            return
        for mark in self.marks:
            if mark.param == place or mark.param.startswith(f"{place}."):
                self.shown.append(mark)
                _mark(mark)

    def others(self, place: str) -> None:
        """Draw the faults of a part of the file that stood beside no field, with their lines."""
        for number, mark in enumerate(self.marks):
            if mark in self.shown or not (mark.param + ".").startswith(f"{place}."):
                continue
            self.shown.append(mark)
            _mark(mark)
            self._in_text(
                f"Line {mark.line} in the text",
                f"form-{self.key}-mark-{number}",
                mark.line,
                mark.column,
            )

    def _in_text(self, label: str, key: str, line: int, column: int) -> None:
        st.button(
            label, key=key, type="tertiary", icon=":material/code:",
            on_click=self.jump, args=(line, column),
        )  # fmt: skip

    def _sync(self, name: str, held: Any) -> tuple[str, Any]:
        """The field's key and what it begins with: the draft's value, or what could not be taken."""
        field = f"form-{self.key}-{name}"
        key, value = synced(field, held)
        if value == held:
            _failures().pop(field, None)
        return key, value

    def _take(self, name: str, key: str, edit: EditOf) -> None:
        if calmly(lambda: is_change(key)):
            value = calmly(lambda: st.session_state[key])
            self._try(f"form-{self.key}-{name}", lambda: edit(value))

    def _press(self, name: str, edit: Callable[[], Edit], then: Callable[[], None] | None) -> None:
        if self._try(f"form-{self.key}-{name}", edit) and then is not None:
            calmly(then)

    def _try(self, key: str, edit: Callable[[], Edit]) -> bool:
        try:
            # Nothing that is broken off has changed the draft: that is the last thing done.
            calmly(lambda: self.apply(edit()))
        except InvalidPack as invalid:
            fault = invalid.faults[0]
            failed = (f"Not changed: {fault.message}", fault.line, fault.column)
        except (SpinfError, Unusable) as unable:
            failed = (f"Not changed: {unable}", 0, 0)
        else:
            calmly(lambda: _failures().pop(key, None))
            return True
        calmly(lambda: _failures().update({key: failed}))
        return False


def _picked(name: str, key: str) -> None:
    if is_change(key):
        st.query_params[name] = st.session_state[key]


def subject(*names: object) -> str:
    """A short part of a key for names that may hold anything."""
    return key_of(*names)[:10]


def _mark(mark: Mark) -> None:
    if mark.severity == "error":
        st.error(as_message(mark.message), icon=":material/error:")
    else:
        st.warning(as_message(mark.message), icon=":material/warning:")


def _failures() -> dict[str, tuple[str, int, int]]:
    found: dict[str, tuple[str, int, int]] = st.session_state.setdefault("form-failed", {})
    return found
