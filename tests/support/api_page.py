"""docs/api.md and docs/openapi.json, made from the document that the server serves."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from spinf_serve.engine.work import Limits
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.openapi.document import document

_COMPONENT = "#/components/schemas/"
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "array": "list",
    "null": "null",
}
_BOUNDS = {
    "string": ("minLength", "maxLength", " characters"),
    "integer": ("minimum", "maximum", ""),
    "number": ("minimum", "maximum", ""),
    "array": ("minItems", "maxItems", " of them"),
    "object": ("minProperties", "maxProperties", " entries"),
}


def kept() -> dict[str, Any]:
    """The document with the limits of a server that nobody configured."""
    return document(Limits(), ServerConfig().max_body_bytes)


def openapi_text() -> str:
    """docs/openapi.json."""
    return json.dumps(kept(), indent=1, ensure_ascii=False) + "\n"


def page(note: str) -> str:
    """docs/api.md."""
    made = kept()
    text = f"""{note}# API reference

Made from [openapi.json](openapi.json), which a running server answers at `GET /openapi.json` with its own
limits. What happens to a request, in order: [http.md](http.md).

{made["info"]["description"]}
"""
    shown = list(_operations(made))
    for tag in made["tags"]:
        text += f"\n## {tag['name'].capitalize()}\n\n{tag['description']}\n\n"
        text += "| Route | Token | What it is |\n|---|---|---|\n"
        for method, path, operation in shown:
            if operation["tags"] == [tag["name"]]:
                token = "no" if operation.get("security") == [] else "yes"
                text += (
                    f"| [`{method.upper()} {path}`](#{_anchor(method, path)}) | {token} | "
                    f"{operation['summary']} |\n"
                )
        for method, path, operation in shown:
            if operation["tags"] == [tag["name"]]:
                text += _operation(method, path, operation, made["components"])
    text += "\n## Objects\n\nFields in **bold** are always there or must be given.\n"
    for name, schema in made["components"]["schemas"].items():
        text += _object(name, schema)
    return text


def _operations(made: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            # It is the answer to GET without a body, and its route says so.
            if method != "head":
                yield method, path, operation


def _anchor(method: str, path: str) -> str:
    kept_signs = [sign for sign in f"{method} {path}".lower() if sign.isalnum() or sign in " -_"]
    return "".join(kept_signs).replace(" ", "-")


def _operation(
    method: str, path: str, operation: Mapping[str, Any], components: Mapping[str, Any]
) -> str:
    text = f"\n### `{method.upper()} {path}`\n\n{operation['description']}\n"
    parameters = operation.get("parameters", [])
    if parameters:
        text += "\n| Parameter | Where | Takes | What it is |\n|---|---|---|---|\n"
        for one in parameters:
            text += (
                f"| {_name(one['name'], one.get('required', False))} | {one['in']} | "
                f"{_cell(_type(one['schema']))} | {_cell(one['description'])} |\n"
            )
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        text += f"\nTakes {_type(content['schema'])} as `{kind}`.\n"
    text += "\n| Status | Body | When |\n|---|---|---|\n"
    for status, given in operation["responses"].items():
        named = given.get("$ref", "").rpartition("/")[2]
        response = components["responses"][named] if named else given
        text += f"| {status} | {_cell(_bodies(response))} | {_cell(response['description'])} |\n"
    return text + "".join(_examples(operation))


def _bodies(response: Mapping[str, Any]) -> str:
    kinds = response.get("content", {})
    return "; ".join(_body(kind, content["schema"]) for kind, content in kinds.items()) or "none"


def _body(kind: str, schema: Mapping[str, Any]) -> str:
    codes = list(_codes(schema))
    shown = _type(schema) if not codes else f"[Error](#error): {', '.join(codes)}"
    return shown if kind == "application/json" else f"{shown} as `{kind}`"


def _codes(schema: Mapping[str, Any]) -> Iterator[str]:
    """The codes that an error of one status can have."""
    for part in [*schema.get("allOf", []), *schema.get("anyOf", [])]:
        error = part.get("properties", {}).get("error", {})
        yield from (
            f"`{code}`" for code in error.get("properties", {}).get("code", {}).get("enum", [])
        )
        yield from _codes(part)


def _examples(operation: Mapping[str, Any]) -> Iterator[str]:
    sent = _shown(operation.get("requestBody", {}))
    first = min(operation["responses"])
    got = _shown(operation["responses"][first])
    for name in sent or got:
        title = (sent or got)[name]["summary"]
        yield f"\n{title}:\n"
        for examples in (sent, got):
            if name in examples:
                yield f"\n```json\n{_lines(examples[name]['value'], 0)}\n```\n"


def _lines(value: Any, depth: int) -> str:
    """JSON with short objects and lists on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= 100 or not isinstance(value, dict | list):
        return flat
    between = ",\n" + " " * (depth + 1)
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_lines(item, depth + 1)}"
            for key, item in value.items()
        ]
        return "{" + between.join(parts) + "}"
    return "[" + between.join(_lines(item, depth + 1) for item in value) + "]"


def _shown(owner: Mapping[str, Any]) -> dict[str, Any]:
    for content in owner.get("content", {}).values():
        examples: dict[str, Any] = content.get("examples", {})
        return examples
    return {}


def _object(name: str, schema: Mapping[str, Any]) -> str:
    text = f"\n### `{name}`\n"
    if "description" in schema:
        text += f"\n{schema['description']}\n"
    forms = schema.get("anyOf", [schema])
    for form in forms:
        if len(forms) > 1 and "description" in form:
            text += f"\n{form['description']}\n"
        text += _table(form)
    return text


def _table(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"\n{_capital(_type(schema))}.\n"
    text = "\n| Field | Takes | What it is |\n|---|---|---|\n"
    for field, kind, about in _fields(schema, ""):
        text += f"| {field} | {_cell(kind)} | {_cell(about)} |\n"
    return text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Fields of an object and of the objects without a name of their own in it."""
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        yield _name(f"{path}{name}", name in required), _type(field), _about(field)
        below = f"{path}{name}"
        inner = field
        while "items" in inner:
            inner, below = inner["items"], f"{below}[]"
        if "properties" in inner:
            yield from _fields(inner, f"{below}.")


def _name(name: str, required: bool) -> str:
    return f"**`{name}`**" if required else f"`{name}`"


def _about(schema: Mapping[str, Any]) -> str:
    return _capital(schema.get("description", ""))


def _type(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_COMPONENT)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(form) for form in schema["anyOf"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "type" not in schema:
        return "anything"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(_kind(kind, schema) for kind in kinds)


def _kind(kind: str, schema: Mapping[str, Any]) -> str:
    if "enum" in schema and kind != "null":
        words = [f"`{word}`" for word in schema["enum"] if word is not None]
        return "one of the codes" if len(words) > 20 else " or ".join(words)
    text = _KINDS[kind]
    if kind == "array" and schema.get("items"):
        text += f" of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        text += f" of name: {_type(schema['additionalProperties'])}"
    if kind in _BOUNDS:
        text += _bounds(schema, *_BOUNDS[kind])
    return text


def _bounds(schema: Mapping[str, Any], least: str, most: str, unit: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is not None and high is not None:
        return f" ({low} to {high}{unit})"
    if high is not None:
        return f" (up to {high}{unit})"
    return "" if low is None else f" ({low} or more{unit})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
