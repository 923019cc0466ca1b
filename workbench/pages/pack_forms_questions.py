"""The form's questions: a list to search, and one of them to edit."""

from functools import partial
from typing import Any, Final

import streamlit as st

from spinf_serve.workbench import glossary
from spinf_serve.workbench.actions import form_questions as questions
from spinf_serve.workbench.actions.form_questions import Speaks
from spinf_serve.workbench.actions.forms import Edit, Form, form_of
from spinf_serve.workbench.frame import param, set_param
from spinf_serve.workbench.parts.calm import calmly
from spinf_serve.workbench.parts.fields import NONE, Fields, subject
from spinf_serve.workbench.parts.words import code, plain

LISTED: Final = 20
"""Questions a page of the list has."""

MOST_ROWS: Final = 24
"""Options or values that get a field of their own for the category they speak for."""

_OWN: Final = "a list of its own"


def draw_questions(form: Form, fields: Fields) -> None:
    """Draw the list, and the chosen question."""
    ids = [str(one.get("id", "")) for one in form.questions]
    chosen = _chosen(ids, fields)
    left, right = st.columns([3, 7], gap="large")
    with left:
        _list(form, fields, ids, chosen)
    with right:
        if chosen is None:
            st.info("This pack asks nothing yet. Press **Add a question**.")
        else:
            _question(form, fields, ids.index(chosen), chosen)


def _chosen(ids: list[str], fields: Fields) -> str | None:
    index = st.session_state.pop("form-question-index", None)
    if index is not None and index.isdecimal() and int(index) < len(ids):
        set_param("question", ids[int(index)])
    wanted = param("question") or ""
    if wanted not in ids and _now(fields, wanted) in ids:
        # Renamed: an address that came with a later click may still have the old name.
        wanted = _now(fields, wanted)
        set_param("question", wanted)
    if wanted not in ids:
        wanted = ids[0] if ids else ""
    return wanted or None


def _now(fields: Fields, question: str) -> str:
    """The name that a question has by now: fields drawn before a rename still know the old one."""
    renamed = calmly(lambda: st.session_state.get(f"form-{fields.key}-renamed", {}))
    return str(renamed.get(question, question))


