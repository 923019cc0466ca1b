"""The tab with all filled templates and what they cost, before anything runs."""

from typing import Final

import pandas as pd
import streamlit as st

from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.drafts import Draft
from spinf_serve.workbench.actions.previews import count, lines, matching, sample
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, stamp
from spinf_serve.workbench.pages import pack_bar
from spinf_serve.workbench.parts.filled import option_word
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.waiting import outcome, tokens, whose_tokens
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.tokens import Costs

SAMPLED: Final = 20
"""Contents that a cost is told from."""

TYPICAL: Final = (
    "My order has not come yet. It was promised for Monday, and nobody answers the phone. Please"
    " tell me where it is, or give me my money back."
)
"""Stands in for a content where there are no rows."""


def draw(bench: Bench, draft: Draft) -> None:
    """Draw the tab."""
    pack = pack_bar.checked(draft.text, draft.file.name).pack
    if pack is None:
        st.info("There are faults in the text: mend them on the tab **Text** to see the grid.")
        return
    key = key_of(draft.file)
    total = count(pack)
    st.markdown(
        f"**{len(pack.questions):,} questions** make **{total:,} filled templates**, which are all"
        " asked about every content. The content is read once for all of them."
    )
    costs = _cost(bench, draft, pack)
    word = st.text_input(
        "Search",
        key=f"grid-word-{key}",
        placeholder="Search in questions, texts and options",
        label_visibility="collapsed",
    )
    places = matching(pack, word)
    sizes = None if costs is None or len(costs.prompts) != total else costs.prompts

    def fetch(first: int, most: int) -> pd.DataFrame:
        found = lines(pack, first, most, word)
        table = pd.DataFrame(
            {
                "question": [one.question for one in found],
                "values": [", ".join(f"{k}: {v}" for k, v in one.values.items()) for one in found],
                "what is asked": [one.text.replace("\n", "↵") for one in found],
            }
        )
        if sizes is not None:
            table["tokens"] = [sizes[at] for at in places[first : first + most]]
        table["options"] = [[option_word(option) for option in one.options] for one in found]
        if not table["values"].any():
            del table["values"]
        return table

    paged(len(places), fetch, f"grid-{key}-{word}")
    if word and len(places) < total:
        st.caption(f"{len(places):,} of {total:,} hold “{plain(word)}”.")


def _cost(bench: Bench, draft: Draft, pack: Pack) -> Costs | None:
    contents, said = _contents(bench, pack, draft)
    asked = tokens().costs(draft.text, draft.file.name, contents)
    found = outcome(asked, "The tokens are being counted; the tokenizer starts once.")
    if found is None:
        return None
    told = found.per_1000
    rows = found.counted.rows
    metrics = (
        (
            "Tokens for 1,000 contents",
            f"{told.tree.tokens:,.0f}",
            "What the model reads: each content once, and once what questions begin with in common.",
        ),
        (
            "As one call per question",
            f"{told.apart.tokens:,.0f}",
            "The same questions as calls of their own, each with the content again.",
        ),
        ("Saved by reading once", f"{told.times:.1f} ×", None),
        ("Tokens of a content", f"{found.counted.content_tokens / rows:,.0f}", None),
    )
    with st.container(horizontal=True, gap="large"):
        for label, value, help in metrics:
            st.metric(label, value, help=help, width="content")
    refused = sum(found.refused.values())
    told_off = f" {refused} are refused and not in it." if refused else ""
    per_day = bench.desk.settings().get("per_day")
    a_day = ""
    if per_day:
        a_day = (
            f" At {per_day:,.0f} contents a day: {told.tree.tokens * per_day / 1000:,.0f} tokens."
        )
    st.caption(
        f"Counted with the tokenizer of {plain(found.model)} on {plain(said)}.{told_off}{a_day}"
    )
    if found.stands_for is not None:
        st.caption(whose_tokens(found.model, found.stands_for))
    return found


def _contents(bench: Bench, pack: Pack, draft: Draft) -> tuple[list[str], str]:
    if bench.dataset is not None:
        found = _sampled(bench, pack, draft.text)
        if found:
            return list(found), f"{len(found)} rows of {bench.dataset}"
    context = next(iter(pack.contexts.values()))
    return [context.before + TYPICAL + context.after], "a typical message, as there are no rows"


def _sampled(bench: Bench, pack: Pack, text: str) -> tuple[str, ...]:
    where = (str(bench.desk.file), str(bench.dataset), bench.split, stamp(bench.desk))
    return _sample_of(where, text, bench, pack)


@st.cache_data(show_spinner=False, max_entries=16)
def _sample_of(
    where: tuple[str, str, str | None, tuple[int, int]], text: str, _bench: Bench, _pack: Pack
) -> tuple[str, ...]:
    found = sample(_bench.desk, _pack, where[1], where[2], SAMPLED)
    return tuple(one.whole for one in found)
