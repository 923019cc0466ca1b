"""Packs' scores in several number formats, and where they are kept.

In a folder: `<folder>/<scheme>/<pack>.jsonl.gz` with an `about.json` beside, so that each scheme can
be scored on a machine that has it and all be compared on one. Knows no measures.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import model_digest
from spinf_serve.engine.work import Limits
from spinf_serve.flags import ENGINE_PACKAGES, require
from spinf_serve.pack_files import SAMPLE, Given, known_model, sample_of
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_there, read_regular, shown
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.recording import Recording, read_recording, write_recording
from spinf_serve.packs.sample import SampleRow, read_sample
from spinf_serve.progress import progress
from spinf_serve.scoring import Asked, Identified, new_recording, presented, score_rows

Say = Callable[[str], None]

REFERENCE = "cpu-float32"
"""The scheme that all others are compared with."""

RECORDED = "scores.jsonl.gz"
"""Name of a recording beside a pack's sample; that of an official pack is made in `REFERENCE`."""

_ABOUT = "about.json"


@dataclass(frozen=True, slots=True)
class Scheme:
    """A device and a number format; attributes as in `EngineConfig`."""

    device: Literal["cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"] = "float32"
    quant: Literal["auto", "bf16", "fp8", "int8"] = "auto"


SCHEMES: Mapping[str, Scheme] = {
    REFERENCE: Scheme("cpu"),
    "cpu-bfloat16": Scheme("cpu", dtype="bfloat16"),
    "cuda-bf16": Scheme("cuda", quant="bf16"),
    "cuda-fp8": Scheme("cuda", quant="fp8"),
    "cuda-int8": Scheme("cuda", quant="int8"),
}


class Fingerprinted(Identified, Protocol):
    """`spinf_serve.engine.fingerprint.Fingerprint`, as far as it is needed."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What can move a score, by name."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine in some scheme.

    Attributes:
        model: its model's id.
        made_with: what else is to be kept with its scores, such as the card's name.
    """

    engine: Asked
    model: str
    fingerprint: Fingerprinted
    made_with: Mapping[str, Any] = field(default_factory=dict)


Opener = Callable[[EngineConfig], Opened]


@dataclass(frozen=True, slots=True)
class Subject:
    """A pack and the rows that its scores are compared on.

    Attributes:
        rows: of its sample, in order.
        beside: a recording of the whole sample in float32; None when there is none.
    """

    pack: Pack
    rows: Sequence[SampleRow]
    beside: Path | None


@dataclass(slots=True)
class Scores:
    """What one scheme answered.

    Attributes:
        scheme: one of `SCHEMES`.
        about: `model`, `model_digest`, `bits` and `facts` of the engine, `seconds` that it took, and
            what it was made with. Empty as long as there was none.
        packs: pack id -> recording.
    """

    scheme: str
    about: dict[str, Any] = field(default_factory=dict)
    packs: dict[str, Recording] = field(default_factory=dict)


def parse_schemes(text: str) -> list[str]:
    """Names of schemes, from a list with commas. Raises `Unusable`."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SCHEMES or name == REFERENCE:
            known = ", ".join(one for one in SCHEMES if one != REFERENCE)
            raise Unusable(f"--schemes: {name!r} is none; give some of {known}")
    return list(dict.fromkeys(names))


def configured(config: EngineConfig, scheme: str) -> EngineConfig:
    """The configuration with the scheme's device and format."""
    chosen = SCHEMES[scheme]
    return replace(config, device=chosen.device, dtype=chosen.dtype, quant=chosen.quant)


def scores_of(
    scheme: str,
    subjects: Sequence[Subject],
    config: EngineConfig,
    folder: Path | None,
    opened: Opener,
    say: Say,
) -> Scores:
    """The answers in a scheme to every subject, asked of an engine as far as they are not kept.

    An engine is opened only when something is missing, and let go before this returns.

    Args:
        config: the model, and all that is no matter of the scheme.
        folder: where scores are kept, or None.

    Raises:
        Unusable: what is kept was made by another model or machine and lacks rows, or cannot be
            read or written; or a row is refused.
    """
    own = None if folder is None else folder / scheme
    scores = Scores(scheme) if own is None else _kept(scheme, own, subjects, say)
    if scheme == REFERENCE:
        _take_recorded(scores, subjects, config.model, say)
    lacking = [one for one in subjects if lacks(scores.packs.get(one.pack.id), one)]
    if not lacking:
        return scores
    who = opened(configured(config, scheme))
    _identify(scores, who, own)
    begun = time.monotonic()
    for one in lacking:
        id = one.pack.id
        recording = scores.packs.setdefault(id, new_recording(who.model, who.fingerprint, one.pack))

        def save(done: Recording, id: str = id) -> None:
            if own is not None:
                _write(own / _file_name(id), lambda path: write_recording(path, done))

        def tell(line: str, id: str = id) -> None:
            say(f"{scheme}, {id}: {line}")

        score_rows(who.engine, one.pack, one.rows, recording, tell, save, floors=False)
    seconds = time.monotonic() - begun
    scores.about["seconds"] = round(scores.about.get("seconds", 0.0) + seconds, 2)
    if own is not None:
        _write_about(own, scores.about)
    say(f"{scheme}: scored {', '.join(one.pack.id for one in lacking)} in {seconds:.1f} s")
    return scores


