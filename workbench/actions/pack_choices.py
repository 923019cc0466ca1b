"""The packs that a page can choose from: the project's files, their published versions, official ones."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spinf_serve.packs.catalogue import official_folder
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.desk import Desk

VERSIONS = "versions"


@dataclass(frozen=True, slots=True)
class Choice:
    """A pack to choose.

    Attributes:
        name: what addresses and jobs call it; see `file_of`.
        title: for people.
    """

    name: str
    title: str


def choices(desk: Desk) -> list[Choice]:
    """Files of the project first, each with its published versions behind it, then official packs."""
    found = []
    for file in desk.pack_files():
        name = desk.name_of(file)
        found.append(Choice(name, name))
        for version in _versions(file):
            told = desk.name_of(version)
            found.append(Choice(told, f"{name}, published {version.stem}"))
    for file in sorted(official_folder().glob("*/pack.yaml")):
        id = f"spinf/{file.parent.name}"
        found.append(Choice(f"official:{id}", f"{id} (official)"))
    return found


def file_of(desk: Desk, name: str) -> Path:
    """The file of a choice. Raises `Unusable` when it is gone."""
    kind, _, id = name.partition(":")
    if kind == "official":
        file = official_folder() / id.rpartition("/")[2] / "pack.yaml"
        if not file.is_file():
            raise Unusable(f"there is no official pack {id!r}")
        return file
    return desk.file_named(name)


def pack_of(desk: Desk, name: str) -> Pack:
    """A choice's pack; its numbers are left out where they belong to an earlier wording.

    Raises `InvalidPack` with all faults, `Unusable` when the file is gone.
    """
    file = file_of(desk, name)
    try:
        data = read_regular(file)
    except OSError as error:
        raise Unusable(f"{name} cannot be read: {error.strerror}") from None
    return read_choice(data, file.name)


@lru_cache(maxsize=32)
def read_choice(data: bytes, name: str) -> Pack:
    """The bytes of a pack's file as a pack; errors as for `pack_of`."""
    try:
        return read_pack(data, name)
    except InvalidPack:
        return read_pack(data, name, fitted=False)


def _versions(file: Path) -> list[Path]:
    folder = file.parent / VERSIONS
    if not folder.is_dir():
        return []
    return sorted(one for one in folder.iterdir() if one.suffix in (".yaml", ".yml", ".json"))
