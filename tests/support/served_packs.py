"""Served packs from plain objects, in a folder of their own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spinf_serve.packs.catalogue import load_catalogue
from spinf_serve.packs.sources import Access
from spinf_serve.server.served_packs import ServedPacks
from tests.support.packs import golden
from tests.support.stub_engine import SERVED


def fitted(**changes: Any) -> dict[str, Any]:
    """The golden pack, fitted on the stub engine's model; `changes` as in `golden`."""
    return golden(**{"model": SERVED.id, **changes})


def write_packs(folder: Path, *files: Mapping[str, Any]) -> list[Path]:
    """One JSON file for each plain object, named by its id and version."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for file in files:
        name = f"{file['pack']}@{file['version']}.json".replace("/", "-")
        path = folder / name
        path.write_text(json.dumps(file), encoding="utf-8")
        paths.append(path)
    return paths


def served_from(*folders: Path, official: Path | None = None) -> ServedPacks:
    """What a server serves that is given these folders."""
    access = Access(cache=folders[0].parent / "cache")
    given = None if official is None else str(official)
    return ServedPacks(
        load_catalogue([str(one) for one in folders], official=given, access=access, say=print)
    )
