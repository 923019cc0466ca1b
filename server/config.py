"""Settings of the server and where they come from: flag, environment, file, default, in that order.

Every setting is one row of `SETTINGS`; the command line's flags, docs/settings.md and the loader are
made from it. Defaults stand in the dataclasses only. Knows neither HTTP nor the command line.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from spinf_serve.engine.config import (
    CPU_TOKEN_BUDGET,
    CPU_TRUNK_CACHE_BYTES,
    GPU_TOKEN_BUDGET,
    EngineConfig,
)
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.setting_forms import Choice, Count, Share, Switch, Text, Texts, Token, Value

Table = Literal["engine", "server", "limits"]

_PREFIX = "SPINF_"
CONFIG_ENV = f"{_PREFIX}CONFIG"
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


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, the table of the file it belongs to, what it takes, a line of help."""

    name: str
    table: Table
    form: Text | Texts | Token | Count | Share | Choice | Switch
    help: str
    positional: bool = False
    variable: str = ""

    @property
    def flag(self) -> str:
        """Its spelling on the command line."""
        return "MODEL" if self.positional else f"--{self.name.replace('_', '-')}"

    @property
    def env(self) -> str:
        """Its environment variable; `variable` where other programs read the same one."""
        return self.variable or f"{_PREFIX}{self.name.upper()}"

    @property
    def default(self) -> Value | None:
        """The value when nobody sets it; None where that means "not set"."""
        owner = {"engine": EngineConfig(), "server": ServerConfig(), "limits": Limits()}[self.table]
        value: Value | None = getattr(owner, self.name)
        return value


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "model",
        "engine",
        Text("MODEL"),
        "`embedded`, a served model's id or alias, `owner/name@revision` on the hub, a folder with "
        "config.json and safetensors, or a .gguf file; auto: spinf/gemma-4-12b-fp8 on a card that "
        "computes in fp8 and has 24 GB, else `embedded`",
        positional=True,
    ),
    Setting(
        "device",
        "engine",
        Choice(("auto", "cpu", "cuda")),
        "what computes; auto: the NVIDIA card where there is a usable one, else the CPU",
    ),
    Setting(
        "quant",
        "engine",
        Choice(("auto", "fp8", "int8", "bf16")),
        "what the weights of linear layers are kept in on a card; auto: as the checkpoint stores "
        "them, else fp8 or int8, whichever the card computes in",
    ),
    Setting("dtype", "engine", Choice(("float32", "bfloat16")), "compute dtype on the CPU"),
    Setting(
        "token_budget",
        "engine",
        Count(128),
        "tokens read in one pass; work memory grows with it, scores do not depend on it; not set: "
        f"the model's own on a card, else {GPU_TOKEN_BUDGET} there, {CPU_TOKEN_BUDGET} on the CPU",
    ),
    Setting("threads", "engine", Count(1), "threads of the forward pass; not set: torch's choice"),
    Setting("offline", "engine", Switch(), "never ask the hub; use what its cache holds"),
    Setting(
        "prompt_style",
        "engine",
        Choice(("auto", "cloze", "chat")),
        "how /v1/systemone and /v1/decisions word their questions: a text that ends where the label "
        "goes, or a turn of a chat for models that were taught to follow instructions; auto: the "
        "model's own, cloze for one without a name of ours",
    ),
    Setting(
        "floor_cache_size",
        "engine",
        Count(0),
        "floors (answers on empty content) kept in memory, least recently used ones leave first",
    ),
    Setting("host", "server", Text("ADDRESS"), "address to listen on; 0.0.0.0 is every network"),
    Setting("port", "server", Count(0, 65535), "port to listen on; 0 lets the system choose"),
    Setting(
        "token",
        "server",
        Token(),
        "bearer token that every call but the health routes must carry; not set: open to all",
    ),
    Setting(
        "trusted_token",
        "server",
        Token(),
        "bearer token of trusted callers, who may lower limits and see more counters; not set: "
        "holders of `token` are trusted",
    ),
    Setting(
        "keys",
        "server",
        Texts("KEY", secret=True),
        "named keys that calls may carry beside `token`: `NAME: KEY` or `NAME trusted: KEY`, where "
        "KEY may be `sha256:` and its digest; may be given again",
    ),
    Setting(
        "keys_file",
        "server",
        Text("FILE"),
        "file of such keys, one a line; looked at every second, so keys come and go without a "
        "restart",
    ),
    Setting(
        "trunk_cache_bytes",
        "server",
        Count(0),
        "memory on the device for the keys and values of contents that were read: asked about again, "
        "such a content is not read again, and scores are the same; those used least recently leave "
        f"first; 0 keeps none; not set: {CPU_TRUNK_CACHE_BYTES} on the CPU, a quarter of what the "
        "model leaves on a card",
    ),
    Setting(
        "queue",
        "server",
        Count(1),
        "requests that may wait while passes run; one more is answered 429. Requests that wait "
        "together share passes, so a longer queue costs waiting time, not throughput",
    ),
    Setting(
        "queue_bytes",
        "server",
        Count(1024),
        "bytes of the bodies of requests in work, together; one that would go over it is answered "
        "429, unless it is alone. It bounds memory, as `queue_tokens` does",
    ),
    Setting(
        "queue_tokens",
        "server",
        Count(1),
        "tokens that are read for requests in work, together; one that would go over it is answered "
        "429, unless it is alone",
    ),
    Setting(
        "request_seconds",
        "server",
        Count(1),
        "how long an answer may take; then the request is dropped and answered 504. A call may allow "
        "for less with the header X-Request-Deadline-Ms",
    ),
    Setting("max_body_bytes", "server", Count(1024), "largest request body"),
    Setting(
        "body_idle_seconds",
        "server",
        Count(1),
        "how long a request's body may pause while it arrives; then it is answered 400",
    ),
    Setting(
        "head_seconds",
        "server",
        Count(1),
        "how long the head of a request may take to arrive; then it is answered 408 and the "
        "connection closed",
    ),
    Setting(
        "answer_idle_seconds",
        "server",
        Count(1),
        "how long a client may leave unread what is sent to it; then its connection is closed and "
        "what it asked for is dropped",
    ),
    Setting(
        "keepalive_seconds",
        "server",
        Count(1),
        "how long an idle connection stays open; keep it above that of a proxy in front",
    ),
    Setting(
        "shutdown_seconds",
        "server",
        Count(1),
        "how long requests in work may take after SIGTERM or Ctrl-C; then they are answered 503",
    ),
    Setting(
        "drain_seconds",
        "server",
        Count(0),
        "how long after SIGTERM or Ctrl-C new requests are answered 503 at the least, before the "
        "address is given up; set it to what a load balancer needs to see /readyz",
    ),
    Setting(
        "stuck_seconds",
        "server",
        Count(1),
        "how long one pass may take before /livez and /readyz say that the engine is stuck",
    ),
    Setting("open_metrics", "server", Switch(), "answer /metrics without a token"),
    Setting(
        "cors_origin",
        "server",
        Texts("ORIGIN"),
        "pages of this origin, such as https://example.org, may call from a browser; may be given "
        "again; not set: none may",
    ),
    Setting(
        "log_format",
        "server",
        Choice(("text", "json")),
        "log lines for people, or one JSON object a line; neither holds contents or tokens",
    ),
    Setting("debug", "server", Switch(), "show the counters of trusted callers to everybody"),
    Setting(
        "extraction",
        "server",
        Switch(),
        "search answers for the slots `{*}`, `{n}` and `{$}`, where the model can",
    ),
    Setting(
        "generation",
        "server",
        Switch(),
        "write text: in slots with `generate`, and on /v1/completions and /v1/chat/completions",
    ),
    Setting(
        "max_completion_tokens",
        "server",
        Count(1),
        "most tokens that one completion or answer of a chat may have, and how many it gets where a "
        "chat does not say",
    ),
    Setting(
        "packs",
        "server",
        Texts("SOURCE"),
        "further packs: a folder, or github:owner/repo[@ref][#folder]; may be given again",
    ),
    Setting("official_packs", "server", Switch(), "serve the packs that come with this package"),
    Setting(
        "strict_packs",
        "server",
        Switch(),
        "refuse a pack whose thresholds were proven on another model or number format, instead of "
        "warning",
    ),
    Setting(
        "packs_refresh",
        "server",
        Switch(),
        "ask again which commit a tag of a pack's source is, instead of remembering it",
    ),
    Setting(
        "packs_cache",
        "server",
        Text("FOLDER"),
        "where fetched and parsed packs are kept; not set: spinf-serve/packs in the user's cache",
    ),
    Setting(
        "github_token",
        "server",
        Token(),
        "token of someone who may read private sources of packs",
        variable="GITHUB_TOKEN",
    ),
    Setting(
        "decision_log",
        "server",
        Text("FILE"),
        "keep what was decided on which content and why in this SQLite file, see "
        "docs/decision-log.md; not set: nothing is kept",
    ),
    Setting(
        "log_content",
        "server",
        Choice(("digest", "sample", "text")),
        "what the decision log keeps of a content: its digest alone, the text of those drawn for "
        "the random sample, or every text",
    ),
    Setting(
        "log_sample",
        "server",
        Share(),
        "chance of each content to be drawn for the decision log's random sample, which labelling "
        "and drift checks read",
    ),
    Setting(
        "log_answers",
        "server",
        Switch(),
        "keep answers to the callers' own questions in the decision log too, and the z of every "
        "read of a pack in place of the strongest",
    ),
    Setting(
        "log_days",
        "server",
        Count(1),
        "days after which an entry of the decision log is deleted; not set: never",
    ),
    Setting(
        "batch_dir",
        "server",
        Text("FOLDER"),
        "where files of /v1/files and the state of /v1/batches are kept, for one server at a time; "
        "not set: those routes refuse",
    ),
    Setting(
        "batch_rows",
        "server",
        Count(1),
        "rows of batch files in work at once, behind everything that somebody waits for",
    ),
    Setting(
        "batch_days",
        "server",
        Count(1, 3650),
        "how long files are kept, and batches after their end; then they are deleted",
    ),
    Setting("max_batch_file_bytes", "server", Count(1024), "largest file that may be uploaded"),
    Setting(
        "max_batch_dir_bytes",
        "server",
        Count(1024),
        "bytes of all kept files together; above it uploads are refused",
    ),
    Setting("max_content_tokens", "limits", Count(1), "tokens of one content"),
    Setting("max_query_tokens", "limits", Count(1), "tokens of one filled template"),
    Setting("max_prompts_per_input", "limits", Count(1), "filled templates asked of one content"),
    Setting("max_processed_tokens", "limits", Count(1), "tokens read for one request"),
    Setting("max_options", "limits", Count(1), "options of one question"),
    Setting("max_option_tokens", "limits", Count(1), "tokens of one option"),
    Setting(
        "max_extractions_per_input",
        "limits",
        Count(1),
        "filled templates with a slot for a free answer, asked of one content",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def settings_of(*tables: Table) -> tuple[Setting, ...]:
    """The settings of some tables, in the order of `SETTINGS`."""
    return tuple(setting for setting in SETTINGS if setting.table in tables)


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
    strays = sorted(name for name in environ if name.startswith(_PREFIX))
    # Compared without the prefix, which would make any two names look alike.
    bare = sorted(name.removeprefix(_PREFIX) for name in known)
    return tuple(
        f"{name} is read by no setting{_near(name.removeprefix(_PREFIX), bare, _PREFIX)}"
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
