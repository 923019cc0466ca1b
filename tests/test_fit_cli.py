"""`spinf-serve fit`: what it saves flags the same rows in evals, on the command line and by HTTP."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from spinf_serve.decide_cli import decide
from spinf_serve.eval_cli import eval_pack
from spinf_serve.evals.cuts import Target
from spinf_serve.evals.ledger import spent
from spinf_serve.evals.project import Project
from spinf_serve.evals.scored import arranged, outcomes, score
from spinf_serve.evals.store import matrix
from spinf_serve.evals.wishes import Wish
from spinf_serve.fit_cli import fit
from spinf_serve.packs.catalogue import load_catalogue
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.sources import Access
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.targets import wishes
from tests.support.fitting_world import loaded, pack_file, world
from tests.support.servers import running
from tests.support.stub_engine import SERVED, StubEngine

COUNT = 600
TARGETS = (
    "--target",
    "spam=precision:0.8",
    "--target",
    "rude=recall:0.8",
    "--target",
    "late=bands:0.9/0.97",
)

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(fit)
app.command()(decide)
app.command("eval")(eval_pack)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A draft, and a labelled and scored project."""
    folder = tmp_path_factory.mktemp("template")
    file = pack_file(folder)
    project, bits = world(folder, loaded(file), COUNT, sharpness=20.0)
    return file, project, bits


@pytest.fixture
def ready(template, tmp_path, monkeypatch):
    """A copy that a test may change, in an empty folder, with the stub where an engine is opened."""
    file, project, bits = template
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINF_PACKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("spinf_serve.engine.api.open_engine", lambda *_: StubEngine())
    folder = tmp_path / "packs"
    folder.mkdir()
    copied = Project(Path(shutil.copy(project.path, tmp_path / "mail.duckdb")))
    return Path(shutil.copy(file, folder)), copied, bits


