"""The form's decision with bands and route, its contexts with parameters, and what the pack is."""

from functools import partial
from typing import Any, Final

import streamlit as st

from spinf_serve.workbench import glossary
from spinf_serve.workbench.actions import forms
from spinf_serve.workbench.actions.forms import Edit, Form, at
from spinf_serve.workbench.pages.pack_forms_parts import draw_band
from spinf_serve.workbench.parts.fields import Fields, subject

_MODES: Final = {
    "per_category": "each category has its own cut",
    "max": "one cut for the highest score",
    "micro_layer": "a small fitted formula over all scores",
}
_LONG: Final = {
    "refuse": "refuse it",
    "max": "read it in pieces; the strongest piece counts",
    "mean": "read it in pieces; their average counts",
}


def draw_decision(form: Form, fields: Fields) -> None:
    """Draw the decision, its bands, the route, and what happens to long contents."""
    file, names = form.file, list(form.categories)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Decision", help=glossary.help("decision"))
        held = at(file, ["decision"]) or {}
        mode = str(at(held, ["mode"]) or "per_category")
        fields.choice(
            "How it decides", "mode", mode, list(_MODES), _decision("mode"), "decision.mode",
            help=glossary.help("mode"), format_func=lambda one: f"{one}: {_MODES.get(one, '')}",
        )  # fmt: skip
        if mode == "micro_layer":
            fields.choice(
                "When the formula does not fit any more", "fallback",
                str(at(held, ["fallback"]) or "per_category"), ["per_category", "max"],
                _decision("fallback"), "decision.fallback",
            )  # fmt: skip
        fields.several(
            "Critical", "critical", _texts(at(held, ["critical"])), names, _decision("critical"),
            "decision.critical", help=glossary.help("critical"),
        )  # fmt: skip
        draw_band(form, fields, None, "decision")
        fields.others("decision")
        fields.others("bands")
    with right:
        st.subheader("Route", help=glossary.help("route"))
        _route(form, fields, names)
        st.subheader("Long contents", help=glossary.help("on_long"))
        given = at(file, ["on_long"])
        current = str(at(given, ["chunk"]) or "refuse")
        fields.choice(
            "A content longer than the model reads at once", "on_long", current, list(_LONG),
            lambda value: partial(forms.set_on_long, value=value), "on_long",
            format_func=lambda one: _LONG.get(one, one),
        )  # fmt: skip


def _decision(field: str) -> Any:
    return lambda value: partial(forms.set_decision, field=field, value=value)


def _route(form: Form, fields: Fields, names: list[str]) -> None:
    held = at(form.file, ["route"])

    def of(field: str) -> Any:
        return lambda value: partial(forms.set_route, field=field, value=value)

    fields.several(
        "Categories that compete", "route", _texts(at(held, ["categories"])), names,
        of("categories"), "route.categories",
        help="At least two. With none the pack routes nothing.",
    )  # fmt: skip
    if held is None:
        return
    left, right = st.columns(2)
    with left:
        fields.share(
            "Margin", "route-margin", _number(at(held, ["margin"]), 0.0), of("margin"),
            "route.margin", help=glossary.help("margin"),
        )  # fmt: skip
    with right:
        fields.share(
            "Minimum", "route-minimum", _number(at(held, ["minimum"]), 0.0), of("minimum"),
            "route.minimum", help=glossary.help("minimum"),
        )  # fmt: skip
    fields.text(
        "Word for unsure", "route-abstain", str(at(held, ["abstain"]) or "unsure"), of("abstain"),
        "route.abstain", help=glossary.help("abstain"),
    )  # fmt: skip
    fields.others("route")


def draw_contexts(form: Form, fields: Fields) -> None:
    """Draw how contents are introduced, and the values that this needs."""
    st.caption(glossary.help("context") + " Write {X} where the content goes.")
    contexts = at(form.file, ["contexts"])
    for name, text in (contexts if isinstance(contexts, dict) else {}).items():
        _context(fields, str(name), str(text))
    _adder(fields, "contexts", "Name of a new context", "Add a context", "Message: {X}\n")
    fields.others("contexts")
    st.subheader("Parameters", help=glossary.help("parameter"))
    parameters = at(form.file, ["parameters"])
    for name, held in (parameters if isinstance(parameters, dict) else {}).items():
        _parameter(fields, str(name), held if isinstance(held, dict) else {})
    _adder(fields, "parameters", "Name of a new parameter", "Add a parameter", {"required": False})
    fields.others("parameters")


