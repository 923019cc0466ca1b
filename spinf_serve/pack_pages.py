"""What the `packs` commands print about packs: lists, pages and differences as text and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spinf_serve.packs.catalogue import Catalogue
from spinf_serve.packs.diff import Group
from spinf_serve.packs.evaluate import state
from spinf_serve.packs.lint import Report as LintReport
from spinf_serve.packs.lint_rules import Finding
from spinf_serve.packs.pack import Pack, Read
from spinf_serve.packs.plain import block_of

_WIDE = 100


def listed(
    catalogue: Catalogue, model: str, model_names: tuple[str, ...], model_digest: str
) -> dict[str, Any]:
    """What is served, as a JSON object.

    Args:
        model: id of the model that states are told for.
        model_names: names under which constants may stand for it.
        model_digest: its digest, empty when it is not known.
    """
    rows = []
    for entry in catalogue.entries:
        for version in entry.versions:
            pack = version.pack
            row: dict[str, Any] = {
                "id": entry.id,
                "version": version.version,
                "default": version.version == entry.version,
                "status": version.status,
                "state": None,
                "questions": None,
                "prompts": None,
                "categories": None,
                "fitted": [],
                "source": entry.source,
                "file": str(version.file),
            }
            if pack is not None:
                row |= {
                    "state": state(pack, pack.constants(model_names), model_digest),
                    "questions": len(pack.questions),
                    "prompts": prompts_of(pack),
                    "categories": len(pack.categories),
                    "fitted": list(pack.fitted),
                }
            rows.append(row)
    return {"model": model, "packs": rows, "faults": list(catalogue.faults)}


def counted(number: int, what: str) -> str:
    """`1 pack`, `2 packs`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def prompts_of(pack: Pack) -> int:
    """Filled templates of all questions."""
    return sum(len(question.prompts) for question in pack.questions)


def list_page(told: dict[str, Any], notes: Sequence[str]) -> Iterator[str]:
    """Lines of `packs list`."""
    head = ("pack", "version", f"on {told['model']}", "questions", "prompts", "source")
    rows = [
        (
            row["id"],
            row["version"],
            row["state"] if row["status"] == "available" else row["status"].replace("_", " "),
            _shown(row["questions"]),
            _shown(row["prompts"]),
            row["source"],
        )
        for row in told["packs"]
    ]
    yield from table([head, *rows], right=(3, 4))
    for title, lines in (("not served:", told["faults"]), ("also:", notes)):
        if lines:
            yield ""
            yield title
            yield from (f"  {line}" for line in lines)


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Rows in columns; those of `right` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def page(pack: Pack) -> dict[str, Any]:
    """A pack as a JSON object: its plain form, what is read, and the numbers of each model."""
    return {
        "digest": pack.digest,
        "pack": dict(pack.body),
        "prompts": {
            question.id: [prompt.text for prompt in question.prompts] for question in pack.questions
        },
        "fitted": {
            model: block_of(constants, pack.body) for model, constants in pack.fitted.items()
        },
    }


def show_page(pack: Pack) -> Iterator[str]:
    """Lines of `packs show`."""
    yield f"{pack.id} {pack.version}" + (f": {pack.name}" if pack.name else "")
    if pack.description:
        yield f"  {pack.description}"
    facts = {
        "digest": pack.digest,
        "reads": ", ".join(pack.media),
        "license": pack.license,
        "tags": ", ".join(pack.tags),
        "long text": "refused" if pack.on_long == "refuse" else f"in chunks, {pack.on_long}",
    }
    yield from (f"  {title:<11}{fact}" for title, fact in facts.items() if fact)
    yield ""
    yield "contexts (the first is the default)"
    yield from (f"  {name}: {one.template!r}" for name, one in pack.contexts.items())
    for name, parameter in pack.parameters.items():
        needed = "required" if parameter.required and parameter.default is None else "optional"
        default = "" if parameter.default is None else f", default {parameter.default!r}"
        yield f"  {{{name}}}: {parameter.label or name} ({needed}{default})"
    yield ""
    yield (
        f"{counted(len(pack.questions), 'question')},"
        f" {counted(prompts_of(pack), 'filled template')}"
    )
    for question in pack.questions:
        yield f"  {question.id}: {' |'.join(question.options)}"
        for prompt in question.prompts:
            yield f"    {prompt.text!r}"
            value = prompt.values.get("F")
            for read in pack.reads:
                if (read.query, read.value) == (question.id, value):
                    yield f"      {_read(read, question.options)}"
    yield ""
    yield "categories"
    for id, category in pack.categories.items():
        words = [category.label or "", "" if category.decides else "reported only"]
        words += [f"requires {', '.join(category.requires)}"] if category.requires else []
        yield f"  {id}: {'; '.join(filter(None, words))}".rstrip(": ")
    yield ""
    yield from _decision(pack)
    yield from _fitted(pack)


def _read(read: Read, options: Sequence[str]) -> str:
    if read.kind == "pair":
        speaks = options[0 if read.sign > 0 else 1].strip()
    elif read.kind == "option" and read.option is not None:
        speaks = options[read.option].strip()
    elif read.kind == "set":
        speaks = ", ".join(options[index].strip() for index in read.unsafe)
    else:
        speaks = f"all but {options[0].strip()}"
    view = f", view {read.view}" if read.view else ""
    return f"{speaks} -> {read.category} ({read.kind}{view})"


