"""How a pack presents a content: the context's two halves with the caller's parameters put in."""

from collections.abc import Mapping
from difflib import get_close_matches

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.pack import Context, Pack

MAX_PARAMETER_CHARS = 16_384
"""Longest value of a parameter, in characters."""


def wrapped(pack: Pack, text: str, context: str | None, given: Mapping[str, str]) -> str:
    """A content as the model reads it: with one of the pack's contexts, filled, around it.

    Arguments and errors as for `halves`.
    """
    before, after = halves(pack, context, given)
    return before + text + after


def halves(pack: Pack, context: str | None, given: Mapping[str, str]) -> tuple[str, str]:
    """What one of the pack's contexts, filled, puts before and after a content.

    Args:
        context: name of the context; None for the first.
        given: as for `filled`.

    Raises `Refused("invalid_field")`: as `filled`, and `context` as `param` for an unknown one.
    """
    name = next(iter(pack.contexts)) if context is None else context
    if name not in pack.contexts:
        raise Refused(
            "invalid_field",
            f"the pack {pack.id} has no context {name[:64]!r}; it has {', '.join(pack.contexts)}",
            "context",
        )
    return filled(pack, pack.contexts[name], given)


def filled(pack: Pack, context: Context, given: Mapping[str, str]) -> tuple[str, str]:
    """The text before and after the content.

    Args:
        given: parameter -> value; names the pack has not are refused, also those that this
            context does not use are accepted, since a caller may switch contexts.

    Raises `Refused("invalid_field")` with the parameter's name as `param`.
    """
    for name, value in given.items():
        if name not in pack.parameters:
            raise _unknown(pack, name)
        if len(value) > MAX_PARAMETER_CHARS:
            raise Refused(
                "invalid_field",
                f"the parameter {name!r} has {len(value)} characters, more than the "
                f"{MAX_PARAMETER_CHARS} allowed; long text belongs into the content",
                name,
            )
    values: dict[str, str] = {}
    for name, parameter in pack.parameters.items():
        if given.get(name) == "" and parameter.required and parameter.default is None:
            raise Refused(
                "invalid_field",
                f"the parameter {name!r} is empty, and the pack {pack.id} requires it; give it text",
                name,
            )
        if name in given:
            values[name] = given[name]
        elif parameter.default is not None:
            values[name] = parameter.default
        elif parameter.required:
            raise Refused(
                "invalid_field",
                f"the pack {pack.id} needs the parameter {name!r}"
                + (f" ({parameter.label})" if parameter.label else ""),
                name,
            )
        else:
            values[name] = ""
    return _put(context.before, values), _put(context.after, values)


def _put(text: str, values: Mapping[str, str]) -> str:
    """`{name}` replaced in one walk, so that a value is never read as another placeholder."""
    parts = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        end = text.find("}", start)
        name = text[start + 1 : end] if end > start else ""
        if name not in values:
            parts.append(text[at : start + 1])
            at = start + 1
            continue
        parts += [text[at:start], values[name]]
        at = end + 1
    parts.append(text[at:])
    return "".join(parts)


def _unknown(pack: Pack, name: str) -> Refused:
    names = list(pack.parameters)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    has = f"it has {', '.join(names)}" if names else "it has none"
    return Refused(
        "invalid_field", f"the pack {pack.id} has no parameter {name[:64]!r}; {has}{hint}", name
    )
