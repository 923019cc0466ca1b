"""Certifies the cuts of a plan as a job, and brings the numbers into the pack's file.

The job writes no pack: it lays the file that would come of it beside its result, so that a page can
show what would change. Knows no screen.
"""

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.data.rows import data_digest
from spinf_serve.evals.fitting import Fitted, fit_pack
from spinf_serve.evals.ledger import keep_fit
from spinf_serve.evals.reports.fits import fit_object, left_out_words, promise_words
from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.files import is_regular, read_regular
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.manifest import MANIFEST, read_manifest
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.save import save_constants
from spinf_serve.workbench import views
from spinf_serve.workbench.actions.cut_plans import Plan, PlannedCut, told, wish_of
from spinf_serve.workbench.actions.drafts import draft_of
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.jobs import Job, jobs

KIND: Final = "fit"
AFTER: Final = "after"
"""Name, without its ending, of the file that the pack's would become."""

_STEPS: Final = 3


def arguments_of(
    desk: Desk, file: Path, pack: Pack, dataset: str, bits: str, plan: Plan, user: str
) -> dict[str, Any]:
    """The arguments of the job that certifies a plan; without lines it promises nothing."""
    return {
        "file": desk.name_of(file),
        "digest": pack.digest,
        "dataset": dataset,
        "bits": bits,
        "cuts": told(plan),
        "delta": plan.delta,
        "planned": plan.planned,
        "user": user,
        # Labels that come later make it another certification.
        "data": data_digest(desk.project, dataset),
    }


def subject_of(file: str, dataset: str) -> str:
    """One certification of these runs at a time."""
    return f"fit {file} {dataset}"


def fit_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `fit`: what came of it, with the pack's file as it would become beside."""
    file = desk.file_named(arguments["file"])
    data = _read(file)
    if hashlib.sha256(data).hexdigest() != arguments["digest"]:
        raise Unusable(f"{arguments['file']} changed since; look at it again, then certify again")
    pack = loaded(data)
    wishes = [wish_of(PlannedCut(**one), arguments["delta"]) for one in arguments["cuts"]]
    report.progress(0, _STEPS, "fitting numbers and testing cuts")
    fitted = fit_pack(
        desk.project,
        arguments["dataset"],
        pack,
        arguments["bits"],
        wishes,
        by=arguments["user"],
        planned=arguments["planned"],
    )
    report.progress(1, _STEPS, "writing the file as it would become")
    after = report.folder / f"{AFTER}{file.suffix}"
    write_beside(after, data)
    fault = None
    try:
        save_constants(after, fitted.constants, digest=pack.digest)
    except InvalidPack as invalid:
        fault = "; ".join(str(one) for one in invalid.faults[:5])
    report.progress(2, _STEPS, "laying out the answers with these numbers")
    if fault is None:
        _lay_out(desk, after, arguments, report)
    return _result(fitted, arguments, after.name, fault)


def _lay_out(desk: Desk, after: Path, arguments: Mapping[str, Any], report: Report) -> None:
    """Make the view that shows the new numbers, so that a page need not wait for it."""
    data = _read(after)
    pack = loaded(data)
    wanted = {"pack": pack.digest, "dataset": arguments["dataset"], "bits": arguments["bits"]}
    views.keep_pack(desk, data, pack)
    views.build(desk, wanted, report)


def _result(
    fitted: Fitted, arguments: Mapping[str, Any], after: str, fault: str | None
) -> dict[str, Any]:
    return {
        "report": fit_object(fitted),
        "met": fitted.met,
        "served": fitted.identity.served,
        "words": {
            promise.name: promise_words(promise)
            for given in fitted.answers
            for promise in given.promises
        },
        "left_out": {
            given.wish.name: left_out_words(given.left_out)
            for given in fitted.answers
            if given.left_out is not None
        },
        "digest": arguments["digest"],
        "after": after,
        "fault": fault,
    }


def last_fits(desk: Desk, file: str, dataset: str, bits: str) -> list[Job]:
    """The certifications of a file on a dataset's scores, newest first."""
    wanted = (file, dataset, bits)
    return [
        one
        for one in jobs(desk, KIND)
        if tuple(one.arguments.get(key) for key in ("file", "dataset", "bits")) == wanted
    ]


