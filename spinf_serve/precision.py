"""How far a pack's scores in one number format lie from those in another, and what that changes.

Works on recordings of the same questions about the same contents, `packs precision` makes them; the
one is the reference. Opens no engine and reads no file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.evaluate import Evaluation, evaluate
from spinf_serve.packs.metrics import judge
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.reads import Vectors
from spinf_serve.packs.recording import Recording
from spinf_serve.packs.sample import SampleRow
from spinf_serve.scoring import presented

FloatArray = NDArray[np.float64]

_QUANTILE = 0.99
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Flips:
    """Of how many decisions how many came out otherwise."""

    flipped: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True)
class Deviation:
    """What differs between two recordings of one pack, unreduced, so that packs can be pooled.

    Attributes:
        rows: contents compared.
        prompts: filled templates asked of each.
        logprob: absolute differences, in nats, of every option of every prompt on every row, [N].
        p: the same of the softmax over a prompt's options, [N].
        ranks: prompt -> rank correlation over the rows, see `prompt_correlation`; None where one
            side does not move.
        verdicts: a row counts as flipped when safe/unsafe or the decision's band differs.
        categories: rows x categories that have a threshold or bands; flag or band differs.
        routes: rows whose content goes elsewhere; none without a route.
        auc: mean AUC over the categories by the rows' labels, reference and other; None without
            rows of both kinds.
    """

    rows: int
    prompts: int
    logprob: FloatArray
    p: FloatArray
    ranks: Mapping[str, float | None]
    verdicts: Flips
    categories: Flips
    routes: Flips
    auc: tuple[float | None, float | None]


def deviation(
    pack: Pack,
    constants: Constants,
    rows: Sequence[SampleRow],
    reference: Recording,
    other: Recording,
) -> Deviation:
    """Compare two recordings of a pack on some rows, which both hold.

    Args:
        constants: decide on both sides: the same cuts, whatever the scores.

    Raises AssertionError when a recording lacks a row.
    """
    contents = [presented(pack, row) for row in rows]
    logprob, p, ranks = [], [], {}
    for name, before, after in _answers(pack, contents, reference, other):
        logprob.append(np.abs(after - before).ravel())
        first, second = _shares(before), _shares(after)
        p.append(np.abs(second - first).ravel())
        ranks[name] = prompt_correlation(first, second)
    sides = [_vectors(pack, contents, one) for one in (reference, other)]
    found = [[evaluate(pack, constants, [row], DecisionCall()) for row in side] for side in sides]
    pairs = list(zip(*found, strict=True))
    labels = [row.labels for row in rows]
    before_auc, after_auc = (
        judge(pack, constants, [[row] for row in side], labels).macro_auc for side in sides
    )
    return Deviation(
        len(rows),
        len(ranks),
        np.concatenate(logprob),
        np.concatenate(p),
        ranks,
        _flips([_verdict(a) != _verdict(b) for a, b in pairs]),
        _flips(
            [
                _category(a, id) != _category(b, id)
                for a, b in pairs
                for id in pack.categories
                if _category(a, id) != (None, None)
            ]
        ),
        _flips([_route(a) != _route(b) for a, b in pairs if a.route is not None]),
        (before_auc, after_auc),
    )


def summary(parts: Sequence[Deviation]) -> dict[str, Any]:
    """One or several packs' deviations as a JSON object, pooled; numbers with 4 digits.

    `questions` counts prompts x rows. Under `rank`, `still` counts prompts that do not move over
    the rows, `worst_prompt` is the prompt of the worst correlation.
    """
    ranks = {name: one for part in parts for name, one in part.ranks.items() if one is not None}
    worst = min(ranks, key=ranks.__getitem__, default=None)
    return {
        "rows": sum(part.rows for part in parts),
        "questions": sum(part.rows * part.prompts for part in parts),
        "logprob": _size(np.concatenate([part.logprob for part in parts])),
        "p": _size(np.concatenate([part.p for part in parts])),
        "rank": {
            "median": rounded(float(np.median(list(ranks.values())))) if ranks else None,
            "worst": None if worst is None else rounded(ranks[worst]),
            "worst_prompt": worst,
            "prompts": len(ranks),
            "still": sum(part.prompts for part in parts) - len(ranks),
        },
        "verdicts": _pooled([part.verdicts for part in parts]),
        "categories": _pooled([part.categories for part in parts]),
        "routes": _pooled([part.routes for part in parts]),
        "auc": {
            "reference": _mean([part.auc[0] for part in parts]),
            "scheme": _mean([part.auc[1] for part in parts]),
        },
    }


def rank_correlation(a: FloatArray, b: FloatArray) -> float | None:
    """Spearman's rank correlation of two columns, [R] each, equal values sharing their mean rank.

    The correlation of the ranks (C. Spearman, "The proof and measurement of association between two
    things", American Journal of Psychology 15, 1904). None when all values of a side are equal, as
    with a single row.
    """
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} values but {len(b)}")
    ranks = [_ranks(one) for one in (a, b)]
    x, y = (one - one.mean() for one in ranks)
    size = float(np.sqrt((x @ x) * (y @ y)))
    return None if size == 0 else float(x @ y) / size


def prompt_correlation(before: FloatArray, after: FloatArray) -> float | None:
    """The lowest rank correlation over a prompt's options, p of [R, K] each.

    Of two options one says it all. An option that does not move on one side takes no part; None
    when all do not.
    """
    count = 1 if before.shape[1] == 2 else before.shape[1]
    found = [rank_correlation(before[:, at], after[:, at]) for at in range(count)]
    return min((one for one in found if one is not None), default=None)


def rounded(value: float) -> float:
    """With the digits of a table."""
    return float(f"{value:.{_DIGITS}g}")


def _answers(
    pack: Pack, contents: Sequence[str], reference: Recording, other: Recording
) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Prompt's name, and logprobs of its options over the rows on both sides, [R, K]."""
    for question in pack.questions:
        for index, prompt in enumerate(question.prompts):
            sides = []
            for recording in (reference, other):
                held = [recording.logprobs(text, question, index) for text in contents]
                values = [one for one in held if one is not None]
                if len(values) < len(held):
                    raise AssertionError(
                        f"{question.id}: {len(held) - len(values)} rows are missing"
                    )
                sides.append(np.array(values, dtype=np.float64))
            value = ", ".join(prompt.values.values())
            name = f"{pack.id} {question.id}" + (f" ({value})" if value else "")
            yield name, sides[0], sides[1]


def _vectors(pack: Pack, contents: Sequence[str], recording: Recording) -> list[Vectors]:
    found = [recording.vectors(text, pack) for text in contents]
    vectors = [one for one in found if one is not None]
    if len(vectors) < len(found):
        raise AssertionError(f"{pack.id}: {len(found) - len(vectors)} rows are missing")
    return vectors


def _shares(logprobs: FloatArray) -> FloatArray:
    weights = np.exp(logprobs - logprobs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _ranks(values: FloatArray) -> FloatArray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place])


def _verdict(found: Evaluation) -> tuple[bool, str | None]:
    return found.verdict.unsafe, found.verdict.band


def _category(found: Evaluation, id: str) -> tuple[bool | None, str | None]:
    one = found.categories[id]
    return one.flagged, one.band


def _route(found: Evaluation) -> str | None:
    return None if found.route is None else found.route.choice


def _flips(differs: Sequence[bool]) -> Flips:
    return Flips(sum(differs), len(differs))


def _pooled(parts: Sequence[Flips]) -> dict[str, Any]:
    flipped, of = sum(one.flipped for one in parts), sum(one.of for one in parts)
    return {"flipped": flipped, "of": of, "share": rounded(flipped / of) if of else None}


def _size(differences: FloatArray) -> dict[str, float]:
    return {
        "mean": rounded(float(differences.mean())),
        "p99": rounded(float(np.quantile(differences, _QUANTILE))),
        "max": rounded(float(differences.max())),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return rounded(sum(known) / len(known)) if known else None
