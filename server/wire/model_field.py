"""The `model` field of every format: the names that the served model answers to."""

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.fields import Fields

_SHOWN_CHARS = 128


def read_model(body: Fields, engine: Engine) -> str:
    """The model as the caller wrote it.

    Raises `Refused`: `model_not_served` for another model's name, `invalid_field` for none.
    """
    model = body.text("model")
    if not model:
        raise body.refused("model", "is empty; name a model or leave it out")
    check_served(model, engine)
    return model


def check_served(model: str, engine: Engine) -> None:
    """Raises `Refused` (`model_not_served`) for a name that the served model does not answer to."""
    served = engine.served
    # A pack may be fitted on the base model, and clients that run it send the name that it has.
    every = (served.id, served.name, *served.aliases, served.base_model)
    names = dict.fromkeys(name for name in every if name)
    if model.casefold() not in {name.casefold() for name in names}:
        others = [name for name in names if name.casefold() != served.id.casefold()]
        also = f", also called {', '.join(others)}" if others else ""
        raise Refused(
            "model_not_served",
            f"the model {model[:_SHOWN_CHARS]!r} is not served here; this server serves "
            f"{served.id}{also}",
            "model",
        )
