"""A running server as one who answers questions: the same door as an engine in this process.

Speaks /v1/score and asks for unrounded values by `scoring.precision`; a server that does not know
that field answers rounded ones, and is said to. Knows no store.
"""

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import groupby
from math import isfinite
from typing import Any, Protocol
from urllib.parse import urlsplit

from spinf_serve import __version__
from spinf_serve.evals.estimate import Counted
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.errors import CODES, Busy, Fault, Refused, SpinfError, Unusable
from spinf_serve.packs.question import Question

_QUERIES = "scoring.queries."

RETRY_SECONDS = 2
"""When a busy server is asked again."""

LOADING_SECONDS = 1800.0
"""How long a server's model may load; large ones are fetched first."""

SILENT_SECONDS = 1800.0
"""How long a server may send nothing; its own limit, `request_seconds`, is mostly far below."""


class Work(Protocol):
    """One content and the questions about it, as `spinf_serve.engine.work.Work` has them."""

    @property
    def content(self) -> str:
        """The text the questions are about."""
        ...

    @property
    def questions(self) -> tuple[Question, ...]:
        """At least one."""
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers to one work, one per question."""

    answers: tuple[QuestionAnswer, ...]


@dataclass(frozen=True, slots=True)
class Digests:
    """What a server tells of its model, see `spinf_serve.engine.fingerprint`."""

    model: str
    bits: str


@dataclass(frozen=True, slots=True)
class Remote:
    """A server that answers.

    Attributes:
        url: its address, without a path.
        token: bearer token, if it wants one.
        model: id of the model it serves.
        digests: of the model; None when the server does not tell this caller.
        fingerprint: its short `system_fingerprint`; None when it has none.
        full: whether it gives unrounded values and logprobs of floors.
        counted: what its answers say that they read, call by call.
    """

    url: str
    token: str | None
    model: str
    digests: Digests | None
    fingerprint: str | None = None
    full: bool = True
    counted: list[Counted] = field(default_factory=list, compare=False, repr=False)

    def run(self, works: Sequence[Work]) -> list[Answered]:
        """Answers to works in order; those of neighbours with the same questions in one call.

        Raises:
            Refused, Fault: what the server said, with a param relative to the work; of another work
                than the first, `inputs.N` is in front.
            Busy: it has no room, or its model is not loaded.
            Unusable: it cannot be reached or answers something else.
        """
        found: list[Answered] = []
        for questions, group in groupby(works, key=lambda work: work.questions):
            contents = [work.content for work in group]
            if len({question.case_insensitive for question in questions}) > 1:
                raise ValueError("a call has one case rule; the questions have two")
            status, body = post(self.url, _body(contents, questions, self.full), self.token)
            if status != 200:
                raise _error(self.url, status, body, questions)
            with _understood(self.url):
                self._check(body)
                results = zip(contents, body["results"], strict=True)
                found += [Answered(_answers(one, questions)) for _, one in results]
                if "usage" in body:
                    self.counted.append(_counted(body["usage"], len(contents), questions))
        return found

    def _check(self, body: Any) -> None:
        """Raises `Unusable` when another model answers than at first."""
        now = body.get("system_fingerprint")
        if self.fingerprint is not None and now != self.fingerprint:
            raise Unusable(
                f"{self.url} now has the fingerprint {now!s:.40} and had {self.fingerprint}: its model"
                " or machine was changed; start again, and scores of the two stay apart"
            )


def open_remote(url: str, token: str | None, wait: Callable[[float], None] = time.sleep) -> Remote:
    """A server by its address. Asks it one small question, to learn what it serves.

    Args:
        wait: called with seconds while the server's model loads, for `LOADING_SECONDS` in all.

    Raises `Unusable` when it cannot be reached or refuses.
    """
    query = {"id": "0", "template": "1, 2,{?}", "options": [" 3", " 4"], "empty_floor": True}
    scoring: dict[str, Any] = {"queries": [query], "precision": "full"}
    probe = {"inputs": [{"id": "0", "messages": []}], "scoring": scoring}
    status, body = post(url, json.dumps(probe).encode(), token)
    waited = 0.0
    while status == 503 and _code(body) == "warming_up":
        if waited >= LOADING_SECONDS:
            raise Unusable(f"{url} is still loading its model; waited {waited:.0f} s")
        wait(RETRY_SECONDS)
        waited += RETRY_SECONDS
        status, body = post(url, json.dumps(probe).encode(), token)
    if status == 400 and "precision" in _message(body):
        del scoring["precision"]
        status, body = post(url, json.dumps(probe).encode(), token)
    if status != 200:
        raise Unusable(f"{url} answered {status}: {_message(body)}")
    with _understood(url):
        told = body.get("engine")
        digests = None
        if told is not None:
            fingerprint = told["fingerprint"]
            digests = Digests(_text(fingerprint["model"]), _text(fingerprint["bits"]))
        short = body.get("system_fingerprint")
        option = body["results"][0]["queries"][0]["combinations"][0]["options"][0]
        return Remote(
            url.rstrip("/"),
            token,
            _text(body["model"]),
            digests,
            None if short is None else _text(short),
            _optional(option.get("floor_logprob")) is not None,
        )


@contextmanager
def _understood(url: str) -> Iterator[None]:
    """Has an answer of another form than this server's be one line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as fault:
        raise Unusable(
            f"{url} answered with something else than scores ({fault!r:.100}): is it a spinf-serve"
            " of this version?"
        ) from fault


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r:.40}")
    return value


