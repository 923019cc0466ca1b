"""What the example's pages Report and Compare show at a first visit, measured when it is made.

By the code of the job, from the scores that come with the example: nobody is asked.
"""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from spinf_serve.evals.score_tables import identities
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.workbench.actions.evaluations import (
    ComparisonWish,
    EvaluationWish,
    SideWish,
    Wish,
    evaluate_job,
)
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.example import DATASET, OFFICIAL, PACK_FILE


class _Quiet:
    """A job's report that nobody reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def progress(self, done: int, of: int, words: str = "", **more: object) -> None:
        """See `Report`."""

    def say(self, line: str) -> None:
        """See `Report`."""

    def stopped(self) -> bool:
        """See `Report`."""
        return False

    def check(self) -> None:
        """See `Report`."""


def measure_example(desk: Desk) -> None:
    """Lay in what the example's pack is worth, and how it compares with the official one.

    What cannot be measured is left for the pages to ask for.
    """
    with suppress(SpinfError, Unusable, InvalidPack, OSError):
        with desk.project.open(write=False) as connection:
            known = identities(connection)
        for one in known[:1]:
            mine = SideWish(PACK_FILE, one.bits)
            official = SideWish(OFFICIAL, one.bits)
            wishes: tuple[Wish, ...] = (
                EvaluationWish(mine, DATASET),
                ComparisonWish(official, mine, DATASET),
            )
            for wish in wishes:
                evaluate_job(desk, asdict(wish), _Quiet(desk.private))
