"""Findings about a pack's questions: from their wording, and from what a model said to contents.

Knows no engine: it says which questions to ask and is given the answers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.answer import PromptAnswer, QuestionAnswer
from spinf_serve.packs.lint_rules import (
    RULES,
    Finding,
    Limits,
    Tokens,
    context_braces,
    idle_requirements,
    option_tokens,
    options_alike,
    reordered,
    rest_option,
    template_space,
)
from spinf_serve.packs.notes import near
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.question import Question
from spinf_serve.packs.reads import log_shares, read_value, shares

Rows = Sequence[Sequence[QuestionAnswer]]
"""For each content the answers to `asked`, in order."""


_OF_ANSWERS = (
    "floor_skewed",
    "residual_high",
    "flat",
    "order_sensitive",
    "negation",
    "duplicate_like",
)
"""Rules that look at answers."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """A finding that the author accepts; `on` is a question's id or `*`."""

    rule: str
    on: str
    reason: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a pack's file says to lint.

    Attributes:
        negates: question -> the question that it denies.
    """

    waivers: tuple[Waiver, ...] = ()
    negates: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What lint has to say.

    Attributes:
        findings: those that remain, question by question.
        waived: those that a waiver accepts, each with the waiver.
        skipped: rule -> why it was not looked at.
    """

    findings: tuple[Finding, ...]
    waived: tuple[tuple[Finding, Waiver], ...]
    skipped: Mapping[str, str]


def instructions(data: bytes, name: str) -> Instructions:
    """What a valid pack's file says to lint; a JSON file, the exported form, says nothing."""
    # Brings ruamel.yaml, which the rest does without.
    from spinf_serve.packs.yaml_nodes import parse_yaml, source_text, values

    if name.lower().endswith(".json"):
        return Instructions()
    file: Any = values(parse_yaml(source_text(data, name), name))
    waivers = (file.get("lint") or {}).get("waive") or ()
    return Instructions(
        tuple(Waiver(str(w["rule"]), str(w["on"]), str(w["reason"])) for w in waivers),
        {
            str(query["id"]): str(query["negates"])
            for query in file["scoring"]["queries"]
            if query.get("negates") is not None
        },
    )


def asked(pack: Pack) -> tuple[Question, ...]:
    """What to ask of each content: the pack's questions, with floors, and lists turned around."""
    own = [replace(question, empty_floor=True) for question in pack.questions]
    return (*own, *(turned for _, turned in _turned(pack)))


def lint(
    pack: Pack, say: Instructions, limits: Limits, rows: Rows, tokens: Tokens | None
) -> Report:
    """Look at a pack.

    Args:
        say: what its file says.
        limits: where findings begin; they depend on the model.
        rows: answers to `asked(pack)` of each content, or of each to the pack's own questions alone;
            rules that need what is not there are left out.
        tokens: the model's tokenizer; None leaves out what only it can tell.
    """
    found: list[Finding] = []
    skipped: dict[str, str] = {}
    for question in pack.questions:
        found += template_space(question)
        found += rest_option(question)
        found += options_alike(question, tokens)
        found += () if tokens is None else option_tokens(question, tokens)
    if tokens is None:
        skipped["option_tokens"] = "the server's tokens are not known here"
    found += context_braces(pack)
    found += idle_requirements(pack)
    if rows:
        found += _answered(pack, say, limits, rows, skipped)
    else:
        skipped |= dict.fromkeys(_OF_ANSWERS, "no model has answered yet")
    return _waived(pack, say.waivers, found, skipped)


def _answered(
    pack: Pack, say: Instructions, limits: Limits, rows: Rows, skipped: dict[str, str]
) -> Iterator[Finding]:
    """What the answers show; rules that cannot be looked at go into `skipped`."""
    floors = rows[0][0].prompts[0].options[0].floor_p is not None
    if not floors:
        skipped["floor_skewed"] = "floors, the answers on no content, are not known"
    for index, question in enumerate(pack.questions):
        answers = [row[index].prompts for row in rows]
        if floors:
            yield from _floor(question, answers[0], limits)
        yield from _residual(question, answers, limits)
        if len(rows) >= limits.flat_contents:
            yield from _flat(question, answers, limits)
    if len(rows) < limits.flat_contents:
        skipped["flat"] = f"{len(rows)} contents, fewer than {limits.flat_contents}"
    if len(rows[0]) == len(asked(pack)):
        yield from _order(pack, rows, limits)
    else:
        skipped["order_sensitive"] = "nobody was asked with the listed options turned around"
    yield from _negations(pack, say.negates, rows, limits)
    if len(rows) < limits.correlation_contents:
        needed = limits.correlation_contents
        skipped["duplicate_like"] = f"{len(rows)} contents, fewer than {needed}"
    else:
        yield from _duplicates(pack, rows, limits)


