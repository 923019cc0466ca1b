"""What differs between two packs, grouped by question: wording, options, reads, fitted numbers.

Compares what packs mean, not how their files are laid out. Reads no files and prints nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spinf_serve.packs.build_fitted import read_bands
from spinf_serve.packs.lint import Instructions
from spinf_serve.packs.notes import Notes
from spinf_serve.packs.pack import Constants, Pack

Facts = dict[str, dict[str, Any]]
"""Group -> label -> a plain value."""

_HELD_ELSEWHERE = (
    "pack",
    "version",
    "model",
    "name",
    "description",
    "tags",
    "license",
    "media",
    "answers",
    "parameters",
    "contexts",
    "scoring",
    "reads",
    "categories",
    "decision",
    "on_long",
    "fitted",
)
"""Fields of a file that have facts of their own; the others are compared as they are."""

_ORDER = "order of questions"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs; None stands for "is not there"."""

    what: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Group:
    """What differs of one question, category or other part.

    Attributes:
        only: `before` or `after` when only that pack has it, else None.
    """

    name: str
    only: str | None
    changes: tuple[Change, ...]


def difference(
    before: Pack,
    after: Pack,
    lint_before: Instructions | None = None,
    lint_after: Instructions | None = None,
) -> tuple[Group, ...]:
    """What differs, in the order of the later pack; what only the earlier has comes last.

    Args:
        lint_before, lint_after: what the files say to lint; None is nothing.
    """
    old = _facts(before, lint_before or Instructions())
    new = _facts(after, lint_after or Instructions())
    both = [name for name in old["pack"][_ORDER] if name in new["pack"][_ORDER]]
    if both == [name for name in new["pack"][_ORDER] if name in both]:
        # Questions that came or went are told as such.
        del old["pack"][_ORDER], new["pack"][_ORDER]
    return tuple(_groups(old, new))


def _groups(old: Facts, new: Facts) -> Iterator[Group]:
    for name in [*new, *(name for name in old if name not in new)]:
        mine, other = old.get(name, {}), new.get(name, {})
        labels = [*other, *(label for label in mine if label not in other)]
        changes = tuple(
            Change(label, mine.get(label), other.get(label))
            for label in labels
            if mine.get(label) != other.get(label)
        )
        only = "after" if name not in old else "before" if name not in new else None
        if changes:
            yield Group(name, only, changes)


def _facts(pack: Pack, lint: Instructions) -> Facts:
    facts: Facts = {"pack": _pack(pack)}
    facts["contexts"] = {name: one.template for name, one in pack.contexts.items()}
    facts["contexts"]["(default)"] = next(iter(pack.contexts))
    written = {query["id"]: query for query in pack.body["scoring"]["queries"]}
    for question in pack.questions:
        values = [dict(prompt.values) for prompt in question.prompts if prompt.values]
        facts[f"question {question.id}"] = _there(
            {
                "template": written[question.id]["template"],
                "options": list(question.options),
                "values": values or None,
                "empty_floor": question.empty_floor,
                "negates": lint.negates.get(question.id),
            }
        )
    for read in pack.reads:
        group = facts[f"question {read.query}"]
        fields = {key: value for key, value in asdict(read).items() if key not in ("id", "query")}
        group[f"read {read.id}"] = _there({**fields, "unsafe": list(read.unsafe) or None})
    for id, category in pack.categories.items():
        draft = pack.body["categories"][id]
        facts[f"category {id}"] = _there(
            {
                "label": category.label,
                "views": category.views,
                "requires": list(category.requires),
                "decides": category.decides,
                "threshold": draft.get("threshold"),
            }
        )
    facts["decision"] = {key: value for key, value in pack.body["decision"].items() if value}
    for constants in pack.fitted.values():
        _add_fitted(facts, pack, constants)
    if lint.waivers:
        facts["lint"] = {f"waive {one.rule} on {one.on}": one.reason for one in lint.waivers}
    return facts


def _pack(pack: Pack) -> dict[str, Any]:
    own: dict[str, Any] = {
        "id": pack.id,
        "version": pack.version,
        "name": pack.name or None,
        "description": pack.description or None,
        "tags": list(pack.tags) or None,
        "license": pack.license or None,
        "media": list(pack.media),
        "answers": pack.answers,
        "case_insensitive": pack.case_insensitive,
        "on_long": pack.on_long,
        _ORDER: [question.id for question in pack.questions],
    }
    own |= {f"parameter {name}": asdict(one) for name, one in pack.parameters.items()}
    return _there(own | {k: v for k, v in pack.body.items() if k not in _HELD_ELSEWHERE})


def _add_fitted(facts: Facts, pack: Pack, constants: Constants) -> None:
    """A model's numbers, each with the question, category or decision that it belongs to."""
    model = constants.model
    for read in pack.reads:
        fit = constants.reads[read.id]
        group = facts[f"question {read.query}"]
        for name, value in (("mean", fit.mean), ("sd", fit.sd), ("mu", list(fit.mu) or None)):
            if value is not None:
                group[f"{model}: {read.id} {name}"] = value
    for id, category in constants.categories.items():
        group = facts[f"category {id}"]
        group[f"{model}: platt"] = list(category.platt)
        if category.beta is not None:
            group[f"{model}: beta"] = list(category.beta)
        group[f"{model}: threshold"] = category.threshold
        if category.quantiles is not None:
            group[f"{model}: levels"] = list(category.quantiles.levels)
            group[f"{model}: quantiles"] = list(category.quantiles.values)
    decision = facts["decision"]
    if constants.max_threshold is not None:
        decision[f"{model}: max threshold"] = constants.max_threshold
    if constants.layer is not None:
        decision[f"{model}: layer inputs"] = list(constants.layer.inputs)
        decision[f"{model}: layer hidden"] = constants.layer.hidden
        decision[f"{model}: layer weights"] = list(constants.layer.weights)
    written = read_bands(pack.body.get("bands"), ("bands",), pack.categories, Notes())
    if constants.bands is not None and constants.bands != written:
        # Bands of the pack itself are a fact of the pack, with numbers or without.
        decision[f"{model}: bands"] = asdict(constants.bands)
    if constants.proof is not None:
        decision[f"{model}: proof"] = dict(constants.proof)


def _there(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}
