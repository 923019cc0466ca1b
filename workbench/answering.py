"""Who answers: a server by its address, or the model in a process of its own. Opened here only.

Secrets stay out of command lines and of files that others can read.
"""

import json
import os
import secrets
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from spinf_serve.evals.scorer import Scorer, in_process, over_http
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.question import Question
from spinf_serve.workbench.started import started

WHO: Final = "who.json"

ASK_SECONDS: Final = 3.0
"""How long a server may take to say what it serves."""

MOST_TOLD: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Who:
    """Who answers.

    Attributes:
        server: its URL; None for the model on this machine, in the process that asks.
        token: sent to the server.
        config: settings of the model on this machine, as the command line has them; None for those
            of the environment.
    """

    server: str | None
    token: str | None = field(default=None, repr=False)
    config: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        return "the model on this machine" if self.server is None else self.server


def given_who() -> Who:
    """Who answers by what the workbench was started with."""
    how = started()
    return Who(how.server, how.token if how.server is not None else None, how.config)


def local_who() -> Who:
    """The model on this machine, with the settings that the workbench was started with."""
    return Who(None, None, started().config)


def keep_who(who: Who, folder: Path) -> None:
    """Lay it into a job's folder, for its owner only."""
    part = folder / f".{secrets.token_hex(8)}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(who_plain(who), file)
    part.replace(folder / WHO)


def kept_who(folder: Path) -> Who:
    """Who answers a job. Raises `Unusable` when nobody was named."""
    try:
        told = json.loads((folder / WHO).read_bytes())
    except (OSError, ValueError):
        raise Unusable("who answers is not known any more: start it anew") from None
    return who_told(told)


def who_plain(who: Who) -> dict[str, Any]:
    """All of it, the token too, for a process of this user's own; see `who_told`."""
    return {"server": who.server, "token": who.token, "config": _plain(who)}


def who_told(told: Mapping[str, Any]) -> Who:
    """Who answers, out of `who_plain`."""
    config = None if told["config"] is None else _config(told["config"])
    return Who(told["server"], told["token"], config)


def forget_who(folder: Path) -> None:
    """Take it away, with the token."""
    (folder / WHO).unlink(missing_ok=True)


def scorer(who: Who, wait: Callable[[float], None] = time.sleep) -> Scorer:
    """Whoever answers, opened: a server is asked one small question, a model is loaded here.

    Args:
        wait: called with seconds while a server has no room; may raise.

    Raises `Unusable`.
    """
    if who.server is not None:
        return over_http(who.server, who.token, wait)
    from spinf_serve.server.config import load, share_cores

    # Before the engine's libraries are loaded.
    share_cores()
    from spinf_serve.engine.api import open_engine

    config = load({}) if who.config is None else who.config
    return in_process(open_engine(config.engine, config.limits))


def served_by(who: Who) -> str | None:
    """Id of the model that a server says it serves; None where it cannot be learned at once."""
    url = f"{str(who.server).rstrip('/')}/v1/models"
    headers = {} if who.token is None else {"Authorization": f"Bearer {who.token}"}
    # A proxy for the outside world does not know this machine's own servers.
    local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    opener = urllib.request.build_opener(*[urllib.request.ProxyHandler({})] * local)
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=ASK_SECONDS) as told:
            return str(json.loads(told.read(MOST_TOLD))["data"][0]["id"])
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return None


def counting(who: Who, served: str | None = None) -> Any:
    """What the model on this machine makes of texts, without its weights: see `engine.counting`.

    Args:
        served: id of a model for which it stands in, and which is taken where its files are here
            already; nothing is fetched for its sake.

    Raises `Unusable` when the model cannot be found.
    """
    from spinf_serve.server.config import load, share_cores

    share_cores()
    from spinf_serve.engine.api import counting_without_weights
    from spinf_serve.engine.config import EMBEDDED
    from spinf_serve.engine.loading.locate import obtainable

    config = load({}) if who.config is None else who.config
    if served is None:
        return counting_without_weights(config.engine, config.limits, lambda line: None)
    # Only a known model's name: a server's word is no path on this machine.
    known = [served] if obtainable(served, offline=True) else []
    fault = Unusable("no model is here")
    for model in dict.fromkeys([*known, config.engine.model, EMBEDDED]):
        engine = replace(config.engine, model=model, offline=True)
        try:
            return counting_without_weights(engine, config.limits, lambda line: None)
        except Unusable as error:
            fault = error
    raise fault


def work_of(content: str, questions: Sequence[Question]) -> Any:
    """One content with its questions, as an engine takes it."""
    from spinf_serve.engine.api import Work

    return Work(content, tuple(questions))


def _plain(who: Who) -> dict[str, Any] | None:
    """The settings that a model is opened with; no token is among them."""
    if who.config is None or who.server is not None:
        return None
    engine = asdict(who.config.engine)
    engine["open_limits"] = sorted(engine["open_limits"])
    return {"engine": engine, "limits": asdict(who.config.limits)}


def _config(plain: dict[str, Any]) -> Any:
    from spinf_serve.server.config import load

    empty = load({}, {})
    told = {**plain["engine"], "open_limits": frozenset(plain["engine"]["open_limits"])}
    return replace(
        empty,
        engine=replace(empty.engine, **told),
        limits=replace(empty.limits, **plain["limits"]),
    )
