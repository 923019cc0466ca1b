"""`spinf-serve store`: what it lists, compares and removes, and its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spinf_serve.evals.project import Project
from spinf_serve.evals.runner import run
from spinf_serve.evals.scorer import over_http
from spinf_serve.evals.store import kept
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.new import starter
from spinf_serve.server.config import ServerConfig
from spinf_serve.store_cli import store
from tests.support.kept_scores import project_with
from tests.support.servers import running
from tests.support.stub_engine import StubEngine


@pytest.fixture(scope="module")
def server():
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0, debug=True)) as started:
        yield started


@pytest.fixture
def files(tmp_path, server):
    """A project whose rows were scored, and the pack's file."""
    text = starter("demo/mood")["pack.yaml"]
    pack = tmp_path / "mood.yaml"
    pack.write_text(text)
    project = project_with(tmp_path, ["one", "word " * 5000, "three"])
    run(project, "d", read_pack(text.encode(), "pack.yaml"), over_http(server.url, None), print)
    return str(project.path), str(pack)


def said(*words, code=0):
    done = CliRunner().invoke(store, words)
    if isinstance(done.exception, Unusable):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def test_models_and_counts_are_listed(files):
    text = said("list", files[0])
    assert text.startswith("stub/words-1  bits ")
    assert "contents refused: content_too_long 1" in text
    (told,) = json.loads(said("list", files[0], "--json"))["models"]
    assert told["contents"] == 2
    assert told["scores"] == 2 * told["prompts"] == 2 * told["floors"]


def test_a_sample_is_asked_again_and_a_difference_is_exit_code_1(files, server):
    project, pack = files
    words = ("verify", project, "d", pack, "--server", server.url)
    assert "are what is kept, bit for bit" in said(*words)
    with Project(Path(project)).open(write=True) as connection:
        connection.execute("UPDATE score SET logprobs = [-1.0, -2.0] WHERE len(logprobs) = 2")
    text = said(*words, code=1)
    assert "differ from what is kept" in text
    assert "row r" in text


def test_scores_go_by_pack_by_model_and_by_refusal(files, server):
    project, pack = files
    with pytest.raises(Unusable, match="say which scores go"):
        said("prune", project)
    assert said("prune", project, "--keep-pack", pack) == (
        "removed 0 scores, 0 floors, 0 refusals\n"
    )
    before = kept(Project(Path(project)))[0]
    text = said("prune", project, "--refused", "--dry-run")
    assert text == f"would remove 0 scores, 0 floors, {before.prompts} refusals\n"
    bits = before.identity.bits
    told = json.loads(said("prune", project, "--bits", bits[:12], "--json"))
    assert (told["scores"], told["dry_run"]) == (before.scores, False)
    assert said("list", project) == "no scores are kept\n"
