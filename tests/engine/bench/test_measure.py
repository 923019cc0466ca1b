"""A measured job: what is counted, what is compared, and what lies in the file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spinf_serve.engine.bench.jobs import GROUPS, Asked, Sizes, jobs
from spinf_serve.engine.bench.measure import BenchJob, measured
from spinf_serve.engine.bench.results import Circumstances, Measurement, ResultFile
from spinf_serve.engine.bench.suite import Suite
from spinf_serve.engine.bench.workload import closed_questions, made_up_contents
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.question import Prompt, Question
from tests.engine.test_api import engine_of, fake
from tests.support.toy_tokenizers import ByteTokenizer, regex_bpe

CPU = torch.device("cpu")
SMALL = Sizes(
    contents=3,
    questions=2,
    content_tokens=40.0,
    question_tokens=6.0,
    rounds=2,
    messages=2,
    message_tokens=20.0,
    stories=2,
    story_tokens=30.0,
    growth_questions=(1, 70),
    growth_contents=(16, 128),
    growth_tokens=300,
)
ABOUT = Circumstances(
    model="toy",
    scheme="float32",
    card="a processor",
    card_line="",
    processor="a processor",
    versions={},
    commit="abc",
    date="2026-01-01",
    command="spinf-serve bench",
    fingerprint="0" * 64,
    token_budget=256,
    load_seconds=0.0,
)
PACK = Asked(
    (Question("p", (Prompt("\nIs it so? Answer:"),), (" yes", " no")),), lambda t: f"News: {t}"
)


def main_job(sizes: Sizes = SMALL) -> BenchJob:
    return next(iter(jobs("main", sizes, regex_bpe(), {})))


def test_a_measurement_counts_questions_without_floors_and_rows_with_them():
    engine = engine_of(regex_bpe(), token_budget=256)
    found = measured(engine, main_job(), 2, CPU)
    assert (found.job, found.contents, found.questions) == ("3x2", 3, 6)
    # The warm run is not among them, and its floors are read again.
    assert len(found.wall_seconds) == len(found.pass_times) == len(found.host_seconds) == 2
    assert sum(fake(engine).rows) == 3 * found.rows
    assert [sum(one["rows"] for one in run) for run in found.pass_times] == [found.rows] * 2
    assert found.reads == sum(one["reads"] for one in found.pass_times[0])
    trees = sum(result.counts.packed_tokens for result in engine.run(main_job().works))
    assert found.rows > trees
    assert found.content_tokens == pytest.approx(40, abs=2)
    rate = found.questions_per_s_wall
    assert found.contents_per_hour == pytest.approx(3600 * rate / SMALL.questions)
    assert found.work_tokens_per_s == pytest.approx(rate * found.rows / found.questions)
    assert found.peak_memory_gib > 0.05


def test_a_repeat_with_other_bits_is_an_error():
    engine = engine_of(regex_bpe(), token_budget=256)
    seen: list[int] = []
    truth = fake(engine).columns

    def columns(packed):
        seen.append(len(seen))
        return truth(packed) - 0.25 * (len(seen) > 2)

    fake(engine).columns = columns  # type: ignore[method-assign]
    with pytest.raises(Unusable, match="other bits when it was repeated"):
        measured(engine, main_job(), 2, CPU)


def test_every_group_has_its_jobs():
    found = {
        group: list(jobs(group, SMALL, regex_bpe(), {"moderation": PACK, "news": PACK}))
        for group in GROUPS
    }
    names = [job.name for group in GROUPS for job in found[group]]
    assert names == [
        "3x2",
        "sustained",
        "moderation",
        "news",
        "growth-1-questions",
        "growth-70-questions",
        "growth-16-tokens",
        "growth-128-tokens",
    ]
    by_name = {job.name: job for group in GROUPS for job in found[group]}
    assert by_name["sustained"].questions == 2 * by_name["3x2"].questions
    assert len({work.content for work in by_name["sustained"].works}) == 6
    news = by_name["news"].works
    assert len(news) == 2
    assert all(work.content.startswith("News: The") for work in news)
    assert len(by_name["growth-70-questions"].works[0].questions) == 70
    tokens = len(regex_bpe().encode(by_name["growth-128-tokens"].works[1].content))
    assert tokens == pytest.approx(128, rel=0.25)


def test_contents_differ_and_questions_repeat_first_words_only_when_they_may():
    assert len(set(made_up_contents(regex_bpe(), 9, 30.0))) == 9
    with pytest.raises(Unusable, match="without a common first token"):
        closed_questions(ByteTokenizer(), 1, 60)
    works = closed_questions(ByteTokenizer(), 1, 120, distinct=False)
    assert len({question.prompts[0].text for question in works[0].questions}) == 120


def test_a_file_holds_every_measurement_from_its_end_on(tmp_path: Path):
    path = tmp_path / "one.json"
    file = ResultFile(path, ABOUT)
    first = Measurement("3x2", "in-process", 3, 6)
    file.add(first)
    assert [one["job"] for one in json.loads(path.read_text())] == ["3x2"]
    first.device_ms = {"linears": 1.0}
    file.changed()
    file.add(Measurement("3x2", "http", 3, 6))
    rows = json.loads(path.read_text())
    assert [one["path"] for one in rows] == ["in-process", "http"]
    assert rows[0]["device_ms"] == {"linears": 1.0}
    wanted = (
        "job model scheme card path questions questions_per_s_wall questions_per_s_device "
        "linears_ceiling_questions_per_s work_tokens_per_s device_ms versions commit date"
    )
    assert set(wanted.split()) <= rows[0].keys()
    assert not list(path.parent.glob("*.part"))


def test_a_suite_measures_what_is_asked_for_and_says_it(tmp_path: Path):
    said: list[str] = []
    results = ResultFile(tmp_path / "r.json", ABOUT)
    engine = engine_of(regex_bpe(), token_budget=256)
    suite = Suite(engine, None, CPU, results, repeats=1, profile=True, say=said.append)
    suite.run(["main", "packs"], SMALL, {"moderation": PACK, "news": PACK})
    assert [one.job for one in results.measurements] == ["3x2", "moderation", "news"]
    assert len(json.loads((tmp_path / "r.json").read_text())) == 3
    assert said[0].startswith("3x2: ")
    assert any("answers sha256" in line for line in said)
    assert sum("nothing to profile" in line for line in said) == 3


def test_what_a_model_is_too_short_for_is_said_and_left_out():
    said: list[str] = []
    results = ResultFile(None, ABOUT)
    engine = engine_of(regex_bpe(), token_budget=256, context_tokens=100)
    suite = Suite(engine, None, CPU, results, repeats=1, profile=False, say=said.append)
    suite.run(["growth"], replace(SMALL, growth_questions=(1,)), {})
    assert [one.job for one in results.measurements] == [
        "growth-1-questions",
        "growth-16-tokens",
    ]
    assert any(line.startswith("growth-128-tokens: left out: ") for line in said)
