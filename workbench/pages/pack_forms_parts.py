"""The form's categories with their bands, and its reads."""

from functools import partial
from typing import Any, Final

import streamlit as st

from spinf_serve.workbench import glossary
from spinf_serve.workbench.actions import form_questions as questions
from spinf_serve.workbench.actions import forms
from spinf_serve.workbench.actions.forms import Edit, Form, at
from spinf_serve.workbench.frame import param, set_param
from spinf_serve.workbench.parts.calm import calmly
from spinf_serve.workbench.parts.fields import NONE, Fields, subject
from spinf_serve.workbench.parts.words import code, count, plain

_KINDS: Final = {
    "pair": "the first of two options against the second",
    "option": "one option",
    "any": "all options against the first",
    "set": "the listed options against the others",
}


def draw_categories(form: Form, fields: Fields) -> None:
    """Draw the list of categories, and the chosen one."""
    names = list(form.categories)
    chosen = param("category")
    chosen = chosen if chosen in names else (names[0] if names else None)
    left, right = st.columns([3, 7], gap="large")
    with left:
        word = st.text_input(
            "Search categories", key=f"form-{fields.key}-category-search",
            placeholder="Search categories", label_visibility="collapsed",
            icon=":material/search:",
        )  # fmt: skip
        wanted = (word or "").casefold()
        listed = [
            name
            for name in names
            if wanted in f"{name}\n{form.categories[name].get('label', '')}".casefold()
        ]
        if listed:
            fields.pick(
                "category",
                listed[:40],
                chosen,
                lambda name: (
                    f"{plain(form.categories[name].get('label') or name)} :gray[{plain(name)}]"
                ),
            )
        if len(listed) > 40:
            st.caption(f"40 of {len(listed)}; search to see others.")
        new = st.text_input(
            "New category", key=f"form-{fields.key}-category-new", placeholder="Name of a new one",
            help=glossary.help("category"),
        )  # fmt: skip
        added = (new or "").strip()
        fields.button(
            "Add a category", "category-add",
            lambda: partial(forms.add_key, section="categories", name=added, value={}),
            then=partial(set_param, "category", added), icon=":material/add:", width="stretch",
        )  # fmt: skip
    with right:
        if chosen is None:
            st.info("No question speaks for a category yet. Say so in **Questions**.")
        else:
            _category(form, fields, chosen, names)
    fields.others("categories")


def _category(form: Form, fields: Fields, name: str, names: list[str]) -> None:
    held, sub, place = form.categories[name], f"c-{subject(name)}", f"categories.{name}"
    others = [one for one in names if one != name]
    _buttons(fields, name, sub)
    fields.text(
        "Name", f"{sub}-id", name, lambda value: partial(_rename, old=name, new=value), place="",
        help="Its id in answers. A new name is put everywhere: questions, bands, route, numbers.",
    )  # fmt: skip
    fields.text(
        "Label", f"{sub}-label", str(held.get("label") or ""), _setter(name, "label"),
        f"{place}.label", help="How people read it, such as \"Wants money back\".",
    )  # fmt: skip
    fields.tick(
        "Takes part in the decision", f"{sub}-decides", str(held.get("decides", "true")) != "false",
        _setter(name, "decides"), help=glossary.help("decides"),
    )  # fmt: skip
    fields.several(
        "Requires", f"{sub}-requires", _texts(held.get("requires")), others,
        _setter(name, "requires"), f"{place}.requires", help=glossary.help("requires"),
    )  # fmt: skip
    _threshold(form, fields, name, sub)
    draw_band(form, fields, name, sub)
    spoken = forms.speakers(form, name)
    reads = form.file.get("reads")
    made = (
        [one for one in reads if at(one, ["category"]) == name] if isinstance(reads, list) else []
    )
    told = []
    if spoken:
        shown = ", ".join(code(one) for one in spoken[:12]) + (" …" if len(spoken) > 12 else "")
        told.append(f"Spoken for by {count(len(spoken), 'question')}: {shown}.")
    if made:
        told.append(f"{count(len(made), 'read')} of its own, see **Reads**.")
    st.caption(" ".join(told) or "No question speaks for it yet: choose it at a question.")


def _setter(name: str, field: str) -> Any:
    return lambda value: partial(forms.set_category, name=name, field=field, value=value)


def _rename(text: str, old: str, new: str) -> str:
    edited = forms.rename_category(text, old, new)
    calmly(lambda: set_param("category", new.strip()))
    return edited


def _buttons(fields: Fields, name: str, sub: str) -> None:
    with st.container(horizontal=True):
        for label, by, icon in (
            ("Up", -1, ":material/arrow_upward:"),
            ("Down", 1, ":material/arrow_downward:"),
        ):
            fields.button(label, f"{sub}-{label}", partial(_mover, name, by), icon=icon)
        fields.button(
            "Remove", f"{sub}-remove",
            lambda: lambda text: forms.remove_category(forms.list_categories(text), name),
            then=partial(set_param, "category", None),
            icon=":material/delete:", help="Undo brings it back.",
        )  # fmt: skip


def _mover(name: str, by: int) -> Edit:
    return lambda text: forms.move_key(forms.list_categories(text), "categories", name, by)


