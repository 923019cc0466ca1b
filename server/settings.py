"""The settings of the server: every one is a row of `SETTINGS`.

The command line's flags, docs/settings.md and the loader are made from them. Knows no defaults and no
places where values come from: `config` does.
"""

from dataclasses import dataclass
from typing import Literal

from spinf_serve.engine.config import (
    CPU_TOKEN_BUDGET,
    CPU_TRUNK_CACHE_BYTES,
    GPU_TOKEN_BUDGET,
)
from spinf_serve.server.setting_forms import Choice, Count, Share, Switch, Text, Texts, Token

Table = Literal["engine", "server", "limits"]

PREFIX = "SPINF_"


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
        return self.variable or f"{PREFIX}{self.name.upper()}"


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


def settings_of(*tables: Table) -> tuple[Setting, ...]:
    """The settings of some tables, in the order of `SETTINGS`."""
    return tuple(setting for setting in SETTINGS if setting.table in tables)
