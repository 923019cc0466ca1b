"""Rows asked into a recording: all once, what is missing only, kept when broken off."""

from dataclasses import replace

import pytest

from spinf_serve import scoring
from spinf_serve.packs.errors import Fault, Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.recording import read_recording, write_recording
from spinf_serve.packs.sample import SampleRow
from spinf_serve.scoring import ask, new_recording, presented, score_rows
from tests.support.pack_files import yaml_pack
from tests.support.stub_engine import NAN, StubEngine


@pytest.fixture
def engine() -> StubEngine:
    return StubEngine()


@pytest.fixture
def pack():
    return read_pack(yaml_pack().encode(), "pack.yaml")


def rows_of(count: int, *more: str) -> list[SampleRow]:
    texts = [*(f"Text number {number}" for number in range(count)), *more]
    return [
        SampleRow(f"r{index}", "fit", "en", {}, text, None, {}, index)
        for index, text in enumerate(texts)
    ]


def recorded(engine, pack):
    return new_recording(engine.served.id, engine.fingerprint, pack)


LONG_OPTION = yaml_pack().replace("yes/no", "[one two three four five six, no]").encode()


def silent(line: str) -> None:
    """Hears nothing."""


def test_every_row_is_scored_in_batches_and_its_vectors_are_found(engine, pack):
    recording = recorded(engine, pack)
    rows = rows_of(scoring.BATCH_ROWS + 3)
    assert score_rows(engine, pack, rows, recording, silent) == len(rows)
    assert engine.passes == [1, 2, 4, 8, 16, 4]
    for row in rows:
        assert recording.vectors(presented(pack, row), pack) is not None
    assert recording.floor(pack.questions[0]) is not None


def test_a_row_is_presented_in_its_context_with_its_parameters():
    data = yaml_pack().replace(
        'contexts:\n  default: "{X}\\n"\n',
        'parameters: {shop: {default: us}}\ncontexts: {a: "To {shop}: {X}.", b: "{X}!"}\n',
    )
    pack = read_pack(data.encode(), "pack.yaml")
    (row,) = rows_of(1)
    assert presented(pack, row) == "To us: Text number 0."
    assert presented(pack, replace(row, parameters={"shop": "A"})) == "To A: Text number 0."
    assert presented(pack, replace(row, context="b")) == "Text number 0!"


def test_what_is_recorded_is_not_asked_again(engine, pack):
    recording = recorded(engine, pack)
    score_rows(engine, pack, rows_of(3), recording, silent)
    assert score_rows(engine, pack, rows_of(5), recording, silent) == 2
    assert score_rows(engine, pack, rows_of(5), recording, silent) == 0
    assert engine.passes == [1, 2, 1, 1]


def test_an_edited_question_is_asked_and_the_others_are_not(engine, pack):
    recording = recorded(engine, pack)
    score_rows(engine, pack, rows_of(2), recording, silent)
    edited = read_pack(yaml_pack(question="Merry?").encode(), "pack.yaml")
    assert score_rows(engine, edited, rows_of(2), recording, silent) == 2
    assert recording.vectors(presented(pack, rows_of(1)[0]), pack) is not None


def test_a_run_that_breaks_off_keeps_what_was_answered(engine, pack, tmp_path):
    recording = recorded(engine, pack)
    file = tmp_path / "scores.jsonl.gz"
    rows = rows_of(7, f"not a number: {NAN}")
    with pytest.raises(Fault):
        score_rows(engine, pack, rows, recording, silent, lambda kept: write_recording(file, kept))
    kept = read_recording(file, engine.fingerprint.model, silent)
    assert kept is not None
    assert len(kept.scores) == 7


def test_it_is_kept_now_and_then_and_not_again_at_the_end(engine, pack, monkeypatch):
    monkeypatch.setattr(scoring, "SAVE_SECONDS", -1.0)
    saved: list[int] = []
    score_rows(
        engine,
        pack,
        rows_of(3),
        recorded(engine, pack),
        silent,
        lambda kept: saved.append(len(kept.scores)),
    )
    assert saved == [1, 3]


def test_a_refused_row_is_named(engine, pack):
    long = "word " * 5000
    with pytest.raises(Unusable, match=r"^row r3: the content has \d+ tokens"):
        score_rows(engine, pack, rows_of(3, long), recorded(engine, pack), silent)


def test_a_refused_question_is_named(engine):
    pack = read_pack(LONG_OPTION, "pack.yaml")
    with pytest.raises(Unusable, match=r"^row r0: question happy: the option has"):
        score_rows(engine, pack, rows_of(1), recorded(engine, pack), silent)


def test_progress_tells_rate_and_time_left(engine, pack, monkeypatch):
    monkeypatch.setattr(scoring, "SAY_SECONDS", 0.0)
    monkeypatch.setattr(scoring, "QUIET_SECONDS", 0.0)
    engine.step_seconds = 0.02
    told: list[str] = []
    score_rows(engine, pack, rows_of(3), recorded(engine, pack), told.append)
    assert len(told) == 2
    assert told[0].startswith("scored 1 of 3 contents, ")
    assert told[1].endswith(", 0 s left")


def test_slow_batches_get_smaller_and_quick_ones_larger(engine, pack, monkeypatch):
    monkeypatch.setattr(scoring, "BATCH_SECONDS", 0.4)
    seconds = iter([0.0, 0.0, 0.3, 0.5, 0.0])

    def run(works):
        engine.step_seconds = next(seconds)
        return StubEngine.run(engine, works)

    monkeypatch.setattr(engine, "run", run)
    score_rows(engine, pack, rows_of(13), recorded(engine, pack), silent)
    assert engine.passes == [1, 2, 4, 4, 2]


def test_a_question_that_lint_asks_and_is_refused_is_named(engine):
    pack = read_pack(LONG_OPTION, "pack.yaml")
    with pytest.raises(Unusable, match=r"^question happy: the option has"):
        ask(engine, ["A"], pack.questions, silent)
