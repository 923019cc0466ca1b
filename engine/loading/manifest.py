"""Manifests: what is known in advance of the models this project serves by a name of its own.

A manifest is a TOML file in `engine/models/manifests`. Knows the format, not how a source is found.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from importlib import resources
from types import MappingProxyType
from typing import Final, Literal, TypeVar

from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.work import Limits, PromptStyle
from spinf_serve.packs.errors import Unusable

_Kind = TypeVar("_Kind")

_CAPABILITIES: Final = ("score", "extract", "generate")
_MEDIA: Final = ("image", "audio", "video")
_FAMILIES: Final = ("llama", "gemma3", "gemma4")
_PROMPT_STYLES: Final[tuple[PromptStyle, ...]] = ("cloze", "chat")
_LIMITS: Final = tuple(field.name for field in fields(Limits))
_MAX_TOKENS: Final = "max_tokens"
_TOKEN_BUDGET: Final = "token_budget"
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._/-]*")

UNPINNED: Final = "unpinned"
"""The revision of a hub source whose commit is not settled: the newest one of the repository."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model's weights come from.

    Attributes:
        kind: `embedded` is a file inside an installed Python package, `hub` a repository.
        package: name of the package on the package index; embedded only.
        repo: `owner/name`; hub only.
        revision: version of the package, or commit (40 hex digits) of the repository, or `UNPINNED`.
        file: the GGUF file, or None for a folder of safetensors.
        sha256: of the file; None only together with `file`.
    """

    kind: Literal["embedded", "hub"]
    package: str | None
    repo: str | None
    revision: str
    file: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A served model, in advance.

    Attributes:
        served: what the server tells about it.
        source: where its weights come from.
        license: SPDX name, or the name of its terms.
        limits: fields of `Limits` that this model sets.
        max_tokens: longest content with its longest prompt and option, in tokens; None leaves what
            the checkpoint says.
        token_budget: rows of one pass on a GPU, or None.
    """

    served: ServedModel
    source: Source
    license: str
    limits: Mapping[str, int]
    max_tokens: int | None = None
    token_budget: int | None = None


def read_manifests() -> tuple[Manifest, ...]:
    """The manifests that come with this package, by id.

    Raises `Unusable` for a broken one, and when two claim one name.
    """
    folder = resources.files("spinf_serve.engine.models") / "manifests"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".toml")),
        key=lambda file: file.name,
    )
    manifests = tuple(parse_manifest(file.read_text("utf-8"), file.name) for file in files)
    owners: dict[str, str] = {}
    for manifest in manifests:
        for name in names(manifest):
            owner = owners.setdefault(name, manifest.served.id)
            if owner != manifest.served.id:
                raise Unusable(f"manifests: {owner} and {manifest.served.id} both claim {name}")
    return manifests


def names(manifest: Manifest) -> tuple[str, ...]:
    """Everything the model answers to, its id first."""
    served = manifest.served
    return tuple(dict.fromkeys((served.id, served.name, *served.aliases)))


