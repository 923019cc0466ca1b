"""A file's fitted numbers: complete for each model, within their ranges, the lock recomputed."""

import math
import re
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from spinf_serve.packs.notes import Notes, Path, listed, quoted
from spinf_serve.packs.pack import (
    Bands,
    Category,
    CategoryFit,
    Constants,
    Cuts,
    MicroLayer,
    Mode,
    Quantiles,
    Read,
    ReadFit,
)
from spinf_serve.packs.plain import inlined, lock_of, split
from spinf_serve.packs.question import Question

MAX_HIDDEN = 4096
"""Most hidden units of a micro layer."""

MOST = 1e6
"""Largest mean and mu, and one over the smallest sd: values of reads are logs of no p below 1e-9, so
that no fit comes near, and what follows from numbers beyond would not be finite."""

_LOCK = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a model's constants are checked against."""

    questions: Mapping[str, Question]
    reads: Sequence[Read]
    categories: Mapping[str, Category]
    modes: tuple[Mode, ...]
    notes: Notes


@dataclass(frozen=True, slots=True)
class _Block:
    """One model's numbers, as a mapping under `fitted`, and where they stand in the file.

    Attributes:
        path: of the block; empty for numbers that stand in `reads`, `categories`, `decision`.
        places: read id -> index in `reads`, for such numbers.
    """

    model: str
    numbers: Mapping[str, Any]
    path: Path
    places: Mapping[str, int]

    @property
    def inline(self) -> bool:
        return not self.path

    def at(self, section: str, *steps: str | int) -> Path:
        """Path of a field of the block."""
        if self.inline and section == "reads" and steps:
            return ("reads", self.places[str(steps[0])], *steps[1:])
        return (*self.path, section, *steps)

    @property
    def remedy(self) -> str:
        where = "every fitted number" if self.inline else f"the block of {quoted(self.model)}"
        return f"fit again, or remove {where} to make the pack a draft"


def read_constants(
    file: Mapping[str, Any],
    questions: Mapping[str, Question],
    reads: Sequence[Read],
    categories: Mapping[str, Category],
    modes: tuple[Mode, ...],
    bands: Bands | None,
    notes: Notes,
) -> dict[str, Constants]:
    """Model -> constants: the file's own first, then those under `fitted`."""
    body, own = split(file)
    frame = _Frame(questions, reads, categories, modes, notes)
    blocks: list[_Block] = []
    if own is not None:
        model = file.get("model")
        if not model:
            notes.missing(
                (),
                "`model` is missing: the id of the model that the numbers were fitted on",
                "model",
            )
        places = {read["id"]: index for index, read in enumerate(file["reads"])}
        if len(places) < len(file["reads"]):
            # Of two reads with one id, which is a fault of its own, the numbers cannot be told apart.
            own["reads"] = {}
        blocks.append(_Block(model or "", own, (), places))
    else:
        _check_unfitted(file, frame)
    names = {block.model.casefold() for block in blocks}
    for model, numbers in file.get("fitted", {}).items():
        path: Path = ("fitted", model)
        if not model.strip():
            notes(path, "the model's name is empty; write the id of the model")
        if model.casefold() in names:
            notes(path, f"a second set of numbers for the model {quoted(model)}; keep one")
            continue
        names.add(model.casefold())
        blocks.append(_Block(model, numbers if own else _completed(numbers, file), path, {}))
    found = {}
    for block in blocks:
        constants = _constants(block, bands, frame)
        layer = _layer(block, frame)
        if constants is None or notes.found or notes.broken:
            continue
        if layer is not None:
            holds = layer.lock == lock_of(inlined(body, constants), layer.inputs)
            layer = replace(layer, holds=holds)
        found[block.model] = replace(constants, layer=layer)
    return found


def _check_unfitted(file: Mapping[str, Any], frame: _Frame) -> None:
    """What a file may say before anything is fitted: thresholds, and the layer's inputs."""
    for name, category in file["categories"].items():
        _check_fraction(category.get("threshold"), ("categories", name, "threshold"), frame.notes)
    decision = file["decision"]
    threshold = (decision.get("max") or {}).get("threshold")
    _check_fraction(threshold, ("decision", "max", "threshold"), frame.notes)
    inputs = (decision.get("micro_layer") or {}).get("inputs")
    if inputs is not None:
        _check_inputs(inputs, ("decision", "micro_layer"), frame)


