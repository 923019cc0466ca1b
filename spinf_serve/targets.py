"""Targets and base rates as the command line writes them: `spam=precision:0.9`, `spam=0.05`."""

from collections.abc import Sequence
from math import inf

from spinf_serve.evals.cuts import Kind, Target
from spinf_serve.evals.wishes import Wish
from spinf_serve.packs.errors import Unusable

KINDS: tuple[Kind, ...] = ("precision", "recall", "npv", "flag_rate", "cost")
BANDS = "bands"
_FORMS = (
    "NAME=precision:0.9, NAME=recall:0.8, NAME=npv:0.99, NAME=flag_rate:0.02, NAME=cost:5 or"
    " NAME=bands:0.9/0.99"
)


def wishes(targets: Sequence[str], base_rates: Sequence[str], delta: float) -> list[Wish]:
    """What `--target`, `--base-rate` and `--delta` ask, in order.

    Args:
        base_rates: `0.05` for every target, or `spam=0.05` for one.

    Raises `Unusable` with the form that is understood.
    """
    named = [_split(text) for text in targets]
    rates = _rates(base_rates, [name for name, _ in named])
    return [
        Wish(name, _targets(f"--target {name}={rest}", rest, delta), rates.get(name))
        for name, rest in named
    ]


def _split(text: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not name or not equals or not rest:
        raise Unusable(f"--target {text}: write {_FORMS}")
    return name, rest


def _targets(where: str, text: str, delta: float) -> tuple[Target, ...]:
    kind, colon, value = text.partition(":")
    kind = kind.replace("-", "_")
    if kind == BANDS and colon:
        act, slash, passing = value.partition("/")
        if slash:
            return (
                Target("precision", _number(where, act), delta),
                Target("npv", _number(where, passing), delta),
            )
    found = next((one for one in KINDS if one == kind), None)
    if found is None or not colon:
        raise Unusable(f"{where}: write {_FORMS}")
    return (Target(found, _number(where, value), delta),)


def _rates(texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        where = f"--base-rate {text}"
        rate = _number(where, value)
        if not 0 < rate < 1:
            raise Unusable(f"{where}: a share of the traffic is above 0 and below 1")
        if equals and name not in names:
            raise Unusable(f"{where}: there is no target of {name!r}")
        for one in [name] if equals else names:
            if found.setdefault(one, rate) != rate:
                raise Unusable(f"{where}: {one} has the base rate {found[one]:g} already")
    return found


def _number(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unusable(f"{where}: {text!r} is no number; write {_FORMS}") from None
    if not -inf < value < inf:
        raise Unusable(f"{where}: {text!r} is not finite")
    return value