def parse_manifest(text: str, where: str) -> Manifest:
    """Read one manifest, strictly.

    Args:
        text: TOML.
        where: name of the file, for errors.

    Raises `Unusable` naming the file, the key and what is wrong with it.
    """
    try:
        table = _Table(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise Unusable(f"{where}: not valid TOML ({error})") from error
    source = _source(table.table("source"))
    lint = table.table("lint") if table.has("lint") else None
    limits = _limits(table)
    manifest = Manifest(
        served=ServedModel(
            id=table.matching("id", _ID, "lower-case letters, digits and ._/-"),
            name=table.text("name"),
            description=table.text("description"),
            release_date=_date(table),
            aliases=table.texts("aliases"),
            base_model=table.text("base_model"),
            family=table.one_of("family", _FAMILIES),
            capabilities=table.some_of("capabilities", _CAPABILITIES),
            media=table.some_of("media", _MEDIA),
            stand_in=table.value("stand_in", bool, "true or false"),
            note=table.text("note"),
            revision=source.revision,
            lint_residual=_share(lint, "residual"),
            lint_floor=_share(lint, "floor"),
            prompt_style=table.one_of("prompt_style", _PROMPT_STYLES),
        ),
        source=source,
        license=table.text("license"),
        limits=MappingProxyType({name: limits[name] for name in _LIMITS if name in limits}),
        max_tokens=limits.get(_MAX_TOKENS),
        token_budget=limits.get(_TOKEN_BUDGET),
    )
    if source.revision == UNPINNED and UNPINNED not in manifest.served.note:
        raise table.wrong("note", f"should say that the revision is {UNPINNED}")
    if lint is not None:
        lint.refuse_the_rest()
    table.refuse_the_rest()
    return manifest


class _Table:
    """One table of a manifest. Takes keys out one by one; what is left at the end is unknown."""

    def __init__(self, values: dict[str, object], where: str, prefix: str = "") -> None:
        self._values = dict(values)
        self._where = where
        self._prefix = prefix
        self._known: list[str] = []

    def has(self, key: str) -> bool:
        self._known.append(key)
        return key in self._values

    def value(self, key: str, kind: type[_Kind], what: str) -> _Kind:
        if not self.has(key):
            # A misspelt key is both missing and unknown; naming the unknown one helps more.
            close = difflib.get_close_matches(key, self._values, 1)
            spelt = f" (is {close[0]} a misspelling of it?)" if close else ""
            raise self.wrong(key, f"is missing{spelt}")
        value = self._values.pop(key)
        # In Python a bool is an int.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.wrong(key, f"should be {what}, found {value!r}")
        return value

    def text(self, key: str) -> str:
        value = self.value(key, str, "a text")
        if not value.strip() or "\n" in value:
            raise self.wrong(key, "should be one line of text")
        return value

    def matching(self, key: str, pattern: re.Pattern[str], what: str) -> str:
        value = self.text(key)
        if not pattern.fullmatch(value):
            raise self.wrong(key, f"should be {what}, found {value!r}")
        return value

    def one_of(self, key: str, choices: tuple[_Kind, ...]) -> _Kind:
        value = self.text(key)
        for choice in choices:
            if value == choice:
                return choice
        raise self.wrong(key, f"should be one of {_listed(choices)}, found {value!r}")

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.value(key, list, "a list of texts")
        if not all(isinstance(value, str) and value for value in values):
            raise self.wrong(key, f"should be a list of texts, found {values!r}")
        if len(set(values)) != len(values):
            raise self.wrong(key, "lists something twice")
        return tuple(values)

    def some_of(self, key: str, choices: Sequence[str]) -> tuple[str, ...]:
        values = self.texts(key)
        for value in values:
            if value not in choices:
                raise self.wrong(key, f"may list {_listed(choices)}, found {value!r}")
        return values

    def table(self, key: str) -> "_Table":
        return _Table(self.value(key, dict, "a table"), self._where, f"{self._prefix}{key}.")

    def refuse_the_rest(self) -> None:
        for key in self._values:
            close = difflib.get_close_matches(key, self._known, 1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            raise self.wrong(key, f"is not a known key{meant}")

    def wrong(self, key: str, what: str) -> Unusable:
        return Unusable(f"{self._where}: {self._prefix}{key} {what}")


def _source(table: _Table) -> Source:
    kind: Literal["embedded", "hub"] = table.one_of("kind", ("embedded", "hub"))
    embedded = kind == "embedded"
    version = (re.compile(r"[0-9][0-9A-Za-z.+!-]*"), "a version")
    commit = (
        re.compile(rf"[0-9a-f]{{40}}|{UNPINNED}"),
        f"a commit of 40 hex digits, or {UNPINNED}",
    )
    has_file = table.has("file") or embedded
    source = Source(
        kind=kind,
        package=table.text("package") if embedded else None,
        repo=None
        if embedded
        else table.matching("repo", re.compile(r"[\w.-]+/[\w.-]+"), "owner/name"),
        revision=table.matching("revision", *(version if embedded else commit)),
        file=table.text("file") if has_file else None,
        sha256=table.matching("sha256", re.compile(r"[0-9a-f]{64}"), "64 hex digits")
        if has_file
        else None,
    )
    table.refuse_the_rest()
    return source


def _limits(table: _Table) -> Mapping[str, int]:
    if not table.has("limits"):
        return {}
    limits = table.table("limits")
    found = {}
    for key in (*_LIMITS, _MAX_TOKENS, _TOKEN_BUDGET):
        if limits.has(key):
            found[key] = limits.value(key, int, "a whole number")
            if found[key] < 1:
                raise limits.wrong(key, f"should be at least 1, found {found[key]}")
    limits.refuse_the_rest()
    return found


def _share(table: _Table | None, key: str) -> float | None:
    """A number above 0 and below 1; None where the key is left out."""
    if table is None or not table.has(key):
        return None
    value = table.value(key, float, "a number such as 0.9")
    if not 0 < value < 1:
        raise table.wrong(key, f"should be above 0 and below 1, found {value}")
    return value


def _date(table: _Table) -> str:
    value = table.text("release_date")
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise table.wrong("release_date", f"should be YYYY-MM-DD, found {value!r}") from None


def _listed(choices: Iterable[object]) -> str:
    return ", ".join(str(choice) for choice in choices)
