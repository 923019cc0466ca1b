"""Writes the documents that are made from code: `python -m tests.support.documents` (`make fix`).

tests/test_docs.py compares what is made with what lies in docs/.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from spinf_serve.cli import app
from spinf_serve.packs.errors import CODES
from spinf_serve.server.config import SETTINGS, Setting, Table, settings_of

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
NOTE = "<!-- Made from code by `make fix`; change it there. -->\n\n"


def made() -> dict[str, str]:
    """File name -> text, for every document that is made from code."""
    return {"settings.md": settings(), "cli.md": commands(), "error-codes.md": error_codes()}


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
            default = "not set" if one.default is None else f"`{_shown(one)}`"
            text += (
                f"| `{one.name}` | `{one.flag}` | `{one.env}` | {default} | "
                f"{one.form.accepted} | {_cell(one.help)} |\n"
            )
    assert len(SETTINGS) == sum(len(settings_of(table)) for table in titles)
    return text


def _shown(setting: Setting) -> str:
    return (
        str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
    )


def commands() -> str:
    """Every command with its arguments and options."""
    text = f"""{NOTE}# Command line

Exit codes: 0 done; 1 a request was refused or a check failed; 2 the command cannot be carried out
as asked, with one line on stderr that says why. Settings can also come from the environment and a
file: [settings.md](settings.md).
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
