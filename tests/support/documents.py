"""Writes the documents that are made from code: `python -m tests.support.documents` (`make fix`).

tests/test_docs.py compares what is made with what lies in docs/.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import typer

from spinf_serve.cli import app
from spinf_serve.packs.errors import CODES
from spinf_serve.server.config import default_of
from spinf_serve.server.settings import SETTINGS, Setting, Table, settings_of
from tests.support import (
    api_page,
    gpu_documents,
    lint_document,
    marks,
    metrics_page,
    numbers_page,
    pack_documents,
    pack_figures,
    precision_page,
    promise_documents,
    real_page,
)

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
RESULTS = DOCS.parent / "evals" / "bench" / "results"
NOTE = "<!-- Made from code by `make fix`; change it there. -->\n\n"


def made() -> dict[str, str]:
    """File name -> text, for every document that is made from code."""
    return {
        "settings.md": settings(),
        "cli.md": commands(),
        "error-codes.md": error_codes(),
        "metrics.md": metrics_page.page(NOTE),
        "openapi.json": api_page.openapi_text(),
        "api.md": api_page.page(NOTE),
        "figures.md": figures(),
        "gpu.md": gpu_documents.page(NOTE),
        "packs.md": pack_documents.page(),
        "lint.md": lint_document.page(NOTE),
        "numbers.md": numbers_page.page(NOTE),
        "promises.md": promise_documents.page(NOTE, RESULTS),
        "real-data.md": real_page.page(),
        "../packs/pack.schema.json": pack_documents.schema(),
        **pack_figures.pages(),
    }


def figures() -> str:
    """What was measured, a column per file of evals/bench/results."""
    files = sorted(RESULTS.glob("cpu-*.json"))
    found = [json.loads(file.read_text()) for file in files]
    text = f"""{NOTE}# Measured figures

{marks.section(RESULTS)}
## On two cores

Each column is one file of `evals/bench/results/`, which also holds the raw times of every run and the
digest of all answers. The job is 24 made-up contents of about 466 tokens with 56 two-option questions
of about 14.5 tokens each, read with every cache empty and floors included. Device time is the forward;
host time is everything else: tokenising, tries, passes, index tensors, answers.

The comparison asks the same questions about two of the contents of transformers, with the same weights
in the same process, in turns, medians: *one by one* is a forward per prompt, *cached prefix* reads the
content once and all questions as one padded batch behind it. Neither side computes floors there.

"""
    rows: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("command", lambda f: f"`{f['command']}`"),
        ("commit", lambda f: f"`{f['commit']}`"),
        ("machine", lambda f: f"{f['processor']}, {f['threads']} threads, torch {f['torch']}"),
        ("model", lambda f: f"{f['model']}, {f['dtype']}"),
        ("tokens of the trees", lambda f: f"{f['tree_tokens']:,}"),
        ("rows read, with floors", lambda f: f"{f['rows']:,}"),
        ("questions a second", lambda f: f"{f['questions_per_second']:.1f}"),
        ("tokens a second", lambda f: f"{f['tokens_per_second']:.0f}"),
        ("device time", lambda f: f"{median(f['forward_seconds']):.1f} s"),
        ("host time", lambda f: f"{median(f['host_seconds']) * 1000:.0f} ms"),
        ("loading, after `import torch`", lambda f: f"{f['load_seconds']:.2f} s"),
        ("peak resident memory", lambda f: f"{f['peak_rss_mib']:.0f} MiB"),
    ]
    for way in ("one by one", "cached prefix"):
        rows += [
            (f"times as fast as transformers, {way}", partial(_against, "ratios", way, ".2f")),
            (
                f"largest difference of a logprob, {way}",
                partial(_against, "largest_logprob_difference", way, ".1e"),
            ),
        ]
    text += "| | " + " | ".join(f"`{file.name}`" for file in files) + " |\n"
    text += "|---" * (len(files) + 1) + "|\n"
    for title, cell in rows:
        text += f"| {title} | " + " | ".join(cell(one) for one in found) + " |\n"
    text += _http_cost(json.loads((RESULTS / "http-cost.json").read_text()))
    packs = json.loads((RESULTS / "packs-load.json").read_text())
    text += f"""
## Loading the official packs

Milliseconds of a fresh process that loads all {packs["packs"]} official packs ({packs["questions"]}
questions) without torch, Python's own start included (medians):
`{packs["command"]}` at `{packs["commit"]}` on {packs["processor"]}.

