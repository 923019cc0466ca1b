"""What a run takes before it runs, as the page Run shows it: measured rate, price, time and money."""

from collections.abc import Callable, Sequence

import streamlit as st

from spinf_serve.evals.estimate import PER
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.asking import Rate, cost_of, rate_of
from spinf_serve.workbench.actions.pack_choices import file_of
from spinf_serve.workbench.actions.project_settings import change
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import Bench
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.pages.run_jobs import live
from spinf_serve.workbench.parts.waiting import outcome, whose_tokens
from spinf_serve.workbench.parts.waiting import tokens as token_counts
from spinf_serve.workbench.parts.words import UNKNOWN, duration, money, plain


def hour_price(desk: Desk, user: str) -> float | None:
    """Draw the price of an hour, kept for the project; None while nobody said one."""
    kept = desk.settings().get("hour_price")
    price = st.number_input(
        "Price of an hour",
        min_value=0.0,
        value=None if kept is None else float(kept),
        step=0.1,
        format="%.2f",
        key="run-price",
        placeholder="e.g. 2.50",
        help="What an hour of the machine costs, in your currency. Kept for this project.",
    )
    change(desk, user, "hour_price", price)
    return price


def show_cost(
    found: Bench,
    who: Who,
    pack: Pack,
    rows: float,
    share: float,
    *,
    about: str,
    name: str,
    sample: Callable[[], Sequence[str]],
    measure: Callable[[], Job],
    key: str,
) -> None:
    """Draw tokens, time and money, or the button that measures a rate first.

    Args:
        rows: texts to ask about.
        share: of the pack's filled templates that are asked of them on average, 0 to 1.
        about: `about ` where `rows` is an estimate, else nothing.
        name: of the pack, see `pack_choices`.
        sample: some of the contents, for a tokenizer that is at hand.
        measure: starts the measuring.
    """
    rate = rate_of(found.desk, who, pack)
    tokens, seconds, amount, price_column = st.columns(4)
    with price_column:
        price = hour_price(found.desk, found.user)
    if rate is None or not rows:
        with tokens:
            if rows:
                _read(found, who, name, rows * share, sample)
            else:
                st.metric("Tokens to read", "0")
        seconds.metric("Time", "0 s" if rate is not None else UNKNOWN)
        amount.metric("Money", UNKNOWN if rate is None or price is None else "0.00")
    else:
        prompts = sum(len(question.prompts) for question in pack.questions)
        cost = cost_of(rows, share, prompts, rate, price)
        tokens.metric("Tokens to read", f"{about}{cost.tokens:,.0f}")
        seconds.metric("Time", f"{about}{duration(cost.seconds)}")
        amount.metric("Money", UNKNOWN if cost.money is None else f"{about}{money(cost.money)}")
        st.caption(
            f"{_measured(rate)} One call per question would read {cost.times:.1f} times as many"
            " tokens."
        )
    _measure(found, who, pack, rate, measure, key)


def _read(
    found: Bench, who: Who, name: str, rows: float, sample: Callable[[], Sequence[str]]
) -> None:
    """Tokens by a tokenizer alone, told as another model's where it is; or the wait for them."""
    contents = sample()
    if not contents:
        st.metric("Tokens to read", UNKNOWN)
        return
    file = file_of(found.desk, name)
    counting = token_counts(who).costs(file.read_text("utf-8-sig"), file.name, contents)
    # Words stand below the figure, so that figures stay in line.
    figure, words = st.container(), st.container()
    with words:
        costs = outcome(counting, "Counting tokens", quiet=True)
    if costs is None:
        figure.metric("Tokens to read", UNKNOWN)
        return
    read = costs.per_1000.tree.tokens * rows / PER
    figure.metric("Tokens to read", f"about {read:,.0f}")
    if costs.stands_for is not None:
        words.caption(whose_tokens(costs.model, costs.stands_for))


def _measured(rate: Rate) -> str:
    told = (
        f"By {rate.tokens:,.0f} tokens a second, measured {rate.at[:10]} on {rate.counted.rows:,}"
        f" texts with {rate.pack}"
    )
    return f"{told}." if rate.is_same else f"{told}: another pack or wording, so this is rough."


def _measure(
    found: Bench,
    who: Who,
    pack: Pack,
    rate: Rate | None,
    measure: Callable[[], Job],
    key: str,
) -> None:
    running = next(
        (
            one
            for one in jobs.jobs(found.desk, most=20)
            if one.is_live
            and one.kind in ("measure", "measure_sheet")
            and one.arguments.get("who") == str(who)
            and one.arguments.get("pack_digest") == pack.digest
        ),
        None,
    )
    if running is not None:
        live(found, running.id)
        return
    last = next(
        (
            one
            for one in jobs.jobs(found.desk, most=20)
            if one.kind in ("measure", "measure_sheet")
            and one.arguments.get("who") == str(who)
            and one.arguments.get("pack_digest") == pack.digest
        ),
        None,
    )
    if last is not None and last.state in ("failed", "broken"):
        st.error(f"Measuring did not work: {plain(last.words)}")
    if rate is not None and rate.is_same:
        return
    left, right = st.columns([1, 3], vertical_alignment="center")
    if left.button("Measure the cost", key=f"{key}-measure", icon=":material/speed:"):
        measure()
        st.rerun()
    right.caption(
        "Asks this pack about a few of the texts for some seconds, to tell tokens, time and money"
        " before the whole runs."
    )
