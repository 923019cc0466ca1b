"""Combinations: the placeholder values that turn one template into many filled ones.

The number of filled templates is counted before any is made. Knows no options and no tokens.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from spinf_serve.packs.errors import Refused, kind_of
from spinf_serve.packs.question import NO_VALUES, Prompt
from spinf_serve.packs.template import Template, fill

MAX_COMBINATIONS = 1000
"""Largest number of filled templates that `"all"` may make of one template."""

MAX_VALUE_CHARS = 256
"""Longest value of a placeholder, in characters."""

MAX_FILLED_CHARS = 65_536
"""Longest filled template, in characters; checked before it is made, so that a placeholder written
many times cannot fill the memory. Limits in tokens are far below."""

MAX_QUESTION_CHARS = 1 << 24
"""Most characters of all filled templates of one question; counted while they are made."""


def expand(
    template: Template,
    combinations: Sequence[Mapping[str, str]] | str | None,
    values: Mapping[str, Sequence[str]] | None,
) -> tuple[Prompt, ...]:
    """The filled templates of a question, at least one, in order.

    Args:
        template: the parsed template.
        combinations: one mapping of placeholder to value per filled template; `"all"` for every
            combination of `values`, the last placeholder of the template running fastest; None
            for a template without placeholders.
        values: the values of each placeholder; only with `"all"`.

    Raises `Refused`: `missing_value`, `unknown_placeholder`, `too_many_combinations` or
    `invalid_field`, with a `param` such as `combinations.2.F` or `values.F.0`.
    """
    if isinstance(combinations, str):
        if combinations != "all":
            raise Refused(
                "invalid_field",
                f'combinations is the text {combinations!r}; give a list of objects or "all"',
                "combinations",
            )
        return _every(template, values)
    if values is not None:
        raise Refused(
            "missing_value" if combinations is None and template.names else "invalid_field",
            'values are used with combinations "all" only; write "combinations": "all" or remove'
            " values",
            "combinations" if combinations is None and template.names else "values",
        )
    if combinations is None:
        if template.names:
            raise Refused(
                "missing_value",
                f"the template has the placeholders {_listed(template.names)} but the question has"
                ' no combinations; give a list of objects, or "all" with values',
                "combinations",
            )
        return (_Filler(template)(NO_VALUES, "template"),)
    return _listed_combinations(template, combinations)


def _listed_combinations(
    template: Template, combinations: Sequence[Mapping[str, str]]
) -> tuple[Prompt, ...]:
    if not combinations:
        raise Refused(
            "missing_value",
            "combinations is an empty list; give at least one object or leave it out",
            "combinations",
        )
    names = template.names
    wanted = frozenset(names)
    fill_one = _Filler(template)
    prompts = []
    for index, given in enumerate(combinations):
        where = f"combinations.{index}"
        if not isinstance(given, Mapping):
            raise Refused(
                "invalid_field",
                f"{where} is {kind_of(given)}; give an object of name: value",
                where,
            )
        if given.keys() != wanted:
            _refuse_names(names, given, where)
        chosen = {name: given[name] for name in names}
        for name, value in chosen.items():
            _check_value(value, f"{where}.{name}")
        prompts.append(fill_one(chosen, where))
    return tuple(prompts)


class _Filler:
    """Makes the prompts of one question; refuses, before it is made, what is too long to be meant."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._fixed_chars = sum(map(len, template.literals))
        self._uses = Counter(template.fields)
        self._chars = 0

    def __call__(self, chosen: Mapping[str, str], where: str) -> Prompt:
        chars = self._fixed_chars + sum(len(chosen[n]) * uses for n, uses in self._uses.items())
        self._chars += chars
        if chars > MAX_FILLED_CHARS:
            raise Refused(
                "template_too_long",
                f"the filled template has {chars} characters, more than the {MAX_FILLED_CHARS} "
                "allowed; long text belongs into the content",
                where,
            )
        if self._chars > MAX_QUESTION_CHARS:
            raise Refused(
                "request_too_large",
                f"the filled templates up to here have {self._chars} characters; a question may "
                f"have {MAX_QUESTION_CHARS}: split it into several requests",
                where,
            )
        return Prompt(fill(self._template, chosen), chosen)


def _every(template: Template, values: Mapping[str, Sequence[str]] | None) -> tuple[Prompt, ...]:
    names = template.names
    if not values:
        if not names:
            raise Refused(
                "missing_value",
                'combinations is "all" but the template has no placeholder to give values for;'
                " leave combinations out, or write a placeholder such as `{name}` into the"
                " template and give its values",
                "values",
            )
        raise Refused(
            "missing_value",
            'combinations is "all" but values is empty or absent; give a list of values for'
            f" {_listed(names)}",
            "values",
        )
    if values.keys() != frozenset(names):
        _refuse_names(names, values, "values")
    for name in names:
        listed = values[name]
        if isinstance(listed, str) or not isinstance(listed, Sequence):
            raise Refused(
                "invalid_field",
                f"values.{name} is {kind_of(listed)}; give a list of texts",
                f"values.{name}",
            )
        if not listed:
            raise Refused(
                "missing_value", f"values.{name} is empty; give at least one", f"values.{name}"
            )
    count = prod(len(values[name]) for name in names)
    if count > MAX_COMBINATIONS:
        sizes = " x ".join(str(len(values[name])) for name in names)
        raise Refused(
            "too_many_combinations",
            f"{sizes} values make {count} combinations, more than the {MAX_COMBINATIONS} allowed;"
            " split the question or list the combinations that matter",
            "values",
        )
    for name in names:
        for index, value in enumerate(values[name]):
            _check_value(value, f"values.{name}.{index}")
    fill_one = _Filler(template)
    prompts = []
    for index, row in enumerate(product(*(values[name] for name in names))):
        chosen = dict(zip(names, row, strict=True))
        prompts.append(fill_one(chosen, f"combinations.{index}"))
    return tuple(prompts)


def _refuse_names(names: tuple[str, ...], given: Mapping[str, object], where: str) -> None:
    """Say which names of an object differ from the template's; called only when some do."""
    missing = [name for name in names if name not in given]
    extra = [name for name in given if name not in names]
    if missing:
        instead = f" (it has {_listed(extra)})" if extra else ""
        raise Refused("missing_value", f"{where} lacks {_listed(missing)}{instead}", where)
    raise Refused(
        "unknown_placeholder",
        f"{where} gives {_listed(extra)}, but the template has"
        f" {_listed(names) if names else 'no placeholder'}; leave out what it lacks, or write it"
        " into the template",
        f"{where}.{extra[0]}",
    )


def _check_value(value: object, where: str) -> None:
    if not isinstance(value, str):
        raise Refused("invalid_field", f"{where} is {kind_of(value)}; write it as text", where)
    if len(value) > MAX_VALUE_CHARS:
        raise Refused(
            "invalid_field",
            f"{where} has {len(value)} characters, more than the {MAX_VALUE_CHARS} allowed;"
            " long text belongs into the content",
            where,
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
