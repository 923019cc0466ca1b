"""`spinf-serve log verify` and `spinf-serve log drift`: does the log hold, do contents move."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spinf_serve.flags import EVALS_PACKAGES, require, takes_settings
from spinf_serve.log_files import AsJson, LogFile, opened, print_told
from spinf_serve.log_pages import drift_lines
from spinf_serve.moments import Since, Until, when
from spinf_serve.packs.errors import Unusable
from spinf_serve.precision_cli import SOURCES
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import interruptible

if TYPE_CHECKING:
    from spinf_serve.server.decision_log.checking import Asked

_SHOWN = 20


@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def verify(
    file: LogFile,
    config: ServerConfig,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="ask this server; token is sent, model is its own"),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=0, metavar="NUMBER", help="entries to ask again; 0: only the file")
    ] = 20,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="draws other entries")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check the file, ask some entries again, and compare bits; any difference is exit code 1.

    When entries are asked and none gets an answer, nothing was compared: exit code 2. Entries without their text, or of another model, cannot be compared and are counted.
    """
    from spinf_serve.asking import asker
    from spinf_serve.server.decision_log.checking import Asked, ask_again, askable, damage

    with opened(file) as connection:
        damaged = list(damage(connection))
        drawn = askable(connection, rows, seed)
    found = Asked(0, (), 0, ())
    if drawn:
        with asker(config, server) as ask, interruptible(), progress("asking again"):
            found = ask_again(drawn, ask)
    if as_json:
        print_told({"damage": damaged, **asdict(found)})
    else:
        print_told(_verified(damaged, found, rows))
    if damaged or found.different:
        raise typer.Exit(1)
    if found.refused and not (found.asked or found.other):
        raise typer.Exit(2)


def _verified(damaged: list[str], found: "Asked", rows: int) -> Iterator[str]:
    yield from damaged or ["the file is whole, and every kept text has its digest"]
    for id, line in found.different[:_SHOWN]:
        yield f"entry {id}: {line}"
    if len(found.different) > _SHOWN:
        yield f"and {len(found.different) - _SHOWN:,} more differences"
    alike: dict[str, list[int]] = {}
    for id, line in found.refused:
        alike.setdefault(line, []).append(id)
    for line, ids in list(alike.items())[:_SHOWN]:
        yield f"{_entries(ids)} got no answer: {line}"
    if found.other:
        yield f"{found.other:,} entries are of another model or machine and were not compared"
    if found.asked:
        same = "differ somewhere" if found.different else "came out the same, bit for bit"
        yield f"{found.asked:,} entries asked again; their scores and decisions {same}"
    elif found.refused:
        yield "no entry was answered, so that nothing was compared"
    elif rows and not found.other:
        yield "no entry could be asked again: that takes kept texts (--log-content) and a pack"


def _entries(ids: list[int]) -> str:
    shown = ", ".join(str(id) for id in ids[:_SHOWN])
    more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return f"{'entry' if len(ids) == 1 else 'entries'} {shown}{more}"


def drift(
    file: LogFile,
    against: Annotated[
        Path | None,
        typer.Option(metavar="BASELINE.json", help="what `spinf-serve eval --json` wrote"),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="or: the sample from then on against that of before"),
    ] = None,
    pack: Annotated[
        str | None, typer.Option(metavar="ID", help="whose scores; the baseline's by default")
    ] = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Say whether contents have become unlike, by the scores of the random sample; needs no label.

    Ends with 0 when they are alike, 2 on errors, 3 when they are unlike or too few to tell, so that
    promises say nothing of them until some are labelled, 4 when another model gave the scores.
    """
    require(EVALS_PACKAGES)
    from spinf_serve.evals.baseline import read_evaluation
    from spinf_serve.evals.data.decision_log import LogWanted, log_scores
    from spinf_serve.evals.traffic import against_baseline, against_earlier

    if (against is None) == (before is None):
        raise Unusable("say what to compare with: --against BASELINE.json, or --before WHEN")
    first = None if since is None else when(since, "--since")
    last = None if until is None else when(until, "--until")
    if against is not None:
        baseline = read_evaluation(against)
        name = pack or baseline.made.pack
        now = log_scores(file, LogWanted("sample", name, first, last))
        found = against_baseline(baseline, name, now)
    else:
        if pack is None:
            raise Unusable("--before compares a pack's scores: name it with --pack")
        cut = when(str(before), "--before")
        now = log_scores(file, LogWanted("sample", pack, cut, last))
        found = against_earlier(log_scores(file, LogWanted("sample", pack, first, cut)), now)
    if as_json:
        outcomes = [asdict(one) for one in found.outcomes]
        print_told({"word": found.word, "entries": now.entries, "outcomes": outcomes})
    else:
        print_told(drift_lines(now.entries, now.contents, now.rates, found))
    raise typer.Exit(found.exit_code)
