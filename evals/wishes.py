"""What is asked of a pack's cuts, the rows that are to answer it, and the answers.

Values, and whether a pack can be asked that at all. `spinf_serve.evals.promising` finds the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.certificates import Certificate, NotReachable
from spinf_serve.evals.cost import CostCut
from spinf_serve.evals.cross_fit import CrossFit
from spinf_serve.evals.cuts import Target
from spinf_serve.evals.judged import DECISION, QUESTION
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack

ONLY_CATEGORIES = (
    "a pack flags by its categories, and has no place for numbers of a single question; give the"
    " question's read a category of its own and label that. `spinf-serve eval` judges single questions"
)
"""Why labels of a question are not fitted on."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a cut.

    Attributes:
        name: a category, or `decision` for the cut of the pack's mode `max` or `micro_layer`.
        targets: one for a threshold; a precision and an npv for the two cuts of bands.
        base_rate: share of the traffic that holds, where rows were drawn class by class.
    """

    name: str
    targets: tuple[Target, ...]
    base_rate: float | None = None

    @property
    def kind(self) -> str:
        """In the words of the command line, such as `precision:0.9`."""
        if len(self.targets) == 1:
            return f"{self.targets[0].kind}:{self.targets[0].value:g}"
        return f"bands:{'/'.join(f'{target.value:g}' for target in self.targets)}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows with what is known of them, [N] each.

    Attributes:
        ids: unique.
        labels: category -> whether it holds; no entry when that is not known.
        groups: None for a row that stands alone.
        drawn: `random`, `queue` or `import`.
        weights: inverse probability of being drawn, NaN where that is not known.
        classes: target -> class, of labels that are not yes or no.
        chosen: targets for whose labels a row was not chosen as it was drawn.
    """

    ids: tuple[str, ...]
    labels: tuple[Mapping[str, bool], ...]
    groups: tuple[str | None, ...]
    drawn: tuple[str, ...]
    weights: NDArray[np.float64]
    classes: tuple[Mapping[str, str], ...] = ()
    chosen: tuple[frozenset[str], ...] = ()

    def taken(self, indexes: NDArray[np.int64]) -> "Rows":
        """Some of the rows, in the order of `indexes`."""
        at = indexes.tolist()
        return Rows(
            tuple(self.ids[index] for index in at),
            tuple(self.labels[index] for index in at),
            tuple(self.groups[index] for index in at),
            tuple(self.drawn[index] for index in at),
            self.weights[indexes],
            tuple(self.classes[index] for index in at) if self.classes else (),
            tuple(self.chosen[index] for index in at) if self.chosen else (),
        )

    def counted_for(self, name: str) -> "Rows":
        """The rows as a promise on labels of a target counts them.

        A row that was labelled since it stood in a queue was not drawn at random, whatever it was
        taken from; for the decision it takes one label of that kind.
        """
        if not any(self.chosen):
            return self
        out = np.array([bool(one) if name == DECISION else name in one for one in self.chosen])
        drawn = tuple(
            "queue" if left else one for left, one in zip(out.tolist(), self.drawn, strict=True)
        )
        return replace(self, drawn=drawn, weights=np.where(out, np.nan, self.weights))


@dataclass(frozen=True, slots=True)
class Promise:
    """The answer to a target.

    Attributes:
        name: the wish's; with bands `<name>/act` and `<name>/review`.
        result: a cost's cut is never promised.
        cut: on the scale of the pack's score; None when nothing is promised, or no number between
            two scores can be written.
    """

    name: str
    target: Target
    result: Certificate | NotReachable | CostCut
    cut: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a wish.

    Attributes:
        wish: what was asked.
        promises: one per target.
        left_out: how the whole choice of the first target's cut did on rows that it left out; None
            where the rows are too few to leave any out, and without labels.
        review_per_1000: contents between the cuts of bands per 1,000 of traffic.
        notes: what to know, a sentence each.
    """

    wish: Wish
    promises: tuple[Promise, ...]
    left_out: CrossFit | None = None
    review_per_1000: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every target has its cut."""
        return all(promise.cut is not None for promise in self.promises)


def check_wishes(pack: Pack, wishes: Sequence[Wish]) -> None:
    """Raises `Unusable` for a target that the pack cannot have."""
    seen: set[str] = set()
    for wish in wishes:
        if wish.name in seen:
            raise Unusable(f"{wish.name} has two targets; ask one of it, or bands")
        seen.add(wish.name)
        if wish.name == DECISION:
            _check_decision(pack, wish)
        elif wish.name.startswith(QUESTION):
            raise Unusable(f"no cut of {wish.name} can be fitted: {ONLY_CATEGORIES}")
        elif wish.name not in pack.categories:
            names = ", ".join((*pack.categories, DECISION))
            raise Unusable(f"{pack.id} has no category {wish.name!r}; targets are of {names}")
    for wish in wishes:
        category = pack.categories.get(wish.name)
        for required in () if category is None else category.requires:
            if pack.categories[required].requires and required in seen:
                raise Unusable(
                    f"{wish.name} requires {required}, which requires another: the cut of one would"
                    " move the promise of the other on the same rows; ask one of the two"
                )


def _check_decision(pack: Pack, wish: Wish) -> None:
    if pack.decision.mode == "per_category":
        raise Unusable(
            f"{pack.id} decides per category, so its decision has no cut of its own; ask targets of"
            f" the categories: {', '.join(pack.categories)}"
        )
    if len(wish.targets) > 1 and pack.decision.critical:
        raise Unusable(
            f"{pack.id} has a critical list, which moves contents between the bands of the decision"
            " whatever its score: ask one target of the decision, or bands of the categories"
        )