@dataclass(frozen=True, slots=True)
class After:
    """The pack as a certification would leave it.

    Attributes:
        constants: for the model that answered.
        text: of the file.
    """

    pack: Pack
    constants: Constants
    text: str


def after_of(job: Job) -> After | None:
    """What a certification would make of the pack; None where it could make nothing."""
    result = job.result()
    if result is None or result["fault"] is not None:
        return None
    path = job.folder / str(result["after"])
    try:
        data = read_regular(path)
        pack = read_pack(data, path.name)
    except (OSError, InvalidPack):
        return None
    constants = pack.constants((str(result["served"]),))
    return None if constants is None else After(pack, constants, data.decode("utf-8-sig"))


def change(before: str, after: str, name: str) -> list[str]:
    """The lines of a file that would change, as a unified diff; empty where none would."""
    lines = before.splitlines(), after.splitlines()
    names = f"{name} now", f"{name} with these numbers"
    return list(difflib.unified_diff(*lines, *names, n=2, lineterm=""))


def refusals(desk: Desk, file: Path, job: Job) -> list[str]:
    """Why a certification's numbers cannot be written into the pack's file; empty when they can."""
    result = job.result()
    if result is None:
        return ["It has not come to an end."]
    found = []
    if result["fault"] is not None:
        found.append(f"The file cannot take the numbers: {result['fault']}")
    if not result["met"]:
        found.append(
            "A target has no cut yet, so nothing may be put in force. Take that line out of the"
            " table and certify again: what was tested already spends nothing anew."
        )
    data = _read(file)
    if hashlib.sha256(data).hexdigest() != job.arguments["digest"]:
        found.append("The pack's file changed since it was certified: certify again.")
    if draft_of(desk, file).unsaved:
        found.append(
            "The pack has a draft that is not saved: save it, or undo it, on the page Pack."
        )
    listed = published_as(file, data)
    if listed is not None:
        found.append(listed)
    return found


def published_as(file: Path, data: bytes) -> str | None:
    """Why a published pack may not be changed; None when it is not published."""
    place = file.resolve()
    root = next((one for one in place.parents if is_regular(one / MANIFEST)), None)
    if root is None:
        return None
    try:
        pack = loaded(data)
        listing = read_manifest(_read(root / MANIFEST), MANIFEST)
    except InvalidPack as invalid:
        return f"{MANIFEST} or the pack has faults: {invalid.faults[0]}"
    if place.relative_to(root).as_posix() in listing.files:
        return "This file is published and never changes: work on the pack's own file."
    versions = [one.version for two in listing.packs if two.id == pack.id for one in two.versions]
    if pack.version in versions:
        return (
            f"Version {pack.version} is published, and what is published never changes: raise the"
            " version on the page Pack first, then certify again."
        )
    return None


def save_fit(desk: Desk, user: str, *, approver: bool, file: Path, job: Job) -> str:
    """Write a certification's numbers and proof into the pack's file; returns its new digest.

    Comments and all that the numbers do not touch stay byte for byte.

    Raises `Unusable`, `InvalidPack`: it may not be done, see `refusals`; then nothing is written.
    """
    if not approver:
        raise Unusable("only an approver may put cuts in force; ask one to look at this page")
    with locked(file, LOCK_SECONDS):
        against = refusals(desk, file, job)
        if against:
            raise Unusable(against[0])
        found, result = after_of(job), job.result()
        if found is None or result is None:
            raise Unusable("what the certification laid out is gone; certify again")
        digest = str(job.arguments["digest"])
        save_constants(file, found.constants, digest=digest)
    pack = loaded(_read(file))
    report = result["report"]
    keep_fit(desk.project, pack.id, pack.version, user, report["data_digest"], report)
    note(
        desk,
        user,
        "put cuts in force",
        desk.name_of(file),
        before=digest,
        after=pack.digest,
        promises=_promised(report["targets"]),
        job=job.id,
    )
    return pack.digest


def _promised(targets: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{one['name']} {one['asked']}" for one in targets]


def loaded(data: bytes) -> Pack:
    """The pack of a file's bytes, without numbers that belong to an earlier wording.

    Raises `InvalidPack`.
    """
    try:
        return read_pack(data, "pack.yaml")
    except InvalidPack:
        return read_pack(data, "pack.yaml", fitted=False)


def _read(file: Path) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise Unusable(f"{file.name} cannot be read: {error.strerror}") from None