def _counted(usage: Any, rows: int, questions: Sequence[Question]) -> Counted:
    """What a call read, floors aside."""
    details = usage["prompt_tokens_details"]
    content, query, floors = (
        int(details[f"{name}_tokens"]) for name in ("content", "query", "floor")
    )
    calls = sum(len(question.prompts) for question in questions)
    read = int(usage["processed_tokens"]) - floors
    # A call of one question begins with a token of its own.
    return Counted(rows, rows * calls, content, read, calls * (rows + content) + query)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"no finite number: {value!r:.40}")
    return float(value)


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)


def post(server: str, body: bytes, token: str | None) -> tuple[int, Any]:
    """Status and JSON body of a POST to a server's /v1/score.

    Raises `Unusable` when it cannot be reached or answers no JSON.
    """
    url = f"{server.rstrip('/')}/v1/score"
    if not url.startswith(("http://", "https://")):
        raise Unusable(f"--server {server}: an http:// or https:// address is needed")
    root = re.sub(r"/v1(/.*)?$", "", server.rstrip("/"))
    if root != server.rstrip("/"):
        raise Unusable(f"--server {server}: the server's root is needed, {root}")
    headers = {"Content-Type": "application/json", "User-Agent": f"spinf-serve/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        asked = urllib.request.Request(url, data=body, headers=headers, method="POST")
        # A proxy for the outside world does not know this machine's own servers.
        local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        proxies = [urllib.request.ProxyHandler({})] if local else []
        opener = urllib.request.build_opener(*proxies)
        with opener.open(asked, timeout=SILENT_SECONDS) as reply:
            status, raw = reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        status, raw = refusal.code, _rest(refusal)
    except TimeoutError as fault:
        raise Unusable(
            f"{url} sent nothing for {SILENT_SECONDS:.0f} s; is it still at work?"
        ) from fault
    except (OSError, HTTPException, ValueError) as fault:
        raise Unusable(f"{url} cannot be reached: {getattr(fault, 'reason', fault)}") from fault
    try:
        return status, json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise Unusable(f"{url} answered {status} with something that is not JSON") from fault


def _rest(refusal: urllib.error.HTTPError) -> bytes:
    try:
        return refusal.read()
    except (OSError, HTTPException):
        # Cut off: the status has to tell.
        return b"null"


def _body(contents: Sequence[str], questions: Sequence[Question], full: bool) -> bytes:
    """A request in which every filled template is a question of its own, told by its number."""
    queries = [
        {
            "id": str(number),
            "template": prompt.text.replace("{", "{{").replace("}", "}}") + "{?}",
            "options": question.options,
            "empty_floor": question.empty_floor,
        }
        for number, (question, prompt) in enumerate(
            (question, prompt) for question in questions for prompt in question.prompts
        )
    ]
    inputs = [
        {"id": str(number), "messages": [{"role": "user", "content": content}]}
        for number, content in enumerate(contents)
    ]
    scoring: dict[str, Any] = {
        "queries": queries,
        "case_insensitive": questions[0].case_insensitive,
    }
    if full:
        scoring["precision"] = "full"
    return json.dumps({"inputs": inputs, "scoring": scoring}).encode()


def _answers(result: Any, questions: Sequence[Question]) -> tuple[QuestionAnswer, ...]:
    queries = list(reversed(result["queries"]))
    answers = []
    for question in questions:
        prompts = []
        for prompt in question.prompts:
            told = queries.pop()["combinations"][0]
            options = tuple(
                OptionAnswer(
                    _text(one["text"]),
                    _number(one["logprob"]),
                    _number(one["p"]),
                    _optional(one["floor_p"]),
                    _optional(one.get("floor_logprob")),
                )
                for one in told["options"]
            )
            if tuple(option.text for option in options) != question.options:
                raise ValueError(f"other options than {question.options!r}")
            residuals = _number(told["residual"]), _optional(told["floor_residual"])
            prompts.append(PromptAnswer(prompt.values, options, *residuals))
        answers.append(QuestionAnswer(question.id, tuple(prompts), single_read=False))
    return tuple(answers)


def _code(body: Any) -> Any:
    error = body.get("error") if isinstance(body, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _error(
    url: str, status: int, body: Any, questions: Sequence[Question]
) -> SpinfError | Unusable:
    code = _code(body)
    said = f"{url} answered {status}: {_message(body)}"
    if not isinstance(code, str) or code not in CODES:
        return Unusable(said)
    error = body["error"]
    if status in (429, 503):
        return Busy(code, said, RETRY_SECONDS)
    if status not in (400, 413, 500):
        return Unusable(said)
    if status == 500:
        return Fault(str(error.get("message")))
    param = str(error.get("param") or "")
    if param.startswith(_QUERIES):
        with _understood(url):
            number = int(param.removeprefix(_QUERIES).split(".")[0])
            owners = [index for index, q in enumerate(questions) for _ in q.prompts]
            param = f"questions.{owners[number]}"
    return Refused(code, str(error.get("message")), param or None)


def _message(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("message")) if isinstance(error, dict) else str(body)[:200]
