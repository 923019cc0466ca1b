"""Settings of the server and where they come from: flag, environment, file, default, in that order.

Defaults stand in the dataclasses only. Knows neither HTTP nor the command line.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.setting_forms import Value
from spinf_serve.server.settings import PREFIX, SETTINGS, Setting, Table, settings_of

CONFIG_ENV = f"{PREFIX}CONFIG"
# Read by spinf-client from the same environment; not ours, so not worth a warning.
_CLIENT_ENV = frozenset({"SPINF_API_URL", "SPINF_API_KEY"})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server is started.

    Attributes:
        engine: how its engine is opened.
        limits: largest sizes it accepts.
        host: address to listen on.
        port: port to listen on; 0 lets the system choose.
        token: bearer token that calls must carry; None leaves the server open.
        trusted_token: bearer token with the rights of a trusted caller.
        keys: named keys of callers, a line each as `spinf_serve.server.keys` reads them.
        keys_file: file of such lines; None for none.
        trunk_cache_bytes: device memory for contents that were read, see `EngineConfig`.
        queue: requests that may wait for a pass; one more is answered 429.
        queue_bytes: bodies of requests in work, together.
        queue_tokens: tokens of requests in work, together.
        request_seconds: how long an answer may take.
        max_body_bytes: largest request body.
        body_idle_seconds: how long a request's body may pause while it arrives.
        head_seconds: how long the head of a request may take to arrive.
        answer_idle_seconds: how long a client may leave its answer unread.
        keepalive_seconds: how long an idle connection stays open.
        shutdown_seconds: how long requests in work may take once the server is to end.
        drain_seconds: how long it goes on answering 503 once it is to end, before it does.
        stuck_seconds: how long a pass may take before the engine counts as stuck.
        open_metrics: whether the metrics need no token.
        cors_origin: origins whose pages may call.
        log_format: lines for people or for programs.
        debug: whether every caller sees the extra counters that a trusted one sees.
        extraction: whether slots for free answers are searched.
        generation: whether text is written.
        max_completion_tokens: most tokens that one completion may have.
        packs: further sources of packs, folders or `github:owner/repo[@ref][#folder]`.
        official_packs: whether the packs that come with this package are served.
        strict_packs: whether a pack is refused whose proof was made on another model.
        packs_refresh: whether sources elsewhere are asked again which commit a tag is.
        packs_cache: folder for fetched and parsed packs; None takes the user's cache folder.
        github_token: of someone who may read private sources.
        decision_log: SQLite file of what was decided and why; None keeps none.
        log_content: whether the log keeps texts never, of a random sample, or always.
        log_sample: chance of each content to be drawn for the random sample, 0 to 1.
        log_answers: whether the log keeps answers to own questions and the z of every read.
        log_days: how long an entry of the log stays; None for ever.
        batch_dir: folder for batch files; None keeps none and has their routes refuse.
        batch_rows: rows of batch files that may be in work at once.
        batch_days: how long files are kept, and batches after their end.
        max_batch_file_bytes: largest file that may be uploaded.
        max_batch_dir_bytes: bytes of all files together, above which uploads are refused.
    """

    engine: EngineConfig = field(default_factory=EngineConfig)
    limits: Limits = field(default_factory=Limits)
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    trusted_token: str | None = field(default=None, repr=False)
    keys: tuple[str, ...] = field(default=(), repr=False)
    keys_file: str | None = None
    trunk_cache_bytes: int | None = None
    queue: int = 64
    queue_bytes: int = 64 * 1024 * 1024
    queue_tokens: int = 4_000_000
    request_seconds: int = 600
    max_body_bytes: int = 2 * 1024 * 1024
    body_idle_seconds: int = 30
    head_seconds: int = 20
    answer_idle_seconds: int = 60
    keepalive_seconds: int = 75
    shutdown_seconds: int = 30
    drain_seconds: int = 0
    stuck_seconds: int = 300
    open_metrics: bool = False
    cors_origin: tuple[str, ...] = ()
    log_format: str = "text"
    debug: bool = False
    extraction: bool = True
    generation: bool = True
    max_completion_tokens: int = 1024
    packs: tuple[str, ...] = ()
    official_packs: bool = True
    strict_packs: bool = False
    packs_refresh: bool = False
    packs_cache: str | None = None
    github_token: str | None = field(default=None, repr=False)
    decision_log: str | None = None
    log_content: Literal["digest", "sample", "text"] = "digest"
    log_sample: float = 0.01
    log_answers: bool = False
    log_days: int | None = None
    batch_dir: str | None = None
    batch_rows: int = 32
    batch_days: int = 30
    max_batch_file_bytes: int = 200 * 1024 * 1024
    max_batch_dir_bytes: int = 20 * 1024 * 1024 * 1024


_BY_NAME = {setting.name: setting for setting in SETTINGS}


def default_of(setting: Setting) -> Value | None:
    """The value of a setting when nobody sets it; None where that means "not set"."""
    owner = {"engine": EngineConfig(), "server": ServerConfig(), "limits": Limits()}[setting.table]
    value: Value | None = getattr(owner, setting.name)
    return value


