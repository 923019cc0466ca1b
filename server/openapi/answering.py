"""What /v1/score and its chat alias answer: probabilities, packs' verdicts, warnings, usage."""

from spinf_serve.server.openapi import slots
from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    filled,
    flag,
    items,
    mapping,
    number,
    optional,
    p,
    record,
    ref,
    text,
    whole,
    word,
)

_MODES = ("max", "per_category", "micro_layer")
_BANDS = ("act", "review", "pass")
_STATES = ("draft", "provisional", "certified")

_TRUSTED_COUNTS = (
    "packed_tokens",
    "content_tokens",
    "text_tokens",
    "query_tokens",
    "floor_tokens",
    "cached_tokens",
    "generated_tokens",
    "images",
    "image_tokens",
    "video_frames",
    "video_tokens",
    "audio_ms",
    "audio_tokens",
)


def schemas() -> dict[str, Schema]:
    """Component name -> schema."""
    return {
        "ScoreAnswer": _answer(chat=False),
        "ChatAnswer": _answer(chat=True),
        "Result": _result(),
        "QueryResult": _query(),
        "OptionResult": _option(),
        **slots.answered(),
        "PackResult": _pack(),
        "CategoryResult": _category(),
        "Verdict": _verdict(),
        "Routed": _route(),
        "Warning": _warning(),
        "Usage": _usage(),
        "Timing": _scoring_timing(),
        "EngineFacts": _engine(),
    }


def _answer(chat: bool) -> Schema:
    fields = {
        "id": text("as in the header `X-Request-Id`"),
        "object": word("", "score"),
        "created": whole("unix seconds"),
        "model": text("as the caller wrote it; the served id where nothing was given"),
        "endpoint": text("as the caller gave it"),
        "system_fingerprint": text("changes when scores may change"),
        "results": items(ref("Result"), "one for each content, in order"),
        "warnings": items(ref("Warning"), "what the caller should know; mostly empty"),
        "usage": ref("Usage"),
        "timing": ref("Timing"),
        "engine": ref("EngineFacts"),
    }
    if chat:
        fields["choices"] = items({}, "always empty: nothing is written", most=0)
    return filled(fields, "Answers to a request.", maybe=("endpoint", "engine"))


def _result() -> Schema:
    return filled(
        {
            "input_id": text("id of the content; `0` with `messages`"),
            "queries": items(
                either(ref("QueryResult"), ref("SearchedResult"), ref("WrittenResult")),
                "shared questions, then the content's own",
            ),
            "packs": items(ref("PackResult"), "in the order of the call; only with packs"),
        },
        "What was asked about one content.",
        maybe=("packs",),
    )


def _query() -> Schema:
    combination = filled(
        {
            "values": mapping(text(), "values of the placeholders"),
            "options": items(ref("OptionResult"), "in the order of the question"),
            "residual": p("probability of everything that is not an option"),
            "floor_residual": optional(p("the same on empty content; null without a floor")),
        }
    )
    return filled(
        {
            "id": text(),
            "combinations": items(combination, "one for each filled template"),
            "group": text("the question's label, where it has one"),
        },
        "Answers to one question.",
        maybe=("group",),
    )


def _option() -> Schema:
    return filled(
        {
            "text": text("the option as it was given"),
            "logprob": number("natural logarithm of its probability among all continuations"),
            "p": p("its probability among the options"),
            "floor_p": optional(p("the same on empty content; null without a floor")),
            "floor_logprob": optional(number("only with `precision`: `full`")),
        },
        "What the numbers mean: [quantities](quantities.md).",
        maybe=("floor_logprob",),
    )


def _pack() -> Schema:
    return filled(
        {
            "id": text(),
            "version": text("the version that was used"),
            "context": text("the context that was used"),
            "categories": mapping(ref("CategoryResult")),
            "decision": optional(ref("Verdict")),
            "route": ref("Routed"),
            "state": word("how far the thresholds can be trusted", *_STATES),
            "chunks": whole("how many, when the content was cut", least=2),
        },
        "What a pack says of a content.",
        maybe=("route", "chunks"),
    )


def _category() -> Schema:
    return filled(
        {
            "score": optional(p("null for a draft")),
            "calibrated": p("the score as a share, where the pack has a `beta` map for it"),
            "percentile": optional(p("among ordinary contents; null without quantiles")),
            "flagged": optional(flag("null without a threshold")),
            "band": word("where the pack has cuts for it", *_BANDS),
        },
        maybe=("calibrated", "band"),
    )


