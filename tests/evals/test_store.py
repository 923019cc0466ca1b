"""What is kept comes back bit for bit, is found by digests, and goes when it is told to."""

import json
from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.evals.asking import asked_about, digest_of, in_order, prompts
from spinf_serve.evals.project import create
from spinf_serve.evals.pruning import prune
from spinf_serve.evals.runner import run
from spinf_serve.evals.score_tables import (
    Findings,
    Identity,
    identities,
    identity_of,
    keep,
    known,
)
from spinf_serve.evals.store import kept, matrix, recording
from spinf_serve.evals.verify import verify
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.present import wrapped
from tests.support.kept_scores import Counting, golden_pack, pack_with, project_with

ONE = Identity("m" * 64, "b" * 64, "demo/one")
AWKWARD = (-0.1 - 2**-56, -1e-300, -700.123456789012345, -0.0)


@pytest.fixture
def project(tmp_path):
    texts = ["first", "second", "first", "word " * 5000]
    found = project_with(tmp_path, texts, context="chat")
    run(found, "d", golden_pack(), Counting(), print)
    return found


def put_findings(project, identity, found, options=4):
    lengths = {prompt: options for _, prompt in [*found.scores, *found.refusals]}
    lengths |= dict.fromkeys(found.floors, options)
    with project.open(write=True) as connection:
        keep(connection, identity, lengths, found)


def test_any_logprob_comes_back_bit_for_bit(tmp_path):
    pack = pack_with(1)
    question = replace(pack.questions[0], options=(" a", " b", " c", " d"))
    pack = replace(pack, questions=(question,))
    project = project_with(tmp_path, ["x"])
    digest = content_digest(wrapped(pack, "x", None, {}))
    pair = (digest, digest_of(question))
    put_findings(project, ONE, Findings({pair: AWKWARD}, {pair[1]: AWKWARD}))
    found = recording(project, "d", pack, "b")
    as_text = [value.hex() for value in AWKWARD]
    assert [value.hex() for value in found.scores[pair[0]][pair[1]]] == as_text
    assert [value.hex() for value in found.floors[pair[1]]] == as_text
    arrays = matrix(project, "d", pack, "b")
    assert [value.hex() for value in arrays.logprobs[pair[1]][0].tolist()] == as_text
    assert [value.hex() for value in arrays.floors[pair[1]].tolist()] == as_text


def test_a_pair_is_kept_once_and_a_score_takes_a_refusals_place(tmp_path):
    project = project_with(tmp_path, ["x"])
    put_findings(project, ONE, Findings(refusals={("c", "p"): ("content_too_long", "why")}), 2)
    put_findings(project, ONE, Findings(refusals={("c", "p"): ("content_too_long", "why")}), 2)
    assert (kept(project)[0].scores, kept(project)[0].refused) == (0, {"content_too_long": 1})
    put_findings(project, ONE, Findings({("c", "p"): (-1.0, -2.0)}), 2)
    put_findings(project, ONE, Findings({("c", "p"): (-3.0, -4.0)}), 2)
    put_findings(project, ONE, Findings(refusals={("c", "p"): ("content_too_long", "why")}), 2)
    (only,) = kept(project)
    assert (only.scores, only.contents, only.prompts, only.refused) == (1, 1, 1, {})
    with project.open(write=False) as connection:
        held = known(connection, ONE, ["c", "d"], ["p", "q"])
    assert held.prompts == {"c": frozenset({"p"})}
    assert held.refused == {}


def test_models_are_apart_and_a_rounded_one_is_not_taken_for_a_full_one(tmp_path):
    project = project_with(tmp_path, ["x"])
    other = replace(ONE, bits="a" * 64)
    rounded = replace(ONE, rounded=True)
    for number, identity in enumerate((rounded, other, ONE), 1):
        put_findings(project, identity, Findings({("c", "p"): (-float(number), -1.0)}), 2)
    assert [one.scores for one in kept(project)] == [1, 1, 1]
    with project.open(write=False) as connection:
        assert identity_of(connection, "bb") == ONE
        with pytest.raises(Unusable, match="several models"):
            identity_of(connection, "")
        with pytest.raises(Unusable, match="no model of these bits: c"):
            identity_of(connection, "c")


