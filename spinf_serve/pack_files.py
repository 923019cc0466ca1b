"""Packs as commands name them: a file, or an id among the configured sources; and known models."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spinf_serve.engine.loading.manifest import Manifest, names, read_manifests
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.packs.catalogue import Catalogue, load_catalogue, official_folder
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.files import is_regular, is_there, read_regular, shown
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.manifest import MANIFEST, SUFFIXES, read_manifest
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.publish import VERSIONS
from spinf_serve.packs.sources import Access
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig, packs_cache

SAMPLE = "sample.csv"
"""Name of a pack's labelled sample, beside its file."""


@dataclass(frozen=True, slots=True)
class Given:
    """A pack with its file, `data` being the file's bytes."""

    pack: Pack
    file: Path
    data: bytes


def access(config: ServerConfig) -> Access:
    """How sources elsewhere are reached."""
    return Access(
        cache=packs_cache(config),
        token=config.github_token,
        offline=config.engine.offline,
        refresh=config.packs_refresh,
    )


def open_catalogue(config: ServerConfig, say: Callable[[str], None]) -> Catalogue:
    """All packs of the configured sources; what is wrong with some stands in its `faults`."""
    official = str(official_folder()) if config.official_packs else None
    with progress("reading the packs"):
        return load_catalogue(
            config.packs, official=official, access=access(config), say=say, strict=False
        )


def given_pack(
    name: str, config: ServerConfig, say: Callable[[str], None], version: str | None = None
) -> Given:
    """A pack by its file, or by `id` or `id@version`.

    Raises:
        Unusable: there is none of that name, or it cannot be read.
        InvalidPack: the file is no valid pack.
    """
    if name.lower().endswith(SUFFIXES) or is_there(Path(name)):
        if version is not None:
            raise Unusable(f"{name} is a file, which has one version: leave --version out")
        return read_given(Path(name))
    pack_id, _, at = name.partition("@")
    catalogue = open_catalogue(config, say)
    try:
        pack = catalogue.get(pack_id, version or at or None)
    except Refused as refused:
        raise Unusable(
            f"there is no file {name}, and among the packs on this machine (the official ones and"
            f" those of folders given with --packs): {refused.message}"
        ) from None
    file = next(one.file for one in catalogue.entry(pack_id).versions if one.pack is pack)
    return Given(pack, file, _read(file))


def read_given(file: Path) -> Given:
    """A pack by its file. Raises as `given_pack`."""
    data = _read(file)
    return Given(read_pack(data, str(file)), file, data)


def refuse_id(file: Path) -> None:
    """Raises `Unusable` when there is no such file, as when an id is given where a file is needed."""
    if not is_there(file):
        raise Unusable(
            f"there is no file {shown(file)}; a pack's file is needed, not its id"
            " (`spinf-serve packs list --json` tells where packs lie)"
        )


def _read(file: Path) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise Unusable(f"{shown(file)} cannot be read: {error.strerror}") from None


def sample_of(file: Path) -> Path | None:
    """The sample beside a pack's file, or above `versions/` where its published copy lies."""
    folders = [file.parent]
    if file.resolve().parent.name == VERSIONS:
        folders.append(file.resolve().parent.parent)
    return next((one / SAMPLE for one in folders if is_there(one / SAMPLE)), None)


def refuse_published(file: Path) -> None:
    """Raises `Unusable` when a listing above the file lists it: what is published never changes."""
    place = file.resolve()
    root = next((one for one in place.parents if is_regular(one / MANIFEST)), None)
    if root is None:
        return
    listing = read_manifest(_read(root / MANIFEST), str(root / MANIFEST))
    if place.relative_to(root).as_posix() in listing.files:
        raise Unusable(
            f"{file} is published and never changes: fit the working file and publish that, or give"
            " --dry-run"
        )


def known_model(name: str) -> Manifest | None:
    """What is known in advance of a model by its id or alias."""
    wanted = name.casefold()
    for manifest in read_manifests():
        if wanted in {known.casefold() for known in names(manifest)}:
            return manifest
    return None


def constants_names(served: ServedModel) -> tuple[str, ...]:
    """The names under which a pack's constants may stand for a model."""
    return served.own_names


def described(name: str) -> ServedModel | None:
    """The description of a model that is known in advance."""
    manifest = known_model(name)
    return None if manifest is None else manifest.served
