"""The tab that shows what the model is given: a question about a content, with its tokens on demand."""

from typing import Final

import streamlit as st

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.question import Question
from spinf_serve.workbench.actions.drafts import Draft
from spinf_serve.workbench.actions.previews import Filled, around, contents, filled
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, param, set_param
from spinf_serve.workbench.pages import pack_bar
from spinf_serve.workbench.parts.filled import option_word, show_filled, show_tokens
from spinf_serve.workbench.parts.texts import is_about_harm, show_text, shown_text
from spinf_serve.workbench.parts.waiting import outcome, tokens, whose_tokens
from spinf_serve.workbench.parts.words import code, plain

MOST_VALUES: Final = 1_000


def draw(bench: Bench, draft: Draft) -> None:
    """Draw the tab."""
    pack = pack_bar.checked(draft.text, draft.file.name).pack
    if pack is None:
        st.info("There are faults in the text: mend them on the tab **Text** to see what is asked.")
        return
    key = key_of(draft.file)
    left, right = st.columns([1, 2], gap="large")
    with left:
        question, place = _question(pack, key)
        shown = _content(bench, pack, question, place, key)
    with right:
        if shown is None:
            return
        st.markdown(f"**What the model reads** · {len(shown.text):,} characters")
        show_filled(shown)
        st.markdown("**What may follow**")
        st.markdown(" ".join(f":blue-badge[{plain(option_word(one))}]" for one in shown.options))
        if st.toggle("Show the tokens", key=f"tokens-{key}"):
            _tokens(shown)
        with st.expander("As plain text, to copy"):
            st.code(shown.text, language=None, wrap_lines=True)


def _question(pack: Pack, key: str) -> tuple[Question, int]:
    ids = [question.id for question in pack.questions]
    asked = param("question")
    chosen = st.selectbox(
        "Question", ids, index=ids.index(asked) if asked in ids else 0, key=f"question-{key}"
    )
    question = pack.questions[ids.index(chosen)]
    set_param("question", question.id)
    if len(question.prompts) == 1:
        return question, 0
    place = st.selectbox(
        f"Values (1 of {len(question.prompts):,})",
        range(min(len(question.prompts), MOST_VALUES)),
        format_func=lambda at: ", ".join(
            f"{name}: {value}" for name, value in question.prompts[at].values.items()
        ),
        key=f"values-{key}-{question.id}",
    )
    return question, place


def _content(bench: Bench, pack: Pack, question: Question, place: int, key: str) -> Filled | None:
    kinds = ["A row of the data", "A text of my own"]
    if bench.dataset is None:
        kinds = kinds[1:]
    kind = st.radio("Content", kinds, key=f"kind-{key}", horizontal=True)
    if kind == "A row of the data" and bench.dataset is not None:
        return _row(bench, pack, question, place, key)
    names = list(pack.contexts)
    context = st.selectbox("Context", names, key=f"context-{key}") if len(names) > 1 else names[0]
    given = {}
    for name, parameter in pack.parameters.items():
        value = st.text_input(
            plain(parameter.label or name),
            value=parameter.default or "",
            help=plain(parameter.description or "") or None,
            key=f"parameter-{key}-{name}",
        )
        if value:
            given[name] = value
    text = st.text_area(
        "Text", key=f"text-{key}", height=160, placeholder="Type or paste a text; empty is allowed."
    )
    try:
        return filled(pack, question.id, place, text, context, given)
    except Refused as refused:
        st.info(plain(refused.message))
        return None


def _row(bench: Bench, pack: Pack, question: Question, place: int, key: str) -> Filled | None:
    number = st.number_input(
        "Row", min_value=1, value=int(param("row") or 1), step=1, key=f"row-{key}-{bench.dataset}"
    )
    set_param("row", str(number))
    found = contents(bench.desk, pack, str(bench.dataset), bench.split, first=int(number))
    if not found:
        st.info("There is no row of that number that this pack can present.")
        return None
    row = found[0]
    st.caption(f"Row {row.number:,}, {code(row.id)}, of {plain(bench.dataset)}")
    hidden = is_about_harm(pack) and not bench.desk.settings().get("open_texts")
    open_key = f"preview-{bench.dataset}-{row.id}"
    if hidden and not st.session_state.get(f"open-{open_key}"):
        show_text(bench.desk, pack, row.text, open_key)
        if not st.session_state.get(f"open-{open_key}"):
            return None
    shown = around(pack, question.id, place, row)
    text = shown_text(bench.desk, shown.content)
    if text != shown.content:
        st.caption("Personal data is masked here; the model reads it as it is.")
    return Filled(shown.before, text, shown.after, shown.template, shown.options)


def _tokens(shown: Filled) -> None:
    whole = [shown.text, *(shown.text + option for option in shown.options)]
    found = outcome(tokens().pieces(whole), "The tokenizer is being asked; it starts once.")
    if found is None:
        return
    text, *behind = found.texts
    if found.stands_for is not None:
        st.caption(whose_tokens(found.model, found.stands_for))
    st.caption(
        f"{len(text)} tokens of {plain(found.model)}"
        + (", behind one that every text begins with" if found.starts else "")
    )
    show_tokens(text)
    rows = []
    for option, pieces in zip(shown.options, behind, strict=True):
        kept = 0
        while kept < min(len(text), len(pieces)) and text[kept] == pieces[kept]:
            kept += 1
        own = pieces[kept:]
        rows.append(
            {
                "option": option_word(option),
                "tokens": len(own),
                "pieces": " | ".join(option_word(piece) for _, piece in own),
                "ids": ", ".join(str(id) for id, _ in own),
            }
        )
    st.dataframe(rows, hide_index=True)
