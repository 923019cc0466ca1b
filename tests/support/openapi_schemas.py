"""The document's schemas as validators, and a stricter reading of them for answers."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs


class Schemas:
    """Checks values against schemas of one document; references are to its components."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        # Compiled once: a schema brings all components along.
        self._validators: dict[str, Any] = {}

    def faults(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """What is wrong with a value, a line each."""
        found = self._validator(schema).iter_errors(value)
        return [f"{'.'.join(map(str, one.instance_path))}: {one.message}" for one in found]

    def unnamed(self, schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[str]:
        """Dotted paths of fields in a value that the schema does not name."""
        forms = [one for one in self._forms(schema) if self._validator(one).is_valid(value)]
        if isinstance(value, list):
            items = {"anyOf": [form.get("items", {}) for form in forms]}
            for index, item in enumerate(value):
                yield from self.unnamed(items, item, f"{path}.{index}")
        elif isinstance(value, dict):
            for key, item in value.items():
                told = [schema for form in forms for schema in _field(form, key)]
                if told:
                    yield from self.unnamed({"anyOf": told}, item, f"{path}.{key}")
                else:
                    yield f"{path}.{key}"

    def _validator(self, schema: Mapping[str, Any]) -> Any:
        key = json.dumps(schema)
        if key not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[key]

    def _forms(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The schemas without references and choices that a value may be an instance of."""
        if "$ref" in schema:
            yield from self._forms(resolved(self.document, schema["$ref"]))
        elif "anyOf" in schema or "allOf" in schema:
            for form in [*schema.get("anyOf", []), *schema.get("allOf", [])]:
                yield from self._forms(form)
        else:
            yield schema


def _field(form: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """What a schema says of a field: nothing, or the schema of its values."""
    properties = form.get("properties", {})
    if key in properties:
        return [properties[key]]
    others = form.get("additionalProperties")
    if isinstance(others, dict):
        return [others]
    # An object of which no field is told may hold any.
    return [] if properties else [{}]


def resolved(document: Mapping[str, Any], reference: str) -> Any:
    """What a reference within the document leads to. Raises KeyError when it leads nowhere."""
    place: Any = document
    for name in reference.removeprefix("#/").split("/"):
        place = place[name.replace("~1", "/").replace("~0", "~")]
    return place


def references(value: Any) -> Iterator[str]:
    """Every reference in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)
