"""Who answers a run's questions: an engine in this process, or a server by its address.

Every work has an outcome of its own, so that one refusal costs no other row its score. Keeps nothing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from spinf_serve.evals.estimate import Counted
from spinf_serve.evals.remote import Remote, open_remote
from spinf_serve.evals.score_tables import Identity
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.chunks import Reader
from spinf_serve.packs.errors import Busy, Fault, Refused, Unusable
from spinf_serve.packs.question import Question

if TYPE_CHECKING:
    from spinf_serve.engine.api import Engine

BUSY_SECONDS = 120.0
"""How long a server may have no room before a run gives up; it resumes when it is started again."""


@dataclass(frozen=True, slots=True)
class Work:
    """One content, its context around it, and the questions about it."""

    content: str
    questions: tuple[Question, ...]


Outcome = tuple[QuestionAnswer, ...] | Refused | Fault
"""Answers, one per question in order; or why there are none, `param` being relative to the work."""


class Scorer(Protocol):
    """Whoever answers."""

    @property
    def identity(self) -> Identity:
        """Who that is; scores are kept under it."""
        ...

    @property
    def reader(self) -> Reader | None:
        """How much it reads at once; None when that is not known, so that nothing can be cut."""
        ...

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        """One outcome per work. Raises `Unusable` when nobody answers any more."""
        ...


def cautions(identity: Identity) -> Iterator[str]:
    """What is to be known of scores from there, a line each."""
    if identity.rounded:
        yield (
            f"{identity.served} answers rounded values: scores are kept, and marked, as rounded;"
            " there are no logprobs of floors, so no lifts"
        )
    if not identity.model:
        yield (
            f"the server of {identity.served} does not tell its model's digest: give a trusted token,"
            " or proofs cannot be tied to the model"
        )
    if "address" in identity.facts:
        yield (
            f"the server of {identity.served} tells no fingerprint: scores are kept by its address"
            " and stay when its model changes"
        )


def counted(scorer: Scorer) -> Counted:
    """Tokens of all works that it was asked and that were answered, floors aside."""
    if isinstance(scorer, _InProcess | _OverHttp):
        return scorer.counted
    return Counted(0, 0, 0, 0, 0)


def in_process(engine: "Engine") -> Scorer:
    """An engine that nobody else uses; called on its thread."""
    return _InProcess(engine)


class _InProcess:
    """Works of a batch are compiled one by one, and share passes."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        print_ = engine.fingerprint
        self.reader = Reader(engine.tokenizer, engine.limits.max_content_tokens)
        self.identity = Identity(
            print_.model, print_.bits, engine.served.id, facts=dict(print_.facts)
        )
        self.counted = Counted(0, 0, 0, 0, 0)

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        from spinf_serve.engine.api import Job
        from spinf_serve.engine.api import Work as EngineWork

        outcomes: dict[int, Outcome] = {}
        places: dict[Job, int] = {}
        try:
            for place, work in enumerate(works):
                try:
                    job = self._engine.compile(EngineWork(work.content, work.questions))
                except Refused as refused:
                    outcomes[place] = refused
                else:
                    places[job] = place
                    self._engine.submit(job)
            while len(outcomes) < len(works):
                for job, outcome in self._engine.step():
                    if isinstance(outcome, Refused | Fault):
                        outcomes[places[job]] = outcome
                    elif isinstance(outcome, Exception):
                        raise outcome
                    else:
                        outcomes[places[job]] = outcome.answers
                        told = outcome.counts
                        self.counted += self._counted(
                            told.content_tokens,
                            told.query_tokens,
                            told.packed_tokens,
                            works[places[job]],
                        )
        finally:
            # Whatever ended it, nobody waits for the others.
            for job in places:
                self._engine.cancel(job)
        return [outcomes[place] for place in range(len(works))]

    def _counted(self, content: int, query: int, packed: int, work: Work) -> Counted:
        calls = sum(len(question.prompts) for question in work.questions)
        bos = 0 if self._engine.tokenizer.bos_id is None else 1
        return Counted(1, calls, content, packed, calls * (bos + content) + query)


def over_http(url: str, token: str | None, wait: Callable[[float], None] = time.sleep) -> Scorer:
    """A server. Raises `Unusable` when it cannot be reached or refuses.

    Args:
        wait: called with seconds when the server has no room, or its model is still loading.
    """
    remote = open_remote(url, token, wait)
    return _OverHttp(remote, _identity(remote), wait)


def _identity(remote: Remote) -> Identity:
    facts = {"asked": "over HTTP"}
    rounded = not remote.full
    if remote.digests is not None:
        bits = remote.digests.bits
        return Identity(remote.digests.model, bits, remote.model, rounded, facts)
    if remote.fingerprint is not None:
        facts["system_fingerprint"] = remote.fingerprint
        known_by = remote.fingerprint
    else:
        facts["address"] = known_by = remote.url
    # Not the digest that the server has: a stand-in for it that says as much as is told.
    bits = sha256(f"{remote.model}\n{known_by}".encode()).hexdigest()
    return Identity("", bits, remote.model, rounded, facts)


class _OverHttp:
    """A batch is one call; one that is refused is halved until the works at fault stand alone.

    A server does not lend its tokenizer, so what is too long for it is refused.
    """

    reader = None

    def __init__(self, remote: Remote, identity: Identity, wait: Callable[[float], None]) -> None:
        self._remote = remote
        self._wait = wait
        self.identity = identity

    @property
    def counted(self) -> Counted:
        """As the server counts them."""
        return sum(self._remote.counted, Counted(0, 0, 0, 0, 0))

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        try:
            return self._asked(works)
        except (Refused, Fault) as error:
            if len(works) == 1:
                return [error]
        half = len(works) // 2
        return self.run(works[:half]) + self.run(works[half:])

    def _asked(self, works: Sequence[Work]) -> list[Outcome]:
        waited = 0.0
        while True:
            try:
                return [one.answers for one in self._remote.run(works)]
            except Busy as busy:
                if waited >= BUSY_SECONDS:
                    raise Unusable(f"{busy.message}; waited {waited:.0f} s") from None
                self._wait(busy.retry_after_seconds)
                waited += busy.retry_after_seconds