def _verdict() -> Schema:
    return filled(
        {
            "unsafe": flag("the verdict"),
            "mode": word("the mode that decided", *_MODES),
            "score": optional(number("with `max` and `micro_layer`")),
            "threshold": optional(number("with `max` and `micro_layer`")),
            "category": optional(text("with `max`: the highest category")),
            "categories": items(text(), "with `per_category`: those that are flagged and decide"),
            "critical": items(text(), "flagged ones of the critical list, where there are some"),
            "by": word("when these alone made it unsafe", "critical"),
            "warning": text("why the fallback decided, where it did"),
            "band": word("where the pack has cuts for it", *_BANDS),
        },
        "A pack's decision; null for a draft.",
        maybe=(
            "score",
            "threshold",
            "category",
            "categories",
            "critical",
            "by",
            "warning",
            "band",
        ),
    )


def _route() -> Schema:
    return filled(
        {
            "choice": text("a category, or the pack's word for abstaining"),
            "leader": text("the category with the highest score"),
            "score": number("the leader's"),
            "second": optional(number("the next score")),
            "margin": optional(number("the leader's lead")),
        },
        "Where a pack with a route sends the content.",
    )


def _warning() -> Schema:
    return filled(
        {
            "code": text("what kind of thing; [all of them](http.md#warnings)"),
            "message": text("in words, with what to do"),
            "param": text("dotted path of the field it is about"),
            "input_id": text("the content it is about"),
            "query_id": text("the question it is about"),
        },
        maybe=("param", "input_id", "query_id"),
    )


def _usage() -> Schema:
    def counts(*names: str, about: str = "") -> Schema:
        return filled({name: whole(least=0) for name in names}, about)

    content = counts("tokens", "text_tokens", "images", "image_tokens", "video_frames")
    content["properties"] |= {
        "video_tokens": whole(least=0),
        "audio_seconds": number(least=0),
        "audio_tokens": whole(least=0),
    }
    content["required"] += ["video_tokens", "audio_seconds", "audio_tokens"]
    return record(
        {
            "prompt_tokens": whole("tokens of contents, questions and floors", least=0),
            "completion_tokens": whole("tokens that were written", least=0),
            "total_tokens": whole("the sum of both", least=0),
            "prompt_tokens_details": counts(
                "content_tokens",
                "text_tokens",
                "query_tokens",
                "floor_tokens",
                "cached_tokens",
                about="of `content_tokens`, `cached_tokens` were kept on the device from other calls",
            ),
            "inputs": whole("number of contents", least=1),
            "content": content,
            "scoring": counts(
                "queries",
                "combinations",
                "options",
                "prompts",
                "floor_prompts",
                "query_tokens",
                "floor_tokens",
            ),
            "packs": counts("count", "query_tokens", about="only with packs"),
            **slots.usage(),
            "processed_tokens": whole(
                "tokens read: each tree and each floor once, and six for each token that a slot's "
                "answer may have",
                least=0,
            ),
        }
        | {name: whole("for trusted callers", least=0) for name in _TRUSTED_COUNTS},
        (
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "prompt_tokens_details",
            "inputs",
            "content",
            "scoring",
            "processed_tokens",
        ),
        "What a request cost, in tokens unless said. Trusted callers see more counters.",
    )


def timing() -> Schema:
    """Milliseconds of the stages of a request."""
    return filled(
        {
            "wall_ms": whole("from the arrival of the body to the making of the answer", least=0),
            "queue_ms": whole("waiting for the model", least=0),
            "compile_ms": whole("reading, checking, tokenising", least=0),
            "score_ms": whole("from its first pass to its last one", least=0),
            "gpu_busy_ms": whole("of those, how long the model ran", least=0),
        },
        "Milliseconds.",
    )


def _scoring_timing() -> Schema:
    made = timing()
    decode = whole("from then until slots were filled; only with slots", least=0)
    return made | {"properties": {**made["properties"], "decode_ms": decode}}


def _engine() -> Schema:
    fingerprint = filled({"model": text(), "bits": text()})
    return filled(
        {
            "model": text(),
            "revision": optional(text()),
            "family": text(),
            "fingerprint": fingerprint,
        },
        "What computed the answer; for trusted callers.",
    )
