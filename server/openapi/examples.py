"""Bodies that the document shows. What is sent is run by the tests; numbers in answers are made up."""

from typing import Any

from spinf_serve.server.openapi.operation import Example

_MAIL = "The kettle arrived broken and I am tired of waiting. Please return my $40."
_QUERY: Any = {
    "id": "wants",
    "template": "\nIn short, the customer wants a{?}",
    "options": [" refund", " replacement"],
}
_GRID: Any = {
    "id": "about",
    "template": "\nThis is a message about {topic}. True or false? Answer:{?}",
    "options": [" true", " false"],
    "combinations": "all",
    "values": {"topic": ["a delivery", "an invoice"]},
    "empty_floor": False,
}


def _option(text: str, logprob: float, p: float, floor_p: float | None) -> dict[str, Any]:
    return {"text": text, "logprob": logprob, "p": p, "floor_p": floor_p}


def _answer(model: str, *results: Any, **usage: int) -> dict[str, Any]:
    content, query, floor = usage["content"], usage["query"], usage["floor"]
    nothing = {"images": 0, "image_tokens": 0, "video_frames": 0, "video_tokens": 0}
    return {
        "id": "scr_01M8KVBDR1FF7NYAB487HTZ63F",
        "object": "score",
        "created": 1795962550,
        "model": model,
        "system_fingerprint": "fp_3f9a1c07be",
        "results": list(results),
        "warnings": [],
        "usage": {
            "prompt_tokens": content + query + floor,
            "completion_tokens": 0,
            "total_tokens": content + query + floor,
            "prompt_tokens_details": {
                "content_tokens": content,
                "text_tokens": content,
                "query_tokens": query,
                "floor_tokens": floor,
                "cached_tokens": 0,
            },
            "inputs": len(results),
            "content": {
                "tokens": content,
                "text_tokens": content,
                **nothing,
                "audio_seconds": 0.0,
                "audio_tokens": 0,
            },
            "scoring": {
                "queries": usage["queries"],
                "combinations": usage["combinations"],
                "options": usage["options"],
                "prompts": usage["prompts"],
                "floor_prompts": usage["floor_prompts"],
                "query_tokens": query,
                "floor_tokens": floor,
            },
            "processed_tokens": content + query + floor,
        },
        "timing": {
            "wall_ms": 64,
            "queue_ms": 0,
            "compile_ms": 2,
            "score_ms": 61,
            "gpu_busy_ms": 58,
        },
    }


_WANTS: Any = {
    "id": "wants",
    "combinations": [
        {
            "values": {},
            "options": [
                _option(" refund", -1.030173, 0.995421, 0.953994),
                _option(" replacement", -6.411527, 0.004579, 0.046006),
            ],
            "residual": 0.641303,
            "floor_residual": 0.998723,
        }
    ],
}


def _about(topic: str, true: float, false: float, p: float, residual: float) -> dict[str, Any]:
    options = [_option(" true", true, p, None), _option(" false", false, round(1 - p, 6), None)]
    values = {"topic": topic}
    return {"values": values, "options": options, "residual": residual, "floor_residual": None}


