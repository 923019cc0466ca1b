"""Projects for the tests of the page Data: the example, and large ones made in SQL."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from spinf_serve.evals.project import create
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.desk import PROJECT_FILE, Desk, open_desk
from spinf_serve.workbench.views import View, view_of


@cache
def _example() -> Path:
    folder = Path(mkdtemp(prefix="example-"))
    open_desk(folder)
    return folder


def example(folder: Path) -> Desk:
    """A copy of the example in an empty folder."""
    shutil.copytree(_example(), folder, dirs_exist_ok=True)
    return Desk(folder, folder / PROJECT_FILE)


def pack_of(desk: Desk) -> Pack:
    """The example's pack, with its numbers."""
    return load_pack(desk.folder / "packs" / "triage" / "pack.yaml")


def view_on(desk: Desk, pack: Pack) -> View:
    """What the recorded scores of the example say."""
    with desk.project.open(write=False) as connection:
        bits, served = connection.execute("SELECT bits, served FROM model").fetchall()[0]
    found = view_of(desk, pack, pack.constants((served,)), "messages", bits)
    assert isinstance(found, View)
    return found


def large(folder: Path, rows: int, *, drawn: str = "random") -> Desk:
    """A project with a dataset `big`: every tenth row is labelled for `angry`."""
    folder.mkdir(exist_ok=True)
    project = create(folder / PROJECT_FILE)
    with project.open(write=True) as connection:
        connection.execute("INSERT INTO dataset VALUES ('big', now()::TIMESTAMP, 'made up', '')")
        connection.execute(
            "INSERT INTO item SELECT 'big', 'r' || i, i + 1, 'message number ' || i || ' of '"
            f" || (i * 7919 % 1009), sha256('' || i), NULL, '{{}}', MAP {{'language':"
            " CASE WHEN i % 3 = 0 THEN 'de' ELSE 'en' END}, NULL, NULL, ?, NULL, NULL"
            f" FROM range({rows}) t(i)",
            [drawn],
        )
        connection.execute(
            "INSERT INTO label SELECT 'big', 'r' || i, 'angry', CASE WHEN i % 4 = 0 THEN 'yes' ELSE"
            " 'no' END, 'import', now()::TIMESTAMP, ?, false, false"
            f" FROM range(0, {rows}, 10) t(i)",
            [drawn],
        )
    return Desk(folder, folder / PROJECT_FILE)