def _list(form: Form, fields: Fields, ids: list[str], chosen: str | None) -> None:
    word = st.text_input(
        "Search questions", key=f"form-{fields.key}-search", placeholder="Search questions",
        label_visibility="collapsed", icon=":material/search:",
    )  # fmt: skip
    wanted = (word or "").casefold()
    found = [
        (index, name)
        for index, name in enumerate(ids)
        if wanted in f"{name}\n{form.questions[index].get('template', '')}".casefold()
        or wanted in "\n".join(questions.options_of(form.questions[index])).casefold()
    ]
    pages = max(1, -(-len(found) // LISTED))
    key = f"form-{fields.key}-list-{subject(wanted)}"
    place = next((at for at, (_, name) in enumerate(found) if name == chosen), 0)
    seen = f"form-{fields.key}-list-chosen"
    if st.session_state.get(seen) != chosen or key not in st.session_state:
        # The page of the list that the chosen one is on.
        st.session_state[key] = place // LISTED + 1
    st.session_state[seen] = chosen
    page = min(int(st.session_state[key]), pages)
    shown = found[(page - 1) * LISTED : page * LISTED]
    names = [name for _, name in shown]
    bad = {
        name
        for index, name in shown
        if any(
            mark.severity == "error" and mark.param.startswith(f"scoring.queries.{index}.")
            for mark in fields.marks
        )
    }
    if names:
        fields.pick(
            "question",
            names,
            chosen,
            lambda name: f":red[{plain(name)}]" if name in bad else plain(name),
        )
    if not found:
        st.caption("No question has this in its name, wording or options.")
    if pages > 1:
        st.pagination(pages, default=page, key=key, max_visible_pages=5)
    st.caption(f"{len(found)} of {len(ids)} questions" if wanted else f"{len(ids)} questions")
    name = questions.free_id(form, "question")
    fields.button(
        "Add a question",
        "add-question",
        lambda: partial(questions.add_question, name=name, behind=chosen),
        then=partial(set_param, "question", name),
        icon=":material/add:",
        width="stretch",
    )


def _question(form: Form, fields: Fields, index: int, name: str) -> None:
    held = form.questions[index]
    place = f"scoring.queries.{index}"
    sub = subject(name)
    _buttons(form, fields, name, sub)

    def of(change: Any, *more: Any) -> Any:
        """An edit of this question, under the name that it has when it is made."""
        return lambda value: lambda text: change(text, _now(fields, name), *more, value)

    def rename(value: str) -> Edit:
        def edit(text: str) -> str:
            edited = questions.rename_question(text, _now(fields, name), value)
            key = f"form-{fields.key}-renamed"
            renamed = calmly(lambda: st.session_state.setdefault(key, {}))
            renamed.pop(value.strip(), None)
            renamed[name] = value.strip()
            calmly(lambda: set_param("question", value.strip()))
            return edited

        return edit

    fields.text(
        "Name", f"{sub}-id", name, rename, f"{place}.id",
        help="Short, and without spaces at best. Answers and reports show it.",
    )  # fmt: skip
    template = str(held.get("template", ""))
    own_line = template.startswith("\n")

    def reword(value: str) -> Edit:
        lead = "\n" if own_line and not value.startswith("\n") else ""
        return lambda text: questions.set_field(
            text, _now(fields, name), "template", lead + value.rstrip("\n")
        )

    fields.text(
        "Wording", f"{sub}-template", template.removeprefix("\n").rstrip("\n"), reword,
        f"{place}.template", lines=2,
        help=glossary.help("template") + " The best wording is a sentence that an option completes.",
    )  # fmt: skip
    fields.tick(
        "Begins on a line of its own", f"{sub}-line", own_line,
        lambda value: partial(_line, name=name, fields=fields, own=value),
        help="Behind the content. Nearly always right.",
    )  # fmt: skip
    _options(fields, held, name, place, sub)
    _values(fields, held, name, place, sub)
    st.markdown("**Speaks for**", help=glossary.help("category"))
    _speaks(form, fields, held, name, place, sub)
    with st.expander("More about this question"):
        ids = [str(one.get("id")) for one in form.questions if one.get("id") != name]
        fields.text(
            "View", f"{sub}-view", str(held.get("view") or ""), of(questions.set_field, "view"),
            f"{place}.view", help=glossary.help("view"),
        )  # fmt: skip
        fields.choice(
            "Denies the question", f"{sub}-negates", str(held.get("negates") or "") or NONE,
            [NONE, *ids],
            lambda value: of(questions.set_field, "negates")("" if value == NONE else value),
            f"{place}.negates",
            help="Lint then checks that the two add up.",
        )  # fmt: skip
        fields.tick(
            "Read the options exactly as written", f"{sub}-exact",
            str(held.get("exact_options", "")) == "true",
            lambda value: of(questions.set_field, "exact_options")(True if value else None),
            help="Without the space that a word usually has in front of it.",
        )  # fmt: skip
    fields.others(place)


def _line(text: str, name: str, fields: Fields, own: bool) -> str:
    now = _now(fields, name)
    form = form_of(text)
    held = str(form.questions[_place(form, now)]["template"])
    bare = held.removeprefix("\n")
    return questions.set_field(text, now, "template", "\n" + bare if own else bare)


def _buttons(form: Form, fields: Fields, name: str, sub: str) -> None:
    copied = questions.free_id(form, f"{name}_copy")
    with st.container(horizontal=True):
        fields.button(
            "Up", f"{sub}-up",
            lambda: lambda text: questions.move_question(text, _now(fields, name), -1),
            icon=":material/arrow_upward:",
        )  # fmt: skip
        fields.button(
            "Down", f"{sub}-down",
            lambda: lambda text: questions.move_question(text, _now(fields, name), 1),
            icon=":material/arrow_downward:",
        )  # fmt: skip
        fields.button(
            "Copy", f"{sub}-copy",
            lambda: lambda text: questions.copy_question(text, _now(fields, name))[0],
            then=partial(set_param, "question", copied), icon=":material/content_copy:",
        )  # fmt: skip
        fields.button(
            "Remove", f"{sub}-remove",
            lambda: lambda text: questions.remove_question(text, _now(fields, name)),
            then=partial(set_param, "question", None),
            icon=":material/delete:", help="Undo brings it back.",
        )  # fmt: skip


def _options(fields: Fields, held: Any, name: str, place: str, sub: str) -> None:
    given = held.get("options")
    short = str(given) if isinstance(given, str) and given in questions.SHORT else _OWN
    current = questions.options_of(held)

    def choose(value: str) -> Edit:
        options: Any = current if value == _OWN else value
        return lambda text: questions.set_options(text, _now(fields, name), options)

    left, right = st.columns([2, 3])
    with left:
        fields.choice(
            "Options", f"{sub}-short", short, [_OWN, *questions.SHORT], choose,
            help=glossary.help("option")
            + " Small models answer words of the sentence well, and true/false or yes/no badly.",
        )  # fmt: skip
    with right:
        if short == _OWN:
            exact = str(held.get("exact_options", "")) == "true"
            shown = [str(one) for one in given or ()] if exact else current
            fields.lines(
                "One a line", f"{sub}-options", shown,
                lambda value: lambda text: questions.set_options(text, _now(fields, name), value),
                f"{place}.options",
                help="Reword a line, and what it speaks for stays. The order counts: the first of"
                " two speaks for the category.",
            )  # fmt: skip
        else:
            fields.faults(f"{sub}-options", f"{place}.options")


def _values(fields: Fields, held: Any, name: str, place: str, sub: str) -> None:
    names = list(
        dict.fromkeys(
            [*questions.names_of(str(held.get("template", ""))), *questions.values_of(held)]
        )
    )
    where = questions.grid_field(held)
    if where is None:
        st.info(
            "The values of this question are laid out combination by combination. Edit them in the"
            f" tab **Text**, at `combinations` of {code(name)}."
        )
        return
    for one in names:

        def edit(value: list[str], one: str = one) -> Edit:
            return lambda text: questions.set_values(text, _now(fields, name), one, value)

        fields.lines(
            f"Values of {{{plain(one)}}}", f"{sub}-values-{subject(one)}",
            questions.values_of(held).get(one, []), edit, f"{place}.{where}.{one}",
            help="One a line. Each is put into the wording, and asked.",
        )  # fmt: skip
    count = 1
    for listed in questions.values_of(held).values():
        count *= max(1, len(listed))
    if names:
        st.caption(f"Asked in {count:,} wordings.")


def _speaks(form: Form, fields: Fields, held: Any, name: str, place: str, sub: str) -> None:
    speaks = questions.speaks_of(held)
    options = questions.options_of(held)
    known = [*form.categories]

    def put(**values: Any) -> Edit:
        """An edit of the newest text, so that two quick ones are both kept."""

        def edit(text: str) -> str:
            now = _now(fields, name)
            fresh = form_of(text)
            read = questions.speaks_of(fresh.questions[_place(fresh, now)])
            return questions.set_speaks(text, now, _merged(read, values))

        return edit

    grid = questions.values_of(held).get("F", [])
    if len(options) > 2:
        each = bool(speaks.by_option) or not speaks.category
        fields.choice(
            "How", f"{sub}-how", each, [True, False],
            lambda value: put(by_option={}, category="", listed=())
            if value
            else put(by_option={}, category=known[0] if known else "yes", listed=tuple(options[:1])),
            format_func=lambda value: "each option for a category of its own"
            if value
            else "some options together for one category",
        )  # fmt: skip
        if each:
            _each(
                fields, sub, options, speaks.by_option, known,
                lambda option, value: put(by_option={option: value}), f"{place}.categories",
            )  # fmt: skip
            return
        fields.choice(
            "Category", f"{sub}-category", speaks.category, known,
            lambda value: put(category=value), f"{place}.category", new=True,
        )  # fmt: skip
        fields.several(
            "Options that speak for it", f"{sub}-listed", speaks.listed, options,
            lambda value: put(listed=tuple(value)), f"{place}.unsafe",
        )  # fmt: skip
        return
    if grid:
        each = bool(speaks.by_value)
        fields.choice(
            "How", f"{sub}-how", each, [False, True],
            lambda value: put(category="", by_value=dict.fromkeys(grid[:1], known[0] if known else "yes"))
            if value
            else put(by_value={}, category=known[0] if known else "yes"),
            format_func=lambda value: "each value of {F} for a category of its own"
            if value
            else "all values for one category",
        )  # fmt: skip
    if grid and speaks.by_value:
        _each(
            fields, sub, grid, speaks.by_value, known,
            lambda value, category: put(by_value={value: category}), f"{place}.category",
        )  # fmt: skip
    else:
        fields.choice(
            "Category", f"{sub}-category", speaks.category or NONE, [NONE, *known],
            lambda value: put(category="" if value == NONE else value), f"{place}.category",
            new=True, help="Choose one, or type a new name.",
        )  # fmt: skip
    if len(options) == 2:
        fields.choice(
            "Spoken for by", f"{sub}-sign", speaks.second, [False, True],
            lambda value: put(second=value), f"{place}.sign", help=glossary.help("sign"),
            format_func=lambda second: f"{options[int(second)]!r}",
        )  # fmt: skip


def _each(
    fields: Fields,
    sub: str,
    names: list[str],
    spoken: Any,
    known: list[str],
    edit: Any,
    place: str,
) -> None:
    """A category for each option or value."""
    shown = names
    if len(names) > MOST_ROWS:
        word = st.text_input(
            "Search these", key=f"form-{fields.key}-{sub}-each", placeholder="Search these",
            label_visibility="collapsed", icon=":material/search:",
        )  # fmt: skip
        shown = [one for one in names if (word or "").casefold() in one.casefold()][:MOST_ROWS]
        st.caption(f"{len(shown)} of {len(names)}; search to see others.")

    def chosen(one: str, value: str) -> Edit:
        made: Edit = edit(one, "" if value == NONE else value)
        return made

    for one in shown:
        label, choice = st.columns([2, 3], vertical_alignment="center")
        label.markdown(code(one))
        with choice:
            fields.choice(
                f"Category of {plain(one)}", f"{sub}-each-{subject(one)}", spoken.get(one) or NONE,
                [NONE, *known], partial(chosen, one),
                f"{place}.{one}", new=True, collapsed=True,
            )  # fmt: skip


def _place(form: Form, name: str) -> int:
    return [str(one.get("id")) for one in form.questions].index(name)


def _merged(read: Speaks, values: dict[str, Any]) -> Speaks:
    """What is spoken for with some of it changed; "" takes an option or value out."""
    made: dict[str, Any] = {
        "category": read.category,
        "second": read.second,
        "listed": read.listed,
        "by_option": dict(read.by_option),
        "by_value": dict(read.by_value),
    }
    for name, value in values.items():
        if isinstance(value, dict) and value:
            merged = {**made[name], **value}
            made[name] = {key: one for key, one in merged.items() if one}
        else:
            made[name] = value
    return Speaks(**made)