def _turned(pack: Pack) -> Iterator[tuple[int, Question]]:
    """Questions whose every template lists the options, by index, with the lists turned around."""
    for index, question in enumerate(pack.questions):
        prompts = [reordered(prompt, question.options) for prompt in question.prompts]
        turned = tuple(prompt for prompt in prompts if prompt is not None)
        if len(turned) == len(prompts):
            made = replace(
                question, id=f"lint/reordered/{index}", prompts=turned, empty_floor=False
            )
            yield index, made


def _floor(
    question: Question, prompts: Sequence[PromptAnswer], limits: Limits
) -> Iterator[Finding]:
    worst = []
    for prompt in prompts:
        p = np.array([option.floor_p for option in prompt.options], dtype=np.float64)
        skew = floor_skew(p)
        if skew > limits.floor:
            worst.append((skew, prompt, int(p.argmax())))
    if worst:
        skew, prompt, top = max(worst, key=lambda one: one[0])
        option = prompt.options[top]
        yield Finding(
            "floor_skewed",
            question.id,
            f"on no content {option.text!r} has {option.floor_p:.3f} of the options'"
            f" probability{_about(prompt, len(worst), len(prompts))}"
            f" (skew {skew:.2f}, limit {limits.floor:g})",
        )


def floor_skew(p: NDArray[np.float64]) -> float:
    """1 - entropy / ln K of probabilities [K]: 0 when uniform, 1 when all is on one option."""
    held = p[p > 0]
    return 1.0 + float((held * np.log(held)).sum()) / float(np.log(len(p)))


def _residual(
    question: Question, answers: Sequence[Sequence[PromptAnswer]], limits: Limits
) -> Iterator[Finding]:
    worst = []
    for index, prompt in enumerate(answers[0]):
        middle = float(np.median([prompts[index].residual for prompts in answers]))
        if middle > limits.residual:
            worst.append((middle, prompt))
    if worst:
        middle, prompt = max(worst, key=lambda one: one[0])
        yield Finding(
            "residual_high",
            question.id,
            f"{middle:.4f} of the probability is on other words than the options"
            f"{_about(prompt, len(worst), len(answers[0]))} (limit {limits.residual:g})",
        )


def _flat(
    question: Question, answers: Sequence[Sequence[PromptAnswer]], limits: Limits
) -> Iterator[Finding]:
    worst = []
    for index, prompt in enumerate(answers[0]):
        moves = float(_log_shares([prompts[index] for prompts in answers]).std(axis=0).max())
        if moves < limits.flat:
            worst.append((moves, prompt))
    if worst:
        moves, prompt = min(worst, key=lambda one: one[0])
        yield Finding(
            "flat",
            question.id,
            f"the answer moves by {moves:.3f} nats over {len(answers)} contents"
            f"{_about(prompt, len(worst), len(answers[0]))} (limit {limits.flat:g})",
        )


def _order(pack: Pack, rows: Rows, limits: Limits) -> Iterator[Finding]:
    for place, (index, _) in enumerate(_turned(pack), start=len(pack.questions)):
        question = pack.questions[index]
        worst = []
        for number, prompt in enumerate(rows[0][index].prompts):
            plain = np.array([_p(row[index].prompts[number]) for row in rows])
            turned = np.array([_p(row[place].prompts[number]) for row in rows])
            moves = float(np.abs(plain - turned).max(axis=1).mean())
            if moves > limits.order:
                worst.append((moves, prompt))
        if worst:
            moves, prompt = max(worst, key=lambda one: one[0])
            yield Finding(
                "order_sensitive",
                question.id,
                f"with the listed options turned around a p moves by {moves:.2f}"
                f"{_about(prompt, len(worst), len(question.prompts))} (limit {limits.order:g})",
            )


def _negations(
    pack: Pack, negates: Mapping[str, str], rows: Rows, limits: Limits
) -> Iterator[Finding]:
    place = {question.id: index for index, question in enumerate(pack.questions)}
    for denial, statement in negates.items():
        mine, other = pack.questions[place[denial]], pack.questions[place[statement]]
        pairs = [
            (a, b)
            for a, one in enumerate(mine.prompts)
            for b, two in enumerate(other.prompts)
            if one.values == two.values
        ]
        if len(pairs) < len(mine.prompts) or len(mine.options) != 2 or len(other.options) != 2:
            yield Finding(
                "negation",
                denial,
                f"cannot be compared with {statement}: both need two options and the same values",
            )
            continue
        worst = []
        for a, b in pairs:
            denied = np.array([_p(row[place[denial]].prompts[a])[0] for row in rows])
            stated = np.array([_p(row[place[statement]].prompts[b])[0] for row in rows])
            off = float(np.abs(denied + stated - 1).mean())
            if off > limits.negation:
                worst.append((off, rows[0][place[denial]].prompts[a]))
        if worst:
            off, prompt = max(worst, key=lambda one: one[0])
            yield Finding(
                "negation",
                denial,
                f"{mine.options[0]!r} here and {other.options[0]!r} in {statement} miss a sum of 1"
                f" by {off:.2f}{_about(prompt, len(worst), len(pairs))}"
                f" (limit {limits.negation:g})",
            )


