"""Writes what was fitted on a model into a pack's file, and changes nothing else in it.

In YAML the numbers of a model stand under `fitted.<model>`, one read and one category a line. In
a JSON file that names the model itself they stand inline, as in the plain form.
"""

import codecs
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.packs.json_nodes import parse_json
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Constants
from spinf_serve.packs.plain import block_of
from spinf_serve.packs.yaml_edit import Block, set_value
from spinf_serve.packs.yaml_nodes import parse_yaml, source_text, values


def save_constants(
    path: Path,
    constants: Constants,
    *,
    proof: Mapping[str, Any] | None = None,
    digest: str | None = None,
) -> None:
    """Bring a pack's file to hold these constants for their model.

    Only lines whose numbers change are written anew; a file that holds the constants already is
    not touched. A proof that the file holds for other numbers is removed with the first change.

    Args:
        path: ends in `.json`, `.yaml` or `.yml`.
        constants: finite numbers for every read and category of the pack.
        proof: what stands behind the numbers, in place of `constants.proof`.
        digest: sha256 of the bytes that the constants were fitted from, `Pack.digest`; the file
            has to be that one still. None leaves this unchecked.

    Raises:
        InvalidPack: the file is no valid pack, or its layout cannot take the numbers.
        Unusable: it changed since it was read, or cannot be read or written.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    if digest is not None and sha256(data).hexdigest() != digest:
        raise Unusable(
            f"{path} changed since it was read; nothing was written: load it and fit again"
        )
    name = str(path)
    text = source_text(data, name)
    if proof is not None:
        constants = replace(constants, proof=proof)
    body = _body(data, name, constants)
    if body is None:
        return
    _check_names(constants, body, name)
    try:
        edited = _edited(text, name, constants, body)
    except ValueError as error:
        message = f"the constants of {constants.model} cannot be saved: {error}"
        raise InvalidPack([PackFault(message, name)]) from None
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    written = mark + edited.encode()
    _check(written, name, constants)
    if written == data:
        return
    try:
        write_beside(path, written)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be written: {error.strerror}") from None


def _body(data: bytes, name: str, constants: Constants) -> Mapping[str, Any] | None:
    """The pack's plain form; None when the file holds the constants already."""
    try:
        pack = read_pack(data, name)
    except InvalidPack:
        # Constants of an earlier wording of the pack, perhaps: they are what is replaced.
        return read_pack(data, name, fitted=False).body
    held = pack.constants((constants.model,))
    if held is None or _numbers(held) != _numbers(constants):
        return pack.body
    return None if constants.proof in (None, held.proof) else pack.body


def _check_names(constants: Constants, body: Mapping[str, Any], name: str) -> None:
    for what, fitted, wanted in (
        ("reads", constants.reads, [read["id"] for read in body["reads"]]),
        ("categories", constants.categories, list(body["categories"])),
    ):
        wrong = sorted(set(fitted) ^ set(wanted))
        if wrong:
            message = (
                f"the constants of {constants.model} and the pack differ in {what}: "
                f"{', '.join(wrong[:5])}; fit again on this version of the pack"
            )
            raise InvalidPack([PackFault(message, name)])


def _numbers(constants: Constants) -> tuple[Any, ...]:
    """What has to read back: all but the names, the proof, and bands that the pack itself has."""
    layer = constants.layer and replace(constants.layer, holds=True)
    return constants.reads, constants.categories, constants.max_threshold, layer


def _check(written: bytes, name: str, constants: Constants) -> None:
    held = read_pack(written, name).constants((constants.model,))
    if held is None or _numbers(held) != _numbers(constants):
        message = f"the constants of {constants.model} would not read back; nothing was written"
        raise InvalidPack([PackFault(message, name)])


def _edited(text: str, name: str, constants: Constants, body: Mapping[str, Any]) -> str:
    is_json = name.lower().endswith(".json")
    file: Any = values((parse_json if is_json else parse_yaml)(text, name))
    block = block_of(constants, body)
    # A layer's lock covers how numbers are written.
    exact = constants.layer is not None
    fitted = file["fitted"] if isinstance(file.get("fitted"), dict) else {}
    spelled = {model.casefold(): model for model in fitted}
    model = spelled.get(constants.model.casefold())
    is_own = str(file.get("model", "")).casefold() == constants.model.casefold()
    if model is None and is_own and (is_json or _is_inline(file)):
        return set_value(text, name, (), _inlined(file, block, name), exact=exact)
    model = model or constants.model
    held = fitted.get(model) or {}
    for id, row in block["categories"].items():
        known = "threshold" in (held.get("categories") or {}).get(id, {})
        own = (file.get("categories") or {}).get(id) or {}
        if row["threshold"] is None and not known and "threshold" not in own:
            del row["threshold"]
    return set_value(text, name, ("fitted", model), _laid_out(block), exact=exact)


def _laid_out(block: Mapping[str, Any]) -> Block:
    """One read, category, mode, band, fact or promise of the proof a line."""
    lined = ("reads", "categories", "decision", "bands", "proof")
    laid = {key: Block(part) if key in lined else part for key, part in block.items()}
    promises = laid.get("proof", {}).get("promises")
    if isinstance(promises, dict):
        laid["proof"]["promises"] = Block(promises)
    return Block(laid)


def _is_inline(file: Mapping[str, Any]) -> bool:
    reads = file.get("reads")
    return isinstance(reads, list) and any("mean" in read or "mu" in read for read in reads)


def _inlined(file: Any, block: Mapping[str, Any], name: str) -> Any:
    """The file's object with the numbers where the plain form has them."""
    reads = {read["id"]: read for read in file.get("reads") or []}
    categories = file.get("categories") or {}
    for what, there in (("reads", reads), ("categories", categories)):
        missing = [id for id in block[what] if not isinstance(there.get(id), dict)]
        if missing:
            message = (
                f"the file's numbers stand inline, but its `{what}` do not list {missing[0]}; "
                "remove the inline numbers, so that all can stand under `fitted`"
            )
            raise InvalidPack([PackFault(message, name)])
        for id, row in block[what].items():
            for key in ("beta", "normal_quantiles"):
                there[id].pop(key, None)
            there[id].update(row)
    decision = file.setdefault("decision", {})
    for mode, part in block.get("decision", {}).items():
        decision[mode] = {**(decision.get(mode) or {}), **part}
    file.pop("proof", None)
    file.update({key: block[key] for key in ("bands", "proof") if key in block})
    return file
