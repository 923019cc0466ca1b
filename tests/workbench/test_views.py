"""Views of random packs are what evals computes, bit for bit; they follow what is kept."""

import json
import multiprocessing
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.evals.asking import digest_of, prompts
from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.rows import delete_rows
from spinf_serve.evals.measuring import NOT_SCORED
from spinf_serve.evals.runner import run
from spinf_serve.evals.score_tables import Findings, Identity, identity_of, keep
from spinf_serve.evals.scored import arranged, outcomes, question_values, residual, score, taken
from spinf_serve.evals.store import matrix
from spinf_serve.packs.decision import DecisionCall, thresholds
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.evaluate import Evaluation
from spinf_serve.packs.present import wrapped
from spinf_serve.packs.reason import reason
from spinf_serve.workbench import view_file, views
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job_kinds import Stopped
from spinf_serve.workbench.views import Building, View, build, building, keep_pack, view_of
from tests.support.kept_scores import Counting, pack_with, project_with, put
from tests.support.packs import golden, made, random_plain

TEXTS = ["short", "another one", " ".join(f"word{number}" for number in range(70)), "short", "x y"]
BITS = "b" * 64


def desk_of(folder: Path) -> Desk:
    return Desk(folder, folder / "project.duckdb")


def the_view(desk: Desk, pack, constants, bits: str = BITS) -> View:
    found = view_of(desk, pack, constants, "d", bits)
    assert isinstance(found, View) and found.is_current
    return found


def kept_at_random(project, pack, rng: Random, texts, *, missing: float, floors: float) -> None:
    """Keeps made-up scores of rows `r1`, …, some of which are missing or refused."""
    found = Findings()
    lengths = {}
    for question in pack.questions:
        for place in range(len(question.prompts)):
            digest = digest_of(question, place)
            lengths[digest] = len(question.options)
            if rng.random() < floors:
                found.floors[digest] = tuple(rng.uniform(-9, -1) for _ in question.options)
            for text in texts:
                content = content_digest(wrapped(pack, text, None, {}))
                if rng.random() < missing:
                    if rng.random() < 0.5:
                        found.refusals[content, digest] = ("content_too_long", "too long")
                    continue
                found.scores[content, digest] = tuple(rng.uniform(-9, -1) for _ in question.options)
    with project.open(write=True) as connection:
        keep(connection, Identity("m" * 64, BITS, "tiny"), lengths, found)


