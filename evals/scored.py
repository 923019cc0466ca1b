"""A pack over stored scores: p, lift and logit lift of questions; z, category scores and verdicts.

Arrays over many contents at once, and bit for bit what `spinf_serve.packs` computes one content at
a time: exponentials, logarithms and sums are Python's own in the same order, everything between is
one IEEE operation an element. Knows no project file, no labels and no engine.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.answer import rounded
from spinf_serve.packs.categories import CategoryScore, calibrated, category_scores, sigmoid
from spinf_serve.packs.decision import (
    DecisionCall,
    Routed,
    Verdict,
    check_call,
    choose,
    decide,
    thresholds,
)
from spinf_serve.packs.digests import content_digest, prompt_digest
from spinf_serve.packs.errors import Fault
from spinf_serve.packs.pack import Constants, Pack, Read
from spinf_serve.packs.reads import LEAST_P, LEAST_SHARE, Vectors
from spinf_serve.packs.recording import Logprobs, Recording

Numbers = NDArray[np.float64]
Place = tuple[str, int]
"""A question's id and the index of one of its filled templates."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a model answered to a pack's questions on N contents.

    Attributes:
        count: N.
        logprobs: every filled template of every question -> natural logs, [M, K] float64, finite. M
            is N, and more when contents were read in chunks.
        floors: the same on empty content, [K]; lacks those that are not known.
        starts: [N], where the chunks of each content begin in M; None when each was read at once.
    """

    count: int
    logprobs: Mapping[Place, Numbers]
    floors: Mapping[Place, Numbers]
    starts: NDArray[np.int64] | None = None

    @property
    def chunks(self) -> NDArray[np.int64]:
        """In how many chunks each content was read, [N]."""
        if self.starts is None:
            return np.ones(self.count, dtype=np.int64)
        read = len(next(iter(self.logprobs.values())))
        return np.diff(self.starts, append=read)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One filled template on N contents, over its K options; everything float64.

    A content that was read in chunks has no answer as a whole: its p and lifts are NaN.

    Attributes:
        p: softmax of the logprobs over the options, [N, K].
        floor_p: the same on empty content, [K]; None when that is not known, and then so is what
            follows.
        lift: p - floor_p, [N, K].
        logit_lift: logit p - logit floor_p, [N, K], which keeps small p apart; None too for a
            single option, whose p is always 1.
    """

    p: Numbers
    floor_p: Numbers | None
    lift: Numbers | None
    logit_lift: Numbers | None


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A pack on N contents; every array is [N] float64.

    Attributes:
        z: read -> distance of its value from the usual one, in standard deviations.
        macros: category -> mean z.
        scores: category -> score, 0 to 1.
        calibrated: category with a `beta` map -> its score through it, 0 to 1.
    """

    count: int
    z: Mapping[str, Numbers]
    macros: Mapping[str, Numbers]
    scores: Mapping[str, Numbers]
    calibrated: Mapping[str, Numbers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pack says of one content, apart from the numbers behind it.

    Attributes:
        categories: category -> score, percentile, flag, band.
        verdict: safe or unsafe, and why.
        route: where the content goes; None when the pack has no route.
    """

    categories: Mapping[str, CategoryScore]
    verdict: Verdict
    route: Routed | None


def recorded(
    pack: Pack, contents: Sequence[str], recording: Recording
) -> tuple[Answers, NDArray[np.int64]]:
    """The stored answers to a pack's questions.

    Args:
        contents: as the model reads them, with the pack's context around them.

    Returns:
        The answers, and the indexes of the contents that they are about, in order: those that have
        an answer to every question.
    """
    digests = _digests(pack, recording.prompt_style)
    wanted = set(digests.values())
    rows: list[Mapping[str, Logprobs]] = []
    indexes: list[int] = []
    for index, content in enumerate(contents):
        found = recording.scores.get(content_digest(content))
        if found is not None and found.keys() >= wanted:
            rows.append(found)
            indexes.append(index)
    sizes = {question.id: len(question.options) for question in pack.questions}
    logprobs = {
        place: np.array([row[digest] for row in rows], dtype=np.float64).reshape(
            len(rows), sizes[place[0]]
        )
        for place, digest in digests.items()
    }
    floors = {
        place: np.array(recording.floors[digest], dtype=np.float64)
        for place, digest in digests.items()
        if digest in recording.floors
    }
    return Answers(len(rows), logprobs, floors), np.array(indexes, dtype=np.int64)


def arranged(
    pack: Pack,
    logprobs: Mapping[str, Numbers],
    floors: Mapping[str, Numbers],
    starts: NDArray[np.int64] | None = None,
    prompt_style: str = "plain",
) -> tuple[Answers, NDArray[np.int64]]:
    """The answers to a pack's questions from arrays by prompt digest, as a score store gives them.

    Args:
        logprobs: prompt digest -> natural logs, [M, K]; NaN where a content has no answer.
        floors: prompt digest -> [K].
        starts: as in `Answers`.
        prompt_style: how the model wants its text put; part of a prompt's digest.

    Returns:
        The answers, and the indexes of the contents that they are about, see `recorded`. Raises
        KeyError when a digest is not there.
    """
    digests = _digests(pack, prompt_style)
    columns = {place: logprobs[digest] for place, digest in digests.items()}
    known = np.logical_and.reduce([~np.isnan(one).any(axis=1) for one in columns.values()])
    if starts is not None:
        known = np.logical_and.reduceat(known, starts)
    indexes = np.flatnonzero(known)
    on_empty = {place: floors[digest] for place, digest in digests.items() if digest in floors}
    whole = Answers(len(known), columns, on_empty, starts)
    return (whole if len(indexes) == len(known) else taken(whole, indexes)), indexes


