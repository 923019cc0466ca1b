"""What a fit tells: a page of lines, and the same as a JSON object. Knows no file."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from spinf_serve.evals.certificates import Certificate, NotReachable
from spinf_serve.evals.cross_fit import CrossFit
from spinf_serve.evals.fitting import Fitted
from spinf_serve.evals.wishes import Answer, Promise
from spinf_serve.packs.evaluate import state
from spinf_serve.packs.metrics import Report


def fit_object(fitted: Fitted) -> dict[str, Any]:
    """A fit in plain values; the pack's own numbers stand in its file."""
    report = fitted.report
    held = {} if report is None else {"decision": report.verdict} | dict(report.categories)
    return {
        "pack": fitted.pack.id,
        "version": fitted.pack.version,
        "model": fitted.identity.served,
        "model_digest": fitted.identity.model,
        "fingerprint": fitted.identity.bits,
        "data_digest": fitted.data_digest,
        "fit_rows": fitted.fit_rows,
        "test_rows": fitted.test_rows,
        "refused": dict(fitted.refused),
        "state": state(fitted.pack, fitted.constants, fitted.identity.model),
        "thresholds": {id: fit.threshold for id, fit in fitted.constants.categories.items()},
        "targets": [_answer(given) for given in fitted.answers],
        "wrong_at_most": sum(_deltas(fitted)),
        "held_back": {name: asdict(one) for name, one in held.items()},
        "proof": None if fitted.constants.proof is None else dict(fitted.constants.proof),
        "notes": list(fitted.notes),
    }


def fit_page(fitted: Fitted) -> Iterator[str]:
    """A fit in words."""
    pack, refused = fitted.pack, len(fitted.refused)
    rows = f"fitted on {fitted.fit_rows:,} rows, {fitted.test_rows:,} held back"
    tail = f", {refused:,} refused by the model and in neither" if refused else ""
    yield f"{pack.id} {pack.version} on {fitted.identity.served}: {rows}{tail}"
    for given in fitted.answers:
        for promise in given.promises:
            yield f"{promise.name}: {promise_words(promise)}"
        if given.review_per_1000 is not None and given.met:
            yield f"  {given.review_per_1000:.0f} of 1,000 contents lie between the cuts"
        if given.left_out is not None:
            yield f"  {left_out_words(given.left_out)}"
        yield from (f"  {note}" for note in given.notes)
    deltas = _deltas(fitted)
    if len(deltas) > 1:
        yield (
            f"{len(deltas)} promises: that one of them is wrong has a chance of {sum(deltas):.3g} at"
            " most"
        )
    if fitted.report is not None:
        for name, one in (*fitted.report.categories.items(), ("decision", fitted.report.verdict)):
            yield f"held back, {name}: {_held(one)}"
    proof = fitted.constants.proof or {}
    known = state(pack, fitted.constants, fitted.identity.model)
    left = f"; nothing is promised of {', '.join(proof['open'])}" if "open" in proof else ""
    yield f"state with these numbers: {known}{left}"
    yield from (f"note: {note}" for note in fitted.notes)


def _deltas(fitted: Fitted) -> list[float]:
    return [
        promise.result.delta
        for given in fitted.answers
        for promise in given.promises
        if isinstance(promise.result, Certificate)
    ]


def _answer(given: Answer) -> dict[str, Any]:
    return {
        "name": given.wish.name,
        "asked": given.wish.kind,
        "base_rate": given.wish.base_rate,
        "met": given.met,
        "promises": [
            {"name": one.name, "cut": one.cut, "kind": type(one.result).__name__}
            | {"result": _plain(asdict(one.result))}
            for one in given.promises
        ],
        "left_out": None if given.left_out is None else asdict(given.left_out),
        "review_per_1000": given.review_per_1000,
        "notes": list(given.notes),
    }


def _plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without the walk that led to it."""
    return {key: value for key, value in result.items() if key not in ("passed", "notes")}


def promise_words(promise: Promise) -> str:
    """What came of a target, in a sentence or two."""
    result, target = promise.result, promise.target
    if isinstance(result, NotReachable):
        return result.words
    if promise.cut is None:
        return (
            f"{target.kind} {target.value:g}: no number lies between the scores on both sides of the"
            " cut, or flagging none is best; nothing was set"
        )
    if not isinstance(result, Certificate):
        low, high = result.cost_interval.low, result.cost_interval.high
        return (
            f"cheapest cut {promise.cut!r}: a row costs {result.cost:.3g} false alarms"
            f" (90 % of resamples: {low:.3g} to {high:.3g})"
        )
    point = result.point
    bound = "at most" if target.kind == "flag_rate" else "at least"
    weighted = " at the base rate" if result.stated else ""
    return (
        f"{target.kind} {target.value:g} holds at the cut {promise.cut!r}: {point.k:,} of"
        f" {point.n:,} rows{weighted}, {bound} {point.bound:.1%} except with a chance of"
        f" {result.delta:.3g}; {point.coverage:.1%} flagged"
    )


def left_out_words(found: CrossFit) -> str:
    """How a choice did on left-out rows, in a sentence."""
    made = f"{found.folds} x {found.repeats} folds left out"
    if found.cut is None:
        return f"{made}: no fold could promise a cut"
    named = {"precision": found.precision, "recall": found.recall, "npv": found.npv}
    told = ", ".join(f"{name} {one:.1%}" for name, one in named.items() if one is not None)
    chosen = "" if found.chosen == 1 else f" in the {found.chosen:.0%} of folds that chose a cut"
    return f"{made}: {told}{chosen}"


def _held(one: Report) -> str:
    named = {"hit": one.hit, "wrong": one.wrong, "precision": one.precision}
    told = "".join(f", {name} {value:.1%}" for name, value in named.items() if value is not None)
    area = "" if one.auc is None else f", AUC {one.auc.value:.3f}"
    return f"{one.positives:,} hold and {one.negatives:,} do not{area}{told}"
