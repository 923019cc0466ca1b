"""`results[].packs[]` of an answer, and the bodies of /v1/packs: from packs and answers to JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.packs.answer import QuestionAnswer, rounded
from spinf_serve.packs.catalogue import Entry
from spinf_serve.packs.categories import CategoryScore
from spinf_serve.packs.decision import Routed, Verdict
from spinf_serve.packs.evaluate import evaluate
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.reads import vectors
from spinf_serve.server.calls import UsedPack
from spinf_serve.server.served_packs import Fit, ServedPacks

Body = dict[str, Any]
Shown = Callable[[float], float]
# A larger float has no sixth decimal that could be rounded.
_WITHOUT_DECIMALS = 2.0**33


def pack_result(
    ref: UsedPack, chunks: Sequence[Sequence[QuestionAnswer]], full_precision: bool
) -> Body:
    """What a pack says of one input.

    Args:
        chunks: answers to the pack's questions, in its order; one unless the content was cut.
        full_precision: whether numbers are wanted unrounded.
    """
    shown: Shown = float if full_precision else _short
    pack, constants = ref.pack, ref.fit.constants
    body: Body = {"id": pack.id, "version": pack.version, "context": ref.context.name}
    if constants is None:
        nothing = {"score": None, "percentile": None, "flagged": None}
        body["categories"] = {name: dict(nothing) for name in pack.categories}
        body["decision"] = None
    else:
        found = evaluate(pack, constants, [vectors(pack, each) for each in chunks], ref.decision)
        body["categories"] = {name: _category(one, shown) for name, one in found.categories.items()}
        body["decision"] = _decision(found.verdict, shown)
        if found.route is not None:
            body["route"] = _route(found.route, shown)
    body["state"] = ref.fit.state
    if len(chunks) > 1:
        body["chunks"] = len(chunks)
    return body


def _category(found: CategoryScore, shown: Shown) -> Body:
    body: Body = {"score": shown(found.score)}
    if found.calibrated is not None:
        body["calibrated"] = shown(found.calibrated)
    body |= {"percentile": _optional(found.percentile, shown), "flagged": found.flagged}
    if found.band is not None:
        body["band"] = found.band
    return body


def _decision(verdict: Verdict, shown: Shown) -> Body:
    body: Body = {"unsafe": verdict.unsafe, "mode": verdict.mode}
    if verdict.mode == "per_category":
        body["categories"] = list(verdict.categories)
    else:
        body["score"] = _optional(verdict.score, shown)
        body["threshold"] = _optional(verdict.threshold, shown)
    if verdict.mode == "max":
        body["category"] = verdict.category
    if verdict.critical:
        body["critical"] = list(verdict.critical)
    if verdict.by is not None:
        body["by"] = verdict.by
    if verdict.warning is not None:
        body["warning"] = verdict.warning
    if verdict.band is not None:
        body["band"] = verdict.band
    return body


def _route(routed: Routed, shown: Shown) -> Body:
    return {
        "choice": routed.choice,
        "leader": routed.leader,
        "score": shown(routed.score),
        "second": _optional(routed.second, shown),
        "margin": _optional(routed.margin, shown),
    }


def _short(value: float) -> float:
    """Rounded; the values and thresholds of a micro layer may be of any size."""
    return rounded(value) if abs(value) < _WITHOUT_DECIMALS else value


def _optional(value: float | None, shown: Shown) -> float | None:
    return None if value is None else shown(value)


def listing(served: ServedPacks, engine: Engine) -> Body:
    """The body of GET /v1/packs."""
    catalogue = served.catalogue
    return {
        "packs": [_entry(entry, served, engine) for entry in catalogue.entries],
        "sources": list(catalogue.sources),
        "faults": list(catalogue.faults),
    }


def _entry(entry: Entry, served: ServedPacks, engine: Engine) -> Body:
    body: Body = {"id": entry.id, "name": entry.name, "status": entry.status}
    if entry.version is None:
        models = list(dict.fromkeys(model for one in entry.versions for model in one.models))
        return body | {
            "version": None,
            "versions": [one.version for one in entry.versions if one.pack is not None],
            "description": entry.description,
            "tags": list(entry.tags),
            "model": models[0] if len(models) == 1 else models,
            "media": list(entry.media),
        }
    pack = served.catalogue.get(entry.id)
    fit = served.fit(pack, engine)
    return body | {
        "version": pack.version,
        "versions": [one.version for one in entry.versions if one.pack is not None],
        "description": entry.description,
        "tags": list(entry.tags),
        "model": fit.constants.model if fit.constants is not None else _models(pack),
        "media": list(pack.media),
        "source": entry.source,
        "parameters": [_parameter(pack, name) for name in pack.parameters],
        "contexts": [{"id": c.name, "template": c.template} for c in pack.contexts.values()],
        "categories": _categories(pack, fit),
        "decision": _decision_summary(pack, fit),
        "queries": len(pack.questions),
        "prompts": sum(len(question.prompts) for question in pack.questions),
        "state": fit.state,
        **({} if fit.refusal is None else {"unusable": fit.refusal.message}),
    }


def _models(pack: Pack) -> str | list[str] | None:
    """The models that a draft has constants for; none of them is served."""
    models = list(pack.fitted)
    if len(models) == 1:
        return models[0]
    return models or None


def _parameter(pack: Pack, name: str) -> Body:
    parameter = pack.parameters[name]
    body: Body = {"id": name, "required": parameter.required}
    given: Mapping[str, str | None] = {
        "label": parameter.label,
        "description": parameter.description,
        "default": parameter.default,
    }
    return body | {key: value for key, value in given.items() if value is not None}


def _categories(pack: Pack, fit: Fit) -> list[Body]:
    fitted = {} if fit.constants is None else fit.constants.categories
    return [
        {
            "id": name,
            "label": category.label,
            "threshold": fitted[name].threshold if name in fitted else None,
        }
        for name, category in pack.categories.items()
    ]


def _decision_summary(pack: Pack, fit: Fit) -> Body:
    return {
        "mode": pack.decision.mode,
        "modes": list(pack.modes),
        "fallback": pack.decision.fallback,
        "max_threshold": None if fit.constants is None else fit.constants.max_threshold,
        "critical": list(pack.decision.critical),
    }
