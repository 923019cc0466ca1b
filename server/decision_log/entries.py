"""What the log holds of one content of one request, as values. Knows no file and no server."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any


@dataclass(frozen=True, slots=True)
class Identity:
    """Which model answered.

    Attributes:
        served: its id.
        model: digest of weights, scheme, dtype and numerics, 64 hex digits.
        bits: that with card and libraries: what a score's last bit depends on.
    """

    served: str
    model: str
    bits: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What one pack said. Numbers are unrounded, but for those of `reads`.

    Attributes:
        pack, version, digest: which version, the digest being that of its file's bytes.
        context: how it presented the content.
        state: `certified`, `provisional` or `draft`.
        call: what the request said about the decision, as it would say it again.
        decision: the verdict's fields, with `unsafe`, `mode`, `band`; None for a draft.
        route: where the content goes; None without one.
        reason: the verdict's reason in a line; None for a draft.
        categories: category -> `score`, `percentile`, `threshold` (in force in this call),
            `flagged` and `band`; empty for a draft.
        reads: read -> z with four decimals, of the strongest reads of each category, or of all.
    """

    pack: str
    version: str
    digest: str
    context: str
    state: str
    call: Mapping[str, Any]
    decision: Mapping[str, Any] | None
    route: Mapping[str, Any] | None
    reason: str | None
    categories: Mapping[str, Mapping[str, Any]]
    reads: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answered:
    """What was answered to one question of the caller's own.

    Attributes:
        question: the caller's name for it.
        asked: the filled template, or the instructions of a decision.
        values: what filled the template.
        p: option or label -> probability.
    """

    question: str
    asked: str
    values: Mapping[str, str]
    p: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """One content of one request.

    Attributes:
        request: id of the answer, as the client saw it.
        input: the caller's id of the content.
        at: unix seconds of the arrival.
        caller: name of the key that was given.
        route: short name of the route, such as `score`.
        endpoint: the caller's label; None without one.
        identity: which model answered.
        digest: SHA-256 of the content as the caller sent it, 64 hex digits.
        text: the content; None where it is not kept.
        parameters: what filled the packs' contexts.
        chunks: in how many pieces it was read.
        drawn: whether chance drew it for the random sample.
        rate: the chance that it had, 0 to 1.
        decided: what each pack said.
        answers: what was answered to questions that are no pack's.
        id: number in the file; None before it is there.
    """

    request: str
    input: str
    at: int
    caller: str
    route: str
    endpoint: str | None
    identity: Identity
    digest: str
    text: str | None
    parameters: Mapping[str, str]
    chunks: int
    drawn: bool
    rate: float
    decided: tuple[Decided, ...] = ()
    answers: tuple[Answered, ...] = ()
    id: int | None = None


@dataclass(frozen=True, slots=True)
class PackFacts:
    """What is kept once of a pack's file, so that its decisions can be read without it.

    Attributes:
        pack, version, digest: as in `Decided`.
        facts: `contexts`: name -> template; `categories`: id -> `label` and `requires`; `reads`:
            id -> `category`, `question` (the filled template) and `options`.
    """

    pack: str
    version: str
    digest: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def content_digest(text: str) -> str:
    """SHA-256 of a content's text alone, as datasets have it too."""
    return sha256(text.encode()).hexdigest()


def as_plain(entry: Entry) -> dict[str, Any]:
    """The entry as an object of JSON."""
    return asdict(entry)