def load(
    flags: Mapping[str, str | bool | Sequence[str] | None],
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
) -> ServerConfig:
    """The configuration from flags, environment and file.

    Args:
        flags: setting name -> what the command line gave, None where it gave nothing.
        environ: the environment; only names of settings are read.
        file: a TOML file; when None, the one that `SPINF_CONFIG` names, if any.

    Raises:
        Unusable: a value is not acceptable, or the file cannot be read or has an unknown key. The
            message names the setting, where its value came from, and what it takes.
    """
    named = file if file is not None else _config_path(environ)
    values = {} if named is None else _read_file(named)
    for setting in SETTINGS:
        if setting.env in environ:
            values[setting.name] = _from_text(setting, environ[setting.env], setting.env)
        given = flags.get(setting.name)
        if isinstance(given, bool):
            values[setting.name] = given
        elif isinstance(given, str):
            values[setting.name] = _from_text(setting, given, setting.flag)
        elif given:
            value = setting.form.from_toml(list(given))
            if value is None:
                raise Unusable(_refusal(setting, setting.flag, list(given)))
            values[setting.name] = value
    left_open = frozenset(setting.name for setting in settings_of("limits")) - values.keys()
    return ServerConfig(
        engine=EngineConfig(**_part(values, "engine"), open_limits=left_open),
        limits=Limits(**_part(values, "limits")),
        **_part(values, "server"),
    )


def packs_cache(config: ServerConfig, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder for fetched and parsed packs: the setting's, or one in the user's cache folder."""
    if config.packs_cache is not None:
        return Path(config.packs_cache)
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spinf-serve" / "packs"


def share_cores(environ: MutableMapping[str, str] = os.environ) -> None:
    """Has waiting threads of the forward sleep and not spin; call before torch is imported.

    Where other programs use the cores, spinning takes the time of the very thread that is waited
    for: on two busy cores a forward took three times as long. A variable that is set stays.
    """
    environ.setdefault("OMP_WAIT_POLICY", "passive")


def unknown_variables(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """A line for each `SPINF_…` variable that no setting reads: a misspelling goes unnoticed."""
    known = {setting.env for setting in SETTINGS} | {CONFIG_ENV}
    strays = sorted(name for name in environ if name.startswith(PREFIX))
    # Compared without the prefix, which would make any two names look alike.
    bare = sorted(name.removeprefix(PREFIX) for name in known)
    return tuple(
        f"{name} is read by no setting{_near(name.removeprefix(PREFIX), bare, PREFIX)}"
        for name in strays
        if name not in known | _CLIENT_ENV
    )


def _config_path(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(CONFIG_ENV)
    return Path(named) if named else None


def _part(values: Mapping[str, Value], table: Table) -> dict[str, Any]:
    return {name: value for name, value in values.items() if _BY_NAME[name].table == table}


def _from_text(setting: Setting, text: str, source: str) -> Value:
    value = setting.form.from_text(text)
    if value is None:
        raise Unusable(_refusal(setting, source, text))
    return value


def _refusal(setting: Setting, source: str, value: object) -> str:
    shown = "" if setting.form.secret else f" {json.dumps(value, default=str, ensure_ascii=False)}"
    return f"{source}{shown}: it takes {setting.form.accepted}"


def _read_file(path: Path) -> dict[str, Value]:
    try:
        # Some editors begin a file with a byte order mark, which TOML does not know.
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as fault:
        raise Unusable(f"configuration file {path}: {fault.strerror}") from fault
    except ValueError as fault:
        raise Unusable(f"configuration file {path} is not TOML in UTF-8: {fault}") from fault
    values: dict[str, Value] = {}
    for key, raw, table in _entries(document, path):
        setting = _BY_NAME.get(key)
        dotted = f"{table}.{key}" if table else key
        if setting is None:
            raise Unusable(f"{path}: {dotted} is no setting{_near(key, _BY_NAME)}")
        if table not in (None, setting.table):
            raise Unusable(f"{path}: {dotted} belongs in the table [{setting.table}]")
        if key in values:
            raise Unusable(f"{path}: {key} stands both at the top and in [{setting.table}]")
        value = setting.form.from_toml(raw)
        if value is None:
            raise Unusable(_refusal(setting, f"{path}: {dotted} =", raw))
        values[key] = value
    return values


def _entries(
    document: Mapping[str, object], path: Path
) -> Iterable[tuple[str, object, Table | None]]:
    tables: tuple[Table, ...] = ("engine", "server", "limits")
    for key, raw in document.items():
        if not isinstance(raw, dict):
            yield key, raw, None
            continue
        table = next((known for known in tables if known == key), None)
        if table is None:
            raise Unusable(
                f"{path}: [{key}] is no table of settings{_near(key, tables)}; "
                f"the tables are {', '.join(tables)}"
            )
        for inner, value in raw.items():
            yield inner, value, table


def _near(name: str, known: Iterable[str], prefix: str = "") -> str:
    match = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {prefix}{match[0]}?" if match else ""
