"""Versions of a pack: what it is compared with, and publishing the next one. Knows no screen."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from spinf_serve.packs.diff import Group, difference
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.packs.lint import instructions
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.publish import Publication, publish
from spinf_serve.packs.versions import Part, bumped
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions import drafts
from spinf_serve.workbench.actions.pack_choices import VERSIONS, choices, file_of
from spinf_serve.workbench.desk import Desk

DISK = "disk"
STEP = "step:"


@dataclass(frozen=True, slots=True)
class Other:
    """A text that a draft can be compared with.

    Attributes:
        name: for addresses: `disk`, `step:<digest>`, or a name of `pack_choices`.
        title: for people.
    """

    name: str
    title: str


def others(desk: Desk, file: Path) -> list[Other]:
    """The saved file, published versions, official packs and the project's other packs."""
    own = desk.name_of(file)
    prefix = f"{(file.parent / VERSIONS).relative_to(desk.folder).as_posix()}/"
    listed = [one for one in choices(desk) if one.name != own]
    # Its own versions first, the newest of them before the older ones.
    versions = [one for one in listed if one.name.startswith(prefix)]
    rest = [one for one in listed if not one.name.startswith(prefix)]
    found = [*reversed(versions), *rest]
    return [Other(DISK, "The saved file"), *(Other(one.name, one.title) for one in found)]


def text_of(desk: Desk, file: Path, name: str) -> str:
    """The text of one of `others`, or of a step. Raises `Unusable` when it is gone."""
    if name == DISK:
        return drafts.saved_text(desk, file)
    if name.startswith(STEP):
        return drafts.text_of(desk, file, name.removeprefix(STEP))
    path = file_of(desk, name)
    try:
        return read_regular(path).decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{shown(path.name)} cannot be read: {error}") from None


def meanings(before: str, after: str, name: str) -> tuple[Group, ...]:
    """What differs in meaning. Raises `InvalidPack` when either text is no pack."""
    one, two = _read(before, name), _read(after, name)
    said = [instructions(text.encode(), name) for text in (before, after)]
    return difference(one, two, said[0], said[1])


def lines(before: str, after: str, titles: tuple[str, str]) -> str:
    """The two texts' lines that differ, as patches show them; empty when none does."""
    return "\n".join(
        difflib.unified_diff(
            before.split("\n"), after.split("\n"), titles[0], titles[1], lineterm=""
        )
    )


def next_version(version: str, part: Part | None) -> str | None:
    """What a version becomes; None when it is not major.minor.patch."""
    return version if part is None else bumped(version, part)


def published(
    desk: Desk, user: str, file: Path, part: Part | None, note: str, *, approver: bool = True
) -> Publication:
    """Publish the saved file.

    Args:
        part: of the last published version that is raised when the file differs from it; None
            publishes under the version that the file has.
        note: for those who use it, in a line; may be empty.
        approver: whether the user may.

    Raises `InvalidPack`, `Unusable`: see `spinf_serve.packs.publish`; a draft is unsaved.
    """
    if not approver:
        raise Unusable("Only an approver may publish.")
    if drafts.draft_of(desk, file).unsaved:
        raise Unusable("the draft is not saved; save it first, since the file is what is published")
    done = publish(file, read=read_pack, bump=part, root=None, note=note.strip())
    # The file may have got the version written into it.
    drafts.draft_of(desk, file)
    audit.note(
        desk,
        user,
        "publish pack",
        desk.name_of(file),
        pack=done.id,
        version=done.version,
        changed=done.changed,
        note=note.strip(),
    )
    return done


def _read(text: str, name: str) -> Pack:
    try:
        return read_pack(text.encode(), name)
    except InvalidPack:
        return read_pack(text.encode(), name, fitted=False)
