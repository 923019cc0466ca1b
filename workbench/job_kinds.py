"""What jobs can do: kind -> the function that does it, imported by the job's own process only.

A function takes the project, the job's arguments and a `Report`, and returns its result, which can be
written as JSON. It may be started again after it was broken off: what is kept makes that cheap.
"""

from pathlib import Path
from typing import Final, Protocol


class Stopped(Exception):
    """The job was asked to stop; what was finished is kept."""


class Report(Protocol):
    """How a job tells how far it is, and learns that it is to stop."""

    @property
    def folder(self) -> Path:
        """The job's own folder, for what it reads and makes."""
        ...

    def progress(
        self,
        done: int,
        of: int,
        words: str = "",
        *,
        rate: float | None = None,
        seconds_left: float | None = None,
        **more: float | str | None,
    ) -> None:
        """Tell how far it is; cheap, may be called often.

        Args:
            of: in all; 0 while that is not known.
            words: what it does, for people.
            rate: a second; None takes it from how `done` grew.
            seconds_left: None takes it from the rate.
            more: further figures to show, such as `refused`.
        """
        ...

    def say(self, line: str) -> None:
        """Add a line to the job's log."""
        ...

    def stopped(self) -> bool:
        """Whether it was asked to stop. A function that sees it may return what it has."""
        ...

    def check(self) -> None:
        """Raise `Stopped` when it was asked to stop."""
        ...


KINDS: Final[dict[str, str]] = {
    "calibrate": "spinf_serve.workbench.actions.calibrating:calibrate_job",
    "check": "spinf_serve.workbench.actions.checks:check_job",
    "delete": "spinf_serve.workbench.actions.rows:delete_job",
    "evaluate": "spinf_serve.workbench.actions.evaluations:evaluate_job",
    "export": "spinf_serve.workbench.actions.rows:export_job",
    "fit": "spinf_serve.workbench.actions.certifying:fit_job",
    "import": "spinf_serve.workbench.actions.importing:import_job",
    "measure": "spinf_serve.workbench.actions.asking:measure_job",
    "measure_sheet": "spinf_serve.workbench.actions.sheets:measure_sheet_job",
    "queue": "spinf_serve.workbench.actions.queues:queue_job",
    "run": "spinf_serve.workbench.actions.asking:run_job",
    "sheet": "spinf_serve.workbench.actions.sheets:sheet_job",
    "view": "spinf_serve.workbench.views:build",
}
"""Kind -> `module:function`."""