def check_equal(view: View, project, pack, constants, bits: str = BITS) -> None:
    """Every column of the view against evals on the same kept scores, to the last bit."""
    held = matrix(project, "d", pack, bits)
    whole, at = arranged(pack, held.logprobs, held.floors, held.starts)
    rows = list(held.rows)
    column = view.columns(["number", "row_id", "refused", "chunks"])
    assert column["row_id"].tolist() == rows
    assert column["number"].tolist() == sorted(column["number"].tolist())
    ok = [place for place in range(len(rows)) if column["refused"][place] is None]
    assert ok == [place for place in at.tolist() if rows[place] not in held.refused]
    for number, row in enumerate(rows):
        if number not in ok:
            assert column["refused"][number] == held.refused.get(row, NOT_SCORED)
    index = {place: number for number, place in enumerate(at.tolist())}
    answers = taken(whole, np.array([index[place] for place in ok], dtype=np.int64))
    assert column["chunks"][ok].tolist() == answers.chunks.tolist()
    for question in pack.questions:
        for number in range(len(question.prompts)):
            place = (question.id, number)
            values = question_values(answers, place)
            count = len(question.options)
            for option in range(count):
                p = view.p(place, option, count)[ok]
                if count == 2 and option == 1:
                    np.testing.assert_allclose(p, values.p[:, 1], rtol=0, atol=2**-52)
                else:
                    np.testing.assert_array_equal(p, values.p[:, option])
            rest = view.columns([f"residual:{place[0]}#{place[1]}"])
            np.testing.assert_array_equal(next(iter(rest.values()))[ok], residual(answers, place))
            floor = None if values.floor_p is None else values.floor_p.tolist()
            assert view.floor(place) == floor
    assert view.fitted == (constants is not None)
    if constants is None:
        assert "score:" not in "".join(view.frame("LIMIT 0").columns)
        return
    scored = score(pack, constants, answers)
    said = outcomes(pack, constants, scored)
    assert view.about["thresholds"] == thresholds(pack, constants, DecisionCall())
    for id in pack.categories:
        names = [f"{kind}:{id}" for kind in ("macro", "score", "calibrated", "flagged", "band")]
        found = {name.partition(":")[0]: one[ok] for name, one in view.columns(names).items()}
        np.testing.assert_array_equal(found["macro"], scored.macros[id])
        np.testing.assert_array_equal(found["score"], scored.scores[id])
        by_map = scored.calibrated.get(id, np.full(len(ok), np.nan))
        np.testing.assert_array_equal(found["calibrated"], by_map)
        assert found["flagged"].tolist() == [one.categories[id].flagged for one in said]
        assert found["band"].tolist() == [one.categories[id].band for one in said]
    found = view.columns(["unsafe", "decided", "band", "route", "reason"])
    assert found["unsafe"][ok].tolist() == [one.verdict.unsafe for one in said]
    assert found["band"][ok].tolist() == [one.verdict.band for one in said]
    numbers = [np.nan if one.verdict.score is None else one.verdict.score for one in said]
    np.testing.assert_array_equal(found["decided"][ok], np.array(numbers, dtype=np.float64))
    routes = [None if one.route is None else one.route.choice for one in said]
    assert found["route"][ok].tolist() == routes
    assert found["reason"][ok].tolist() == [
        reason(
            pack,
            constants,
            DecisionCall(),
            Evaluation({}, {}, one.categories, one.verdict, one.route),
        )
        for one in said
    ]
    nothing = [place for place in range(len(rows)) if place not in ok]
    assert not view.columns(["unsafe"])["unsafe"][nothing].any()


@settings(max_examples=8)
@given(st.integers(0, 10**9))
def test_views_of_random_packs_are_what_evals_computes(tmp_path_factory, seed):
    rng = Random(seed)
    pack, constants = made(random_plain(rng))
    folder = tmp_path_factory.mktemp("view")
    texts = [f"text {number}" for number in range(rng.randint(1, 12))]
    project = project_with(folder, texts)
    missing = rng.choice([0.0, 0.0, 0.02, 0.3])
    kept_at_random(project, pack, rng, texts, missing=missing, floors=rng.choice([0.0, 0.5, 1.0]))
    desk = desk_of(folder)
    with pytest.MonkeyPatch.context() as patch:
        # Several windows, also of a few rows.
        patch.setattr(view_file, "WINDOW_CELLS", 1)
        patch.setattr(view_file, "LEAST_WINDOW", rng.randint(2, 6))
        check_equal(the_view(desk, pack, constants), project, pack, constants)
        check_equal(the_view(desk, pack, None), project, pack, None)


@pytest.mark.parametrize("on_long", ["max", "mean"])
def test_rows_in_chunks_have_categories_and_no_p(tmp_path, on_long):
    plain = golden()
    pack, constants = made(plain)
    pack = type(pack)(**{**fields_of(pack), "on_long": on_long})
    project = project_with(tmp_path, TEXTS, context="chat")
    scorer = Counting(most_tokens=30)
    run(project, "d", pack, scorer, print)
    bits = scorer.identity.bits
    view = the_view(desk_of(tmp_path), pack, constants, bits)
    check_equal(view, project, pack, constants, bits)
    column = view.columns(["chunks", "refused"])
    assert column["chunks"][2] > 1 and column["refused"][2] is None
    question = pack.questions[0]
    assert np.isnan(view.p((question.id, 0), 0, len(question.options))).tolist() == [
        False,
        False,
        True,
        False,
        False,
    ]
    id = next(iter(pack.categories))
    assert not np.isnan(view.columns([f"score:{id}"])[f"score:{id}"]).any()


def fields_of(pack):
    return {name: getattr(pack, name) for name in pack.__slots__}


