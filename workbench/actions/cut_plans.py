"""What is to be certified of a pack on a dataset: the table of targets, kept in the project.

A change names the revision that it was made on, so that two tabs never overwrite each other. Knows no
screen.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.cuts import Kind, Target
from spinf_serve.evals.fitting import TEST, Budget, budget
from spinf_serve.evals.wishes import Wish, check_wishes
from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk, as_json, key_of

BANDS: Final = "bands"
KINDS: Final = ("precision", "recall", "npv", "flag_rate", BANDS, "cost")


@dataclass(frozen=True, slots=True)
class PlannedCut:
    """A line of the table.

    Attributes:
        name: a category, or `decision`.
        kind: one of `KINDS`.
        value: of the target; with bands the precision above the upper cut; of cost what a miss
            costs in false alarms.
        npv: with bands the share below the lower cut that does not hold; else None.
        base_rate: share of the traffic that holds, where rows were drawn class by class.
    """

    name: str
    kind: str
    value: float
    npv: float | None = None
    base_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be certified.

    Attributes:
        cuts: one line a name, in the order they were put in.
        planned: certifications of a target that are meant to be made on these rows in all.
        delta: the chance at most that a target's promises on these rows are wrong.
        alarm, miss: prices of a false alarm and of a miss; None where nobody said.
        currency: of the prices.
        revision: grows with every change.
    """

    cuts: tuple[PlannedCut, ...] = ()
    planned: int = 1
    delta: float = 0.05
    alarm: float | None = None
    miss: float | None = None
    currency: str = "€"
    revision: int = 0

    def of(self, name: str) -> PlannedCut | None:
        """The line of a name."""
        return next((one for one in self.cuts if one.name == name), None)

    def with_cut(self, cut: PlannedCut) -> "Plan":
        """The plan with a line put in, or in place of that of the same name."""
        if self.of(cut.name) is None:
            return replace(self, cuts=(*self.cuts, cut))
        return replace(self, cuts=tuple(cut if one.name == cut.name else one for one in self.cuts))

    def without(self, name: str) -> "Plan":
        """The plan without a line."""
        return replace(self, cuts=tuple(one for one in self.cuts if one.name != name))


def plan_of(desk: Desk, file: str, dataset: str) -> Plan:
    """The plan for a pack's file, by its name in the project, and a dataset; empty at first."""
    try:
        told = json.loads(_path(desk, file, dataset).read_bytes())
        cuts = tuple(PlannedCut(**one) for one in told.pop("cuts"))
        return Plan(cuts, **told)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Plan()


def keep_plan(desk: Desk, user: str, file: str, dataset: str, plan: Plan) -> Plan:
    """Keep a plan that was changed from the kept one, and note who changed it.

    Raises `Unusable` when it was changed elsewhere since; then nothing is overwritten.
    """
    lines = [f"{cut.name}={wish_of(cut, plan.delta).kind}" for cut in plan.cuts]
    path = _path(desk, file, dataset)
    with locked(path, LOCK_SECONDS):
        if plan_of(desk, file, dataset).revision != plan.revision:
            raise Unusable(
                "the targets were changed in another tab since this page showed them; nothing was"
                " overwritten: look at them as they are now, and change them again"
            )
        kept = replace(plan, revision=plan.revision + 1)
        write_beside(path, as_json(asdict(kept)))
    note(desk, user, "change targets", file, data=dataset, targets=lines)
    return kept


def wish_of(cut: PlannedCut, delta: float) -> Wish:
    """A line as `spinf_serve.evals.fitting` is asked. Raises `Unusable` for a value out of range."""
    if cut.base_rate is not None and not 0 < cut.base_rate < 1:
        raise Unusable(f"{cut.name}: a share of the traffic is above 0 and below 1")
    if cut.kind == BANDS:
        npv = Target("npv", cut.npv or 0.0, delta)
        return Wish(cut.name, (Target("precision", cut.value, delta), npv), cut.base_rate)
    kind: Kind | None = next((one for one in _TARGETS if one == cut.kind), None)
    if kind is None:
        raise Unusable(f"{cut.name}: there is no kind of target {cut.kind!r}")
    return Wish(cut.name, (Target(kind, cut.value, delta),), cut.base_rate)


def wishes_of(plan: Plan, pack: Pack) -> list[Wish]:
    """What a plan asks of a pack. Raises `Unusable` for what the pack cannot have."""
    wishes = [wish_of(cut, plan.delta) for cut in plan.cuts]
    check_wishes(pack, wishes)
    return wishes


def budgets(
    desk: Desk, dataset: str, pack: Pack, bits: str, plan: Plan, wishes: Sequence[Wish], digest: str
) -> dict[str, Budget]:
    """What each target would spend; nothing is noted.

    Args:
        digest: of the rows and labels.
    """
    return {
        wish.name: budget(desk.project, dataset, pack, bits, wish, plan.planned, digest)
        for wish in wishes
    }


def has_held(desk: Desk, dataset: str) -> bool:
    """Whether rows are held back from fits, see `evals.fitting.TEST`."""
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            "SELECT 1 FROM item WHERE dataset = ? AND split = ? LIMIT 1", [dataset, TEST]
        ).fetchone()
    return found is not None


def command(
    desk: Desk, file: Path, dataset: str, bits: str, plan: Plan, user: str, *, save: bool = True
) -> str:
    """The command that does the same, to be run in the project's folder."""
    words = ["spinf-serve", "fit", desk.name_of(file), "--data", f"{desk.file.name}:{dataset}"]
    for cut in plan.cuts:
        words += ["--target", f"{cut.name}={wish_of(cut, plan.delta).kind}"]
    for cut in plan.cuts:
        if cut.base_rate is not None:
            words += ["--base-rate", f"{cut.name}={cut.base_rate!r}"]
    words += ["--delta", f"{plan.delta!r}", "--planned", str(plan.planned)]
    words += ["--bits", bits, "--by", user, *(["--save"] if save else [])]
    return shlex.join(words)


_TARGETS: Final[tuple[Kind, ...]] = ("precision", "recall", "npv", "flag_rate", "cost")


def _path(desk: Desk, file: str, dataset: str) -> Path:
    return desk.below("plans") / f"{key_of(file, dataset)}.json"


def told(plan: Plan) -> list[dict[str, Any]]:
    """The lines in plain values, as a job is given them."""
    return [asdict(one) for one in plan.cuts]
