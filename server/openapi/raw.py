"""What /v0/score takes and answers."""

from spinf_serve.engine.work import Limits
from spinf_serve.packs.ask import MAX_NAME_CHARS
from spinf_serve.server.openapi.forms import Schema, filled, items, number, record, ref, text, whole
from spinf_serve.server.wire.raw_jobs import MAX_JOBS


def schemas(limits: Limits) -> dict[str, Schema]:
    """Component name -> schema. `limits` are those of the server."""
    return {"RawRequest": _request(limits), "RawAnswer": _answer()}


def _request(limits: Limits) -> Schema:
    most = limits.max_prompts_per_input
    texts = items(text(least=1), least=1, most=limits.max_options)
    job = record(
        {
            "id": text("names the job in the answer", most=MAX_NAME_CHARS),
            "prompts": items(
                text(),
                "read as they are, behind the model's start token; what they begin alike is read once",
                least=1,
                most=most,
            ),
            "options": items(
                texts,
                "for each prompt the texts that may follow it, exactly as written",
                least=1,
                most=most,
            ),
        },
        ("id", "prompts", "options"),
        closed=True,
    )
    return record(
        {"jobs": items(job, f"up to {MAX_JOBS}", least=1)},
        ("jobs",),
        "Prompts without contents, questions or packs.",
        closed=True,
    )


def _answer() -> Schema:
    result = filled(
        {
            "id": text(),
            "logprobs": items(
                items(number("natural log of the text's probability")),
                "for each prompt those of its options, with all their digits",
            ),
            "packed_tokens": whole("tokens of the tree of its prompts and options", least=0),
            "trees": whole("into which they were put", least=1),
        }
    )
    return filled(
        {
            "results": items(result, "one for each job, in order"),
            "usage": filled(
                {
                    "packed_tokens": whole("of all jobs", least=0),
                    "forwards": whole("passes meanwhile, for this call or another", least=0),
                }
            ),
            "timing": filled(
                {
                    "wall_s": number("from the arrival of the body", least=0),
                    "gpu_busy_s": number("how long the model ran, likewise", least=0),
                }
            ),
            "engine": ref("EngineFacts"),
        },
        "Log-probabilities.",
    )
