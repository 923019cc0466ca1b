"""Rows of a decision log as `spinf-serve data import` takes them in. Needs the extra `evals`."""

from pathlib import Path
from typing import Any

from spinf_serve.evals.data.decision_log import LogRows, LogWanted, meaning
from spinf_serve.evals.data.readers import Source
from spinf_serve.moments import when
from spinf_serve.packs.errors import Unusable


def of_log(
    file: Path, drawn: str | None, pack: str | None, since: str | None, until: str | None
) -> tuple[Source, dict[str, Any], str]:
    """A decision log as a source, what its columns mean, and how its rows were chosen.

    Args:
        drawn: `random` for the random sample, `queue` for what was found unsafe or to be reviewed,
            `import` for all; None for the sample.
        pack: only what this pack was asked about.
        since, until: as people write moments.

    Raises `Unusable`: another word, or the log cannot be read.
    """
    chosen: dict[str, LogRows] = {"random": "sample", "queue": "queue", "import": "all"}
    how = drawn or "random"
    if how not in chosen:
        raise Unusable(f"--drawn {how}: write random, queue or import")
    wanted = LogWanted(
        chosen[how],
        pack,
        None if since is None else when(since, "--since"),
        None if until is None else when(until, "--until"),
    )
    return Source(file, log=wanted), meaning(file, wanted), how
