"""Flags of commands, made from the table of settings, and the extras that a command needs."""

import inspect
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import default_of, load, unknown_variables
from spinf_serve.server.setting_forms import Switch, Texts
from spinf_serve.server.settings import Setting, Table, settings_of
from spinf_serve.streams import complain

ENGINE_PACKAGES = ("torch", "tokenizers", "huggingface_hub")
SERVER_PACKAGES = (
    "fastapi",
    "httptools",
    "jinja2",
    "prometheus_client",
    "python_multipart",
    "uvicorn",
    "zstandard",
)
EVALS_PACKAGES = ("duckdb", "openpyxl", "scipy", "sklearn")
GPU_PACKAGES = ("triton",)


def takes_settings(
    *tables: Table, also: tuple[str, ...] = (), positional: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command a flag per setting of some tables, and the result as argument `config`.

    Args:
        also: single settings of other tables.
        positional: whether the model is an argument; else it is `--model`.
    """
    chosen = [
        s for s in settings_of("engine", "server", "limits") if s.table in tables or s.name in also
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(config: Path | None, **given: Any) -> None:
            flags = {setting.name: given.pop(setting.name) for setting in chosen}
            for line in unknown_variables():
                complain(f"warning: {line}")
            command(config=load(flags, file=config), **given)

        own = [p for p in inspect.signature(command).parameters.values() if p.name != "config"]
        file = inspect.Parameter(
            "config",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Path | None,
                typer.Option("--config", metavar="FILE", help="a TOML file of settings"),
            ],
        )
        parameters = [*own, *(_parameter(setting, positional) for setting in chosen), file]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        )
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


def _parameter(setting: Setting, positional: bool) -> inspect.Parameter:
    default = default_of(setting)
    shown = "" if default is None else f" (default {default})"
    help_line = setting.help + ("" if isinstance(setting.form, Switch) else shown)
    annotation: Any
    flag = setting.flag if not setting.positional else f"--{setting.name}"
    if setting.positional and positional:
        annotation = Annotated[
            str | None, typer.Argument(metavar="MODEL", help=help_line, show_default=False)
        ]
    elif isinstance(setting.form, Switch):
        off = f"--no-{setting.flag.removeprefix('--')}"
        annotation = Annotated[bool | None, typer.Option(f"{setting.flag}/{off}", help=help_line)]
    elif isinstance(setting.form, Texts):
        annotation = Annotated[
            list[str] | None,
            typer.Option(flag, metavar=setting.form.placeholder, help=setting.help),
        ]
    else:
        annotation = Annotated[
            str | None,
            typer.Option(flag, metavar=setting.form.placeholder, help=help_line),
        ]
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def require(packages: tuple[str, ...]) -> None:
    """Raises `Unusable` with the remedy when a package of the extras is not installed."""
    for name in packages:
        if find_spec(name) is None:
            if name in GPU_PACKAGES:
                raise Unusable(f"{name} is not installed; `pip install {name}`")
            extras = "cpu,evals" if name in EVALS_PACKAGES else "cpu"
            raise Unusable(
                f"{name} is not installed; in the checkout of spinf-serve run `make setup` or "
                f"`pip install -c constraints.txt -e '.[{extras}]'`"
            )