| parsed packs in the cache, as from the second start on | nothing in the cache | Python alone |
|---|---|---|
| {median(packs["warm_seconds"]) * 1000:.0f} | {median(packs["cold_seconds"]) * 1000:.0f} \
| {packs["empty_python_seconds"] * 1000:.0f} |
"""
    text += _under_load(json.loads((RESULTS / "mixed-load.json").read_text()))
    text += _overloaded(json.loads((RESULTS / "overload.json").read_text()))
    text += _workbench(json.loads((RESULTS / "workbench.json").read_text()))
    text += _suite(json.loads((RESULTS / "jevcompat.json").read_text()))
    text += _kept_contents(json.loads((RESULTS / "trunk-cache.json").read_text()))
    return text + gpu_documents.figures(RESULTS) + precision_page.section(RESULTS)


def _http_cost(found: Any) -> str:
    """What the server's process spends on a request besides the engine."""
    text = f"""
## What HTTP costs

Milliseconds for a request of 24 contents with 56 two-option questions each:
`{found["command"]}` at `{found["commit"]}` on {found["processor"]}. The mark is of the last column: the
processor time of the server's process, which holds neither the client nor, taken off, the stub that
stands for the engine (medians). The parts before are single functions on one thread (best of 15); what
they leave out is reading the socket, compiling, the queue, threads that hand over, and writing.

| questions | decode | read | usage and warnings | build and encode | these four | wall over HTTP | \
server's process | stub in it | **without the stub** |
|---|---|---|---|---|---|---|---|---|---|
"""
    columns = (
        *("decode", "read", "usage and warnings", "build and encode", "sum of the parts"),
        *("over HTTP, wall", "server's process", "of which the stub", "server without the stub"),
    )
    for name, one in found["milliseconds"].items():
        cells = (f"{one[column]:.1f}" if column in one else "–" for column in columns)
        text += f"| {name} | {' | '.join(cells)} |\n"
    return text


def _workbench(found: Any) -> str:
    """How quick the workbench's pages are."""
    rows, many = found["rows"], found["many"]
    text = "\n## The workbench\n\n"
    text += (
        f"In chromium on the same machine: `{found['command']}` at `{found['commit']}` on"
        f" {found['processor']}. A page has changed when everything on it is drawn; the first visit of"
        " a page does what is kept for later ones. First paint:"
        f" {rows['first_paint_seconds']['median']:.1f} s. Memory of the process, all pages visited:"
        f" {rows['memory_mib']} MiB with {rows['rows']:,} rows, {many['memory_mib']} MiB with"
        f" {many['rows']:,} (looked at after every page; for moments up to 500 were seen).\n\n"
    )
    text += (
        f"| Page | {rows['rows']:,} rows: later, first | {many['rows']:,} rows: later, first |\n"
    )
    text += "|---|---|---|\n"
    for page, one in rows["page_change_seconds"].items():
        other = many["page_change_seconds"][page]
        text += (
            f"| {page} | {one['median']:.2f} s, {one['first']:.2f} s |"
            f" {other['median']:.2f} s, {other['first']:.2f} s |\n"
        )
    return text


def _overloaded(found: Any) -> str:
    """Four times the queue at once, before and after refusals by the head."""
    text = f"""
## Four times as many at once as the queue takes

{found["requests_at_once"]} requests come together to a server whose queue takes {found["queue"]}, on
{found["cores"]} cores that the model computes on as well:
`{found["command"]}` on {found["processor"]}. What came beyond was answered 429, all others 200, and
{found["health_route"]}, always 200. The slowest answers, ms, a number for each time:

| commit | connections | 429 | health |
|---|---|---|---|
"""
    for side in ("before", "after"):
        for name in ("new connections", "connections open before"):
            one = found[side][name]
            refused, health = (
                ", ".join(f"{value:.0f}" for value in one[f"{kind}_slowest_ms"])
                for kind in ("refused", "health")
            )
            text += f"| `{found[side]['commit']}` | {name} | {refused} | {health} |\n"
    return text


def _suite(found: Any) -> str:
    """The published suite of the System One format."""
    text = f"""
## The System One suite on the embedded model

`{found["command"]}` at `{found["commit"]}`, jevcompat {found["jevcompat"]}. CI runs it on an engine
without a model.

| server | MUST | SHOULD | failed | the suite says | seconds |
|---|---|---|---|---|---|
"""
    for side in ("open", "with a key"):
        one = found[side]
        must, should = one["MUST"], one["SHOULD"]
        text += (
            f"| {side} | {must['passed']} of {must['tested']} | {should['passed']} of "
            f"{should['tested']} | {must['failed'] + should['failed']} | {one['verdict']} | "
            f"{one['seconds']:.0f} |\n"
        )
    return text


def _under_load(load: dict[str, Any]) -> str:
    http, clients = load["http"], load["clients"]
    text = f"""
## Small requests beside large ones

{clients["small"]} clients with small requests and {clients["large"]} with large ones, each with one under
way, for a minute: `{load["command"]}` at `{load["commit"]}` on {load["processor"]}. A pass of
{load["token_budget"]} tokens took {http["pass_seconds"]:.1f} s and was {http["pass_fill"]:.0%} full;
{http["rows_per_s"]:.0f} tokens a second were read, {load["of_in_process"]:.2f} of what the same works take
in process in the same run. Every answer was {", ".join(http["statuses"])}.

| requests | answers | median, s | 99 % within, s | their ratio |
|---|---|---|---|---|
"""
    for name in clients:
        found = http[name]
        text += (
            f"| {name} | {found['answers']} | {found['p50_seconds']:.1f} | "
            f"{found['p99_seconds']:.1f} | {found['p99_of_p50']:.2f} |\n"
        )
    return text