def called(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_saved_cuts_flag_the_same_rows_in_evals_on_the_command_line_and_by_http(ready):
    file, project, bits = ready
    draft = file.read_text()
    result = called("fit", file, "--data", project.path, *TARGETS, "--save", "--by", "ada")
    assert result.exit_code == 0, result.output
    assert "spam: precision 0.8 holds at the cut" in result.output
    assert "state with these numbers: certified" in result.output
    assert file.read_text().startswith(draft)
    pack = loaded(file)
    constants = pack.fitted[SERVED.id]

    kept = matrix(project, "d", pack, bits)
    answers, indexes = arranged(pack, kept.logprobs, kept.floors)
    assert len(indexes) == COUNT
    in_evals = outcomes(pack, constants, score(pack, constants, answers))
    wanted = [
        {id: (one.score, one.flagged, one.band) for id, one in row.categories.items()}
        for row in in_evals
    ]
    counts = {
        id: sum(row.categories[id].flagged is True for row in in_evals) for id in pack.categories
    }
    assert all(5 < count < COUNT - 5 for count in counts.values()), counts

    with project.open(write=False) as connection:
        texts = [
            text
            for (text,) in connection.execute("SELECT text FROM item ORDER BY number").fetchall()
        ]
    catalogue = load_catalogue(
        [str(file.parent)], official=None, access=Access(cache=Path("c")), say=print
    )
    with running(StubEngine().as_engine, ServerConfig(), packs=ServedPacks(catalogue)) as server:
        by_http = []
        for at in range(0, COUNT, 100):
            body = {
                "inputs": [
                    {"id": str(n), "messages": [{"role": "user", "content": text}]}
                    for n, text in enumerate(texts[at : at + 100])
                ],
                "scoring": {"packs": [{"id": "demo/mail"}], "precision": "full"},
            }
            answer = server.score(body).json()
            assert "warnings" not in answer or not answer["warnings"]
            by_http += [one["packs"][0] for one in answer["results"]]
    assert {one["state"] for one in by_http} == {"certified"}
    served = [
        {
            id: (one["score"], one["flagged"], one.get("band"))
            for id, one in row["categories"].items()
        }
        for row in by_http
    ]
    assert served == wanted
    assert [one["decision"]["unsafe"] for one in by_http] == [
        one.verdict.unsafe for one in in_evals
    ]

    with open("in.csv", "w", encoding="utf-8", newline="") as sheet:
        csv.writer(sheet).writerows([["text"], *([text] for text in texts)])
    result = called("decide", "in.csv", "--pack", file)
    assert result.exit_code == 0 and "provisional" not in result.output, result.output
    with open("in.decided.csv", encoding="utf-8", newline="") as sheet:
        rows = list(csv.DictReader(sheet))
    assert [row["spinf_decision"] == "unsafe" for row in rows] == [
        one.verdict.unsafe for one in in_evals
    ]

    out = Path("report.json")
    result = called("eval", file, "--data", project.path, "--bits", bits, "--json", out)
    assert result.exit_code == 0, result.output
    confusion = {one["target"]: one["confusion"] for one in json.loads(out.read_text())["targets"]}
    for id, count in counts.items():
        assert confusion[id]["tp"] + confusion[id]["fp"] == count


def test_a_target_that_is_not_reached_saves_nothing_and_ends_with_3(ready):
    file, project, bits = ready
    before = file.read_bytes()
    result = called(
        "fit", file, "--data", f"{project.path}:d", "--bits", bits,
        "--target", "spam=precision:0.9999", "--save", "--by", "ada",
    )  # fmt: skip
    assert result.exit_code == 3
    assert "spam: not reachable yet" in result.output and "nothing was saved" in result.output
    assert file.read_bytes() == before
    # It looked at the labels all the same.
    assert [one.by for one in spent(project, "d", "spam", None)] == ["ada"]


def test_without_save_the_file_stays_and_the_report_is_written(ready):
    file, project, bits = ready
    before = file.read_bytes()
    result = called(
        "fit", file, "--data", project.path, "--bits", bits[:8], *TARGETS,
        "--out-report", "fit.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert file.read_bytes() == before
    told = json.loads(Path("fit.json").read_text())
    assert (told["state"], told["fit_rows"], told["fingerprint"]) == ("certified", COUNT, bits)
    assert [one["name"] for one in told["targets"]] == ["spam", "rude", "late"]
    assert told["wrong_at_most"] == pytest.approx(0.15)
    assert told["thresholds"]["spam"] == told["targets"][0]["promises"][0]["cut"]
    with project.open(write=False) as connection:
        assert connection.execute("SELECT count(*) FROM fitted").fetchall() == [(0,)]


def test_who_saved_stands_in_the_project_and_not_in_the_pack(ready):
    file, project, bits = ready
    assert called("fit", file, "--data", project.path, "--bits", bits, "--save", "--by", "ada")
    with project.open(write=False) as connection:
        found = connection.execute('SELECT pack, version, "by" FROM fitted').fetchall()
    assert found == [("demo/mail", "1.0.0", "ada")]
    assert "ada" not in file.read_text() and "fitted:" in file.read_text()


def test_wrong_words_are_refused_with_the_form_that_is_understood(ready):
    file, project, _ = ready
    for words, told in (
        (["--target", "spam"], "NAME=precision:0.9"),
        (["--target", "spam=precise:0.9"], "NAME=precision:0.9"),
        (["--target", "spam=precision:x"], "'x' is no number"),
        (["--target", "spam=precision:1.5"], "1.5"),
        (["--target", "spm=precision:0.9"], "no category 'spm'"),
        (["--target", "spam=precision:0.9", "--base-rate", "5"], "above 0 and below 1"),
        (["--target", "spam=precision:0.9", "--base-rate", "rude=0.1"], "no target of 'rude'"),
        (["--bits", "zz"], "no model of these bits"),
        (["--bits", "a", "--server", "http://127.0.0.1:1"], "give one of them"),
    ):
        result = called("fit", file, "--data", project.path, *words)
        assert isinstance(result.exception, Unusable), (words, result.output)
        assert told in str(result.exception), words


def test_targets_and_base_rates_are_read():
    found = wishes(
        ["spam=precision:0.9", "rude=flag-rate:0.02", "late=bands:0.9/0.99"],
        ["0.05", "rude=0.05"],
        0.1,
    )
    assert found == [
        Wish("spam", (Target("precision", 0.9, 0.1),), 0.05),
        Wish("rude", (Target("flag_rate", 0.02, 0.1),), 0.05),
        Wish("late", (Target("precision", 0.9, 0.1), Target("npv", 0.99, 0.1)), 0.05),
    ]
    assert [wish.kind for wish in found] == ["precision:0.9", "flag_rate:0.02", "bands:0.9/0.99"]
    with pytest.raises(Unusable, match=r"spam has the base rate 0\.05 already"):
        wishes(["spam=precision:0.9"], ["spam=0.05", "spam=0.1"], 0.05)
