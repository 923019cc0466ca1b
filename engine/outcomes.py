"""What became of works: handed out pass by pass, gathered by who waits for several."""

from collections.abc import Callable
from dataclasses import dataclass, field

from spinf_serve.engine.scoring.job import Job
from spinf_serve.engine.work import Result
from spinf_serve.packs.errors import SpinfError

Finished = tuple[Job, Result | SpinfError]


@dataclass(slots=True)
class Outcomes:
    """Outcomes of the works of one run of an engine so far.

    Attributes:
        results: by tree key.
        fault: the first one.
    """

    works: int
    progress: Callable[[int, int], None] | None
    results: dict[int, Result] = field(default_factory=dict)
    fault: SpinfError | None = None

    def add(self, finished: list[Finished]) -> None:
        """What a pass finished; reports progress, unless a work has failed."""
        for job, outcome in finished:
            if not isinstance(outcome, SpinfError):
                self.results[job.tree.key] = outcome
            elif self.fault is None:
                self.fault = outcome
        if self.progress is not None and self.fault is None:
            self.progress(len(self.results), self.works)
