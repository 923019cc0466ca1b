"""Saves a draft into its file, by whom cuts may be changed or not. Knows no screen."""

from pathlib import Path

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions import drafts
from spinf_serve.workbench.actions.drafts import Draft
from spinf_serve.workbench.desk import Desk


def save(desk: Desk, user: str, file: Path, draft: Draft, *, approver: bool) -> Draft:
    """Write a draft into its file, see `drafts.save`.

    Args:
        approver: whether fitted numbers may be others than those of the file. Whoever is none may
            change all else, and take numbers out: what was fitted for other words is not in force.

    Raises `Unusable` when it would put cuts in force that are not; nothing is written then. Others
    as `drafts.save`.
    """
    if not approver:
        models = new_numbers(_bytes(file), draft.text.encode(), file.name)
        if models:
            raise Unusable(
                f"Not saved: the text has other fitted numbers for {', '.join(models)} than the file,"
                " and only an approver puts cuts in force. Take the change of `fitted` and of bands"
                " back, or ask an approver to save; your draft is kept"
            )
    return drafts.save(desk, user, file, draft)


def new_numbers(before: bytes, after: bytes, name: str) -> list[str]:
    """Models for which a text puts numbers in force that another text has not, sorted."""
    known = _in_force(before, name)
    return sorted(
        model for model, found in _in_force(after, name).items() if known.get(model) != found
    )


def _in_force(data: bytes, name: str) -> dict[str, Constants]:
    """A text's numbers by model; none where they belong to other words, or it is no pack."""
    try:
        pack: Pack = read_pack(data, name)
    except InvalidPack:
        return {}
    return dict(pack.fitted)


def _bytes(file: Path) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise Unusable(f"{file.name} cannot be read: {error.strerror}") from None
