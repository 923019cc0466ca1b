"""The `spinf-serve log` commands: what was decided and why, and taking it out of the log again."""

import json
import re
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spinf_serve.log_checks_cli import drift, verify
from spinf_serve.log_files import AsJson, LogFile, opened, print_told
from spinf_serve.log_pages import list_lines, standing_line, why_page
from spinf_serve.moments import Since, Until, when
from spinf_serve.outputs import check_output, write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular, shown

if TYPE_CHECKING:
    from spinf_serve.server.decision_log.reading import Wanted
    from spinf_serve.server.decision_log.removing import Removed

log = typer.Typer(
    help="The decision log: what was decided, why, and taking it out again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_MAX_CONTENT_BYTES = 64 * 1024 * 1024
_DAY_SECONDS = 86_400

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
    with opened(file) as connection:
        total = count(connection, wanted)
        found = list(entries(connection, wanted, limit=limit))
        holds = standing(connection)
    if as_json:
        print_told({"found": total, "entries": [as_plain(one) for one in found]})
        return
    print_told([standing_line(holds)])
    print_told(line for one in found for line in list_lines(one))
    if total > len(found):
        print_told([f"and {total - len(found):,} more; --limit shows them, or narrow it down"])
    elif not total and holds.entries:
        print_told(["none of them is what was asked for"])


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
    with opened(file) as connection:
        total = count(connection, wanted)
        # A request may have many contents, and each has its own reason.
        every = all_of_them or request is not None
        found = list(entries(connection, wanted, limit=None if every else 1))
        digests = {one.digest for each in found for one in each.decided}
        packs = {one: pack_facts(connection, one) for one in digests}
    if not found:
        print_told(["the log holds no such decision"])
        raise typer.Exit(1)
    if as_json:
        facts = {one.digest: dict(one.facts) for one in packs.values()}
        print_told({"found": total, "entries": [as_plain(one) for one in found], "packs": facts})
        return
    for number, one in enumerate(found):
        print_told(["", "=" * 72] if number else [])
        print_told(why_page(one, packs, file))
    if total > len(found):
        earlier = f"earlier entries about the content: {total - 1:,}; --all shows each"
        print_told(["", earlier])


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

    with opened(file) as connection:
        found = next(entries(connection, Wanted(ids=[number])), None)
    if found is None:
        raise Unusable(f"{shown(file)} has no entry {number}; `spinf-serve log list` shows numbers")
    if not as_request:
        print_told(as_plain(found))
        return
    texts = [None] if content is None else _texts(content)
    whole = next((one for one in texts if one and content_digest(one) == found.digest), texts[0])
    print_told(request_of(found, whole))


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

    with opened(file) as connection:
        if str(to) == "-":
            for line in lines(connection):
                write_stdout(line)
            return
        check_output("FILE", to, {"the log": file})
        count = _write(to, lines(connection))
    print_told([f"{count:,} entries written to {shown(to)}"])


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
    with opened(file, write=True) as connection:
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
    with opened(file, write=True) as connection:
        _removed(remove_older(connection, before, dry_run=dry_run), dry_run, as_json)


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
        print_told(
            {
                "dry_run": dry_run,
                "entries": found.entries,
                "samples": found.samples,
                "overwritten": found.overwritten,
            }
        )
        return
    does = "would delete" if dry_run else "deleted"
    print_told(
        [f"{does} {found.entries:,} entries, {found.samples:,} of them of the random sample"]
    )
    if not dry_run and not found.overwritten:
        line = (
            "somebody is reading the log, so that what was deleted may still stand in the file"
            " LOG-wal: run the same again in a while"
        )
        print_told([line])


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


log.command()(verify)
log.command()(drift)
