"""Recordings: exact numbers, found by digests, tied to a model, damaged files refused."""

import gzip
import json
import tracemalloc
from dataclasses import replace
from random import Random

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.question import Prompt
from spinf_serve.packs.reads import vectors
from spinf_serve.packs.recording import Header, Recording, read_recording, write_recording
from tests.support.packs import GOLDEN_LOGPROBS, answered, golden, made, random_logprobs

MODEL = "a" * 64
HEADER = Header("demo/model", MODEL, "b" * 64, "demo/support", "0.1.0")


def with_floors(answers):
    """The same answers with a floor of its own for every option."""
    return tuple(
        answer._replace(
            prompts=tuple(
                prompt._replace(
                    options=tuple(
                        option._replace(floor_p=0.5, floor_logprob=-0.1 * (index + 1) / 3)
                        for index, option in enumerate(prompt.options)
                    )
                )
                for prompt in answer.prompts
            )
        )
        for answer in answers
    )


@pytest.fixture
def recorded():
    plain = golden(scoring__empty_floor=True)
    pack, _ = made(plain)
    recording = Recording(HEADER)
    for index in range(5):
        answers = answered(plain, random_logprobs(plain, Random(index)))
        recording.add(f"content {index}", pack.questions, with_floors(answers))
    return pack, plain, recording


def test_comes_back_bit_for_bit(recorded, tmp_path):
    _, _, recording = recorded
    path = tmp_path / "scores.jsonl.gz"
    write_recording(path, recording)
    said: list[str] = []
    assert read_recording(path, MODEL, said.append) == recording
    assert said == []
    before = path.read_bytes()
    write_recording(path, recording)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_vectors_are_those_of_the_answers(recorded):
    pack, plain, recording = recorded
    answers = answered(plain, random_logprobs(plain, Random(3)))
    for one in (pack, replace(pack, answers="p")):
        found = recording.vectors("content 3", one)
        assert found is not None
        expected = vectors(one, answers)
        assert found.keys() == expected.keys()
        for key, p in expected.items():
            assert found[key].tolist() == pytest.approx(p.tolist(), abs=1e-15)
    assert recording.vectors("another content", pack) is None


def test_only_what_changed_is_missing(recorded):
    pack, _, recording = recorded
    assert recording.missing("content 0", pack.questions) == ()
    assert recording.missing("new content", pack.questions) == pack.questions
    angry, about, kind = pack.questions
    reworded = replace(angry, prompts=(Prompt("\nAngry?"),))
    reordered = replace(kind, options=tuple(reversed(kind.options)))
    cased = replace(about, case_insensitive=True)
    assert recording.missing("content 0", (reworded, about, kind)) == (reworded,)
    assert recording.missing("content 0", (angry, about, reordered)) == (reordered,)
    assert recording.missing("content 0", (angry, cased, kind)) == (cased,)
    # Id and group move no score.
    renamed = replace(angry, id="other", group=None)
    assert recording.missing("content 0", (renamed,)) == ()
    assert replace(recording, prompt_style="chat").missing("content 0", (angry,)) == (angry,)


def test_a_floor_that_is_wanted_and_not_there_is_missing():
    pack, _ = made(golden())
    recording = Recording(HEADER)
    recording.add("content", pack.questions, answered(golden(), GOLDEN_LOGPROBS))
    assert recording.missing("content", pack.questions) == ()
    wanted = tuple(replace(question, empty_floor=True) for question in pack.questions)
    assert recording.missing("content", wanted) == wanted
    assert recording.floor(wanted[0]) is None


def test_look_ups(recorded):
    pack, plain, recording = recorded
    logprobs = random_logprobs(plain, Random(2))
    about = pack.questions[1]
    assert recording.logprobs("content 2", about, 1) == tuple(logprobs["about", "a bug"])
    assert recording.logprobs("new", about, 1) is None
    assert recording.floor(about) == (-0.1 / 3, -0.2 / 3)


def test_floors_stand_once_in_the_file(recorded, tmp_path):
    _, _, recording = recorded
    path = tmp_path / "scores.jsonl.gz"
    write_recording(path, recording)
    header, *lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert header["format"] == 1 and header["model_digest"] == MODEL
    assert sum("floor" in line for line in lines) == 4
    contents = [line for line in lines if "content" in line]
    assert len(contents) == 5
    assert {tuple(scores) for line in contents for scores in line["prompts"].values()} == {
        ("logprob",)
    }