SCORE = (
    Example(
        "one_question",
        "One content, one question",
        {
            "messages": [{"role": "user", "content": f"Customer: {_MAIL}"}],
            "scoring": {"queries": [_QUERY]},
        },
        _answer(
            "spinf/smollm2-135m-instruct",
            {"input_id": "0", "queries": [_WANTS]},
            content=21,
            query=9,
            floor=9,
            queries=1,
            combinations=1,
            options=2,
            prompts=1,
            floor_prompts=1,
        ),
    ),
    Example(
        "several_contents",
        "Several contents, a grid of questions, one of which is for one content only",
        {
            "model": "spinf-12b",
            "inputs": [
                {
                    "id": "mail-1",
                    "messages": [{"role": "user", "content": _MAIL}],
                    "queries": [_QUERY],
                },
                {
                    "id": "mail-2",
                    "messages": [
                        {"role": "user", "content": [{"type": "text", "text": "Thank you all."}]}
                    ],
                },
            ],
            "scoring": {"queries": [_GRID]},
        },
        _answer(
            "spinf-12b",
            {
                "input_id": "mail-1",
                "queries": [
                    {
                        "id": "about",
                        "combinations": [
                            _about("a delivery", -0.34249, -2.120264, 0.855422, 0.17),
                            _about("an invoice", -1.660731, -0.446287, 0.228916, 0.17),
                        ],
                    },
                    _WANTS,
                ],
            },
            {
                "input_id": "mail-2",
                "queries": [
                    {
                        "id": "about",
                        "combinations": [
                            _about("a delivery", -2.813411, -0.174353, 0.066667, 0.1),
                            _about("an invoice", -2.995732, -0.162519, 0.055556, 0.1),
                        ],
                    }
                ],
            },
            content=24,
            query=73,
            floor=9,
            queries=2,
            combinations=3,
            options=4,
            prompts=5,
            floor_prompts=1,
        ),
    ),
)

CHAT = (
    Example(
        "one_question",
        "One content, one question",
        {**SCORE[0].sent, "model": "spinf-12b"},
        {**SCORE[0].got, "model": "spinf-12b", "choices": []},
    ),
)

RAW = (
    Example(
        "two_prompts",
        "Two prompts, two texts behind each",
        {
            "jobs": [
                {
                    "id": "kettle",
                    "prompts": [
                        "The kettle is broken. The customer is",
                        "The kettle works. The customer is",
                    ],
                    "options": [[" angry", " glad"], [" angry", " glad"]],
                }
            ]
        },
        {
            "results": [
                {
                    "id": "kettle",
                    "logprobs": [[-6.2182, -8.9047], [-7.8811, -7.1125]],
                    "packed_tokens": 16,
                    "trees": 1,
                }
            ],
            "usage": {"packed_tokens": 16, "forwards": 1},
            "timing": {"wall_s": 0.041, "gpu_busy_s": 0.037},
            "engine": {
                "model": "spinf/smollm2-135m-instruct",
                "revision": None,
                "family": "llama",
                "fingerprint": {"model": "8c0d8f0b", "bits": "3b3e5790"},
            },
        },
    ),
)

