"""The decision log that a server's settings ask for."""

from collections.abc import Callable
from pathlib import Path

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.decision_log.log import DecisionLog
from spinf_serve.server.decision_log.making import Keeping


def open_decision_log(config: ServerConfig, engine: Callable[[], Engine]) -> DecisionLog | None:
    """The log; None when the settings name no file.

    Args:
        engine: the engine that answers.

    Raises:
        Unusable: the file cannot be a log, or settings speak of a log and name none.
    """
    if config.decision_log is None:
        default = ServerConfig()
        for name in ("log_content", "log_sample", "log_answers", "log_days"):
            if getattr(config, name) != getattr(default, name):
                raise Unusable(
                    f"{name} is set, but there is no decision log: name its file with"
                    f" --decision-log, or leave {name} out"
                )
        return None
    return DecisionLog(
        Path(config.decision_log),
        Keeping(config.log_content, config.log_sample, config.log_answers),
        engine,
        days=config.log_days,
    )