def _digests(pack: Pack, prompt_style: str) -> dict[Place, str]:
    return {
        (question.id, index): prompt_digest(
            prompt.text, question.options, question.case_insensitive, prompt_style
        )
        for question in pack.questions
        for index, prompt in enumerate(question.prompts)
    }


def taken(answers: Answers, indexes: NDArray[np.int64]) -> Answers:
    """The answers on some of the contents, in the order of `indexes`."""
    if answers.starts is None:
        logprobs = {place: values[indexes] for place, values in answers.logprobs.items()}
        return Answers(len(indexes), logprobs, answers.floors)
    counts = answers.chunks[indexes]
    starts = np.cumsum(counts) - counts
    read = np.repeat(answers.starts[indexes] - starts, counts) + np.arange(counts.sum())
    logprobs = {place: values[read] for place, values in answers.logprobs.items()}
    cut = starts if counts.sum() > len(indexes) else None
    return Answers(len(indexes), logprobs, answers.floors, cut)


def question_values(answers: Answers, place: Place) -> Values:
    """p, lift and logit lift of one filled template."""
    logprobs = answers.logprobs[place]
    if answers.starts is not None:
        logprobs = logprobs[answers.starts]
    p = _shares(logprobs, place[0])
    cut = answers.chunks > 1
    p[cut] = np.nan
    floor = answers.floors.get(place)
    if floor is None:
        return Values(p, None, None, None)
    floor_p = _shares(floor[None], place[0])[0]
    logit_lift = None
    if len(floor) > 1:
        logit_lift = _logits(logprobs) - _logits(floor[None])
        logit_lift[cut] = np.nan
    return Values(p, floor_p, p - floor_p, logit_lift)


def residual(answers: Answers, place: Place) -> Numbers:
    """Probability of all that is not an option of one filled template, [N]; NaN as in `Values`."""
    logprobs = answers.logprobs[place]
    if answers.starts is not None:
        logprobs = logprobs[answers.starts]
    found = residual_of(logprobs)
    found[answers.chunks > 1] = np.nan
    return found


def residual_of(logprobs: Numbers) -> Numbers:
    """max(0, 1 - sum of exp(logprob)), [N] of [N, K]."""
    found: Numbers = np.maximum(0.0, 1.0 - _sums(_each(exp, logprobs)))
    return found


def vectors(pack: Pack, answers: Answers) -> list[list[Vectors]]:
    """The p that a pack's reads look at, a mapping for each chunk of each content, [N][chunks]."""
    found = _probabilities(pack, answers)
    columns = [list(values) for values in found.values()]
    read = iter([dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)])
    return [list(islice(read, count)) for count in answers.chunks.tolist()]


def score(pack: Pack, constants: Constants, answers: Answers) -> Scored:
    """Reads and categories of every content, as `packs.reads` and `packs.categories` have them.

    Raises `Fault` when a number is not finite.
    """
    p = _probabilities(pack, answers)
    logs: dict[tuple[str, str | None], Numbers] = {}
    z = {}
    for read in pack.reads:
        fitted = constants.reads[read.id]
        key = (read.query, read.value)
        if read.kind == "pair":
            value = _pair(read, p[key])
        else:
            if key not in logs:
                logs[key] = _log_shares(p[key])
            value = _contrast(read, fitted.mu, logs[key])
        with np.errstate(over="ignore"):
            z[read.id] = (value - fitted.mean) / fitted.sd
        if not np.isfinite(z[read.id]).all():
            raise Fault(f"the read {read.id} of {pack.id} gives a number that is not finite")
        z[read.id] = _combined(pack, z[read.id], answers)
    macros = _macros(pack, z)
    scores = {}
    for id, macro in macros.items():
        slope, shift = constants.categories[id].platt
        scores[id] = _each(sigmoid, slope * macro + shift)
    mapped = {
        id: _each(partial(calibrated, fit.beta), scores[id])
        for id, fit in constants.categories.items()
        if fit.beta is not None
    }
    return Scored(answers.count, z, macros, scores, mapped)


def outcomes(
    pack: Pack, constants: Constants, scored: Scored, call: DecisionCall | None = None
) -> list[Outcome]:
    """Flags, bands, verdict and route of every content, [N], through the functions of `packs`.

    Args:
        call: what is to differ from the pack's own decision. Raises `Refused` when the pack cannot.
    """
    call = call or DecisionCall()
    check_call(pack, constants, call)
    cuts = thresholds(pack, constants, call)
    found = []
    rows = zip(_rows(scored.macros, scored.count), _rows(scored.z, scored.count), strict=True)
    for macros, z in rows:
        scores = category_scores(pack, constants, macros, cuts)
        verdict = decide(pack, constants, call, scores, macros, z)
        route = None if pack.route is None else choose(pack.route, scores)
        found.append(Outcome(scores, verdict, route))
    return found


