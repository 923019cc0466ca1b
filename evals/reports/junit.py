"""A verdict as JUnit XML, which CI systems show beside their tests.

A test case is a rule, not a row: rows that a pack gets wrong within its limits fail nothing. No case
fails or errs exactly when the command ends with 0.
"""

from xml.etree import ElementTree

from spinf_serve.evals.gate import Outcome, Verdict
from spinf_serve.evals.judged import Evaluation
from spinf_serve.evals.reports.told import facts, figure, listed


def junit(evaluation: Evaluation, verdict: Verdict) -> str:
    """The XML text. Characters that XML cannot hold stand as `\\x07` and the like."""
    made = evaluation.made
    failures = sum(one.word == "regression" for one in verdict.outcomes)
    errors = sum(one.word not in ("pass", "regression") for one in verdict.outcomes)
    counts = {
        "tests": str(max(1, len(verdict.outcomes))),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": "0",
    }
    name = f"{made.pack}@{made.version}"
    root = ElementTree.Element("testsuites", {"name": "spinf-serve eval", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _held(name), **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for title, text in (*facts(evaluation), ("verdict", verdict.sentence)):
        ElementTree.SubElement(properties, "property", {"name": title, "value": _held(text)})
    for outcome in verdict.outcomes:
        _case(suite, name, outcome)
    if not verdict.outcomes:
        # A file without any case counts as a failure in some systems.
        case = {"classname": _held(name), "name": verdict.sentence}
        ElementTree.SubElement(suite, "testcase", case)
    ElementTree.SubElement(suite, "system-out").text = _held("\n".join(_figures(evaluation)))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(suite: ElementTree.Element, name: str, outcome: Outcome) -> None:
    where = f"{name}.{outcome.target}" if outcome.target else name
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": _held(where), "name": _held(outcome.rule)}
    )
    told = "\n".join([outcome.saw, *listed(outcome.rows)])
    if outcome.word == "pass":
        ElementTree.SubElement(case, "system-out").text = _held(told)
        return
    kind = "failure" if outcome.word == "regression" else "error"
    said = {"type": outcome.word, "message": _held(f"{outcome.word}: {outcome.saw}")}
    ElementTree.SubElement(case, kind, said).text = _held(told)


def _figures(evaluation: Evaluation) -> list[str]:
    lines = []
    for target in evaluation.targets:
        lines += [
            f"{target.judged.target} {name}: {figure(measured)}"
            for name, measured in target.metrics.items()
        ]
    refused = [f"refused: {one.row} ({one.code})" for one in evaluation.refused]
    return [*lines, *listed(refused), *evaluation.notes]


def _held(text: str) -> str:
    """The text with what XML 1.0 has no place for written out: most control characters, lone
    surrogates, and the two non-characters."""
    return "".join(one if _allowed(ord(one)) else _written(ord(one)) for one in text)


def _allowed(code: int) -> bool:
    if code < 0x20:
        return code in (0x9, 0xA)
    return not (0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF))


def _written(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
