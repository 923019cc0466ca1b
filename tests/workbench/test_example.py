"""The example of a first visit: complete, made anew when a start broke off, and with what the tour finds."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import identities
from spinf_serve.fit_cli import fit
from spinf_serve.packs.catalogue import official_folder
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.sample import read_sample
from spinf_serve.workbench import example
from spinf_serve.workbench.desk import Desk, open_desk
from spinf_serve.workbench.example import CASE, DATASET, DESKS, LABELLED, PACK, SHEET, WRONG
from spinf_serve.workbench.views import View, view_of

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(fit)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return open_desk(tmp_path_factory.mktemp("first") / "visit")


@pytest.fixture(scope="module")
def truth() -> dict[str, dict[str, bool | None]]:
    """Row -> category -> what the official sample says."""
    home = official_folder() / "triage"
    rows = read_sample(home / "sample.csv", load_pack(home / "pack.yaml"))
    found = {}
    for row in rows[:LABELLED]:
        labels: dict[str, bool | None] = dict(row.labels)
        desks = [labels[name] for name in DESKS]
        labels[CASE] = True if True in desks else None if None in desks else False
        found[row.id] = labels
    return found


def test_every_row_has_a_score_of_every_question(desk: Desk) -> None:
    (file,) = desk.pack_files()
    pack = load_pack(file)
    assert pack.id == PACK
    with desk.project.open(write=False) as connection:
        (one,) = identities(connection)
        rows = connection.execute("SELECT count(*), count(DISTINCT text) FROM item").fetchone()
    assert rows == (600, 600)
    view = view_of(desk, pack, pack.constants((one.served,)), DATASET, one.bits)
    assert isinstance(view, View)
    refused = view.columns(["refused"])["refused"]
    assert len(refused) == LABELLED
    assert not [code for code in refused if code]
    for question in pack.questions:
        for place in range(len(question.prompts)):
            p = view.p((question.id, place), 0, len(question.options))
            assert np.isfinite(p).all()
            assert len(np.unique(p)) > LABELLED / 2


def test_only_the_planted_labels_are_wrong(
    desk: Desk, truth: dict[str, dict[str, bool | None]]
) -> None:
    words = {True: "yes", False: "no", None: "unsure"}
    with desk.project.open(write=False) as connection:
        found = connection.execute("SELECT row_id, target, value FROM label").fetchall()
    assert len(found) == LABELLED * 12
    wrong = {
        (row, target): value for row, target, value in found if value != words[truth[row][target]]
    }
    assert wrong == {(row, target): word for row, (target, word) in WRONG.items()}
    assert {target for target, _ in WRONG.values()} == {"praise", CASE}
    assert all(word == "no" and truth[row][target] for row, (target, word) in WRONG.items())


def test_planted_labels_are_seen_on_a_chart(desk: Desk) -> None:
    (file,) = desk.pack_files()
    pack = load_pack(file)
    with desk.project.open(write=False) as connection:
        (one,) = identities(connection)
        labels = dict(
            connection.execute("SELECT row_id || ' ' || target, value FROM label").fetchall()
        )
    constants = pack.constants((one.served,))
    assert constants is not None
    view = view_of(desk, pack, constants, DATASET, one.bits)
    assert isinstance(view, View)
    for row, (target, word) in WRONG.items():
        columns = view.columns(["row_id", f"score:{target}"])
        scores = dict(zip(columns["row_id"], columns[f"score:{target}"], strict=True))
        same = [score for other, score in scores.items() if labels[f"{other} {target}"] == word]
        cut = constants.categories[target].threshold
        assert cut is not None
        assert scores[row] > (1 + cut) / 2
        # Higher than nearly all rows with the label that it wrongly has.
        assert np.mean(np.array(same) < scores[row]) > 0.95


@pytest.mark.parametrize("mended", [False, True])
def test_precision_90_can_be_promised_before_and_after_mending(
    desk: Desk, tmp_path: Path, mended: bool
) -> None:
    # A certification spends of the rows that it is made on: each has its own copy.
    file = shutil.copy(desk.pack_files()[0], tmp_path / "pack.yaml")
    project = Project(Path(shutil.copy(desk.file, tmp_path / "copy.duckdb")))
    if mended:
        with project.open(write=True) as connection:
            for row, (target, _) in WRONG.items():
                connection.execute(
                    "UPDATE label SET value = 'yes' WHERE row_id = ? AND target = ?", [row, target]
                )
    given = [str(file), "--data", str(project.path), "--bits", "3b3e"]
    done = CliRunner().invoke(app, [*given, "--target", "case=precision:0.9"])
    assert done.exit_code == 0, done.output
    assert "case: precision 0.9 holds at the cut" in done.output


def test_the_sheet_is_the_rest_of_the_sample_without_labels(desk: Desk) -> None:
    lines = (desk.folder / "sheets" / SHEET).read_text().splitlines()
    assert lines[0] == "id,message"
    assert len(lines) > 50


def test_a_start_that_broke_off_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(example, "keep_recording", broken)
        with pytest.raises(Exception, match="No space left"):
            open_desk(tmp_path / "p")
    assert not (tmp_path / "p" / "project.duckdb").exists()
    desk = open_desk(tmp_path / "p")
    with desk.project.open(write=False) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (LABELLED,)
        assert connection.execute("SELECT count(*) > 10000 FROM score").fetchone() == (True,)
    assert not [path for path in desk.folder.iterdir() if path.name.startswith(".example-")]


def test_a_folder_with_work_in_it_gets_no_example(tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text("pack: my/own\n")
    desk = open_desk(tmp_path)
    with desk.project.open(write=False) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (0,)
    assert [path.name for path in desk.pack_files()] == ["pack.yaml"]
