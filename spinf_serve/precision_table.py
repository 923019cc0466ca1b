"""The table of `packs precision`: schemes against the reference, pack by pack.

From scores that are there (`precision_scores`); opens no engine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spinf_serve.pack_files import constants_names, known_model
from spinf_serve.pack_fit import LEAST_FIT_ROWS
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.fit import fit
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.recording import Recording
from spinf_serve.precision import deviation, summary
from spinf_serve.precision_scores import Scores, Subject
from spinf_serve.scoring import presented

SIZES = ("mean", "p99", "max")
"""How differences are summed up."""


def compared(
    subjects: Sequence[Subject], reference: Scores, others: Sequence[Scores]
) -> dict[str, Any]:
    """What the schemes change, as a JSON object.

    Verdicts of both sides are by the same constants: the pack's for the model, else those fitted
    here on all rows of the reference, none held out, so that cuts lie amid the rows.

    Raises `Unusable` when the scores are not of one model, or are too few for a fit.
    """
    model = _model(reference)
    for scores in others:
        if _model(scores) != model:
            raise Unusable(
                f"the scores of {scores.scheme} are of the model {_model(scores)}, those of"
                f" {reference.scheme} of {model}: compare those of one model"
            )
    constants = {
        one.pack.id: _constants(one, model, reference.packs[one.pack.id]) for one in subjects
    }
    told: dict[str, Any] = {
        "job": "precision",
        "model": model,
        "reference": {
            "scheme": reference.scheme,
            "model_digest": next(iter(reference.packs.values())).header.model_digest,
            **reference.about,
        },
        "packs": {
            one.pack.id: {
                "version": one.pack.version,
                "rows": len(one.rows),
                "cuts": "pack" if _own_constants(one.pack, model) else "fitted on these rows",
            }
            for one in subjects
        },
        "schemes": [],
    }
    for scores in others:
        parts = {
            one.pack.id: deviation(
                one.pack,
                constants[one.pack.id],
                one.rows,
                reference.packs[one.pack.id],
                scores.packs[one.pack.id],
            )
            for one in subjects
        }
        told["schemes"].append(
            {
                "scheme": scores.scheme,
                **scores.about,
                "all": summary(list(parts.values())),
                "packs": {id: summary([part]) for id, part in parts.items()},
            }
        )
    return told


def precision_page(told: Mapping[str, Any]) -> Iterator[str]:
    """What `compared` tells as lines for a terminal."""
    yield f"{told['model']} against {told['reference']['scheme']}, absolute differences"
    head = (
        *("scheme", "pack", "rows", "questions", "logprob mean", "p99", "max", "p mean", "p99"),
        *("max", "rank median", "worst", "verdicts", "categories", "routes"),
    )
    lines = [head]
    for scheme in told["schemes"]:
        for id, one in (*scheme["packs"].items(), ("all", scheme["all"])):
            lines.append(
                (
                    *(scheme["scheme"], id, str(one["rows"]), str(one["questions"])),
                    *(f"{one[what][size]:.2g}" for what in ("logprob", "p") for size in SIZES),
                    *(_rank(one["rank"][which]) for which in ("median", "worst")),
                    *(_flipped(one[what]) for what in ("verdicts", "categories", "routes")),
                )
            )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
    fitted = [id for id, one in told["packs"].items() if one["cuts"] != "pack"]
    if fitted:
        yield f"cuts fitted here, on the compared rows: {', '.join(fitted)}"


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _flipped(found: Mapping[str, Any]) -> str:
    return f"{found['flipped']} of {found['of']}" if found["of"] else "-"


def _model(scores: Scores) -> str:
    return next(iter(scores.packs.values())).header.model


def _own_constants(pack: Pack, model: str) -> Constants | None:
    manifest = known_model(model)
    return pack.constants((model,) if manifest is None else constants_names(manifest.served))


def _constants(of: Subject, model: str, reference: Recording) -> Constants:
    own = _own_constants(of.pack, model)
    if own is not None:
        return own
    if len(of.rows) < LEAST_FIT_ROWS:
        raise Unusable(
            f"{of.pack.id} has no numbers for {model}, and a fit of its cuts needs at least"
            f" {LEAST_FIT_ROWS} rows, not {len(of.rows)}: give a larger --rows"
        )
    found = [reference.vectors(presented(of.pack, row), of.pack) for row in of.rows]
    vectors = [one for one in found if one is not None]
    return fit(
        of.pack, [[one] for one in vectors], [row.labels for row in of.rows], model
    ).constants
