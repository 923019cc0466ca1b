"""The tab with lint's findings: what is seen in the wording, and in the answers that are kept."""

from collections.abc import Sequence

import streamlit as st

from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.lint import Report
from spinf_serve.packs.lint_rules import RULES, Finding, Limits
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.drafts import Draft
from spinf_serve.workbench.actions.lint import limits_of, look, rows_for, token_texts
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, stamp
from spinf_serve.workbench.pages import pack_bar
from spinf_serve.workbench.parts.waiting import outcome, tokens, whose_tokens
from spinf_serve.workbench.parts.words import code, plain
from spinf_serve.workbench.parts.words import message as as_message

MOST_SHOWN = 40


def draw(bench: Bench, draft: Draft) -> None:
    """Draw the tab."""
    pack = pack_bar.checked(draft.text, draft.file.name).pack
    if pack is None:
        st.info(
            "There are faults in the text: mend them on the tab **Text** before lint looks at it."
        )
        return
    rows = _rows(bench, draft, pack)
    report, limits_model, stand_in = _report(bench, draft, pack, rows)
    findings = len(report.findings)
    if findings:
        st.markdown(f"**{findings} finding{'' if findings == 1 else 's'}**")
    else:
        st.success("Nothing was found.", icon=":material/check_circle:")
    st.caption(_basis(bench, rows, limits_model))
    if stand_in is not None:
        st.caption(f"What is said of tokens: {stand_in[0].lower()}{stand_in[1:]}")
    key = key_of(draft.file)
    for rule in dict.fromkeys(one.rule for one in report.findings):
        _rule(draft, rule, [one for one in report.findings if one.rule == rule], key)
    if report.waived:
        with st.expander(f"Accepted by the pack: {len(report.waived)}"):
            for finding, waiver in report.waived:
                st.markdown(
                    f"**{_name(finding.rule)}** on {code(finding.on)}: {as_message(finding.message)}"
                )
                st.caption(f"Accepted because: {plain(waiver.reason)}")
    if report.skipped:
        with st.expander(f"Not looked at: {len(report.skipped)} rules"):
            for rule, why in report.skipped.items():
                told = RULES[rule].finds if rule in RULES else ""
                st.markdown(f"**{_name(rule)}**: {plain(why)}.")
                st.caption(told)


def _rule(draft: Draft, rule: str, findings: Sequence[Finding], key: str) -> None:
    """A rule with all that it found, the remedy told once."""
    many = f" · {len(findings)}" if len(findings) > 1 else ""
    with st.expander(f"**{_name(rule).capitalize()}**{many}", expanded=True):
        st.markdown(f"{RULES[rule].finds.capitalize()}. **What to do:** {RULES[rule].remedy}.")
        shown = findings[:MOST_SHOWN]
        for number, finding in enumerate(shown):
            left, right = st.columns([1, 4], vertical_alignment="center")
            line = _line_of(draft.text, finding.on)
            left.button(
                plain(finding.on, 80),
                key=f"lint-go-{key}-{rule}-{number}",
                type="tertiary",
                icon=":material/edit:",
                disabled=line is None,
                help=None if line is None else f"Open line {line} in the editor.",
                on_click=_open,
                args=(line,),
            )
            right.text(finding.message)
        if len(findings) > len(shown):
            st.caption(f"And {len(findings) - len(shown)} more.")


def _open(line: int | None) -> None:
    st.session_state["tab"] = "Text"
    pack_bar.jump_to(line or 1, 1)


def _report(
    bench: Bench, draft: Draft, pack: Pack, rows: Sequence[Sequence[QuestionAnswer]]
) -> tuple[Report, str | None, str | None]:
    """What lint says, the model whose own limits it used, and whose tokens these are about."""
    found = outcome(
        tokens().pieces(token_texts(pack)),
        "The tokens of the options are being looked up; more findings may follow.",
        quiet=True,
    )
    known, limits, model, stand_in = None, Limits(), None, None
    served = None if bench.model is None else bench.model.served
    # Tokens and limits belong to a model; the answers of another have others. Tokens of a model
    # that stands in for the server's are told as such.
    is_own = found is not None and (
        served == found.model or (served is None and found.stands_for is None)
    )
    if found is not None and (is_own or found.stands_for is not None):
        texts = token_texts(pack)
        known = {
            text: [id for id, _ in pieces] for text, pieces in zip(texts, found.texts, strict=True)
        }
        if is_own:
            limits, model = limits_of(found.lint), found.model
        elif found.stands_for is not None:
            stand_in = whose_tokens(found.model, found.stands_for)
    return look(draft.text, draft.file.name, pack, rows, known, limits), model, stand_in


def _rows(bench: Bench, draft: Draft, pack: Pack) -> list[list[QuestionAnswer]]:
    try:
        where = (str(bench.desk.file), bench.dataset, bench.split, bench.bits, stamp(bench.desk))
        return _kept(where, draft.text, bench, pack)
    except (SpinfError, Unusable):
        return []


@st.cache_resource(show_spinner="Looking at kept answers…", max_entries=8)
def _kept(where: object, text: str, _bench: Bench, _pack: Pack) -> list[list[QuestionAnswer]]:
    return rows_for(_bench.desk, _pack, _bench.dataset, _bench.split, _bench.bits)


def _basis(bench: Bench, rows: Sequence[Sequence[QuestionAnswer]], limits_model: str | None) -> str:
    if not rows:
        if bench.model is None:
            return (
                "Looked at the wording only: no model has answered yet. Ask one on the page Run, and"
                " lint also looks at its answers."
            )
        return (
            f"Looked at the wording only: not all of these questions have been answered by"
            f" {plain(bench.model.served)} yet. Ask them on the page Run."
        )
    served = "" if bench.model is None else bench.model.served
    limits = "its own limits" if limits_model == served else "general limits"
    return (
        f"Looked at the wording, and at kept answers of {plain(served)} to {len(rows)} rows of"
        f" {plain(bench.dataset)}, with {limits}."
    )


def _name(rule: str) -> str:
    return rule.replace("_", " ")


def _line_of(text: str, name: str) -> int | None:
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip().removeprefix("- ").strip()
        if stripped in (f"id: {name}", f'id: "{name}"', f"{name}:") or stripped.startswith(
            (f"{{id: {name},", f"{name}: ")
        ):
            return number
    return None
