"""The text of docs/numbers.md, made from the forms that the grammar of numbers knows."""

from spinf_serve.engine.extraction.numbers.grammar import FORMS, LONG_SCALES, SHORT_SCALES, UNITS
from spinf_serve.engine.extraction.numbers.reader import Reading, read

_HEAD = """# Written numbers and amounts

A slot `{n}` finds a number and `{$}` an amount, as they are written in any of these forms. The same
grammar limits what a search can find and reads what it found, so that every answer has a reading. No
locale is assumed: where a text can be read in two ways, such as `1,234`, both values are given and the
answer is marked `ambiguous`. A range is not one number: its text is kept and its value is null. A dash
directly behind a decimal point or comma stands for cents that there are none of, and is no minus.

| Form | Slot | Written | Read as |
|---|---|---|---|
"""

_SLOTS = {"number": "`{n}`", "amount": "`{$}`"}


def page(note: str) -> str:
    """The whole document; `note` stands at its top."""
    text = note + _HEAD
    for form in FORMS:
        for example in form.examples:
            reading = read(example, form.kind)
            if reading is None:
                raise AssertionError(f"{example!r} is no form of the grammar")
            written = example.replace("\u202f", " ").replace("\u2009", " ")
            text += f"| {form.name} | {_SLOTS[form.kind]} | `{written}` | {_shown(reading)} |\n"
    return text + _scales() + _units()


def _shown(reading: Reading) -> str:
    if reading.is_range:
        return "a range: null"
    values = " or ".join(f"{value:,}" for value in reading.values)
    unit = f", unit `{reading.unit}`" if reading.unit is not None else ""
    if reading.currency is None:
        return values + unit
    code = reading.currency_code or "of several currencies"
    return f"{values}, `{reading.currency}` ({code})"


def _scales() -> str:
    text = "\n## Scales\n\n| Power of ten | Signs, in this case only | Words, in any case |\n|---|---|---|\n"
    for power in sorted({*SHORT_SCALES.values(), *LONG_SCALES.values()}):
        signs = ", ".join(f"`{sign}`" for sign, each in SHORT_SCALES.items() if each == power)
        names = ", ".join(f"`{name}`" for name, each in LONG_SCALES.items() if each == power)
        text += f"| {power} | {signs} | {names} |\n"
    return text


def _units() -> str:
    listed = ", ".join(f"`{unit}`" for unit in UNITS)
    return f"\n## Units\n\nA unit is told and changes no value: `12.5 %` is 12.5. Known are {listed}.\n"
