"""The `spinf-serve log` commands: what was decided and why, and taking it out of the log again."""

import json
import re
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spinf_serve.flags import EVALS_PACKAGES, require, takes_settings
from spinf_serve.log_pages import drift_lines, list_lines, standing_line, why_page
from spinf_serve.moments import Since, Until, when
from spinf_serve.outputs import check_output, write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.precision_cli import SOURCES
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import interruptible

if TYPE_CHECKING:
    from spinf_serve.server.decision_log.checking import Asked
    from spinf_serve.server.decision_log.reading import Wanted
    from spinf_serve.server.decision_log.removing import Removed

log = typer.Typer(
    help="The decision log: what was decided, why, and taking it out again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_MAX_CONTENT_BYTES = 64 * 1024 * 1024
_SHOWN = 20
_DAY_SECONDS = 86_400

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="the log's file", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="count, and remove nothing")]
RequestId = Annotated[
    str | None, typer.Option("--request", metavar="ID", help="of an answer, as its client saw it")
]
ContentFile = Annotated[
    Path | None,
    typer.Option(
        "--content", metavar="FILE", help="the content itself; a line end behind it does not count"
    ),
]
Text = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="the content itself")]
Digest = Annotated[
    str | None, typer.Option("--digest", metavar="SHA256", help="of the content, as JSON shows it")
]
Number = Annotated[
    int | None, typer.Option("--entry", metavar="NUMBER", help="of one entry, as `log list` shows")
]
PackId = Annotated[str | None, typer.Option("--pack", metavar="ID", help="only what it was asked")]
Unsafe = Annotated[bool | None, typer.Option("--unsafe/--safe", help="only what a pack decided so")]
Flagged = Annotated[
    str | None, typer.Option("--flagged", metavar="CATEGORY", help="only where it was flagged")
]
Band = Annotated[
    str | None, typer.Option(metavar="act|review|pass", help="only what a pack put there")
]
CallerName = Annotated[str | None, typer.Option("--caller", metavar="NAME", help="of the key")]
Sample = Annotated[
    bool | None, typer.Option("--sample/--not-sample", help="only the random sample, or the rest")
]


@log.command("list")
def list_entries(
    file: LogFile,
    since: Since = None,
    until: Until = None,
    pack: PackId = None,
    unsafe: Unsafe = None,
    flagged: Flagged = None,
    band: Band = None,
    caller: CallerName = None,
    sample: Sample = None,
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="most entries")] = 20,
    as_json: AsJson = False,
) -> None:
    """List what was decided, the newest first."""
    from spinf_serve.server.decision_log.entries import as_plain
    from spinf_serve.server.decision_log.reading import count, entries, standing

    wanted = _wanted(since, until, pack, unsafe, flagged, band, caller, sample)
    with _opened(file) as connection:
        total = count(connection, wanted)
        found = list(entries(connection, wanted, limit=limit))
        holds = standing(connection)
    if as_json:
        _print({"found": total, "entries": [as_plain(one) for one in found]})
        return
    _print([standing_line(holds)])
    _print(line for one in found for line in list_lines(one))
    if total > len(found):
        _print([f"and {total - len(found):,} more; --limit shows them, or narrow it down"])
    elif not total and holds.entries:
        _print(["none of them is what was asked for"])


