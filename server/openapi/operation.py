"""One operation of the server as data, and the same in OpenAPI's words. Knows no route."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from spinf_serve.server.openapi.forms import Schema, text

JSON = "application/json"
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Example:
    """A body that is sent and the body of its answer.

    Attributes:
        name: of the example, unique among those of its operation.
        title: what it shows.
        sent: the body; None where nothing is sent.
        got: the answer's body.
        given: values of the parameters in the path.
    """

    name: str
    title: str
    sent: Any
    got: Any
    given: Mapping[str, str] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with one status.

    Attributes:
        about: what it says.
        content: media type -> schema of the body.
        headers: names of components that it carries besides `X-Request-Id`.
    """

    about: str
    content: Mapping[str, Schema]
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a route.

    Attributes:
        method: in lower case.
        path: with the names of its parameters in braces.
        name: its id, unique in the document.
        tag: the group that it is shown in.
        summary: a line.
        about: what a caller has to know, in Markdown.
        replies: status -> answer, those that are no errors.
        problems: status -> component of the response, for the errors it may end in.
        body: media type -> schema of what is sent; empty where nothing is.
        parameters: OpenAPI's parameter objects.
        examples: run by the tests.
        is_open: whether it answers without a token on every server.
    """

    method: str
    path: str
    name: str
    tag: str
    summary: str
    about: str
    replies: Mapping[int, Reply]
    problems: Mapping[int, str]
    body: Mapping[str, Schema] = field(default_factory=lambda: _NONE)
    parameters: tuple[Schema, ...] = ()
    examples: tuple[Example, ...] = ()
    is_open: bool = False

    def written(self) -> Schema:
        """OpenAPI's operation object."""
        made: Schema = {
            "operationId": self.name,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.about,
        }
        if self.parameters:
            made["parameters"] = list(self.parameters)
        if self.body:
            made["requestBody"] = {
                "required": True,
                "content": {
                    kind: {"schema": schema, **_examples(self.examples, "sent", kind)}
                    for kind, schema in self.body.items()
                },
            }
        responses: Schema = {
            str(status): self._reply(reply, status == min(self.replies))
            for status, reply in self.replies.items()
        }
        for status, component in self.problems.items():
            responses[str(status)] = {"$ref": f"#/components/responses/{component}"}
        made["responses"] = dict(sorted(responses.items()))
        if self.is_open:
            made["security"] = []
        return made

    def _reply(self, reply: Reply, shows_examples: bool) -> Schema:
        examples = self.examples if shows_examples else ()
        return answer(
            reply.about,
            {
                kind: {"schema": schema, **_examples(examples, "got", kind)}
                for kind, schema in reply.content.items()
            },
            *reply.headers,
        )


def answer(about: str, content: Mapping[str, Schema], *headers: str) -> Schema:
    """OpenAPI's response object; every answer carries its request's id."""
    names = ("X-Request-Id", *headers)
    made: Schema = {
        "description": about,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
    }
    if content:
        made["content"] = dict(content)
    return made


def _examples(examples: tuple[Example, ...], side: str, kind: str) -> Schema:
    shown = {
        one.name: {"summary": one.title, "value": getattr(one, side)}
        for one in examples
        if kind == JSON and getattr(one, side) is not None
    }
    return {"examples": shown} if shown else {}


def path_parameter(name: str, about: str, **bounds: Any) -> Schema:
    """A parameter in the path."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": about,
        "schema": text(**bounds),
    }


def query_parameter(name: str, about: str, schema: Schema) -> Schema:
    """A parameter behind the question mark."""
    return {"name": name, "in": "query", "description": about, "schema": schema}


def header_parameter(name: str, about: str, schema: Schema) -> Schema:
    """A parameter in a header."""
    return {"name": name, "in": "header", "description": about, "schema": schema}