def _decision(pack: Pack) -> Iterator[str]:
    yield f"decision: {pack.decision.mode} (it has {', '.join(pack.modes)})"
    if pack.decision.critical:
        yield f"  critical: {', '.join(pack.decision.critical)}"
    yield from _bands("  ", pack.body.get("bands"))
    if pack.route is not None:
        route = pack.route
        yield (
            f"  route: {', '.join(route.categories)}; {route.abstain} below a score of"
            f" {route.minimum:g} or a lead of {route.margin:g}"
        )


def _bands(indent: str, bands: Mapping[str, Any] | None) -> Iterator[str]:
    """Cuts as a file writes them."""
    if not bands:
        return
    parts = {"decision": bands.get("decision"), **(bands.get("categories") or {})}
    for name, cuts in parts.items():
        if cuts is not None:
            act, review = float(cuts["act"]), float(cuts["review"])
            yield f"{indent}bands of {name}: act from {act:g}, review from {review:g}"


def _fitted(pack: Pack) -> Iterator[str]:
    yield ""
    if not pack.fitted:
        yield "fitted on no model: a draft, which answers and decides nothing"
    for model, constants in pack.fitted.items():
        proof = "with a proof" if constants.proof else "without proof"
        yield f"fitted on {model}, {proof}"
        yield from _bands("  ", block_of(constants, pack.body).get("bands"))
        rows = [("category", "slope", "shift", "threshold")]
        rows += [
            (id, f"{fit.platt[0]:.4g}", f"{fit.platt[1]:.4g}", _shown(fit.threshold))
            for id, fit in constants.categories.items()
        ]
        yield from (f"  {line}" for line in table(rows, right=(1, 2, 3)))
        for id, fit in constants.categories.items():
            if fit.beta is not None:
                yield f"  {id}: calibrated by beta {' '.join(f'{one:.4g}' for one in fit.beta)}"
        rows = [("read", "mean", "sd", "mu")]
        rows += [
            (id, f"{fit.mean:.4g}", f"{fit.sd:.4g}", " ".join(f"{one:.3g}" for one in fit.mu))
            for id, fit in constants.reads.items()
        ]
        yield from (f"  {line}" for line in table(rows, right=(1, 2)))


def diff_object(groups: Sequence[Group], same_bytes: bool) -> dict[str, Any]:
    """A difference as a JSON object."""
    return {
        "same": not groups,
        "same_bytes": same_bytes,
        "groups": [asdict(group) for group in groups],
    }


def diff_page(groups: Sequence[Group], same_bytes: bool) -> Iterator[str]:
    """Lines of `packs diff`."""
    if same_bytes:
        yield "the files are the same"
        return
    if not groups:
        yield "nothing differs but comments and layout"
        return
    for group in groups:
        mark = {"before": " (removed)", "after": " (new)", None: ""}[group.only]
        yield f"{group.name}{mark}"
        for change in group.changes:
            old, new = _shown(change.before), _shown(change.after)
            if group.only is not None:
                yield f"  {change.what}: {old if group.only == 'before' else new}"
            elif len(change.what) + len(old) + len(new) + 8 <= _WIDE:
                yield f"  {change.what}: {old} -> {new}"
            else:
                yield f"  {change.what}:"
                yield f"    - {old}"
                yield f"    + {new}"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) and value.isprintable() else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def lint_object(pack: Pack, model: str, contents: int, report: LintReport) -> dict[str, Any]:
    """What lint has to say as a JSON object."""
    return {
        "pack": pack.id,
        "version": pack.version,
        "model": model,
        "contents": contents,
        "questions": len(pack.questions),
        "findings": [_finding(one) for one in report.findings],
        "waived": [_finding(one) | {"reason": waiver.reason} for one, waiver in report.waived],
        "skipped": dict(report.skipped),
    }


def _finding(finding: Finding) -> dict[str, str]:
    return asdict(finding) | {"remedy": finding.remedy}


def lint_page(told: dict[str, Any]) -> Iterator[str]:
    """Lines of `packs lint`."""
    for one in told["findings"]:
        yield f"{one['rule']} on {one['on']}: {one['message']}"
        yield f"    {one['remedy']}"
    for one in told["waived"]:
        yield f"waived {one['rule']} on {one['on']}: {one['message']}"
        yield f"    because {one['reason']}"
    for rule, why in told["skipped"].items():
        yield f"not looked at: {rule} ({why})"
    yield (
        f"{told['pack']} {told['version']} on {told['model']}:"
        f" {counted(len(told['findings']), 'finding')}, {len(told['waived'])} waived,"
        f" {counted(told['questions'], 'question')} on {counted(told['contents'], 'content')}"
    )


def fit_page(told: dict[str, Any]) -> Iterator[str]:
    """Lines of `packs fit`."""
    yield (
        f"{told['pack_id']} {told['version']} on {told['model']}: fitted on {told['fit_rows']} rows,"
        f" judged on {told['test_rows']}"
    )
    rows = [("category", "rows", "hold", "AUC", "error", "threshold", "hit", "wrong")]
    for id, one in told["categories"].items():
        figures = (one.get(key) for key in ("auc", "auc_error", "threshold", "hit", "wrong"))
        counts = (_shown(one.get(key)) for key in ("n", "positives"))
        rows.append((id, *counts, *("-" if f is None else f"{f:.3f}" for f in figures)))
    yield from table(rows, right=range(1, 8))
    if told["macro_auc"] is not None:
        yield f"mean AUC {told['macro_auc']:.3f}"
    if told["routed"] is not None:
        yield f"routed right {told['routed']:.3f}, abstained {told['abstained']:.3f}"
    yield from (f"note: {note}" for note in told["notes"])