def _threshold(form: Form, fields: Fields, name: str, sub: str) -> None:
    cuts = [
        f"{at(form.file, ['fitted', model, 'categories', name, 'threshold'])} on {model}"
        for model in at(form.file, ["fitted"]) or ()
        if at(form.file, ["fitted", model, "categories", name, "threshold"]) is not None
    ]
    st.caption(
        f"Cut: {plain('; '.join(cuts))}. Cuts are chosen on the page **Thresholds**."
        if cuts
        else "No cut yet. Cuts are chosen on the page **Thresholds**."
    )


def draw_band(form: Form, fields: Fields, category: str | None, sub: str) -> None:
    """Bounds of the bands, of a category or (None) of the decision."""
    path = ["bands", "decision"] if category is None else ["bands", "categories", category]
    held = at(form.file, path)
    on = held is not None
    fields.tick(
        "Bands: act, review or pass by score", f"{sub}-bands", on,
        lambda value: partial(
            forms.set_band, category=category, bounds=(0.8, 0.5) if value else None
        ),
        help=glossary.help("band"),
    )  # fmt: skip
    if not on:
        return
    place = ".".join(path)
    left, right = st.columns(2)

    def bound(which: str) -> Any:
        def edit(value: float | None) -> Edit:
            def changed(text: str) -> str:
                if value is None:
                    return text
                return forms.put(text, [*path, which], value)

            return changed

        return edit

    with left:
        fields.share(
            "Act from", f"{sub}-act", _number(at(held, ["act"])), bound("act"), f"{place}.act"
        )
    with right:
        fields.share(
            "Review from", f"{sub}-review", _number(at(held, ["review"])), bound("review"),
            f"{place}.review",
        )  # fmt: skip


def draw_reads(form: Form, fields: Fields) -> None:
    """Draw reads that are written out by hand."""
    st.caption(
        "Most packs need none of these: what a question speaks for makes its reads. "
        + glossary.help("read")
    )
    ids = [str(one.get("id")) for one in form.questions]
    reads = form.file.get("reads")
    for index, read in enumerate(reads if isinstance(reads, list) else ()):
        if isinstance(read, dict):
            _read(form, fields, read, index, ids)
    fields.button("Add a read", "read-add", lambda: forms.add_read, icon=":material/add:")
    fields.others("reads")


def _read(form: Form, fields: Fields, held: dict[str, Any], index: int, ids: list[str]) -> None:
    name = str(held.get("id", ""))
    sub, place = f"r-{subject(name)}", f"reads.{index}"

    def of(field: str, empty: str = "") -> Any:
        return lambda value: partial(
            forms.set_read, read=name, field=field, value=None if value == empty else value
        )

    with st.expander(
        f"{plain(name)}: {plain(held.get('query'))} for {plain(held.get('category'))}"
    ):
        with st.container(horizontal=True):
            fields.button("Up", f"{sub}-up", lambda: partial(forms.move_read, read=name, by=-1))
            fields.button("Down", f"{sub}-down", lambda: partial(forms.move_read, read=name, by=1))
            fields.button("Remove", f"{sub}-remove", lambda: partial(forms.remove_read, read=name))
        fields.text("Name", f"{sub}-id", name, of("id"), f"{place}.id")
        fields.choice(
            "Question", f"{sub}-query", str(held.get("query", "")), ids, of("query"),
            f"{place}.query",
        )  # fmt: skip
        asked = next((one for one in form.questions if one.get("id") == held.get("query")), {})
        values = questions.values_of(asked).get("F", [])
        if values or held.get("F") is not None:
            fields.choice(
                "Value of {F}", f"{sub}-F", str(held.get("F") or NONE), [NONE, *values],
                of("F", NONE), f"{place}.F",
            )  # fmt: skip
        fields.choice(
            "Kind", f"{sub}-kind", str(held.get("kind", "pair")), list(_KINDS), of("kind"),
            f"{place}.kind", format_func=lambda kind: f"{kind}: {_KINDS.get(kind, '')}",
        )  # fmt: skip
        fields.choice(
            "Category", f"{sub}-category", str(held.get("category", "")), list(form.categories),
            of("category"), f"{place}.category", new=True,
        )  # fmt: skip
        _shape(fields, held, name, sub, place, questions.options_of(asked))


def _shape(
    fields: Fields, held: dict[str, Any], name: str, sub: str, place: str, options: list[str]
) -> None:
    """What depends on the read's kind."""
    kind = str(held.get("kind"))

    def of(field: str, value: Any) -> Edit:
        return partial(forms.set_read, read=name, field=field, value=value)

    if kind == "pair":
        fields.tick(
            "The second option speaks for it", f"{sub}-sign", str(held.get("sign", 1)) == "-1",
            lambda value: of("sign", -1 if value else None),
        )  # fmt: skip
    elif kind == "option" and options:
        index = str(held.get("option", ""))
        chosen = options[int(index)] if index.isdecimal() and int(index) < len(options) else NONE
        fields.choice(
            "Option", f"{sub}-option", chosen, options,
            lambda value: of("option", options.index(value) if value in options else None),
            f"{place}.option",
        )  # fmt: skip
    elif kind == "set" and options:
        places = [int(one) for one in _texts(held.get("unsafe")) if one.isdecimal()]
        fields.several(
            "Options that speak for it", f"{sub}-unsafe",
            [options[one] for one in places if one < len(options)], options,
            lambda value: lambda text: forms.set_numbers(text, name, [options.index(o) for o in value]),
            f"{place}.unsafe",
        )  # fmt: skip


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
