"""Which rows a documented run asks about, drawn at random with a fixed seed: three parts.

`fit` sets the pack's constants and no threshold, `cut` sets and certifies the cut, `held` tells
what the cut does on rows that nothing was chosen by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from spinf_serve.evals.real.readers import Text

SEED = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rows each part has."""

    fit: int
    cut: int
    held: int


PLANS: Mapping[str, Plan] = {
    "spam": Plan(100, 220, 150),
    "r8": Plan(100, 200, 200),
    "reviews": Plan(40, 80, 80),
}


def drawn(name: str, texts: Sequence[Text]) -> dict[str, list[Text]]:
    """Part -> its rows. Rows for `held` come from the dataset's own test part where it has one.

    Raises ValueError when there are fewer texts than the plan of the dataset wants.
    """
    plan = PLANS[name]
    random = Random(SEED)
    shuffled = random.sample(texts, len(texts))
    train = [text for text in shuffled if text.part != "test"]
    test = [text for text in shuffled if text.part == "test"] or train[plan.fit + plan.cut :]
    parts = {
        "fit": train[: plan.fit],
        "cut": train[plan.fit : plan.fit + plan.cut],
        "held": test[: plan.held],
    }
    for part, rows in parts.items():
        if len(rows) < getattr(plan, part):
            raise ValueError(f"{name}: {len(rows)} rows for the part {part}, {plan} is wanted")
    return parts
