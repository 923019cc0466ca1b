"""Rows longer than a read: cut as the server cuts them, kept, judged, deleted; or refused."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spinf_serve.engine.work import Limits
from spinf_serve.evals.asking import digest_of
from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.rows import data_digest, delete_rows, rows
from spinf_serve.evals.fitting import fit_pack
from spinf_serve.evals.judged import Made
from spinf_serve.evals.measuring import evaluate, known
from spinf_serve.evals.project import Project
from spinf_serve.evals.pruning import prune
from spinf_serve.evals.runner import run
from spinf_serve.evals.scored import arranged, outcomes, score
from spinf_serve.evals.store import matrix
from spinf_serve.evals.verify import verify
from spinf_serve.packs.catalogue import load_catalogue
from spinf_serve.packs.chunks import chunks_of
from spinf_serve.packs.save import save_constants
from spinf_serve.packs.sources import Access
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import ServedPacks
from tests.support.fitting_world import loaded, pack_file
from tests.support.kept_scores import Counting, golden_pack, project_with
from tests.support.servers import running
from tests.support.stub_engine import SERVED, StubEngine, scores

MOST = 30
LONG = " ".join(f"word{number}" for number in range(70))
TEXTS = ["short", LONG, "also short", LONG, LONG + " and more", "x" * 40]


def cutting(pack, on_long="max"):
    return replace(pack, on_long=on_long)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return project_with(tmp_path_factory.mktemp("long"), TEXTS, context="chat")


@pytest.fixture
def project(template, tmp_path):
    return Project(Path(shutil.copy(template.path, tmp_path / "p.duckdb")))


def asked(project, pack, scorer):
    lines: list[str] = []
    return run(project, "d", pack, scorer, lines.append), lines


def test_long_rows_are_read_in_chunks_and_asked_once(project):
    pack, scorer = cutting(golden_pack()), Counting(most_tokens=MOST)
    first, _ = asked(project, pack, scorer)
    assert (first.rows, first.refused, first.failed, first.cut) == (6, {}, 0, 3)
    assert "3 rows read in chunks" in str(first)
    again = Counting(most_tokens=MOST)
    second, _ = asked(project, pack, again)
    assert (second.asked, second.cut, again.works) == (0, 3, [])
    held = matrix(project, "d", pack, scorer.identity.bits)
    assert held.starts is not None and held.refused == {}
    question = pack.questions[0]
    read = []
    assert scorer.reader is not None
    for text in TEXTS:
        chunks = chunks_of(scorer.reader, text, 'Chat line:\n"', '"\n')
        assert (len(chunks) > 1) == (text.startswith("word0"))
        read += [scores(one, question.prompts[0].text, question.options)[0] for one in chunks]
    # The context fills a part of every chunk.
    assert len(read) > len(TEXTS) + 6
    assert held.logprobs[digest_of(question)].tolist() == read
    assert verify(project, "d", pack, scorer).different == ()


def test_a_pack_that_refuses_long_rows_and_a_scorer_that_cannot_cut_keep_them_refused(project):
    report, _ = asked(project, golden_pack(), Counting(most_tokens=MOST))
    assert (report.refused, report.cut) == ({"content_too_long": 3}, 0)
    blind = Counting(most_tokens=MOST)
    blind.reader = None
    report, lines = asked(project, cutting(golden_pack()), blind)
    assert report.refused == {"content_too_long": 3}
    assert "3 rows are longer than stub/words-1 reads at once" in lines[-1]
    # What was refused is cut as soon as that can be done.
    scorer = Counting(most_tokens=MOST)
    report, lines = asked(project, cutting(golden_pack()), scorer)
    assert (report.refused, report.cut, lines) == ({}, 3, [])
    bits = scorer.identity.bits
    assert set(matrix(project, "d", golden_pack(), bits).refused) == {"r2", "r4", "r5"}
    assert not matrix(project, "d", cutting(golden_pack()), bits).refused


def test_another_limit_cuts_anew(project):
    pack = cutting(golden_pack())
    bits = Counting().identity.bits
    asked(project, pack, Counting(most_tokens=MOST))
    before = len(matrix(project, "d", pack, bits).logprobs[digest_of(pack.questions[0])])
    report, _ = asked(project, pack, Counting(most_tokens=2 * MOST))
    assert report.asked and report.cut == 3
    after = len(matrix(project, "d", pack, bits).logprobs[digest_of(pack.questions[0])])
    assert len(TEXTS) < after < before
    report, _ = asked(project, pack, Counting())
    assert report.cut == 0
    assert matrix(project, "d", pack, bits).starts is None


def test_chunks_go_with_their_row_and_a_row_that_shared_one_is_asked_again(project):
    pack, scorer = cutting(golden_pack()), Counting(most_tokens=MOST)
    asked(project, pack, scorer)
    # The row that stays begins with the chunks of those that go.
    delete_rows(project, "d", ["r2", "r4"])
    assert "not_scored" not in matrix(project, "d", pack, scorer.identity.bits).refused.values()
    report, _ = asked(project, pack, Counting(most_tokens=MOST))
    assert report.asked and report.cut == 1
    delete_rows(project, "d", ["r5"])
    with project.open(write=False) as connection:
        left = connection.execute("SELECT count(*) FROM content").fetchone()
        cuts = connection.execute("SELECT count(*) FROM cut").fetchone()
    # Also the content of 40 letters is longer in bytes than the limit in tokens.
    assert (left, cuts) == ((3,), (1,))


def test_pruning_takes_cuts_of_which_nothing_is_left(project):
    pack, scorer = cutting(golden_pack()), Counting(most_tokens=MOST)
    asked(project, pack, scorer)
    prune(project, keep_prompts=[])
    with project.open(write=False) as connection:
        for table in ("cut", "content", "prompt"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.parametrize("on_long", ["max", "mean"])
def test_what_is_fitted_on_long_rows_says_the_same_by_http(tmp_path, on_long):
    folder = tmp_path / "packs"
    file = pack_file(folder)
    file.write_text(file.read_text() + f"on_long: {{chunk: {on_long}}}\n")
    texts = [
        " ".join(f"mail{number * word}" for word in range(1, 2 + number % 90))
        for number in range(60)
    ]
    project = project_with(tmp_path, texts)
    scorer = Counting(most_tokens=MOST)
    pack = loaded(file)
    report, _ = asked(project, pack, scorer)
    assert report.cut > 20 and not report.refused
    labels = [
        Label(f"r{number + 1}", id, "yes" if number % 3 == at else "no", "ada", now(), "random")
        for number in range(60)
        for at, id in enumerate(pack.categories)
    ]
    put_labels(project, "d", labels)
    bits = scorer.identity.bits
    fitted = fit_pack(project, "d", pack, bits, by="ada")
    save_constants(file, fitted.constants, digest=pack.digest)
    pack = loaded(file)
    constants = pack.fitted[SERVED.id]
    held = matrix(project, "d", pack, bits)
    answers, _ = arranged(pack, held.logprobs, held.floors, held.starts)
    here = outcomes(pack, constants, score(pack, constants, answers))
    catalogue = load_catalogue(
        [str(folder)], official=None, access=Access(cache=tmp_path / "c"), say=print
    )
    limits = Limits(max_content_tokens=MOST)
    config = replace(ServerConfig(), limits=limits)
    with running(StubEngine(limits).as_engine, config, packs=ServedPacks(catalogue)) as server:
        body = {
            "inputs": [
                {"id": str(n), "messages": [{"role": "user", "content": text}]}
                for n, text in enumerate(texts)
            ],
            "scoring": {"packs": [{"id": "demo/mail"}], "precision": "full"},
        }
        served = [one["packs"][0] for one in server.score(body).json()["results"]]
    assert sum("chunks" in one for one in served) == report.cut
    assert [
        {id: (one["score"], one["flagged"]) for id, one in row["categories"].items()}
        for row in served
    ] == [{id: (one.score, one.flagged) for id, one in row.categories.items()} for row in here]
    assert [one["decision"]["unsafe"] for one in served] == [one.verdict.unsafe for one in here]


def test_rows_in_chunks_are_judged_and_single_questions_without_them(project):
    pack, scorer = cutting(golden_pack()), Counting(most_tokens=MOST)
    asked(project, pack, scorer)
    put_labels(
        project,
        "d",
        [
            Label(f"r{number}", target, "yes", "ada", now(), "random")
            for number in range(1, 7)
            for target in ("anger", "question:angry")
        ],
    )
    bits = scorer.identity.bits
    made = Made("p", "1", "", "m", "", bits, False, "d", data_digest(project, "d"), None, "")
    (constants,) = pack.fitted.values()
    found = evaluate(
        pack, constants, known(rows(project, "d")), matrix(project, "d", pack, bits), made
    )
    assert (found.rows, found.refused) == (6, ())
    anger, angry = found.target("anger"), found.target("question:angry")
    assert anger is not None and angry is not None
    assert len(anger.judged.labelled()) == 6 and len(angry.judged.labelled()) == 3
    assert all(np.isfinite(one.lift_yes) for one in anger.reads if one.lift_yes is not None)
    assert any("3 rows are longer than the model reads at once" in note for note in found.notes)
