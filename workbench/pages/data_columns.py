"""What the columns of a file mean, as it was guessed and may be changed, with its first rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import streamlit as st

from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions import labelling
from spinf_serve.workbench.actions.columns_guessed import ColumnSeen, Peek
from spinf_serve.workbench.actions.importing import Plan
from spinf_serve.workbench.actions.uploads import Upload
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.parts.texts import hides_texts, shown_text
from spinf_serve.workbench.parts.words import code, plain
from spinf_serve.workbench.parts.words import count as counted

NONE: Final = "(none)"


def draw(found: Bench, file: Upload, plan: Plan, seen: Peek, pack: Pack | None) -> Plan:
    """Draw the choices; returns the plan as they say it."""
    for note in seen.notes:
        st.caption(plain(note))
    if hides_texts(found.desk, pack) and not st.toggle(
        "Show the first rows: the chosen pack is about harm", key=f"show-sample-{file.id}"
    ):
        st.caption(f"Columns: {plain(', '.join(seen.names))}")
    else:
        _sample(found.desk, file, seen)
    if not file.is_log:
        plan = _single(file, plan, seen)
    left, right = st.columns(2)
    with left:
        plan = _labels(found.desk, file, plan, seen, pack)
    with right:
        slices = st.multiselect(
            "Slices", seen.names, default=_there(plan.slices, seen), key=f"slices-{file.id}",
            help=meaning("slice"),
        )  # fmt: skip
        plan = replace(plan, slices=tuple(slices))
        plan = _lists(file, plan, seen)
    if not file.is_log:
        plan = _more(file, plan, seen)
    return plan


def _sample(desk: Desk, file: Upload, seen: Peek) -> None:
    st.dataframe(
        [
            {name: shown_text(desk, cell) for name, cell in zip(seen.names, row, strict=True)}
            for row in seen.sample
        ],
        key=f"sample-{file.id}",
        hide_index=True,
        height=220,
    )


def _there(names: Sequence[str], seen: Peek) -> list[str]:
    return [name for name in names if name in seen.names]


def _pick(
    label: str, role: str, file: Upload, value: str | None, seen: Peek, help: str
) -> str | None:
    options = [NONE, *seen.names]
    chosen: str = st.selectbox(
        label, options, index=options.index(value) if value in options else 0,
        key=f"{role}-{file.id}", help=help,
    )  # fmt: skip
    return None if chosen == NONE else chosen


def _single(file: Upload, plan: Plan, seen: Peek) -> Plan:
    """The columns of which there is one of each."""
    first, second, third = st.columns(3)
    with first:
        text = _pick("Text", "text", file, plan.text, seen, "What the pack is asked about.")
    with second:
        id = _pick(
            "Id", "id", file, plan.id, seen,
            "Unique; without one, rows are numbered by their lines in the file.",
        )  # fmt: skip
    with third:
        group = _pick("Group", "group", file, plan.group, seen, meaning("group"))
    return replace(plan, text=text, id=id, group=group)


def _labels(desk: Desk, file: Upload, plan: Plan, seen: Peek, pack: Pack | None) -> Plan:
    """Columns of yes and no, or of classes, each with what it is a label of."""
    by_column = {column: target for target, column in plan.labels.items()}
    chosen = st.multiselect(
        "Labels", seen.names, default=_there(list(by_column), seen), key=f"labels-{file.id}",
        help="Columns that say yes or no of each row, or name a class. A blank cell says nothing.",
    )  # fmt: skip
    targets = [one.target for one in labelling.targets_of(pack, [])]
    labels: dict[str, str] = {}
    classes = []
    for column in chosen:
        one = seen.column(column)
        assert one is not None
        name, kind = st.columns([3, 2], vertical_alignment="bottom")
        given = by_column.get(column, column)
        options = list(dict.fromkeys([given, column, *targets]))
        key = key_of(file.id, column)
        target = name.selectbox(
            f"{code(column, 80)} is a label of", options, index=0, key=f"target-{key}",
            accept_new_options=True,
        )  # fmt: skip
        is_class = kind.checkbox(
            "holds classes", value=given in plan.classes, key=f"class-{key}",
            help="Any text, such as the right option of a question, in place of yes and no.",
        )  # fmt: skip
        st.caption(_says(desk, one, seen, is_class=is_class))
        if target in labels:
            st.error(
                f"Two columns are labels of {plain(target)}; take one out or name it otherwise."
            )
        labels[target] = column
        if is_class:
            classes.append(target)
    return replace(plan, labels=labels, classes=tuple(classes))


def _says(desk: Desk, one: ColumnSeen, seen: Peek, *, is_class: bool) -> str:
    """What a column says in the rows that were looked at."""

    def word(value: str) -> str:
        return plain(shown_text(desk, value), 80)

    where = "" if seen.whole else f" in the first {counted(one.rows, 'row')}"
    if is_class:
        values = ", ".join(f"{n:,} {word(value)}" for value, n in one.values[:8])
        return f"{values or counted(one.distinct, 'class', 'classes')}, {one.blank:,} blank{where}"
    told = f"{one.yes:,} yes, {one.no:,} no, {one.unsure:,} unsure, {one.blank:,} blank"
    if one.other:
        words = ", ".join(word(value) for value, _ in one.values[:5] if value)
        told += f", **{one.other:,} say something else** ({words}): such rows are refused"
    return told + where


def _lists(file: Upload, plan: Plan, seen: Peek) -> Plan:
    column = _pick(
        "List of labels", "lists", file, plan.lists, seen,
        "All labels that hold in one cell, such as billing|refund.",
    )  # fmt: skip
    if column is None:
        return replace(plan, lists=None)
    left, right = st.columns(2, vertical_alignment="bottom")
    separator = left.text_input(
        "Between labels", value=plan.separator, key=f"separator-{file.id}", max_chars=5
    )
    none = right.checkbox(
        "a blank cell says that no label holds", value=plan.blank_is_none, key=f"blank-{file.id}"
    )
    return replace(plan, lists=column, separator=separator or "|", blank_is_none=none)


def _more(file: Upload, plan: Plan, seen: Peek) -> Plan:
    """What few files have."""
    with st.expander("Weights, contexts, media, and how the file is read", icon=":material/tune:"):
        first, second, third = st.columns(3)
        with first:
            weight = _pick("Weight", "weight", file, plan.weight, seen, meaning("weight"))
        with second:
            context = _pick("Context", "context", file, plan.context, seen, meaning("context"))
        with third:
            media = _pick(
                "Media", "media", file, plan.media, seen,
                "Path or URL of what a row is about, in place of a text. No model reads media yet.",
            )  # fmt: skip
        filled = st.multiselect(
            "Parameters", seen.names, default=_there(list(plan.parameters.values()), seen),
            key=f"parameters-{file.id}", help=meaning("parameter"),
        )  # fmt: skip
        names = {column: name for name, column in plan.parameters.items()}
        parameters = {
            names.get(column, column.removeprefix("parameter.")): column for column in filled
        }
        first, second, third = st.columns(3)
        encoding = first.text_input(
            "Encoding",
            value=plan.encoding or "",
            placeholder="found out",
            key=f"encoding-{file.id}",
        )
        delimiter = second.text_input(
            "Between cells", value=plan.delimiter or "", placeholder="found out", max_chars=1,
            key=f"delimiter-{file.id}",
        )  # fmt: skip
        sheet = third.text_input(
            "Sheet", value=plan.sheet or "", placeholder="the first", key=f"sheet-{file.id}"
        )
    return replace(
        plan,
        weight=weight,
        context=context,
        media=media,
        parameters=parameters,
        encoding=encoding.strip() or None,
        delimiter=delimiter or None,
        sheet=sheet.strip() or None,
    )
