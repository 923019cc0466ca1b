"""What the routes of closed questions take and answer: /v1/systemone and /v1/decisions."""

from spinf_serve.server.openapi.asking import model
from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    filled,
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
from spinf_serve.server.wire.closed_calls import MAX_LEVELS, MAX_OPTIONS
from spinf_serve.server.wire.decisions import MAX_QUESTIONS


def schemas() -> dict[str, Schema]:
    """Component name -> schema."""
    return {
        "SystemOneRequest": _systemone(),
        "Noul": _noul(),
        "Choice": _choice(),
        "Score": _score(),
        "SystemOneAnswer": _systemone_answer(),
        **_systemone_results(),
        "DecisionsRequest": _decisions(),
        "DecisionItem": _item(),
        "DecisionPart": _part(),
        "DecisionQuestion": _question(),
        "DecisionsAnswer": _decisions_answer(),
        **_decisions_results(),
        "Note": _note(),
    }


def _worded(about: str) -> Schema:
    return {"type": ["string", "object", "array"], "description": about}


def _systemone() -> Schema:
    question = either(ref("Noul"), ref("Choice"), ref("Score"))
    asset = record(
        {
            "type": word("", "image"),
            "format": word("", "png", "jpg", "jpeg"),
            "data_base64": text(),
        },
        ("type", "format", "data_base64"),
        "in a body of several parts, `part` names one of them in place of `data_base64`",
    )
    return record(
        {
            "model": model(),
            "state": _worded("the content; objects and lists are read as JSON"),
            "questions": mapping(question, "id -> question", least=1, keys={"minLength": 1}),
            "assets": mapping(asset, "images by placeholder; for models that read some", least=1),
        },
        ("model", "state", "questions"),
        "Closed questions about one state.",
    )


def _noul() -> Schema:
    meaning = optional(_worded("what the answer means"))
    criteria = record({"true": meaning, "false": meaning}, closed=True)
    return record(
        {
            "type": word("", "noul"),
            "instructions": optional(_worded("what is asked")),
            "criteria": optional(criteria),
        },
        ("type",),
        "Yes or no.",
    )


def _choice() -> Schema:
    criteria = mapping(
        optional(_worded("what the label means")), "label -> what it means, or null", least=1
    )
    return record(
        {
            "type": word("", "choice"),
            "instructions": optional(_worded("what is asked")),
            "criteria": criteria | {"maxProperties": MAX_OPTIONS},
        },
        ("type", "criteria"),
        "One of some labels.",
    )


def _score() -> Schema:
    return record(
        {
            "type": word("", "score"),
            "instructions": optional(_worded("what is asked")),
            "criteria": items(
                _worded("a level"), "levels, the lowest first", least=1, most=MAX_LEVELS
            ),
        },
        ("type", "criteria"),
        "A level of a scale.",
    )


def _systemone_results() -> dict[str, Schema]:
    confidence = p("how sure the answer is")
    return {
        "NoulResult": filled(
            {"type": word("", "noul"), "noul": p("that the answer is yes")}, "Yes or no."
        ),
        "ChoiceResult": filled(
            {
                "type": word("", "choice"),
                "choice": text("the most probable label"),
                "confidence": confidence,
                "probabilities": mapping(p(), "label -> probability"),
            },
            "One of some labels.",
        ),
        "ScoreResult": filled(
            {
                "type": word("", "score"),
                "score": number("the expected level", least=0),
                "confidence": confidence,
                "legend": mapping(_worded("the level"), "number of a level -> the level"),
                "probabilities": mapping(p(), "number of a level -> probability"),
            },
            "A level of a scale.",
        ),
    }


def _systemone_answer() -> Schema:
    result = either(ref("NoulResult"), ref("ChoiceResult"), ref("ScoreResult"))
    return filled(
        {
            "model": text("the model that answered"),
            "answers": mapping(result, "id -> answer"),
            "usage": filled(
                {
                    "input_tokens": whole(least=0),
                    "output_tokens": whole("nothing is written", least=0),
                }
            ),
            "x_warnings": items(
                ref("Note"), "what the caller should know; only where there is any"
            ),
        },
        "Answers in the form of System One.",
        maybe=("x_warnings",),
    )


def _decisions() -> Schema:
    content = either(
        text("a text"), items(ref("DecisionItem"), least=1), about="what the questions are about"
    )
    return record(
        {
            "model": model(),
            "input": content,
            "questions": items(ref("DecisionQuestion"), least=1, most=MAX_QUESTIONS),
            "safety_identifier": {"description": "Has no effect."},
            "prompt_cache_key": {"description": "Has no effect: contents are kept by themselves."},
            "prompt_cache_options": {"description": "Has no effect."},
        },
        ("model", "input", "questions"),
        "Closed questions about one input.",
    )