def _rows(columns: Mapping[str, Numbers], count: int) -> Iterable[dict[str, float]]:
    """One mapping of plain floats for each content."""
    lists = [values.tolist() for values in columns.values()]
    if not lists:
        return [{} for _ in range(count)]
    return (dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True))


def _probabilities(pack: Pack, answers: Answers) -> dict[tuple[str, str | None], Numbers]:
    """(question, value of its placeholder `F`) -> p as the pack takes it, [N, K]."""
    found = {}
    for question in pack.questions:
        for index, prompt in enumerate(question.prompts):
            p = _shares(answers.logprobs[question.id, index], question.id)
            if pack.answers == "p":
                p = _each(rounded, p)
            found[question.id, prompt.values.get("F")] = p
    return found


def _shares(logprobs: Numbers, question: str) -> Numbers:
    if not np.isfinite(logprobs).all():
        raise Fault(f"question {question}: a stored logprob is no finite number", question)
    weights = _each(exp, logprobs - logprobs.max(axis=1, keepdims=True, initial=-np.inf))
    return weights / _sums(weights)[:, None]


def _logits(logprobs: Numbers) -> Numbers:
    """ln(p / (1 - p)) of each option, [N, K], without the rounding of a p near 0 or 1."""
    found = np.empty_like(logprobs)
    for option in range(logprobs.shape[1]):
        others = np.delete(logprobs, option, axis=1)
        found[:, option] = logprobs[:, option] - np.logaddexp.reduce(others, axis=1)
    return found


def _log_shares(p: Numbers) -> Numbers:
    raised = np.maximum(p, LEAST_P)
    return _each(log, raised / _sums(raised)[:, None])


def _combined(pack: Pack, z: Numbers, answers: Answers) -> Numbers:
    """Of each content, [N], from its chunks, [M]: as `packs.evaluate.combined` has it."""
    if answers.starts is None:
        return z
    if pack.on_long == "max":
        highest: Numbers = np.maximum.reduceat(z, answers.starts)
        return highest
    found = z[answers.starts]
    for index in np.flatnonzero(answers.chunks > 1).tolist():
        begin, count = answers.starts[index], answers.chunks[index]
        found[index] = sum(z[begin : begin + count].tolist()) / int(count)
    return found


def _pair(read: Read, p: Numbers) -> Numbers:
    raised = np.maximum(p, LEAST_P)
    share = raised[:, 0] / (raised[:, 0] + raised[:, 1])
    share = np.minimum(np.maximum(share, LEAST_SHARE), 1 - LEAST_SHARE)
    return read.sign * _each(log, share / (1 - share))


def _contrast(read: Read, mu: Sequence[float], logs: Numbers) -> Numbers:
    if read.kind == "option":
        one: Numbers = logs[:, read.option] - mu[0]
        return one
    above = logs - np.array(mu)
    if read.kind == "any":
        usual: Numbers = above[:, 0]
        return _log_sum(above[:, 1:]) - usual
    others = [index for index in range(above.shape[1]) if index not in read.unsafe]
    return _log_sum(above[:, list(read.unsafe)]) - _log_sum(above[:, others])


def _log_sum(logs: Numbers) -> Numbers:
    highest: Numbers = logs.max(axis=1, initial=-np.inf)
    return highest + _each(log, _sums(_each(exp, logs - highest[:, None])))


def _macros(pack: Pack, z: Mapping[str, Numbers]) -> dict[str, Numbers]:
    groups: dict[str, dict[str, list[Numbers]]] = {id: {} for id in pack.categories}
    for read in pack.reads:
        view = ""
        if pack.categories[read.category].views:
            if read.view is None:
                continue
            view = read.view
        groups[read.category].setdefault(view, []).append(z[read.id])
    return {id: _mean([_mean(one) for one in views.values()]) for id, views in groups.items()}


def _mean(columns: Sequence[Numbers]) -> Numbers:
    return _sums(np.stack(columns, axis=1)) / len(columns)


def _each(function: Callable[[float], float], values: Numbers) -> Numbers:
    """A function of `math` on every element: numpy's own differ from it in the last bit."""
    flat = np.fromiter(map(function, values.ravel().tolist()), np.float64, values.size)
    return flat.reshape(values.shape)


def _sums(values: Numbers) -> Numbers:
    """Sums of rows, [N], in order and as Python adds: from 3.12 on, with compensation.

    Up to two numbers, compensation changes nothing, as the sum of two is rounded once.
    """
    if values.shape[1] > 2 and sys.version_info >= (3, 12):
        return np.fromiter(map(sum, values.tolist()), np.float64, len(values))
    # Python begins with the integer 0, so that -0.0 alone gives 0.0.
    found = np.zeros(len(values))
    for column in values.T:
        found += column
    return found
