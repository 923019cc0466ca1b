"""`packs fit` and `packs lint`: whoever answers, the flow around a fit, and its report."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spinf_serve.evals.remote import open_remote
from spinf_serve.flags import ENGINE_PACKAGES, require
from spinf_serve.outputs import check_output
from spinf_serve.pack_files import described
from spinf_serve.packs.digests import constants_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.files import is_there, read_regular, shown
from spinf_serve.packs.fit import NO_THRESHOLD, Fitting, fit
from spinf_serve.packs.lint_rules import Limits, Tokens
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.metrics import PackReport, Report, judge
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.reads import Vectors
from spinf_serve.packs.recording import Recording, read_recording, write_recording
from spinf_serve.packs.sample import SampleRow, read_sample
from spinf_serve.progress import progress
from spinf_serve.scoring import Asked, Identified, new_recording, presented, score_rows
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import interruptible

Say = Callable[[str], None]

LEAST_FIT_ROWS = 10
"""Fewest rows of the part `fit`: below, numbers would follow single rows."""

LEAST_POSITIVES = 5
"""Rows of a part where a category holds below which its figures say little."""


@dataclass(frozen=True, slots=True)
class Answering:
    """A model that answers questions.

    Attributes:
        model: its id.
        digests: None when a server does not tell them.
        tokens: its tokenizer; None when it is a server's.
        limits: where lint finds fault with a question on it.
    """

    engine: Asked
    model: str
    digests: Identified | None
    tokens: Tokens | None
    limits: Limits


def answering(config: ServerConfig, server: str | None) -> Answering:
    """The configured model in this process, or a server's. Raises `Unusable`."""
    if server is not None:
        with progress("waiting for the server's model"):
            remote = open_remote(server, config.token)
        served = described(remote.model)
        limits = _limits(served.lint_residual, served.lint_floor) if served else Limits()
        return Answering(remote, remote.model, remote.digests, None, limits)
    require(ENGINE_PACKAGES)
    from spinf_serve.engine.api import open_engine

    with interruptible(), progress("loading the model"):
        engine = open_engine(config.engine, config.limits)
    return Answering(
        engine,
        engine.served.id,
        engine.fingerprint,
        engine.tokenizer.encode,
        _limits(engine.served.lint_residual, engine.served.lint_floor),
    )


def _limits(residual: float | None, floor: float | None) -> Limits:
    general = Limits()
    return Limits(
        residual=general.residual if residual is None else residual,
        floor=general.floor if floor is None else floor,
    )


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit gave.

    Attributes:
        report: of the rows that were held out; None when there are none.
        asked: rows that were scored for it.
    """

    pack: Pack
    model: str
    model_digest: str
    fitting: Fitting
    report: PackReport | None
    fit_rows: int
    test_rows: int
    asked: int


def fit_pack(
    file: Path, sample: Path, recorded: Path, model: Callable[[], Answering], say: Say
) -> Fitted:
    """Score a sample as far as it is not recorded, fit on its part `fit`, judge on the part `test`.

    Args:
        recorded: the recording, made when it is not there.
        model: opens whoever answers; called once file and sample are known to be right.

    Raises:
        InvalidPack: pack or sample are not valid.
        Unusable: the recording is another model's, or there is nothing to fit on.
    """
    pack = _to_fit(file)
    rows = read_sample(sample, pack)
    parts = {part: [row for row in rows if row.split == part] for part in ("fit", "test")}
    if len(parts["fit"]) < LEAST_FIT_ROWS:
        raise Unusable(
            f"{sample} has {len(parts['fit'])} rows with split fit; at least {LEAST_FIT_ROWS} are"
            " needed, and some hundreds for thresholds to rely on: label more"
        )
    check_output("--recording", recorded, {"the pack": file, "the sample": sample})
    who = model()
    if who.digests is None:
        raise Unusable(
            "the server does not tell this caller its model's digest, which a fit is kept by; give"
            " the token of a trusted caller, or start it with --debug"
        )
    recording = _recording(recorded, who, who.digests, pack, say)
    count = score_rows(
        who.engine,
        pack,
        rows,
        recording,
        say,
        lambda kept: _keep(recorded, kept),
        # A server tells no logprobs of floors, and a fit reads none.
        floors=who.tokens is not None,
    )
    fitting = fit(
        pack,
        [[one] for one in _vectors(pack, parts["fit"], recording)],
        [row.labels for row in parts["fit"]],
        who.model,
    )
    report = None
    if parts["test"]:
        vectors = [[one] for one in _vectors(pack, parts["test"], recording)]
        report = judge(pack, fitting.constants, vectors, [row.labels for row in parts["test"]])
    sizes = len(parts["fit"]), len(parts["test"])
    more = _doubts(pack, fitting, report, parts)
    fitting = replace(fitting, notes=(*fitting.notes, *more))
    return Fitted(pack, who.model, who.digests.model, fitting, report, *sizes, count)


def _doubts(
    pack: Pack,
    fitting: Fitting,
    report: PackReport | None,
    parts: Mapping[str, Sequence[SampleRow]],
) -> Iterator[str]:
    """What to distrust of each category's figures, a line each."""
    own = pack.constants((fitting.constants.model,))
    for id in pack.categories:
        where = f"categories.{id}"
        if own is not None and own.categories[id].beta is not None:
            yield f"{where}: its beta map is gone with the scores before; `spinf-serve fit` makes one"
        silent = fitting.constants.categories[id].threshold is None
        if silent and f"{where}: {NO_THRESHOLD}" not in fitting.notes:
            yield (
                f"{where}: has no threshold in the file, so none was fitted and it only reports;"
                " remove the `fitted` block or `threshold: null` to have one"
            )
        for part, rows in parts.items():
            holding = sum(row.labels[id] is True for row in rows)
            if rows and holding < LEAST_POSITIVES:
                yield (
                    f"{where}: holds for {holding} of the {len(rows)} rows of the part {part}, fewer"
                    f" than {LEAST_POSITIVES}: its figures say little"
                )
        found = None if report is None else report.categories[id].auc
        if found is not None and found.value < 0.5:
            yield (
                f"{where}: AUC {found.value:.3f} on the part test, worse than chance: check wording,"
                " sign and labels, or label more rows"
            )


