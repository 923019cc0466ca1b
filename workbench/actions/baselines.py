"""Evaluations that lie in the project as baselines, which later ones are held against."""

from pathlib import Path

from spinf_serve.evals.baseline import read_evaluation
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions.evaluations import FILES, folder_of
from spinf_serve.workbench.desk import Desk, has_name


def keep_baseline(desk: Desk, key: str, name: str) -> Path:
    """Copy an evaluation into the project as a baseline for later ones.

    Args:
        name: of the file in `baselines/`, without an ending.

    Raises `Unusable`: the evaluation is gone, or the file cannot be written.
    """
    source = folder_of(desk, key) / FILES["json"][0]
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in name) or "baseline"
    file = desk.folder / "baselines" / f"{safe}.json"
    try:
        file.parent.mkdir(exist_ok=True)
        write_beside(file, source.read_bytes())
    except OSError as error:
        raise Unusable(f"{file.name} cannot be written: {error.strerror}") from None
    return file


def take_baseline(desk: Desk, name: str, data: bytes) -> Path:
    """Put an evaluation that came from elsewhere among the project's baselines.

    Args:
        name: of its file.
        data: what `spinf-serve eval --json` wrote.

    Raises `Unusable`: it is none, or the file cannot be written; nothing is replaced.
    """
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in Path(name).stem)
    file = desk.folder / "baselines" / f"{safe or 'evaluation'}.json"
    if file.exists():
        raise Unusable(f"{desk.name_of(file)} is there already; give the file another name")
    try:
        file.parent.mkdir(exist_ok=True)
        write_beside(file, data)
        try:
            read_evaluation(file)
        except Unusable:
            file.unlink()
            raise
    except OSError as error:
        raise Unusable(f"{file.name} cannot be written: {error.strerror}") from None
    return file


def baselines(desk: Desk) -> list[str]:
    """Names of the baselines that lie in the project."""
    return [
        desk.name_of(file)
        for file in sorted((desk.folder / "baselines").glob("*.json"))
        if has_name(file)
    ]