def test_another_models_recording_gives_nothing_and_says_so(recorded, tmp_path):
    _, _, recording = recorded
    path = tmp_path / "scores.jsonl.gz"
    write_recording(path, recording)
    said: list[str] = []
    assert read_recording(path, "c" * 64, said.append) is None
    (line,) = said
    assert "demo/model" in line and "none of it is used" in line


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "line 1"),
        (["[]"], "line 1"),
        (["{"], "line 1"),
        (['{"format": 2}'], "format 2"),
        (['{"format": 1, "model": "m"}'], "line 1"),
        (["HEADER", "{}"], "line 2"),
        (["HEADER", '{"floor": {"p": []}}'], "line 2"),
        (["HEADER", '{"floor": {"p": [NaN]}}'], "line 2"),
        (["HEADER", '{"floor": {"p": ["x"]}}'], "line 2"),
        (["HEADER", '{"content": "c", "prompts": {"p": [-1.0]}}'], "line 2"),
        (["HEADER", '{"content": "c", "prompts": {"p": {"logprob": null}}}'], "line 2"),
        (["HEADER", "[" * 100_000], "line 2"),
        (['{"format": true}'], "line 1"),
        (["HEADER", '{"floor": {"p": [0.001]}}'], "line 2"),
        (["HEADER", '{"floor": {"p": [-1e999]}}'], "line 2"),
        (["HEADER", '{"floor": {"p": [-1.0, -2.0]}}', '{"floor": {"p": [-1.0]}}'], "line 3"),
    ],
)
def test_damaged_lines(tmp_path, lines, says):
    header = json.dumps(
        {
            "format": 1,
            "model": "m",
            "model_digest": MODEL,
            "bits": "",
            "pack": "",
            "version": "",
            "prompt_style": "plain",
        }
    )
    path = tmp_path / "scores.jsonl.gz"
    text = "\n".join(header if line == "HEADER" else line for line in lines)
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(Unusable, match=says):
        read_recording(path, MODEL, print)


def test_damaged_files(recorded, tmp_path):
    _, _, recording = recorded
    path = tmp_path / "scores.jsonl.gz"
    with pytest.raises(Unusable, match="no such file"):
        read_recording(path, MODEL, print)
    write_recording(path, recording)
    whole = path.read_bytes()
    for data in (b"not gzip", whole[: len(whole) // 2], whole[:40] + b"\0\0\0\0" + whole[44:]):
        path.write_bytes(data)
        with pytest.raises(Unusable, match="damaged|line"):
            read_recording(path, MODEL, print)


def test_a_recording_with_other_numbers_than_options_is_damaged(recorded, tmp_path):
    pack, _, recording = recorded
    for prompts in recording.scores.values():
        for digest in prompts:
            prompts[digest] += (-9.0,)
    path = tmp_path / "scores.jsonl.gz"
    recording.floors.clear()
    write_recording(path, recording)
    assert read_recording(path, MODEL, print) == recording
    with pytest.raises(Unusable, match="line 2 is not one of a recording"):
        read_recording(path, MODEL, print, pack.questions)


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_LINE_BYTES"])
def test_what_unpacks_to_far_more_is_not_read(recorded, tmp_path, monkeypatch, limit):
    path = tmp_path / "scores.jsonl.gz"
    write_recording(path, recorded[2])
    with gzip.open(path, "ab") as packed:
        packed.write(b" " * (4 << 20))
    monkeypatch.setattr(f"spinf_serve.packs.recording.{limit}", 1 << 20)
    tracemalloc.start()
    with pytest.raises(Unusable, match="larger than is read"):
        read_recording(path, MODEL, print)
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()


def test_answers_that_do_not_belong(recorded):
    pack, plain, recording = recorded
    answers = answered(plain, GOLDEN_LOGPROBS)
    with pytest.raises(ValueError, match="'about' is none to the question 'angry'"):
        recording.add("content", pack.questions[:2], (answers[1], answers[0]))
    other = replace(pack.questions[0], options=(" yes", " no"))
    with pytest.raises(ValueError, match="over other options"):
        recording.add("content", (other,), answers[:1])
    endless = answered(plain, {**GOLDEN_LOGPROBS, ("angry", None): (-0.1, float("-inf"))})
    with pytest.raises(ValueError, match="not all finite"):
        recording.add("content", pack.questions[:1], endless[:1])
