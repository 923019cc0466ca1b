"""What /v1/score takes and answers where an answer is found or written and not chosen."""

from spinf_serve.packs.ask import MAX_NAME_CHARS
from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    filled,
    flag,
    items,
    mapping,
    null,
    number,
    optional,
    p,
    record,
    ref,
    text,
    whole,
    word,
)
from spinf_serve.server.wire import slots

_BEFORE = r"^(?:[^{}]|\{\{|\}\}|\{[A-Za-z0-9_]+\})*"
_TEXT = r"\{\*\}(?:[^{}\n]|\{\{|\}\})*"
SEARCHED_TEMPLATE = rf"{_BEFORE}(?:\{{[n$]\}}|{_TEXT})$"
"""Templates of slots: as those of questions, but for the slot; text may follow `{*}`."""

WRITTEN_TEMPLATE = rf"{_BEFORE}{_TEXT}$"


def asked(grid: Schema) -> dict[str, Schema]:
    """Component name -> schema, of what is sent. `grid` has the fields `combinations` and `values`."""
    shared = {
        "id": text("unique in the call", most=MAX_NAME_CHARS),
        **grid,
        "group": optional(text("a label, echoed", most=MAX_NAME_CHARS)),
    }
    calibration = record(
        {
            name: optional(
                number(f"without it {default}", least=-slots.MOST_CALIBRATION,
                       most=slots.MOST_CALIBRATION)
            )
            for name, default in (("a", 1), ("b", 0))
        },
        about="how the best answer's probability is calibrated: sigmoid(a × logit(p) + b)",
    )  # fmt: skip
    generate = record(
        {
            "temperature": optional(
                number("0 takes the likeliest token", least=0, most=slots.MOST_TEMPERATURE)
            ),
            "top_p": optional(
                {**number("of the likeliest tokens those with this share", most=1)}
                | {"exclusiveMinimum": 0}
            ),
            "top_k": optional(
                whole("tokens that are drawn from", least=1, most=slots.MOST_CANDIDATES)
            ),
            "seed": optional(whole("the same gives the same", least=0, most=slots.MOST_SEED)),
            "n": optional(whole("texts", least=1, most=slots.MOST_SEQUENCES)),
        },
        about="how tokens are chosen",
        closed=True,
    )
    return {
        "SearchedSlot": record(
            {
                **shared,
                "template": text(
                    "as of a question, with `{*}` for a text, `{n}` for a number or `{$}` for an "
                    "amount where the answer goes; the text behind `{*}` ends it",
                    pattern=SEARCHED_TEMPLATE,
                ),
                "max_tokens": optional(
                    whole(
                        f"of an answer; without it {slots.MAX_TOKENS}",
                        least=1,
                        most=slots.MOST_SEARCHED_TOKENS,
                    )
                ),
                "top_k": optional(
                    whole(
                        f"answers that are told; without it {slots.ANSWERS}",
                        least=1,
                        most=slots.MOST_ANSWERS,
                    )
                ),
                "calibration": optional(calibration),
                "generate": null(),
                "options": null(),
            },
            ("id", "template"),
            "A question without options: the likeliest answers are found, each with its exact "
            "probability ([extraction.md](extraction.md)).",
        ),
        "WrittenSlot": record(
            {
                **shared,
                "template": text("as above, with `{*}`", pattern=WRITTEN_TEMPLATE),
                "max_tokens": optional(
                    whole(
                        f"of a text; without it {slots.MAX_TOKENS}",
                        least=1,
                        most=slots.MOST_GENERATED_TOKENS,
                    )
                ),
                "generate": either({"const": True}, generate, about="how the text is written"),
                "top_k": null(),
                "calibration": null(),
                "options": null(),
            },
            ("id", "template", "generate"),
            "A text that the model writes, up to the text behind `{*}` or a new line.",
        ),
    }


def answered() -> dict[str, Schema]:
    """Component name -> schema, of what is answered."""
    answer = filled(
        {
            "text": text("its likeliest spelling"),
            "p": p("that the model writes it, in any of the spellings that were found"),
            "value": optional(number("of a number or amount; null for a range")),
            "currency": optional(text("sign or code beside an amount, as written")),
            "unit": word("behind a number", "%", "‰", "bp"),
            "ambiguous": word_true(),
            "values": items(number(), "all that the text can mean, the likelier first", least=2),
        },
        "An answer that was found.",
        maybe=("value", "currency", "unit", "ambiguous", "values"),
    )
    found = filled(
        {
            "values": mapping(text(), "values of the placeholders"),
            "answers": items(ref("FoundAnswer"), "by falling probability"),
            "mass": p("of all that was found"),
            "p_negative": optional(
                p("share of negative numbers among those as large as the best; with an answer")
            ),
            "p_calibrated": p("of the best answer, where a calibration was given"),
        },
        maybe=("p_negative", "p_calibrated"),
    )
    written = filled(
        {
            "values": mapping(text(), "values of the placeholders"),
            "answers": items(
                filled(
                    {
                        "text": text(),
                        "finish": word("what ended it: the model, or its length", "stop", "length"),
                    }
                )
            ),
        }
    )
    return {
        "FoundAnswer": answer,
        "SearchedResult": filled(
            {
                "id": text(),
                "kind": word("what was looked for", "text", "number", "currency"),
                "combinations": items(found, "one for each filled template"),
                "group": text("the slot's label, where it has one"),
            },
            "What was found for a slot.",
            maybe=("group",),
        ),
        "WrittenResult": filled(
            {
                "id": text(),
                "kind": word("", "text"),
                "generate": word_true(),
                "combinations": items(written, "one for each filled template"),
                "group": text("the slot's label, where it has one"),
            },
            "What was written into a slot.",
            maybe=("group",),
        ),
    }


def word_true() -> Schema:
    """A flag that is there only where it is set."""
    return flag("only where it is so") | {"enum": [True]}


def usage() -> dict[str, Schema]:
    """The blocks of `usage` that tell of slots."""

    def counts(about: str, *names: str) -> Schema:
        return filled({name: whole(least=0) for name in names}, about)

    return {
        "extraction": counts(
            "only with slots; each filled template of each content counts",
            *("slots", "text", "number", "currency", "answers", "decode_tokens"),
        ),
        "generation": counts(
            "only with written slots", "slots", "sequences", "max_tokens", "generated_tokens"
        ),
    }
