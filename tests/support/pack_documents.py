"""Makes packs/pack.schema.json and the tables of docs/packs.md from the models of a pack's file."""

import json
from pathlib import Path
from typing import Any

from spinf_serve.packs.schema import json_schema

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "packs.md"
BEGIN = "<!-- The tables below are made from code by `make fix`; change them there. -->\n"
END = "<!-- End of the tables. -->\n"

# Title of each table and the definition it shows, in the order of a file; a field that is in both
# forms is shown as authors write it.
_TABLES = (
    ("The file", "AuthorPack"),
    ("`parameters.<name>`", "Parameter"),
    ("`scoring`", "AuthorScoring"),
    ("`scoring.queries[]`", "AuthorQuery"),
    ("`reads[]`", "Read"),
    ("`categories.<id>`", "Category"),
    ("`….normal_quantiles`", "Quantiles"),
    ("`decision`", "Decision"),
    ("`decision.max`", "Max"),
    ("`decision.micro_layer`", "MicroLayer"),
    ("`bands`", "Bands"),
    ("`bands.decision`, `bands.categories.<id>`", "Cuts"),
    ("`route`", "Route"),
    ("`on_long`", "Chunks"),
    ("`fitted.<model>`", "Fitted"),
    ("`fitted.<model>.reads.<id>`", "FittedRead"),
    ("`fitted.<model>.categories.<id>`", "FittedCategory"),
    ("`fitted.<model>.decision`", "FittedDecision"),
    ("`lint`", "Lint"),
    ("`lint.waive[]`", "Waiver"),
)


def schema() -> str:
    """The JSON Schema that editors use."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """docs/packs.md with fresh tables."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + _tables() + END + after


def _tables() -> str:
    whole = json_schema()
    definitions = {"AuthorPack": whole, **whole["$defs"]}
    shown = {name for _, name in _TABLES}
    assert shown == definitions.keys(), shown ^ definitions.keys()
    text = ""
    for title, name in _TABLES:
        one = definitions[name]
        text += f"\n### {title}\n\n{one['description']}\n\n| Field | Takes | What it is |\n|---|---|---|\n"
        required = one.get("required", ())
        for field, taken in one["properties"].items():
            text += (
                f"| `{field}`{'' if field in required else '?'} | {_takes(taken)}{_default(taken)} "
                f"| {_cell(taken['description'])} |\n"
            )
    return f"{text}\n"


def _default(taken: dict[str, Any]) -> str:
    default = taken.get("default")
    return "" if default in (None, {}) else f" (default `{json.dumps(default)}`)"


def _takes(taken: Any) -> str:
    """What a field takes, in words."""
    if not isinstance(taken, dict) or taken.keys() <= {"description", "title", "default"}:
        return "anything"
    if "$ref" in taken:
        return "mapping"
    for union in ("anyOf", "oneOf"):
        if union in taken:
            words = [_takes(one) for one in taken[union] if one.get("type") != "null"]
            return " or ".join(dict.fromkeys(words))
    for listed in ("enum", "const"):
        if listed in taken:
            values = taken[listed] if listed == "enum" else [taken[listed]]
            return ", ".join(f"`{value}`" for value in values)
    kind = taken["type"]
    if kind == "array":
        return f"list of {_several(_takes(taken['items']))}"
    if kind == "object":
        inner = taken.get("additionalProperties")
        return "mapping" if inner in (None, True) else f"mapping to {_several(_takes(inner))}"
    # A list of types is a text that may look like something else.
    shown = {
        "string": "text",
        "number": "number",
        "integer": "whole number",
        "boolean": "true, false",
    }
    return "text" if isinstance(kind, list) else shown[kind]


def _several(words: str) -> str:
    return f"{words}s" if words in ("text", "number", "whole number", "mapping") else words


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