COMPLETIONS = (
    Example(
        "a_continuation",
        "A text that is continued",
        {"prompt": "The three primary colours are", "max_tokens": 8, "temperature": 0},
        {
            "id": "cmpl-01M8KVBDR1FF7NYAB487HTZ63F",
            "object": "text_completion",
            "created": 1795962550,
            "model": "spinf/smollm2-135m-instruct",
            "system_fingerprint": "fp_3f9a1c07be",
            "choices": [
                {
                    "index": 0,
                    "text": " red, blue, and yellow.",
                    "logprobs": None,
                    "finish_reason": "length",
                }
            ],
            "usage": {
                "prompt_tokens": 5,
                "completion_tokens": 8,
                "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        },
    ),
)

MODEL = (
    Example(
        "one_model",
        "A served model",
        None,
        {
            "id": "spinf/smollm2-135m-instruct",
            "object": "model",
            "created": 1730419200,
            "owned_by": "local",
        },
        {"id": "jev-latest"},
    ),
)

MODELS = (
    Example(
        "a_model",
        "A served model",
        None,
        {
            "object": "list",
            "data": [
                {
                    "id": "spinf/smollm2-135m-instruct",
                    "object": "model",
                    "created": 1730419200,
                    "owned_by": "local",
                }
            ],
            "models": [
                {
                    "id": "spinf/smollm2-135m-instruct",
                    "name": "spinf/smollm2-135m-instruct",
                    "description": "A small model for trying things out",
                    "release_date": "2024-11-01",
                    "status": "available",
                    "base_model": "HuggingFaceTB/SmolLM2-135M-Instruct",
                    "revision": "1",
                    "aliases": ["embedded", "spinf-12b", "jev-latest"],
                    "family": "llama",
                    "capabilities": ["score", "extract", "generate"],
                    "media": [],
                    "limits": {
                        "max_content_tokens": 4096,
                        "max_query_tokens": 256,
                        "max_prompts_per_input": 10000,
                        "max_processed_tokens": 2000000,
                        "max_options": 1000,
                        "max_option_tokens": 5,
                        "max_extractions_per_input": 10,
                        "max_completion_tokens": 1024,
                        "max_body_bytes": 2097152,
                    },
                    "features": {"media": [], "extraction": True, "generation": True},
                    "stand_in": True,
                    "note": "for trying things out: serve a larger model for decisions that matter",
                }
            ],
        },
    ),
)

PACKS = (
    Example("no_packs", "No packs are served", None, {"packs": [], "sources": [], "faults": []}),
)

SYSTEMONE = (
    Example(
        "three_kinds",
        "A question of each kind",
        {
            "model": "jev-latest",
            "state": {"subject": "Billed twice", "body": "Please refund one of the charges."},
            "questions": {
                "refund": {
                    "type": "noul",
                    "instructions": "Does the writer ask for money back?",
                    "criteria": {"true": "any refund or chargeback"},
                },
                "team": {
                    "type": "choice",
                    "instructions": "Who handles it?",
                    "criteria": {"Billing": "payments", "Tech": None, "Sales": None},
                },
                "heat": {
                    "type": "score",
                    "instructions": "How upset is the writer?",
                    "criteria": ["calm", "annoyed", "furious"],
                },
            },
        },
        {
            "model": "spinf/gemma-4-12b-fp8",
            "answers": {
                "refund": {"type": "noul", "noul": 0.94},
                "team": {
                    "type": "choice",
                    "choice": "Billing",
                    "confidence": 0.715,
                    "probabilities": {"Billing": 0.81, "Tech": 0.13, "Sales": 0.06},
                },
                "heat": {
                    "type": "score",
                    "score": 1.57,
                    "confidence": 0.355,
                    "legend": {"0": "calm", "1": "annoyed", "2": "furious"},
                    "probabilities": {"0": 0.08, "1": 0.27, "2": 0.65},
                },
            },
            "usage": {"input_tokens": 140, "output_tokens": 0},
        },
    ),
)

DECISIONS = (
    Example(
        "three_kinds",
        "A question of each kind",
        {
            "model": "spinf-12b",
            "input": "Billed twice. Please refund one of the charges.",
            "questions": [
                {
                    "type": "predicate",
                    "name": "refund",
                    "instructions": "The writer asks for money back.",
                },
                {
                    "type": "choice",
                    "instructions": "Who handles it?",
                    "choices": [{"value": "billing", "description": "payments"}, {"value": "tech"}],
                },
                {
                    "type": "score",
                    "name": "heat",
                    "instructions": "How upset is the writer?",
                    "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
                },
            ],
        },
        {
            "model": "spinf/gemma-4-12b-fp8",
            "answers": [
                {"type": "predicate", "name": "refund", "probability": 0.94},
                {
                    "type": "choice",
                    "name": None,
                    "choice": "billing",
                    "confidence": 0.8,
                    "probabilities": [
                        {"value": "billing", "probability": 0.9},
                        {"value": "tech", "probability": 0.1},
                    ],
                },
                {
                    "type": "score",
                    "name": "heat",
                    "score": 1.57,
                    "confidence": 0.355,
                    "probabilities": [
                        {"value": 0, "label": "calm", "probability": 0.08},
                        {"value": 1, "label": "annoyed", "probability": 0.27},
                        {"value": 2, "label": "furious", "probability": 0.65},
                    ],
                },
            ],
            "usage": {
                "input_tokens": 120,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 120,
            },
        },
    ),
)