def _to_fit(file: Path) -> Pack:
    """The pack of a file, whose numbers so far may be those of an earlier wording."""
    try:
        data = read_regular(file)
    except OSError as error:
        raise Unusable(f"{shown(file)} cannot be read: {error.strerror}") from None
    try:
        return read_pack(data, str(file))
    except InvalidPack:
        return read_pack(data, str(file), fitted=False)


def _recording(file: Path, who: Answering, digests: Identified, pack: Pack, say: Say) -> Recording:
    if not is_there(file):
        return new_recording(who.model, digests, pack)
    told: list[str] = []
    found = read_recording(file, digests.model, told.append, pack.questions)
    if found is None:
        raise Unusable(f"{told[0]}; name another file with --recording, or remove this one")
    say(f"{file} holds {len(found.scores)} contents")
    return found


def _keep(file: Path, recording: Recording) -> None:
    try:
        write_recording(file, recording)
    except OSError as error:
        raise Unusable(f"{shown(file)} cannot be written: {error.strerror}") from None


def _vectors(pack: Pack, rows: Sequence[SampleRow], recording: Recording) -> list[Vectors]:
    found = [recording.vectors(presented(pack, row), pack) for row in rows]
    vectors = [one for one in found if one is not None]
    if len(vectors) < len(found):
        raise AssertionError(f"{len(found) - len(vectors)} rows of {pack.id} were not recorded")
    return vectors


def report_object(fitted: Fitted, pack_digest: str) -> dict[str, Any]:
    """A fit and its report as a JSON object; the digest is of the file that holds the numbers."""
    constants, report = fitted.fitting.constants, fitted.report
    categories: Mapping[str, Report] = {} if report is None else report.categories
    return {
        "pack_id": fitted.pack.id,
        "version": fitted.pack.version,
        "pack_digest": pack_digest,
        "model": fitted.model,
        "model_digest": fitted.model_digest,
        "constants_digest": constants_digest(constants),
        "fit_rows": fitted.fit_rows,
        "test_rows": fitted.test_rows,
        "categories": {
            id: _report(categories.get(id)) | {"threshold": constants.categories[id].threshold}
            for id in fitted.pack.categories
        },
        "macro_auc": None if report is None else report.macro_auc,
        "decision": {"mode": fitted.pack.decision.mode}
        | _report(None if report is None else report.verdict),
        "routed": None if report is None else report.routed,
        "abstained": None if report is None else report.abstained,
        "notes": list(fitted.fitting.notes),
        "commit": commit(),
        "command": " ".join(["spinf-serve", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _report(report: Report | None) -> dict[str, Any]:
    if report is None:
        return {}
    told = asdict(report)
    found = told.pop("auc")
    auc = {"auc": None, "auc_error": None}
    if found is not None:
        auc = {"auc": round(found["value"], 4), "auc_error": round(found["error"], 4)}
    rates = {name: None if one is None else round(one, 4) for name, one in told.items()}
    return {"n": report.positives + report.negatives} | rates | auc


def commit() -> str | None:
    """The commit of the checkout one stands in, if it is one."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        # No git here.
        return None
    return done.stdout.strip() or None