@log.command("why")
def why(
    file: LogFile,
    request: RequestId = None,
    content: ContentFile = None,
    text: Text = None,
    digest: Digest = None,
    entry: Number = None,
    since: Since = None,
    until: Until = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="every time it was asked, and not only the last")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say why a content got its decision: by the request's id, or by the content itself.

    Ends with 1 when the log holds no such decision.
    """
    from spinf_serve.server.decision_log.entries import as_plain
    from spinf_serve.server.decision_log.reading import count, entries, pack_facts

    wanted = _named(request, content, text, digest, entry, since, until)
    with _opened(file) as connection:
        total = count(connection, wanted)
        # A request may have many contents, and each has its own reason.
        every = all_of_them or request is not None
        found = list(entries(connection, wanted, limit=None if every else 1))
        digests = {one.digest for each in found for one in each.decided}
        packs = {one: pack_facts(connection, one) for one in digests}
    if not found:
        _print(["the log holds no such decision"])
        raise typer.Exit(1)
    if as_json:
        facts = {one.digest: dict(one.facts) for one in packs.values()}
        _print({"found": total, "entries": [as_plain(one) for one in found], "packs": facts})
        return
    for number, one in enumerate(found):
        _print(["", "=" * 72] if number else [])
        _print(why_page(one, packs, file))
    if total > len(found):
        earlier = f"{total - 1:,} times before; --all shows each"
        _print(["", f"the content was asked about {earlier}"])


@log.command("show")
def show(
    file: LogFile,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="of the entry")],
    as_request: Annotated[
        bool, typer.Option("--as-request", help="the body of /v1/score that asks for it again")
    ] = False,
    content: ContentFile = None,
) -> None:
    """Print an entry as JSON, all of it."""
    from spinf_serve.server.decision_log.asking_again import request_of
    from spinf_serve.server.decision_log.entries import as_plain, content_digest
    from spinf_serve.server.decision_log.reading import Wanted, entries

    with _opened(file) as connection:
        found = next(entries(connection, Wanted(ids=[number])), None)
    if found is None:
        raise Unusable(f"{shown(file)} has no entry {number}; `spinf-serve log list` shows numbers")
    if not as_request:
        _print(as_plain(found))
        return
    texts = [None] if content is None else _texts(content)
    whole = next((one for one in texts if one and content_digest(one) == found.digest), texts[0])
    _print(request_of(found, whole))


@log.command("export")
def export(
    file: LogFile,
    to: Annotated[
        Path, typer.Argument(metavar="FILE", help=".jsonl; - for stdout", show_default=False)
    ],
    since: Since = None,
    until: Until = None,
    pack: PackId = None,
    unsafe: Unsafe = None,
    flagged: Flagged = None,
    band: Band = None,
    caller: CallerName = None,
    sample: Sample = None,
    without_text: Annotated[
        bool, typer.Option("--without-text", help="leave texts and parameters out")
    ] = False,
) -> None:
    """Write entries to a file, an object a line, the oldest first."""
    from spinf_serve.server.decision_log.entries import as_plain
    from spinf_serve.server.decision_log.reading import entries

    wanted = _wanted(since, until, pack, unsafe, flagged, band, caller, sample)

    def lines(connection: sqlite3.Connection) -> Iterator[bytes]:
        for one in entries(connection, wanted, newest_first=False):
            plain = as_plain(one)
            if without_text:
                del plain["text"], plain["parameters"]
            yield json.dumps(plain, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"

    with _opened(file) as connection:
        if str(to) == "-":
            for line in lines(connection):
                write_stdout(line)
            return
        check_output("FILE", to, {"the log": file})
        count = _write(to, lines(connection))
    _print([f"{count:,} entries written to {shown(to)}"])


@log.command("delete")
def delete(
    file: LogFile,
    request: RequestId = None,
    content: ContentFile = None,
    text: Text = None,
    digest: Digest = None,
    entry: Number = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete a content everywhere in the log, or a request, or one entry; the sample's copies too.

    What is deleted is overwritten. Copies that were exported or imported elsewhere stay there.
    """
    from spinf_serve.server.decision_log.removing import remove

    wanted = _named(request, content, text, digest, entry)
    with _opened(file, write=True) as connection:
        _removed(remove(connection, wanted, dry_run=dry_run), dry_run, as_json)


@log.command("prune")
def prune(
    file: LogFile,
    days: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="that entries stay")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete what is older than some days, as a server with --log-days does by itself."""
    from spinf_serve.server.decision_log.removing import remove_older

    before = int(time.time()) - days * _DAY_SECONDS
    with _opened(file, write=True) as connection:
        _removed(remove_older(connection, before, dry_run=dry_run), dry_run, as_json)


@log.command("verify")
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

    Entries without their text, or of another model, cannot be compared and are counted.
    """
    from spinf_serve.asking import asker
    from spinf_serve.server.decision_log.checking import Asked, ask_again, askable, damage

    with _opened(file) as connection:
        damaged = list(damage(connection))
        drawn = askable(connection, rows, seed)
    found = Asked(0, (), 0, ())
    if drawn:
        with asker(config, server) as ask, interruptible(), progress("asking again"):
            found = ask_again(drawn, ask)
    if as_json:
        _print({"damage": damaged, **asdict(found)})
    else:
        _print(_verified(damaged, found, rows))
    if damaged or found.different:
        raise typer.Exit(1)