def test_arrays_and_recording_say_the_same(project):
    pack, bits = golden_pack(), Counting().identity.bits
    found, arrays = recording(project, "d", pack, bits), matrix(project, "d", pack, bits)
    assert arrays.rows == ("r1", "r2", "r3", "r4")
    assert arrays.refused == {"r4": "content_too_long"}
    assert arrays.logprobs.keys() == arrays.floors.keys() == prompts(pack.questions).keys()
    for digest, (number, place) in prompts(pack.questions).items():
        question = pack.questions[number]
        for at, text in enumerate(["first", "second", "first"]):
            told = found.logprobs(f'Chat line:\n"{text}"\n', question, place)
            assert tuple(arrays.logprobs[digest][at].tolist()) == told
        assert np.isnan(arrays.logprobs[digest][3]).all()
        assert tuple(arrays.floors[digest].tolist()) == found.floor(question, place)
    assert found.vectors('Chat line:\n"second"\n', pack) is not None


def test_questions_are_cut_down_to_the_prompts_that_are_wanted():
    pack = golden_pack()
    places = prompts(pack.questions)
    about = pack.questions[1]
    wanted = {digest_of(about, 1), digest_of(pack.questions[0])}
    first, second = asked_about(pack, wanted, floors=True)
    assert (first.id, second.id) == ("angry", "about")
    assert second.prompts == about.prompts[1:]
    assert first.empty_floor
    assert in_order(places, wanted) == [digest_of(first), digest_of(second)]


def test_options_in_another_order_are_another_prompt():
    question = golden_pack().questions[0]
    turned = replace(question, options=question.options[::-1])
    assert digest_of(turned) != digest_of(question)


def test_a_sample_asked_again_is_what_was_kept(project):
    found = verify(project, "d", golden_pack(), Counting())
    assert (found.rows, found.answers, found.floors, found.different) == (3, 12, 4, ())


def test_one_changed_bit_is_found(project):
    with project.open(write=True) as connection:
        connection.execute(
            "UPDATE score SET logprobs = [nextafter(logprobs[1], 0.0), logprobs[2]]"
            " WHERE content = (SELECT max(content) FROM score) AND len(logprobs) = 2"
            " AND prompt = (SELECT min(prompt) FROM score)"
        )
        connection.execute("UPDATE floor SET logprobs = [-1.0, -2.0, -3.0] WHERE len(logprobs) = 3")
    found = verify(project, "d", golden_pack(), Counting())
    assert [(one.row, one.question) for one in found.different] in (
        [("r2", "angry"), (None, "kind")],
        [(None, "kind"), ("r2", "angry")],
    )


def test_verifying_what_was_never_asked_is_one_line(project):
    with pytest.raises(Unusable, match="no scores of demo/support"):
        verify(project, "d", pack_with(2), Counting())


def test_pruning_removes_what_the_conditions_hold_for_and_no_more(project):
    bits = Counting().identity.bits
    pack = golden_pack()
    run(project, "d", pack_with(2), Counting(), print)
    held = prompts(pack.questions)
    would = prune(project, keep_prompts=held, dry_run=True)
    assert (would.scores, would.floors, would.refusals) == (4, 2, 2)
    assert kept(project)[0].scores == 12
    assert prune(project, keep_prompts=held) == would
    assert (kept(project)[0].scores, kept(project)[0].prompts) == (8, 4)
    gone = prune(project, bits=bits[:8], refused=True)
    assert (gone.scores, gone.floors, gone.refusals) == (0, 0, 4)
    assert kept(project)[0].refused == {}
    gone = prune(project, bits=bits)
    assert (gone.scores, gone.floors) == (8, 4)
    assert kept(project) == []
    with project.open(write=False) as connection:
        assert connection.execute("SELECT count(*) FROM content").fetchall() == [(0,)]


def test_the_recorded_figures_keep_what_is_promised_of_a_run_with_nothing_to_ask(root):
    # Made by tests.support.store_rerun, which takes minutes.
    found = json.loads((root / "evals/bench/results/store-rerun.json").read_text())
    assert (found["rows"], found["questions"]) == (10_000, 106)
    assert found["rerun"]["asked"] == 0
    assert max(found["rerun"]["seconds"]) < 2
    assert found["one_question_edited"]["asked"] * 106 == found["first"]["asked"]


def test_a_model_that_answered_little_stands_behind_one_that_answered_all(tmp_path):
    project = create(tmp_path / "project.duckdb")
    first, second, third = (Identity(letter * 64, letter * 64, letter) for letter in "abc")
    lengths = {"p" * 64: 2}

    def add(identity: Identity, count: int) -> None:
        found = Findings(scores={(f"{n:064}", "p" * 64): (-1.0, -2.0) for n in range(count)})
        with project.open(write=True) as connection:
            keep(connection, identity, lengths, found)

    for identity, count in ((first, 10), (second, 9), (third, 4)):
        add(identity, count)
    with project.open(write=False) as connection:
        assert [one.served for one in identities(connection)] == ["b", "a", "c"]