def _check_fraction(value: float | None, path: Path, notes: Notes) -> None:
    if value is not None and not 0 <= value <= 1:
        notes(path, f"is {value}; write a number between 0 and 1")


def _completed(numbers: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """A model's block with the pack's own thresholds where it has none."""
    decision = dict(numbers.get("decision") or {})
    own_max = (file["decision"].get("max") or {}).get("threshold")
    if own_max is not None and (decision.get("max") or {}).get("threshold") is None:
        decision["max"] = {"threshold": own_max}
    categories = {}
    for name, fit in numbers["categories"].items():
        own = file["categories"].get(name, {}).get("threshold")
        categories[name] = fit if "threshold" in fit or own is None else {**fit, "threshold": own}
    return {**numbers, "categories": categories, "decision": decision}


def _constants(block: _Block, bands: Bands | None, frame: _Frame) -> Constants | None:
    """Everything but the layer; None when something was noted."""
    notes = frame.notes
    before = len(notes.found)
    if not block.inline:
        _check_complete(block, "reads", [read.id for read in frame.reads], "read", notes)
        _check_complete(block, "categories", list(frame.categories), "category", notes)
    reads = {}
    for read in frame.reads:
        given = block.numbers["reads"].get(read.id)
        if given is not None:
            options = len(frame.questions[read.query].options)
            fit = _read_fit(read, given, options, block, notes)
            if fit is not None:
                reads[read.id] = fit
    categories = {}
    for name in frame.categories:
        given = block.numbers["categories"].get(name)
        if given is not None:
            mapped = _category_fit(name, given, block, notes)
            if mapped is not None:
                categories[name] = mapped
    threshold = _max_threshold(block, frame)
    if block.numbers.get("bands") is not None:
        bands = read_bands(block.numbers["bands"], block.at("bands"), frame.categories, notes)
    if len(notes.found) > before:
        return None
    proof = block.numbers.get("proof")
    return Constants(block.model, reads, categories, threshold, None, bands, proof)


def _check_complete(
    block: _Block, section: str, wanted: Sequence[str], what: str, notes: Notes
) -> None:
    given = block.numbers[section]
    needs = ("scoring", "reads") if what == "read" else ("categories",)
    missing = [name for name in wanted if name not in given]
    if missing:
        plural = {"read": "reads", "category": "categories"}[what] if len(missing) > 1 else what
        notes.missing(
            block.at(section), f"lacks the {plural} {listed(missing)}; {block.remedy}", *needs
        )
    for name in given:
        if name not in wanted:
            notes.missing(
                block.at(section, name),
                f"the pack has no {what} {quoted(name)}{notes.near(name, wanted)}",
                *needs,
            )


def _read_fit(
    read: Read, given: Mapping[str, Any], options: int, block: _Block, notes: Notes
) -> ReadFit | None:
    mean, sd, mu = given.get("mean"), given.get("sd"), given.get("mu")
    path = block.at("reads", read.id)
    for key, value in (("mean", mean), ("sd", sd)):
        if value is None:
            notes(path, f"`{key}` of the read {quoted(read.id)} is missing; {block.remedy}")
    if sd is not None and sd <= 0:
        notes((*path, "sd"), f"is {sd}; a standard deviation is above 0")
    elif sd is not None and sd < 1 / MOST:
        notes((*path, "sd"), f"is {sd}; no fit gives less than {1 / MOST:g}, fit again")
    for key, numbers in (("mean", [mean]), ("mu", mu if isinstance(mu, list) else [mu])):
        for number in numbers:
            if number is not None and abs(number) > MOST:
                notes((*path, key), f"holds {number}; no fit gives more than {MOST:g}, fit again")
    # How many numbers `mu` has; 0 stands for a number that is in no list.
    length = {"pair": None, "option": 0}.get(read.kind, options)
    wanted = f"a list of {length} numbers, one for each option" if length else "a number"
    if mu is None:
        if length is not None:
            notes(path, f"`mu` of the read {quoted(read.id)} is missing: {wanted}; {block.remedy}")
    elif length is None:
        notes((*path, "mu"), "a read of kind `pair` has no mu; remove it")
    elif length != (len(mu) if isinstance(mu, list) else 0):
        what = f"has {len(mu)} numbers" if isinstance(mu, list) else "is a number"
        notes((*path, "mu"), f"{what}; a read of kind `{read.kind}` has {wanted}")
    if mean is None or sd is None:
        return None
    return ReadFit(mean, sd, tuple(mu) if isinstance(mu, list) else () if mu is None else (mu,))


def _category_fit(
    name: str, given: Mapping[str, Any], block: _Block, notes: Notes
) -> CategoryFit | None:
    path = block.at("categories", name)
    platt = given.get("platt")
    if platt is None:
        notes.missing(
            path, f"`platt` of the category {quoted(name)} is missing; {block.remedy}", "fitted"
        )
    elif len(platt) != 2:
        notes((*path, "platt"), f"has {len(platt)} numbers; write two, `[a, b]`")
    elif max(map(abs, platt)) > MOST:
        notes((*path, "platt"), f"is {platt}; no fit gives more than {MOST:g}, fit again")
    beta = given.get("beta")
    if beta is not None:
        beta = _beta(beta, (*path, "beta"), notes)
    if block.inline and "threshold" not in given:
        notes.missing(
            path,
            f"`threshold` of the category {quoted(name)} is missing; write a number between 0 and 1, or "
            "null to report the score only",
            "fitted",
        )
    threshold = given.get("threshold")
    _check_fraction(threshold, (*path, "threshold"), notes)
    quantiles = given.get("normal_quantiles")
    if quantiles is not None:
        _check_quantiles(quantiles, (*path, "normal_quantiles"), notes)
        quantiles = Quantiles(tuple(quantiles["levels"]), tuple(quantiles["values"]))
    if platt is None or len(platt) != 2:
        return None
    return CategoryFit((platt[0], platt[1]), threshold, quantiles, beta)


def _beta(given: Sequence[float], path: Path, notes: Notes) -> tuple[float, float, float] | None:
    if len(given) != 3:
        notes(path, f"has {len(given)} numbers; write three, `[a, b, c]`, or remove it")
        return None
    for index, slope in enumerate(given[:2]):
        if slope < 0:
            notes((*path, index), f"is {slope}; a map that rises has a and b of 0 or more")
    if max(map(abs, given)) > MOST:
        notes(path, f"is {given}; no fit gives more than {MOST:g}, fit again")
    return given[0], given[1], given[2]


def _check_quantiles(quantiles: Mapping[str, Sequence[float]], path: Path, notes: Notes) -> None:
    levels, values = quantiles["levels"], quantiles["values"]
    if len(levels) != len(values) or len(levels) < 2:
        notes(
            path,
            f"has {len(levels)} levels and {len(values)} values; write equally many, at least two",
        )
    for index, level in enumerate(levels):
        _check_fraction(level, (*path, "levels", index), notes)
    for key, numbers in (("levels", levels), ("values", values)):
        for index, (one, next_one) in enumerate(pairwise(numbers)):
            if next_one < one:
                notes(
                    (*path, key, index + 1),
                    f"{next_one} stands behind {one}; the numbers may not decrease",
                )
                break


def _max_threshold(block: _Block, frame: _Frame) -> Any:
    if "max" not in frame.modes:
        return None
    path = block.at("decision")
    threshold = ((block.numbers.get("decision") or {}).get("max") or {}).get("threshold")
    if threshold is None:
        frame.notes.missing(
            path,
            "`max.threshold` is missing, and the pack has the mode `max`; write a number between "
            f"0 and 1, or {block.remedy}",
            "decision",
        )
    _check_fraction(threshold, (*path, "max", "threshold"), frame.notes)
    return threshold


def _layer(block: _Block, frame: _Frame) -> MicroLayer | None:
    """The layer as the file has it; whether its lock holds is seen from the whole."""
    if "micro_layer" not in frame.modes:
        return None
    notes = frame.notes
    path = (*block.at("decision"), "micro_layer")
    given = (block.numbers.get("decision") or {}).get("micro_layer") or {}
    if not given and not block.inline:
        # A fit may find no layer for a model; the fallback decides there.
        return None
    missing = [key for key in ("inputs", "weights", "lock") if given.get(key) is None]
    if missing:
        notes(
            path,
            f"lacks {listed(missing)}, and the pack has the mode `micro_layer`; {block.remedy}",
        )
        return None
    before = len(notes.found)
    inputs, hidden, lock = given["inputs"], given.get("hidden", 0), given["lock"]
    _check_inputs(inputs, path, frame)
    if not inputs:
        return None
    weights = _weights(given["weights"], len(inputs), hidden, path, notes)
    if not _LOCK.fullmatch(lock):
        notes((*path, "lock"), f"{quoted(lock)} is no lock; it is `sha256:` and 64 hex digits")
    if len(notes.found) > before:
        return None
    return MicroLayer(tuple(inputs), weights, hidden, lock, holds=False)


def _check_inputs(inputs: Sequence[str], path: Path, frame: _Frame) -> None:
    if not inputs:
        frame.notes((*path, "inputs"), "there is none; write `c:<category>` or `r:<read>`")
    known = [f"c:{name}" for name in frame.categories] + [f"r:{read.id}" for read in frame.reads]
    there = set(known)
    for index, name in enumerate(inputs):
        if name not in there:
            frame.notes.missing(
                (*path, "inputs", index),
                f"{quoted(name)} is neither `c:<category>` nor `r:<read>` of this pack"
                + frame.notes.near(name, known),
                "categories",
                "scoring",
                "reads",
            )


def _weights(text: str, inputs: int, hidden: int, path: Path, notes: Notes) -> tuple[float, ...]:
    if not 0 <= hidden <= MAX_HIDDEN:
        notes((*path, "hidden"), f"is {hidden}; write a whole number from 0 to {MAX_HIDDEN}")
        return ()
    try:
        packed = b64decode(text, validate=True)
    except ValueError:
        notes((*path, "weights"), "is not base64; write the little-endian float32 numbers in it")
        return ()
    count = inputs * hidden + 2 * hidden + 2 if hidden else inputs + 2
    if len(packed) != 4 * count:
        notes(
            (*path, "weights"),
            f"has {len(packed)} bytes; {inputs} inputs and {hidden} hidden units need {4 * count}, "
            f"which are {count} float32 numbers with the threshold",
        )
        return ()
    weights = struct.unpack(f"<{count}f", packed)
    if not all(map(math.isfinite, weights)):
        notes((*path, "weights"), "holds a number that is not finite; fit again")
    elif max(map(abs, weights)) > MOST:
        notes((*path, "weights"), f"holds a number above {MOST:g}, which no fit gives; fit again")
    return weights


def read_bands(
    given: Mapping[str, Any] | None, path: Path, categories: Mapping[str, Category], notes: Notes
) -> Bands | None:
    """The bands of a pack or of one model; None without."""
    if given is None:
        return None
    decision = given.get("decision")
    found = {}
    for name, cuts in (given.get("categories") or {}).items():
        place: Path = (*path, "categories", name)
        if name not in categories:
            notes.missing(
                place,
                f"there is no category {quoted(name)}{notes.near(name, categories)}",
                "categories",
            )
        for key in ("act", "review"):
            _check_fraction(cuts[key], (*place, key), notes)
        found[name] = _cuts(cuts, place, notes)
    return Bands(None if decision is None else _cuts(decision, (*path, "decision"), notes), found)


def _cuts(given: Mapping[str, Any], path: Path, notes: Notes) -> Cuts:
    act, review = given["act"], given["review"]
    if act < review:
        notes(path, f"act is {act} and below review, {review}; act is the higher bound")
    return Cuts(act, review)
