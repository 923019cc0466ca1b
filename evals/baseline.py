"""An evaluation as a JSON file: what `--json` writes, and what a later run is held against.

It holds ids, digests, labels, scores and verdicts of rows, and no text. Floats come back bit for bit.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from spinf_serve.evals.compare import Comparison
from spinf_serve.evals.gate import Verdict
from spinf_serve.evals.judged import (
    Choices,
    Evaluation,
    Judged,
    Made,
    Measured,
    Refusal,
    TargetReport,
)
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular, shown

FORMAT = 1

MAX_BYTES = 512 << 20
"""Largest baseline that is read."""


def evaluation_text(
    evaluation: Evaluation,
    verdict: Verdict | None = None,
    comparisons: tuple[Comparison, ...] = (),
) -> str:
    """An evaluation, and what was judged of it, as JSON text with a newline at its end."""
    told: dict[str, Any] = {
        "format": FORMAT,
        "made": asdict(evaluation.made),
        "rows": evaluation.rows,
        "refused": [asdict(one) for one in evaluation.refused],
        "targets": [_target(one) for one in evaluation.targets],
        "notes": list(evaluation.notes),
    }
    if verdict is not None:
        told["verdict"] = {
            "word": verdict.word,
            "exit_code": verdict.exit_code,
            "outcomes": [asdict(one) for one in verdict.outcomes],
        }
    if comparisons:
        told["comparisons"] = [asdict(one) for one in comparisons]
    return json.dumps(told, ensure_ascii=True, allow_nan=False, indent=1) + "\n"


def is_evaluation(path: Path) -> bool:
    """Whether a file is one that `evaluation_text` made, by its first bytes; a pack's is not."""
    try:
        return re.match(rb'\s*\{\s*"format":', read_regular(path, MAX_BYTES)[:64]) is not None
    except OSError:
        return False


def read_evaluation(path: Path) -> Evaluation:
    """The evaluation in a file that `evaluation_text` made; its slices and points stay behind.

    Raises `Unusable` when it cannot be read, or is none.
    """
    try:
        told = json.loads(read_regular(path, MAX_BYTES))
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Unusable(f"{shown(path)} is no JSON; {_REMEDY}") from None
    if not isinstance(told, dict) or "format" not in told:
        raise Unusable(f"{shown(path)} is no evaluation; {_REMEDY}")
    if told["format"] != FORMAT:
        raise Unusable(
            f"{shown(path)} has the format {told['format']}; this version reads {FORMAT}: {_REMEDY}"
        )
    try:
        return Evaluation(
            Made(**{field.name: told["made"][field.name] for field in fields(Made)}),
            int(told["rows"]),
            tuple(Refusal(**one) for one in told["refused"]),
            tuple(_read_target(one) for one in told["targets"]),
            tuple(told["notes"]),
        )
    except _Damaged as damaged:
        raise Unusable(f"{shown(path)} is damaged: {damaged}; {_REMEDY}") from None
    except KeyError as absent:
        raise Unusable(f"{shown(path)} is damaged: it lacks {absent}; {_REMEDY}") from None
    except (AttributeError, TypeError, ValueError):
        # Whatever Python says of it, it says about our code.
        raise Unusable(
            f"{shown(path)} is damaged: a part of it is not what an evaluation has there; {_REMEDY}"
        ) from None


class _Damaged(Exception):
    """A part that is not what it has to be, in words."""


_REMEDY = "write one with `spinf-serve eval … --json FILE`"


def _target(target: TargetReport) -> dict[str, Any]:
    judged = target.judged
    scores = [None] * len(judged.rows) if judged.scores is None else judged.scores.tolist()
    flagged = [None] * len(judged.rows) if judged.flagged is None else list(judged.flagged)
    choices = None
    if judged.choices is not None:
        choices = asdict(judged.choices) | {"p": judged.choices.p.tolist()}
    mapped = judged.calibrated
    return {
        "target": judged.target,
        "decides": target.decides,
        "threshold": judged.threshold,
        "metrics": {name: asdict(one) for name, one in target.metrics.items()},
        "confusion": None if target.confusion is None else dict(target.confusion),
        "ece_noise": target.ece_noise,
        "slices": [asdict(one) for one in target.slices],
        "reads": [asdict(one) for one in target.reads],
        "notes": list(target.notes),
        "scored": {
            "row": list(judged.rows),
            "content": list(judged.contents),
            "group": list(judged.groups),
            "label": list(judged.labels),
            "score": scores,
            "flagged": flagged,
            **({} if mapped is None else {"calibrated": mapped.tolist()}),
        },
        "choices": choices,
    }


def _read_target(told: Mapping[str, Any]) -> TargetReport:
    scored = told["scored"]
    scores, flagged = scored["score"], scored["flagged"]
    for name in ("label", "flagged"):
        if not all(one is None or isinstance(one, bool) for one in scored[name]):
            raise _Damaged(f"{told['target']}: {name} is not true, false or null everywhere")
    judged = Judged(
        told["target"],
        tuple(scored["row"]),
        tuple(scored["content"]),
        tuple(scored["group"]),
        tuple(scored["label"]),
        None if None in scores else np.array(scores, dtype=np.float64),
        None if None in flagged else tuple(flagged),
        told["threshold"],
        # Files of before questions were targets have none.
        None if told.get("choices") is None else _read_choices(told["choices"]),
        np.array(scored["calibrated"], dtype=np.float64) if "calibrated" in scored else None,
    )
    return TargetReport(
        judged,
        {name: Measured(**one) for name, one in told["metrics"].items()},
        told["confusion"],
        told["ece_noise"],
        notes=tuple(told["notes"]),
        decides=told.get("decides", True),
    )


def _read_choices(told: Mapping[str, Any]) -> Choices:
    options = tuple(told["options"])
    if not {*told["chosen"], *told["true"]} <= {*options, None} or None in told["chosen"]:
        raise _Damaged("a chosen or labelled option is none of the question's")
    p = np.array(told["p"], dtype=np.float64)
    return Choices(options, tuple(told["chosen"]), tuple(told["true"]), p)