@pytest.fixture
def scored(tmp_path):
    """A project with scores of the golden pack."""
    pack, constants = made(golden())
    project = project_with(tmp_path, TEXTS, context="chat")
    scorer = Counting()
    run(project, "d", pack, scorer, print)
    return desk_of(tmp_path), project, pack, constants, scorer.identity.bits


def test_a_view_is_made_once_and_anew_when_scores_or_rows_change(scored, monkeypatch):
    desk, project, pack, constants, bits = scored
    first = the_view(desk, pack, constants, bits)
    with monkeypatch.context() as patch:
        patch.setattr(views, "make", None)
        again = the_view(desk, pack, constants, bits)
    assert again.key == first.key
    put(project, ["of another dataset"], "other", context="chat")
    assert the_view(desk, pack, constants, bits).key == first.key
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO item (dataset, row_id, number, text, content_digest, context, parameters,"
            " slices, drawn) VALUES ('d', 'new', 99, 'new', sha256('new'), 'chat', '{}', MAP {},"
            " 'random')"
        )
    second = the_view(desk, pack, constants, bits)
    assert second.key != first.key
    assert second.columns(["row_id", "refused"])["refused"][-1] == NOT_SCORED
    run(project, "d", pack, Counting(), print)
    third = the_view(desk, pack, constants, bits)
    check_equal(third, project, pack, constants, bits)
    assert third.columns(["refused"])["refused"][-1] is None
    delete_rows(project, "d", ["r1"])
    fourth = the_view(desk, pack, constants, bits)
    check_equal(fourth, project, pack, constants, bits)
    # A text that was changed in place is another row.
    with project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET text = 'y', content_digest = sha256('y') WHERE row_id = 'r2'"
        )
    assert the_view(desk, pack, constants, bits).columns(["refused"])["refused"][0] == NOT_SCORED


def test_labels_and_other_questions_leave_a_view_alone(scored):
    desk, project, pack, constants, bits = scored
    first = the_view(desk, pack, constants, bits)
    put_labels(project, "d", [Label("r1", "anger", "yes", "ann", now(), None)])
    with project.open(write=False) as connection:
        identity = identity_of(connection, bits)
    with project.open(write=True) as connection:
        content = content_digest("of no row")
        keep(connection, identity, {"p" * 64: 2}, Findings({(content, "p" * 64): (-1.0, -2.0)}))
    assert the_view(desk, pack, constants, bits).key == first.key


def test_old_states_and_long_unused_views_go(scored, monkeypatch):
    desk, project, pack, constants, bits = scored
    for number in range(4):
        the_view(desk, pack, constants, bits)
        with project.open(write=True) as connection:
            connection.execute(
                "UPDATE item SET text = $1, content_digest = sha256($1)", [f"{number}"]
            )
    last = the_view(desk, pack, constants, bits)
    kept = sorted(path.name for path in desk.below("views").glob("*.parquet"))
    assert len(kept) == 2 and last.path.name in kept
    monkeypatch.setattr(views, "MOST_FAMILIES", 1)
    draft = the_view(desk, pack, None, bits)
    assert [path.name for path in desk.below("views").glob("*.parquet")] == [draft.path.name]
    assert [path.name for path in desk.below("views").glob("*.json")] == [f"{draft.key}.json"]


class Told:
    """A job's report that remembers, and stops when told to."""

    def __init__(self, folder: Path, stop: bool = False) -> None:
        self.seen: list[tuple[int, int]] = []
        self.folder = folder
        self.stop = stop

    def progress(self, done: int, of: int, words: str = "", **_: Any) -> None:
        self.seen.append((done, of))

    def say(self, line: str) -> None:
        raise AssertionError(line)

    def stopped(self) -> bool:
        return self.stop

    def check(self) -> None:
        if self.stop:
            raise Stopped


