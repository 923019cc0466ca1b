"""The flow of `spinf-serve eval` and `compare` around `evals.judging`: who answers, and its signals."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from spinf_serve.evals import judging
from spinf_serve.evals.baseline import is_evaluation, read_evaluation
from spinf_serve.evals.judging import (
    Data,
    Judgement,
    Say,
    Side,
    Who,
    compared,
    judge,
    refuse_draft,
)
from spinf_serve.evals.score_tables import identity_of
from spinf_serve.evals.scorer import in_process, over_http
from spinf_serve.flags import ENGINE_PACKAGES, require
from spinf_serve.pack_files import constants_names, described, given_pack
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, interruptible

__all__ = [
    "Data",
    "Judgement",
    "Side",
    "Who",
    "compared",
    "data_of",
    "judge",
    "measure",
    "refuse_draft",
    "side_of",
    "who_answered",
    "who_answers",
]

data_of = partial(judging.data_of, say=complain)


def who_answers(config: ServerConfig, server: str | None) -> Who:
    """The configured model in this process, or a server's. Raises `Unusable`."""
    if server is not None:
        with progress("waiting for the server's model"):
            remote = over_http(server, config.token)
        return Who(remote.identity, _names(remote.identity.served), remote)
    require(ENGINE_PACKAGES)
    from spinf_serve.engine.api import open_engine

    with interruptible(), progress("loading the model"):
        engine = open_engine(config.engine, config.limits)
    scorer = in_process(engine)
    return Who(scorer.identity, constants_names(engine.served), scorer)


def who_answered(data: Data, bits: str) -> Who:
    """A model whose scores are kept, by its digest or the beginning of it. Raises `Unusable`."""
    with data.project.open(write=False) as connection:
        identity = identity_of(connection, bits)
    return Who(identity, _names(identity.served), None)


def _names(served: str) -> tuple[str, ...]:
    known_model = described(served)
    return (served,) if known_model is None else constants_names(known_model)


def measure(
    pack: Pack, data: Data, who: Who, say: Say, slices: Sequence[str] | None = None
) -> Side:
    """As `judging.measure`; Ctrl-C ends it between two batches."""
    with interruptible():
        return judging.measure(pack, data, who, say, slices)


def side_of(
    name: str,
    data: Data | None,
    who: Callable[[], Who],
    config: ServerConfig,
    warn: Say,
    say: Say,
    slices: Sequence[str] | None = None,
) -> Side:
    """An evaluation from its file, or a pack that is measured now.

    Args:
        who: asked only for a pack.
        warn: takes what is amiss with sources of packs.
        say: takes how far the measuring is.
    """
    if is_evaluation(Path(name)):
        return Side(read_evaluation(Path(name)))
    given = given_pack(name, config, warn)
    if data is None:
        raise Unusable(f"{name} is a pack: name the rows to measure it on with --data")
    refuse_draft(given.pack)
    return measure(given.pack, data, who(), say, slices)