def subjects_of(given: Iterable[Given], most: int) -> list[Subject]:
    """Packs, each with at most so many rows of the sample that lies by it, evenly spread.

    Raises:
        InvalidPack: a sample is not valid.
        Unusable: a pack has none, or is given twice.
    """
    found: dict[str, Subject] = {}
    for one in given:
        sample = sample_of(one.file)
        if sample is None:
            raise Unusable(f"no {SAMPLE} lies beside {one.file}: only packs with one are compared")
        if one.pack.id in found:
            raise Unusable(f"{one.pack.id} is given twice")
        beside = sample.parent / RECORDED
        found[one.pack.id] = Subject(
            one.pack,
            spread(read_sample(sample, one.pack), most),
            beside if is_there(beside) else None,
        )
    return list(found.values())


def spread(rows: Sequence[SampleRow], most: int) -> list[SampleRow]:
    """At most so many rows, evenly spread; those of `most` are among those of twice as many."""
    count = min(most, len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]


def open_scheme(config: EngineConfig, limits: Limits) -> Opened:
    """An engine in this process, and what it runs on. Raises `Unusable`."""
    require(ENGINE_PACKAGES)
    import torch

    from spinf_serve.engine.api import open_engine
    from spinf_serve.engine.bench.machine import card_of, commit, versions

    with progress("loading the model"):
        engine = open_engine(config, limits)
    card = card_of(torch.device(config.device))
    made_with = {
        "card": card.name,
        "card_line": card.line,
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    return Opened(engine, engine.served.id, engine.fingerprint, made_with)


def _kept(scheme: str, own: Path, subjects: Iterable[Subject], say: Say) -> Scores:
    """What the folder holds of a scheme."""
    file = own / _ABOUT
    if not is_there(file):
        return Scores(scheme)
    try:
        match json.loads(read_regular(file)):
            case {"model": str(), "model_digest": str(digest), "bits": str()} as about:
                pass
            case _:
                raise ValueError("not one of ours")
    except OSError as error:
        raise Unusable(f"{shown(file)} cannot be read: {error.strerror}") from None
    except ValueError:
        raise Unusable(
            f"{shown(file)} does not say what the scores beside it were made with; remove the folder"
        ) from None
    scores = Scores(scheme, about)
    for one in subjects:
        path = own / _file_name(one.pack.id)
        if is_there(path):
            found = read_recording(path, digest, say, one.pack.questions)
            if found is None:
                raise Unusable(f"{shown(path)} does not belong to {shown(file)}; remove it")
            scores.packs[one.pack.id] = found
    return scores


def _take_recorded(scores: Scores, subjects: Iterable[Subject], model: str, say: Say) -> None:
    """Take the recordings beside the samples where they are of the model and hold all rows."""
    manifest = known_model(model)
    if manifest is None or manifest.source.sha256 is None:
        return
    digest = model_digest(manifest.source.sha256, SCHEMES[REFERENCE].dtype)
    for one in subjects:
        if one.beside is None or not lacks(scores.packs.get(one.pack.id), one):
            continue
        found = read_recording(one.beside, digest, say, one.pack.questions)
        if found is not None and not lacks(found, one):
            scores.packs[one.pack.id] = found
            say(f"{REFERENCE}, {one.pack.id}: as recorded in {shown(one.beside)}")


def lacks(recording: Recording | None, of: Subject) -> bool:
    """Whether a row of the subject was not recorded whole; floors are not asked for."""
    if recording is None:
        return True
    questions = [replace(question, empty_floor=False) for question in of.pack.questions]
    return any(recording.missing(presented(of.pack, row), questions) for row in of.rows)


def _identify(scores: Scores, who: Opened, own: Path | None) -> None:
    """Note who answers; raises `Unusable` when what is kept was answered by somebody else."""
    digests = who.fingerprint
    if scores.about and scores.about["bits"] != digests.bits:
        raise Unusable(
            f"{own} was scored by {scores.about['model']} (bits {scores.about['bits'][:12]}) and"
            f" lacks some of the rows; this is {who.model} (bits {digests.bits[:12]}), another"
            " model, format or machine: give another --recordings"
        )
    scores.about |= {
        "model": who.model,
        "model_digest": digests.model,
        "bits": digests.bits,
        "facts": dict(digests.facts),
        **who.made_with,
    }
    if own is not None:
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unusable(f"{shown(own)} cannot be made: {error.strerror}") from None
        # At once: it says whose the recordings are that a broken run leaves.
        _write_about(own, scores.about)


def _write_about(own: Path, about: Mapping[str, Any]) -> None:
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    _write(own / _ABOUT, lambda path: write_beside(path, text.encode()))


def _write(path: Path, write: Callable[[Path], None]) -> None:
    try:
        write(path)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be written: {error.strerror}") from None


def _file_name(id: str) -> str:
    # No id has a plus: two ids are two names.
    return f"{id.replace('/', '+')}.jsonl.gz"