def _texts(about: str) -> Schema:
    return either(text(), items(ref("DecisionPart")), about=about)


def _item() -> Schema:
    message = record(
        {
            "type": optional(word("may be left out", "message")),
            "role": word("", "user", "developer", "system", "assistant"),
            "content": _texts("what is said"),
        },
        ("role", "content"),
    )
    call = record(
        {"type": word("", "function_call"), "name": text(), "arguments": text()},
        ("type", "name", "arguments"),
    )
    custom = record(
        {"type": word("", "custom_tool_call"), "name": text(), "input": text()},
        ("type", "name", "input"),
    )
    output = record(
        {
            "type": word("", "function_call_output", "custom_tool_call_output"),
            "output": _texts("what it returned"),
        },
        ("type", "output"),
    )
    return either(message, call, custom, output, about="A message, a call, or what it returned.")


def _part() -> Schema:
    value: Schema = {"type": "object"}
    return either(
        record({"type": word("", "input_text", "output_text"), "text": text()}, ("type", "text")),
        record({"type": word("", "refusal"), "refusal": text()}, ("type", "refusal")),
        record(
            {"type": word("", "input_json"), "data": either(value, items(value))},
            ("type", "data"),
        ),
        record({"type": word("for models that read images", "input_image")}, ("type",)),
        about="A part of a text.",
    )


def _question() -> Schema:
    common = {
        "name": optional(text("unique; repeated in the answer")),
        "instructions": _texts("what is asked"),
    }
    description = optional(_texts("what it means"))
    choice = record(
        {"value": {"type": ["string", "boolean"]}, "description": description}, ("value",)
    )
    level = record({"label": text(), "description": description}, ("label",))
    return either(
        record({"type": word("", "predicate"), **common}, ("type", "instructions"), "Yes or no."),
        record(
            {
                "type": word("", "choice"),
                **common,
                "choices": items(choice, least=1, most=MAX_OPTIONS),
            },
            ("type", "instructions", "choices"),
            "One of some values.",
        ),
        record(
            {
                "type": word("", "score"),
                **common,
                "levels": items(level, "the lowest first", least=1, most=MAX_LEVELS),
            },
            ("type", "instructions", "levels"),
            "A level of a scale.",
        ),
    )


def _decisions_results() -> dict[str, Schema]:
    name = optional(text("the question's, null without one"))
    confidence = p("how sure the answer is")
    value: Schema = {"type": ["string", "boolean"], "description": "the most probable value"}
    each = filled({"value": {"type": ["string", "boolean"]}, "probability": p()})
    level = filled({"value": whole(least=0), "label": text(), "probability": p()})
    return {
        "PredicateDecision": filled(
            {"type": word("", "predicate"), "name": name, "probability": p("that it is true")},
            "Yes or no.",
        ),
        "ChoiceDecision": filled(
            {
                "type": word("", "choice"),
                "name": name,
                "choice": value,
                "confidence": confidence,
                "probabilities": items(each),
            },
            "One of some values.",
        ),
        "ScoreDecision": filled(
            {
                "type": word("", "score"),
                "name": name,
                "score": number("the expected level", least=0),
                "confidence": confidence,
                "probabilities": items(level),
            },
            "A level of a scale.",
        ),
    }


def _decisions_answer() -> Schema:
    result = either(ref("PredicateDecision"), ref("ChoiceDecision"), ref("ScoreDecision"))
    counts = {"cached_tokens": whole(least=0), "cache_write_tokens": whole(least=0)}
    usage = {
        "input_tokens": whole(least=0),
        "input_tokens_details": filled(counts),
        "output_tokens": whole("nothing is written", least=0),
        "output_tokens_details": filled({"reasoning_tokens": whole(least=0)}),
        "total_tokens": whole(least=0),
    }
    return filled(
        {
            "model": text("the model that answered"),
            "answers": items(result, "one for each question, in order"),
            "usage": filled(usage),
            "x_warnings": items(
                ref("Note"), "what the caller should know; only where there is any"
            ),
        },
        "Answers in the form of OpenAI's SDK.",
        maybe=("x_warnings",),
    )


def _note() -> Schema:
    return filled(
        {
            "code": text("what kind of thing"),
            "message": text("in words"),
            "param": optional(text("path of what it is about")),
            "question": text("the question it is about"),
        },
        maybe=("question",),
    )
