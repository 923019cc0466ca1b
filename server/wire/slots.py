"""Queries whose answer is found or written and not chosen: from JSON values to slots of the engine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spinf_serve.packs.ask import check_unicode
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.grid import expand
from spinf_serve.packs.question import Sampling, Slot
from spinf_serve.packs.template import SlotKind, Template, parse
from spinf_serve.server.features import Features
from spinf_serve.server.wire.fields import Fields, wrong_type

SLOT_FIELDS = ("max_tokens", "top_k", "calibration", "generate")
"""Fields of a query that belong to slots."""

MAX_TOKENS = 16
"""Longest answer where the query does not say, in tokens."""

MOST_SEARCHED_TOKENS = 64
MOST_GENERATED_TOKENS = 100
ANSWERS = 5
"""Answers that are given where the query does not say."""

MOST_ANSWERS = 20
MOST_CANDIDATES = 100
CANDIDATES = 40
"""Tokens that are drawn from where the query does not say."""

MOST_SEQUENCES = 6
MOST_TEMPERATURE = 2.0
MOST_SEED = 2**31 - 1
MOST_CALIBRATION = 1e6
"""Largest size of a calibration's numbers; anything near it is a mistake."""

_CALIBRATION = frozenset({"a", "b"})
_GENERATE = frozenset({"temperature", "top_p", "top_k", "seed", "n"})


@dataclass(frozen=True, slots=True)
class Calibration:
    """How the probability of the best answer is calibrated: sigmoid(a x logit(p) + b)."""

    a: float = 1.0
    b: float = 0.0

    def __call__(self, p: float) -> float:
        """The calibrated probability of an answer of probability p."""
        clamped = min(max(p, 1e-9), 1 - 1e-9)
        logit = self.a * math.log(clamped / (1 - clamped)) + self.b
        # Each form where its exponential cannot overflow.
        if logit >= 0:
            return 1 / (1 + math.exp(-logit))
        return math.exp(logit) / (1 + math.exp(logit))


def open_template(template: str) -> Template | None:
    """The parsed template of a query with a slot; None where options are read.

    Raises `Refused` (`invalid_template`).
    """
    # Most templates are of scored questions, and their own reader parses them.
    if template.endswith("{?}"):
        return None
    check_unicode(template, "template")
    parsed = parse(template)
    return None if parsed.kind is SlotKind.OPTIONS else parsed


def read_slot(
    query: Fields,
    name: str,
    template: Template,
    combinations: Sequence[Mapping[str, str]] | str | None,
    values: Mapping[str, Sequence[str]] | None,
    group: str | None,
    features: Features,
) -> tuple[Slot, Calibration | None]:
    """The slot of a query, and how its best answer is calibrated.

    Raises:
        Refused: with the path of the field in the request.
    """
    sampling = _sampling(query, template)
    if sampling is None:
        features.require_extraction(query.at("template"))
    else:
        features.require_generation(query.at("generate"))
        for field in ("top_k", "calibration"):
            if query.get(field) is not None:
                raise query.refused(
                    field, "belongs to answers that are searched; remove it, or remove generate"
                )
    if query.get("options") is not None:
        raise query.refused(
            "options",
            f"belong to a question with `{{?}}`; remove them, as `{{{template.kind.value}}}` is "
            "answered freely",
        )
    most = MOST_SEARCHED_TOKENS if sampling is None else MOST_GENERATED_TOKENS
    max_tokens = whole(query, "max_tokens", MAX_TOKENS, 1, most)
    top_k = whole(query, "top_k", ANSWERS, 1, MOST_ANSWERS)
    calibration = _calibration(query)
    try:
        prompts = expand(template, combinations, values)
        for index, prompt in enumerate(prompts):
            check_unicode(prompt.text, f"combinations.{index}")
    except Refused as refused:
        raise refused.within(query.path) from None
    slot = Slot(
        id=name,
        prompts=prompts,
        kind=template.kind,
        stop=template.stop,
        max_tokens=max_tokens,
        sampling=sampling,
        top_k=top_k,
        group=group,
    )
    return slot, calibration


def _sampling(query: Fields, template: Template) -> Sampling | None:
    """How text is written; None where the answer is searched."""
    given = query.get("generate")
    if given is None or given is False:
        return None
    if template.kind is not SlotKind.TEXT:
        raise query.refused(
            "generate", f"needs a slot `{{*}}`; `{{{template.kind.value}}}` is searched"
        )
    if given is True:
        return Sampling()
    if not isinstance(given, dict):
        raise wrong_type(given, query.at("generate"), "true or an object")
    wanted = Fields(given, query.at("generate"), _GENERATE)
    if wanted.unknown:
        name = wanted.unknown[0]
        known = ", ".join(sorted(_GENERATE))
        raise wanted.refused(name[:40], f"is no field; generate has {known}")
    temperature = number(wanted, "temperature", 0.0, 0.0, MOST_TEMPERATURE)
    return Sampling(
        temperature=temperature,
        top_p=above_zero(wanted, "top_p", 1.0, 1.0),
        top_k=whole(wanted, "top_k", CANDIDATES if temperature > 0 else 1, 1, MOST_CANDIDATES),
        seed=whole(wanted, "seed", 0, 0, MOST_SEED),
        n=whole(wanted, "n", 1, 1, MOST_SEQUENCES),
    )


def _calibration(query: Fields) -> Calibration | None:
    given = query.get("calibration")
    if given is None:
        return None
    wanted = Fields(given, query.at("calibration"), _CALIBRATION)
    a = number(wanted, "a", 1.0, -MOST_CALIBRATION, MOST_CALIBRATION)
    b = number(wanted, "b", 0.0, -MOST_CALIBRATION, MOST_CALIBRATION)
    return Calibration(a, b)


def whole(fields: Fields, name: str, default: int, least: int, most: int) -> int:
    """A field with a whole number within bounds; `default` when it is null or absent."""
    value: Any = fields.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise wrong_type(value, fields.at(name), "a whole number")
    if not least <= value <= most:
        raise fields.refused(name, f"is {_shown(value)}; {least} to {most} is allowed")
    return value


def number(fields: Fields, name: str, default: float, least: float, most: float) -> float:
    """A field with a number within bounds; `default` when it is null or absent."""
    value: Any = fields.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise wrong_type(value, fields.at(name), "a number")
    # Compared, not converted: JSON allows whole numbers that no float can hold.
    if not least <= value <= most:
        raise fields.refused(name, f"is {_shown(value)}; {least:g} to {most:g} is allowed")
    return float(value)


def above_zero(fields: Fields, name: str, default: float, most: float) -> float:
    """A field with a number above 0; `default` when it is null or absent."""
    value = number(fields, name, default, 0.0, most)
    if value == 0:
        raise fields.refused(name, f"is 0; more than 0 up to {most:g} is allowed")
    return value


def _shown(value: float) -> str:
    """A number as a message has it; nobody reads one of thousands of digits."""
    text = str(value) if abs(value) < 10**20 else "a number of many digits"
    return text