def _duplicates(pack: Pack, rows: Rows, limits: Limits) -> Iterator[Finding]:
    """Reads of two filled templates that move together; of two questions the closest pair."""
    columns = []
    owners = []
    for read in pack.reads:
        place = next(i for i, question in enumerate(pack.questions) if question.id == read.query)
        question = pack.questions[place]
        number = next(
            i for i, one in enumerate(question.prompts) if one.values.get("F") == read.value
        )
        p = [_shares(row[place].prompts[number], question.id) for row in rows]
        mu: Sequence[float] = ()
        if read.kind != "pair":
            mu = np.mean([log_shares(one) for one in p], axis=0).tolist()
            mu = mu if read.option is None else (mu[read.option],)
        columns.append([read_value(read, mu, one) for one in p])
        owners.append((place, number))
    values = np.array(columns)
    moving = np.flatnonzero(values.std(axis=1) > 1e-9)
    if len(moving) < 2:
        return
    close = np.corrcoef(values[moving])
    best: dict[tuple[tuple[int, int], tuple[int, int]], float] = {}
    for a, b in combinations(range(len(moving)), 2):
        r = float(close[a, b])
        pair = (owners[moving[a]], owners[moving[b]])
        if pair[0] != pair[1] and abs(r) > limits.correlation:
            key = (min(pair), max(pair))
            best[key] = max(best.get(key, 0.0), r, key=abs)
    for (first, second), r in sorted(best.items()):
        yield Finding(
            "duplicate_like",
            pack.questions[second[0]].id,
            f"{_named(pack, second)} and {_named(pack, first)} correlate by {r:.3f} over"
            f" {len(rows)} contents (limit {limits.correlation:g})",
        )


def _named(pack: Pack, owner: tuple[int, int]) -> str:
    question = pack.questions[owner[0]]
    values = question.prompts[owner[1]].values
    return question.id + (f" ({', '.join(values.values())})" if values else "")


def _waived(
    pack: Pack, waivers: Sequence[Waiver], found: Sequence[Finding], skipped: Mapping[str, str]
) -> Report:
    places = (*(question.id for question in pack.questions), *pack.contexts, *pack.categories)
    order = {place: index for index, place in reversed([*enumerate(places)])}
    kept: list[Finding] = []
    accepted: list[tuple[Finding, Waiver]] = []
    used: Counter[Waiver] = Counter()
    for finding in sorted(found, key=lambda one: order[one.on]):
        matching = [w for w in waivers if w.rule == finding.rule and w.on in (finding.on, "*")]
        used.update(matching)
        if matching:
            accepted.append((finding, matching[0]))
        else:
            kept.append(finding)
    for waiver in waivers:
        if waiver not in used and waiver.rule not in skipped:
            kept.append(Finding("waiver_unused", waiver.on, _unused(waiver, order)))
    return Report(tuple(kept), tuple(accepted), skipped)


def _unused(waiver: Waiver, places: Mapping[str, int]) -> str:
    if waiver.rule not in RULES:
        return f"there is no rule {waiver.rule!r}{near(waiver.rule, RULES)}"
    if waiver.on != "*" and waiver.on not in places:
        return f"there is no question {waiver.on!r}{near(waiver.on, places)}"
    return f"{waiver.rule} finds nothing there"


def _about(prompt: PromptAnswer, count: int, of: int) -> str:
    """Which filled template a figure is of, of a question that has several."""
    if of == 1:
        return ""
    values = ", ".join(f"{name} = {value}" for name, value in prompt.values.items())
    return f" for {values}" + (f" and {count - 1} more of {of}" if count > 1 else "")


def _p(prompt: PromptAnswer) -> list[float]:
    return [option.p for option in prompt.options]


def _shares(prompt: PromptAnswer, question: str) -> NDArray[np.float64]:
    return shares([option.logprob for option in prompt.options], question)


def _log_shares(prompts: Sequence[PromptAnswer]) -> NDArray[np.float64]:
    """Log share of each option on each content, [N, K]."""
    logprobs = np.array([[option.logprob for option in prompt.options] for prompt in prompts])
    shifted = logprobs - logprobs.max(axis=1, keepdims=True)
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found
