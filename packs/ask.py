"""One scored question from plain values: every check that needs text only, no tokens.

Wire formats and packs call this; neither repeats a rule of it.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from spinf_serve.packs.errors import Refused, kind_of
from spinf_serve.packs.grid import expand
from spinf_serve.packs.question import Question
from spinf_serve.packs.template import SlotKind, Template, parse

MAX_NAME_CHARS = 128
"""Longest id and longest group, in characters."""

MAX_OPTIONS = 1000
"""Default of the largest number of options of one question."""


def scored_question(
    id: str,
    template: str,
    options: Sequence[str] | None,
    combinations: Sequence[Mapping[str, str]] | str | None = None,
    values: Mapping[str, Sequence[str]] | None = None,
    *,
    case_insensitive: bool = True,
    empty_floor: bool = True,
    group: str | None = None,
    max_options: int = MAX_OPTIONS,
    slot_fields: Sequence[str] = (),
    unknown: Sequence[str] = (),
) -> Question:
    """Check and expand a question.

    Args:
        id: the caller's name for it, up to 128 characters, may be empty.
        template: see `spinf_serve.packs.template`; its slot is `{?}`.
        options: 1 to `max_options` texts, none empty, no two the same.
        combinations: see `spinf_serve.packs.grid.expand`.
        values: likewise.
        case_insensitive: whether spellings count together; then options are compared stripped and
            case-folded, otherwise exactly.
        empty_floor: whether the floor is wanted.
        group: the caller's label, up to 128 characters.
        max_options: largest number of options.
        slot_fields: which of `max_tokens`, `top_k`, `calibration` and `generate` the caller set;
            they belong to the other slots.
        unknown: field names of the question that nothing recognised; a missing field's message
            points at the nearest of them.

    Raises `Refused` with a `param` relative to the question, such as `options.3`.
    """
    _check_name(id, "id")
    if group is not None:
        _check_name(group, "group")
    check_unicode(template, "template")
    parsed = parse(template)
    _check_slot(parsed, slot_fields)
    checked = checked_options(options, case_insensitive, max_options, unknown)
    if combinations is None and values is None and parsed.names:
        hint = _near("combinations", unknown)
        if hint:
            raise Refused(
                "missing_value",
                f"combinations is missing but the template needs it{hint}",
                "combinations",
            )
    prompts = expand(parsed, combinations, values)
    for index, prompt in enumerate(prompts):
        if not prompt.text.isascii():
            check_unicode(prompt.text, f"combinations.{index}")
    return Question(id, prompts, checked, case_insensitive, empty_floor, group)


def check_unicode(text: str, where: str) -> None:
    """Refuse text that cannot be written as UTF-8, such as half an emoji (a lone surrogate)."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            "invalid_field",
            f"{where} is not valid Unicode: character {error.start + 1} is"
            f" U+{ord(text[error.start]):04X}, half of a surrogate pair; send both halves",
            where,
        ) from None


def _check_name(name: str, where: str) -> None:
    if len(name) > MAX_NAME_CHARS:
        raise Refused(
            "invalid_field",
            f"{where} has {len(name)} characters, more than the {MAX_NAME_CHARS} allowed",
            where,
        )
    check_unicode(name, where)


def _check_slot(template: Template, slot_fields: Sequence[str]) -> None:
    if template.kind is SlotKind.OPTIONS:
        if slot_fields:
            raise Refused(
                "invalid_field",
                f"{slot_fields[0]} belongs to extraction slots; remove it from a question with"
                " `{?}`",
                slot_fields[0],
            )
        return
    mark = f"{{{template.kind.value}}}"
    if "generate" in slot_fields:
        raise Refused(
            "generation_disabled",
            "a scored question generates no text; remove generate",
            "generate",
        )
    raise Refused(
        "extraction_disabled",
        f"a scored question has no slot for free answers (`{mark}`); end the template with `{{?}}`"
        " and give options",
        "template",
    )


def checked_options(
    options: Sequence[str] | None,
    case_insensitive: bool,
    max_options: int = MAX_OPTIONS,
    unknown: Sequence[str] = (),
) -> tuple[str, ...]:
    """The options of a question. Arguments and errors are those of `scored_question`."""
    if options is None:
        raise Refused(
            "missing_value",
            f"options is missing: a question with `{{?}}` needs them{_near('options', unknown)}",
            "options",
        )
    if not 1 <= len(options) <= max_options:
        raise Refused(
            "too_many_options",
            f"the question has {len(options)} options; between 1 and {max_options} are allowed"
            " (max_options)",
            "options",
        )
    seen: dict[str, int] = {}
    for index, option in enumerate(options):
        where = f"options.{index}"
        if not isinstance(option, str):
            raise Refused("invalid_field", f"{where} is {kind_of(option)}; write it as text", where)
        if not option:
            raise Refused("invalid_field", f"{where} is empty; give it text or remove it", where)
        check_unicode(option, where)
        first = seen.setdefault(option.strip().casefold() if case_insensitive else option, index)
        if first != index:
            raise _duplicate(options, first, index)
    return tuple(options)


def _duplicate(options: Sequence[str], first: int, index: int) -> Refused:
    same = options[first] == options[index]
    remedy = (
        "remove one"
        if same
        else "only case or outer spaces differ; remove one or set case_insensitive to false"
    )
    return Refused(
        "duplicate_option",
        f"options {first} ({options[first]!r}) and {index} ({options[index]!r}) are the same;"
        f" {remedy}",
        f"options.{index}",
    )


def _near(name: str, unknown: Sequence[str]) -> str:
    close = get_close_matches(name, unknown, n=1, cutoff=0.7)
    return f"; `{close[0]}` is not a field, did you mean `{name}`?" if close else ""
