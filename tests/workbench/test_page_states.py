"""Every page on nothing, on a pack that cannot be read, and, where nothing else asks it, on many rows."""

from pathlib import Path

import pytest

from spinf_serve.workbench.page_list import PAGES
from tests.workbench.cut_desks import scored
from tests.workbench.support import messages, page

ROWS = 100_000
FAULTY = "pack: demo/mail\nversion: 1.0.0\nscoring:\n  queries: [{id: a\n"
WITHOUT_A_PACK = ("data", "history")
"""Pages that are of use without one."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    (folder / "notes.txt").write_text("mine")
    return folder


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    desk = scored(tmp_path_factory.mktemp("faulty") / "desk", 30)
    (desk.folder / "mail.yaml").write_text(FAULTY)
    return desk.folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scored(tmp_path_factory.mktemp("large") / "desk", ROWS).folder


@pytest.mark.parametrize("path", [entry.path for entry in PAGES])
def test_an_empty_project_is_told_what_to_do(path: str, empty: Path) -> None:
    shown = page(path, empty)
    assert not shown.exception
    if path not in WITHOUT_A_PACK:
        assert "no pack yet" in messages(shown) or "no rows yet" in messages(shown)


@pytest.mark.parametrize("path", [entry.path for entry in PAGES])
def test_a_pack_that_cannot_be_read_is_told_with_its_line(path: str, faulty: Path) -> None:
    shown = page(path, faulty)
    assert not shown.exception
    if path not in WITHOUT_A_PACK:
        said = "\n".join([messages(shown), *(one.label for one in shown.button)])
        assert "line 4" in said.lower() or "line 5" in said.lower()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["try_it", "compare", "report"])
def test_many_rows_are_shown(path: str, large: Path) -> None:
    shown = page(path, large)
    assert not shown.exception and not shown.error
    said = {
        "try_it": "nobody was asked now",
        # Official packs have numbers for other models only.
        "compare": "has no numbers for stub",
        "report": "Nothing was measured",
    }
    assert said[path] in messages(shown)