def test_many_rows_are_a_job_s_work(scored, monkeypatch):
    desk, project, pack, constants, bits = scored
    monkeypatch.setattr(views, "AT_ONCE", 10)
    monkeypatch.setattr(view_file, "WINDOW_CELLS", 1)
    monkeypatch.setattr(view_file, "LEAST_WINDOW", 2)
    wanted = view_of(desk, pack, constants, "d", bits)
    assert isinstance(wanted, Building)
    assert (wanted.rows, wanted.prompts) == (len(TEXTS), len(prompts(pack.questions)))
    # The job reads the pack's bytes; this pack has none that can be read.
    monkeypatch.setattr(views, "_loaded", lambda data: pack_named(pack, constants, project, bits))
    keep_bytes(desk, pack)
    told = Told(desk.folder, stop=True)
    with pytest.raises(Stopped):
        build(desk, wanted.arguments, told)
    assert not list(desk.below("views").glob("*.parquet"))
    assert not list(desk.below("views").glob(".*"))
    told = Told(desk.folder)
    result = build(desk, json.loads(json.dumps(wanted.arguments)), told)
    assert result["rows"] == len(TEXTS)
    assert told.seen == [(0, 5), (2, 5), (4, 5), (5, 5)]
    view = the_view(desk, pack, constants, bits)
    check_equal(view, project, pack, constants, bits)
    # More scores: the older state is shown until it is asked for anew.
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM score WHERE content IN (SELECT min(content) FROM score)")
    older = view_of(desk, pack, constants, "d", bits)
    assert isinstance(older, View) and not older.is_current and older.path == view.path
    build(desk, building(desk, pack, "d", bits).arguments, Told(desk.folder))
    check_equal(the_view(desk, pack, constants, bits), project, pack, constants, bits)


def pack_named(pack, constants, project, bits):
    """The pack with its numbers under the name of the model that answered."""
    with project.open(write=False) as connection:
        served = identity_of(connection, bits).served
    return type(pack)(**{**fields_of(pack), "fitted": {served: constants}})


def keep_bytes(desk: Desk, pack) -> None:
    views._kept_pack(desk, pack.digest).write_bytes(b"")


def test_the_pack_s_bytes_are_kept_only_when_they_are_the_pack_s(scored):
    desk, _, pack, _, _ = scored
    with pytest.raises(Unusable, match="saved anew"):
        keep_pack(desk, b"pack: other/one", pack)


def _one(folder: str, bits: str, queue) -> None:
    pack, constants = made(golden())
    made_here = []

    def counted(*given, **options):
        made_here.append(1)
        view_file.make(*given, **options)

    setattr(views, "make", counted)  # noqa: B010 - it is not for others to name
    view = view_of(desk_of(Path(folder)), pack, constants, "d", bits)
    assert isinstance(view, View)
    queue.put((view.key, len(made_here)))


def test_two_processes_at_once_make_a_view_once(scored):
    desk, project, pack, constants, bits = scored
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    both = [context.Process(target=_one, args=(str(desk.folder), bits, queue)) for _ in range(2)]
    for one in both:
        one.start()
    try:
        found = [queue.get(timeout=120) for _ in both]
    finally:
        for one in both:
            one.join(60)
    assert found[0][0] == found[1][0]
    assert sum(count for _, count in found) == 1
    check_equal(the_view(desk, pack, constants, bits), project, pack, constants, bits)


def test_a_dataset_without_rows_has_no_view_and_a_question_nobody_asked_no_p(scored, tmp_path):
    desk, project, pack, constants, bits = scored
    put(project, [], "none")
    assert view_of(desk, pack, constants, "none", bits) is None
    edited = pack_with(2, edited=1)
    view = the_view(desk, edited, None, bits)
    assert set(view.columns(["refused"])["refused"]) == {NOT_SCORED}
    assert np.isnan(view.p(("q0", 0), 0, 2)).all()


def test_frames_are_cut_in_the_database(scored):
    desk, _, pack, constants, bits = scored
    view = the_view(desk, pack, constants, bits)
    found = view.frame("WHERE number > $1 ORDER BY number DESC LIMIT 2", "row_id, number", [2])
    assert found["row_id"].tolist() == ["r5", "r4"]
    shutil.rmtree(desk.below("views"))
    with pytest.raises(Unusable, match="open the page again"):
        view.frame()