def _kept_contents(kept: dict[str, Any]) -> str:
    text = f"""
## Contents kept on the device

20 questions about a content of {kept["content_tokens"]} tokens, and 20 others about it again, with reads
of contents kept and without; bits are equal: `{kept["command"]}` at `{kept["commit"]}` on
{kept["processor"]}, {kept["model"]}, {kept["dtype"]}, {kept["threads"]} thread, medians.

| asked | tokens read, kept | seconds, kept | tokens read, read again | seconds, read again |
|---|---|---|---|---|
"""
    for name, found in kept["asks"].items():
        cells = [
            f"{found[way]['rows']} | {found[way]['seconds']:.2f}" for way in ("kept", "read again")
        ]
        text += f"| {name} | {' | '.join(cells)} |\n"
    return text


def _against(what: str, way: str, form: str, figures: dict[str, Any]) -> str:
    return format(figures["against"][what][way], form)


def settings() -> str:
    """Every setting with its flag, variable, default and meaning, by the tables of the file."""
    text = f"""{NOTE}# Settings

A setting given on the command line wins over its environment variable, that over the file named by
`--config` or `SPINF_CONFIG`, that over the default. The file is TOML; settings stand in the tables
below or at the top. Unknown keys are refused; an unknown `SPINF_…` variable is a warning.

```toml
model = "embedded"

[server]
port = 8080

[limits]
max_options = 100
```
"""
    titles: dict[Table, str] = {
        "engine": "How the model is opened",
        "server": "The server",
        "limits": "Limits: largest sizes accepted, per request unless said",
    }
    for table, title in titles.items():
        text += f"\n## `[{table}]` {title}\n\n"
        text += (
            "| Key | Flag | Variable | Default | Takes | What it is |\n|---|---|---|---|---|---|\n"
        )
        for one in settings_of(table):
            default = "not set" if default_of(one) is None else f"`{_shown(one)}`"
            text += (
                f"| `{one.name}` | `{one.flag}` | `{one.env}` | {default} | "
                f"{one.form.accepted} | {_cell(one.help)} |\n"
            )
    assert len(SETTINGS) == sum(len(settings_of(table)) for table in titles)
    return text


def _shown(setting: Setting) -> str:
    default = default_of(setting)
    return str(default).lower() if isinstance(default, bool) else str(default)


def commands() -> str:
    """Every command with its arguments and options."""
    text = f"""{NOTE}# Command line

Exit codes: 0 done; 1 a request was refused, a check failed, or nobody reads the output any more; 2 the
command cannot be carried out as asked, with one line on stderr that says why; 130 interrupted by
Ctrl-C, which ends `serve` with 0. Settings can also come from the environment and a file:
[settings.md](settings.md).
"""
    for name, command in _walk("spinf-serve", typer.main.get_command(app)):
        text += f"\n## `{name}`\n\n{command.help.strip()}\n"
        shown = [parameter for parameter in command.params if parameter.name != "help"]
        shown.sort(key=lambda parameter: parameter.param_type_name != "argument")
        rows = [_row(parameter) for parameter in shown]
        if rows:
            text += "\n| | |\n|---|---|\n" + "".join(rows)
    return text


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for inner, below in sorted(getattr(command, "commands", {}).items()):
        yield from _walk(f"{name} {inner}", below)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = parameter.metavar or parameter.name.upper()
    else:
        names = ", ".join([*parameter.opts, *parameter.secondary_opts])
        shown = names if parameter.is_flag else f"{names} {parameter.metavar}"
    # A flag that is off and an option that is not given have no default worth telling.
    default = f" (default {parameter.default})" if parameter.default else ""
    return f"| `{_cell(shown)}` | {_cell(parameter.help)}{default} |\n"


def error_codes() -> str:
    """Every error code with its status."""
    text = f"""{NOTE}# Error codes

An error is answered with its status and this body; `param` is the dotted path of the field at
fault, or null.

```json
{{"error": {{"type": "invalid_request", "code": "too_many_options", "message": "…", "param": "scoring.queries.0.options"}}, "request_id": "scr_…"}}
```

429 and 503 carry `Retry-After` in seconds. A 4xx says that the same request cannot succeed.

`GET /v1/packs/{{id}}` answers `unknown_pack`, `unknown_pack_version` and `pack_not_available` with 404
and the type `not_found`, since its path names what is not there; so does `GET /v1/models/{{id}}` with
`model_not_served`. A route that does not exist is
answered 404 `{{"detail": "Not Found"}}`, a method that a route lacks 405
`{{"detail": "Method Not Allowed"}}`: these two have no code.

| Code | Status | Meaning |
|---|---|---|
"""
    return text + "".join(
        f"| `{code.name}` | {code.status} | {_cell(code.meaning)} |\n" for code in CODES.values()
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    for file, content in made().items():
        (DOCS / file).write_text(content, encoding="utf-8")