def _context(fields: Fields, name: str, text: str) -> None:
    sub = f"x-{subject(name)}"
    with st.container(border=True):
        title, up, down, gone = st.columns([5, 1, 1, 1], vertical_alignment="bottom")
        with title:
            fields.text(
                "Name", f"{sub}-id", name,
                lambda value: partial(forms.rename_key, section="contexts", old=name, new=value),
            )  # fmt: skip
        for column, label, by in ((up, "Up", -1), (down, "Down", 1)):
            with column:
                fields.button(
                    label, f"{sub}-{label}",
                    partial(_edit, forms.move_key, section="contexts", name=name, by=by),
                    width="stretch",
                )  # fmt: skip
        with gone:
            fields.button(
                "Remove", f"{sub}-remove",
                partial(_edit, forms.remove_key, section="contexts", name=name), width="stretch",
            )  # fmt: skip
        ends = text.endswith("\n")
        fields.text(
            "Text", f"{sub}-text", text.removesuffix("\n"),
            lambda value: partial(
                forms.put, path=["contexts", name], value=value + ("\n" if ends else "")
            ),
            f"contexts.{name}", lines=2,
            help="The model reads this before the question. A line break at its end stays.",
        )  # fmt: skip


def _parameter(fields: Fields, name: str, held: dict[str, Any]) -> None:
    sub = f"p-{subject(name)}"
    path = ["parameters", name]

    def of(field: str) -> Any:
        return lambda value: partial(forms.put, path=[*path, field], value=value)

    with st.container(border=True):
        title, label, default, gone = st.columns([3, 3, 3, 1], vertical_alignment="bottom")
        with title:
            fields.text(
                "Name", f"{sub}-id", name,
                lambda value: partial(forms.rename_key, section="parameters", old=name, new=value),
                f"parameters.{name}",
            )  # fmt: skip
        with label:
            fields.text("Label", f"{sub}-label", str(held.get("label") or ""), of("label"))
        with default:
            fields.text(
                "When none is given", f"{sub}-default", str(held.get("default") or ""),
                of("default"),
            )  # fmt: skip
        with gone:
            fields.button(
                "Remove", f"{sub}-remove",
                partial(_edit, forms.remove_key, section="parameters", name=name),
            )  # fmt: skip
        fields.tick(
            "Must be given", f"{sub}-required", str(held.get("required", "true")) != "false",
            lambda value: partial(
                forms.put, path=[*path, "required"], value=None if value else False
            ),
        )  # fmt: skip


def _adder(fields: Fields, section: str, label: str, button: str, value: Any) -> None:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    key = f"form-{fields.key}-{section}-new"
    name = left.text_input(label, key=key)
    with right:
        fields.button(
            button, f"{section}-add",
            partial(_edit, forms.add_key, section=section, name=(name or "").strip(), value=value),
            icon=":material/add:", width="stretch",
        )  # fmt: skip


def _edit(function: Any, **given: Any) -> Edit:
    return partial(function, **given)


def draw_about(form: Form, fields: Fields) -> None:
    """Draw what the pack is called and what it is for."""

    def of(field: str) -> Any:
        return lambda value: partial(forms.put, path=[field], value=value.strip())

    def must(field: str) -> Any:
        # Without it the file is no pack.
        return lambda value: lambda text: forms.set_value(text, forms.NAME, [field], value.strip())

    left, right = st.columns(2, gap="large")
    with left:
        fields.text("Name", "name", _text(form, "name"), of("name"), "name")
        fields.text(
            "What it tells", "description", _text(form, "description"), of("description"),
            "description", lines=3, help="A sentence or two for people.",
        )  # fmt: skip
        fields.several(
            "Tags", "tags", _texts(form.file.get("tags")), [],
            lambda value: lambda text: forms.put(text, ["tags"], value) if value
            else forms.drop(text, ["tags"]), "tags", new=True,
            help="Type a word and press Enter. Texts of packs about harm are hidden until they are"
            " asked for: tag those `moderation` or `safety`.",
        )  # fmt: skip
    with right:
        fields.text(
            "Id", "pack", _text(form, "pack"), must("pack"), "pack",
            help="owner/name, in small letters. Programs ask for the pack by it.",
        )  # fmt: skip
        fields.text(
            "Version", "version", _text(form, "version"), must("version"), "version",
            help=glossary.help("version"),
        )  # fmt: skip
        fields.text("License", "license", _text(form, "license"), of("license"), "license")
    for place in ("media", "answers", "model", "lint"):
        fields.others(place)


def _text(form: Form, field: str) -> str:
    value = form.file.get(field)
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _number(value: Any, default: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default
