"""What the routes answer that tell of the server: models, packs, health."""

from dataclasses import fields

from spinf_serve.engine.work import Limits
from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    filled,
    flag,
    items,
    mapping,
    number,
    optional,
    ref,
    text,
    whole,
    word,
)

_MEDIA = ("text", "image", "audio", "video")


def schemas() -> dict[str, Schema]:
    """Component name -> schema."""
    return {
        "Models": _models(),
        "Model": _model(),
        "ModelEntry": _model_entry(),
        "Packs": _packs(),
        "PackEntry": _entry(),
        "PackFile": {
            "type": "object",
            "required": ["pack", "version", "contexts", "scoring", "reads", "categories"],
            "description": "A pack in the plain form; [its fields](packs.md).",
        },
        "Alive": filled({"ok": flag()}),
        "Live": filled({"live": {"const": True}}),
        "NotLive": _not_live(),
        "Ready": _ready(),
        "NotReady": _not_ready(),
        "Info": _info(),
        "Draining": filled({"draining": flag()}),
    }


def _model_entry() -> Schema:
    return filled(
        {
            "id": text(),
            "object": word("", "model"),
            "created": whole("unix seconds of its release; 0 where nobody knows", least=0),
            "owned_by": text(),
        },
        "A model for the OpenAI SDK.",
    )


def _models() -> Schema:
    return filled(
        {
            "object": word("", "list"),
            "data": items(ref("ModelEntry"), "for the OpenAI SDK"),
            "models": items(ref("Model"), "the same with all that there is to say"),
        },
        "The served model.",
    )


def _model() -> Schema:
    names = (*(one.name for one in fields(Limits)), "max_completion_tokens", "max_body_bytes")
    features = {"media": items(text()), "extraction": flag(), "generation": flag()}
    return filled(
        {
            "id": text(),
            "name": text("may be used as `model` in a request"),
            "description": text(),
            "release_date": text(),
            "status": word("", "available"),
            "base_model": optional(text()),
            "revision": optional(text()),
            "aliases": items(text(), "other names that a request may use"),
            "family": text(),
            "capabilities": items(word("", "score", "extract", "generate")),
            "media": items(word("", "image", "audio", "video"), "what it reads besides text"),
            "limits": filled({name: whole(least=1) for name in names}),
            "features": filled(features),
            "stand_in": flag("whether it is only there for trying things out"),
            "note": text(),
        }
    )


def _packs() -> Schema:
    return filled(
        {
            "packs": items(ref("PackEntry")),
            "sources": items(text(), "where packs are looked for"),
            "faults": items(text(), "files with faults, a line each"),
        },
        "The served packs.",
    )


def _entry() -> Schema:
    models = either(text(), items(text()), about="what it was fitted on; a list if several")
    return filled(
        {
            "id": text(),
            "name": text(),
            "status": word("", "available", "deprecated", "coming_soon"),
            "version": optional(text("the one used where a call names none")),
            "versions": items(text()),
            "description": text(),
            "tags": items(text()),
            "model": optional(models),
            "media": items(word("", *_MEDIA)),
            "source": text(),
            "parameters": items(_parameter()),
            "contexts": items(filled({"id": text(), "template": text()}), "the first is default"),
            "categories": items(
                filled({"id": text(), "label": optional(text()), "threshold": optional(number())})
            ),
            "decision": _decision(),
            "queries": whole("number of questions", least=1),
            "prompts": whole("number of filled templates", least=1),
            "state": word("", "draft", "provisional", "certified"),
            "unusable": text("why calls that name it are refused"),
        },
        "A pack. One that is only announced has no more than the fields up to `media`.",
        maybe=(
            "source",
            "parameters",
            "contexts",
            "categories",
            "decision",
            "queries",
            "prompts",
            "state",
            "unusable",
        ),
    )


def _parameter() -> Schema:
    return filled(
        {
            "id": text(),
            "required": flag(),
            "label": text(),
            "description": text(),
            "default": text(),
        },
        maybe=("label", "description", "default"),
    )


def _decision() -> Schema:
    return filled(
        {
            "mode": text("the pack's own"),
            "modes": items(text(), "those that a call may ask for"),
            "fallback": optional(text()),
            "max_threshold": optional(number()),
            "critical": items(text()),
        }
    )


def _ready() -> Schema:
    boot = filled(
        {
            "model": text(),
            "stand_in": flag(),
            "system_fingerprint": text(),
            "load_seconds": number(least=0),
        }
    )
    return filled(
        {
            "ready": {"const": True},
            "boot": boot,
            "packs": filled({"faults": items(text(), "files with faults; the rest is served")}),
        },
        maybe=("packs",),
    )


def _not_live() -> Schema:
    return filled(
        {
            "live": {"const": False},
            "reason": word("why", "warming_up", "model_unavailable", "stuck"),
            "error": text("more about it, where there is more"),
        },
        maybe=("error",),
    )


def _not_ready() -> Schema:
    return filled(
        {
            "ready": {"const": False},
            "reason": word("why", "warming_up", "model_unavailable", "draining", "stuck"),
            "error": text("more about it, where there is more"),
            "draining": {"const": True, "description": "Where that is the reason."},
        },
        maybe=("error", "draining"),
    )


def _info() -> Schema:
    engine = filled(
        {
            "model": text(),
            "revision": optional(text()),
            "family": text(),
            "fingerprint": filled({"model": text(), "bits": text()}),
            "facts": mapping({"type": ["string", "number", "boolean"]}, "what `bits` is made from"),
            "limits": filled({one.name: whole(least=1) for one in fields(Limits)}),
        }
    )
    boot = filled(
        {
            "version": text("of this package"),
            "python": text(),
            "model": text(),
            "stand_in": flag(),
            "system_fingerprint": text(),
            "load_seconds": number(least=0),
            "draining": flag(),
            "packs": filled({"faults": items(text())}),
        }
    )
    return filled({"engine": engine, "boot": boot}, "What is served, and on what.")