def _verified(damaged: list[str], found: "Asked", rows: int) -> Iterator[str]:
    yield from damaged or ["the file is whole, and every kept text has its digest"]
    for id, line in found.different[:_SHOWN]:
        yield f"entry {id}: {line}"
    if len(found.different) > _SHOWN:
        yield f"and {len(found.different) - _SHOWN:,} more differences"
    for id, line in found.refused[:_SHOWN]:
        yield f"entry {id} got no answer: {line}"
    if found.other:
        yield f"{found.other:,} entries are of another model or machine and were not compared"
    if found.asked:
        same = "differ somewhere" if found.different else "came out the same, bit for bit"
        yield f"{found.asked:,} entries asked again; their scores and decisions {same}"
    elif rows:
        yield "no entry could be asked again: that takes kept texts (--log-content) and a pack"


@log.command("drift")
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
        _print({"word": found.word, "entries": now.entries, "outcomes": outcomes})
    else:
        _print(drift_lines(now.entries, now.contents, now.rates, found))
    raise typer.Exit(found.exit_code)


def _write(path: Path, lines: Iterable[bytes]) -> int:
    """Write a file beside and put it in place; how many lines it has. Raises `Unusable`."""
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    count = 0
    try:
        with beside.open("xb") as out:
            for line in lines:
                out.write(line)
                count += 1
        beside.replace(path)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
    return count


def _removed(found: "Removed", dry_run: bool, as_json: bool) -> None:
    if as_json:
        _print(
            {
                "dry_run": dry_run,
                "entries": found.entries,
                "samples": found.samples,
                "overwritten": found.overwritten,
            }
        )
        return
    does = "would delete" if dry_run else "deleted"
    _print([f"{does} {found.entries:,} entries, {found.samples:,} of them of the random sample"])
    if not dry_run and not found.overwritten:
        line = (
            "somebody is reading the log, so that what was deleted may still stand in the file"
            " LOG-wal: run the same again in a while"
        )
        _print([line])


def _named(
    request: str | None,
    content: Path | None,
    text: str | None,
    digest: str | None,
    entry: int | None,
    since: str | None = None,
    until: str | None = None,
) -> "Wanted":
    """Which entries one of the ways to name them means."""
    from spinf_serve.server.decision_log.entries import content_digest
    from spinf_serve.server.decision_log.reading import Wanted

    given = [one for one in (request, content, text, digest, entry) if one is not None]
    if len(given) != 1:
        raise Unusable(
            "say which decision by one of --request ID, --content FILE, --text TEXT, --digest"
            f" SHA256 and --entry NUMBER; {len(given)} are given"
        )
    digests: list[str] | None = None
    if content is not None:
        digests = [content_digest(one) for one in _texts(content)]
    elif text is not None:
        digests = [content_digest(text)]
    elif digest is not None:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise Unusable(f"--digest {digest}: a SHA-256 has 64 digits of 0-9 and a-f")
        digests = [digest]
    return Wanted(
        ids=None if entry is None else [entry],
        request=request,
        digests=digests,
        since=None if since is None else when(since, "--since"),
        until=None if until is None else when(until, "--until"),
    )


def _texts(file: Path) -> list[str]:
    """A file's text, and that without the line end that editors put behind it."""
    try:
        if str(file) == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            text = read_regular(file, _MAX_CONTENT_BYTES).decode()
    except OSError as error:
        raise Unusable(f"--content {shown(file)} cannot be read: {error.strerror}") from None
    except ValueError:
        raise Unusable(f"--content {shown(file)} is not text in UTF-8") from None
    bare = text.removesuffix("\n").removesuffix("\r")
    return [text] if bare == text else [text, bare]


def _wanted(
    since: str | None,
    until: str | None,
    pack: str | None,
    unsafe: bool | None,
    flagged: str | None,
    band: str | None,
    caller: str | None,
    sample: bool | None,
) -> "Wanted":
    from spinf_serve.server.decision_log.reading import Wanted

    if band not in (None, "act", "review", "pass"):
        raise Unusable(f"--band {band}: write act, review or pass")
    return Wanted(
        caller=caller,
        since=None if since is None else when(since, "--since"),
        until=None if until is None else when(until, "--until"),
        drawn=sample,
        pack=pack,
        unsafe=unsafe,
        band=band,
        category=flagged,
    )


@contextmanager
def _opened(file: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    from spinf_serve.server.decision_log.tables import connect, unreadable

    with closing(connect(file, write=write)) as connection:
        try:
            yield connection
        except sqlite3.Error as fault:
            raise unreadable(file, fault) from None


def _print(told: dict[str, Any] | Iterable[str]) -> None:
    lines = [json.dumps(told, ensure_ascii=False, indent=1)] if isinstance(told, dict) else told
    text = "".join(f"{line}\n" for line in lines)
    # Texts and ids of callers may hold anything.
    write_stdout(text.encode(errors="backslashreplace"))
