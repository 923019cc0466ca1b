"""`spinf-serve bench` with jobs: its arguments, its way over HTTP, and a card's engine on the CPU."""

import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from spinf_serve import bench_http, http_load
from spinf_serve.bench_http import lines_of, measured_over_http
from spinf_serve.bench_jobs import NAMES, Wanted, groups_of, run
from spinf_serve.cli import app
from spinf_serve.engine.bench.jobs import Sizes
from spinf_serve.engine.bench.results import Measurement
from spinf_serve.engine.bench.synthetic_engine import synthetic_engine, tokenizer_at
from spinf_serve.engine.card import Card
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.http_load import Outcome, Plan
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig
from tests.engine.test_api import engine_of
from tests.support.servers import no_packs
from tests.support.toy_tokenizers import regex_bpe

SMALL = Sizes(contents=2, questions=2, content_tokens=30.0, question_tokens=6.0)


def over_http(sizes: Sizes = SMALL, **limits: int) -> Measurement:
    engine = engine_of(regex_bpe(), token_budget=2048, **limits)
    main = Measurement(
        sizes.main, "in-process", sizes.contents, sizes.questions, questions_per_s_wall=100.0
    )
    return measured_over_http(
        engine, ServerConfig(), no_packs(), sizes, clients=3, seconds=0.6, in_process=main
    )


def test_the_rate_over_http_is_that_of_answered_requests():
    found = over_http()
    extra = found.extra
    assert (found.job, found.path) == ("2x2", "http")
    assert found.contents == extra["requests"] > 5
    assert found.questions == 2 * found.contents
    assert found.questions_per_s_wall == pytest.approx(found.questions / 0.6)
    assert extra["of_in_process"] == pytest.approx(found.questions_per_s_wall / 100)
    assert 0 < extra["latency_p50_seconds"] <= extra["latency_p99_seconds"]
    # Every request has a content of its own: nothing is answered from a cache, rows grow with them.
    assert extra["rows"] > 30 * extra["requests"]
    # What asks must not be what is measured.
    assert extra["client_alone_requests_per_s"] > 2 * extra["requests"] / extra["seconds"]
    assert "over HTTP" in lines_of(found)[0]


def test_a_refused_request_is_no_rate():
    with pytest.raises(Unusable, match=r"requests failed under load \(4\d\d: \d+\)"):
        over_http(max_content_tokens=5)


def test_no_answer_in_time_is_no_rate():
    with pytest.raises(Unusable, match="no request was answered within 0 s"):
        bench_http._check(Outcome(0, {}, [], "", 0.0, 0.1), 2)


def test_an_answer_with_too_few_questions_is_a_fault():
    with pytest.raises(AssertionError, match="1 questions were answered, not 2"):
        bench_http._check(Outcome(1, {}, [0.1], '{"results": [{"queries": [{}]}]}', 0.0, 0.1), 2)


def test_contents_of_requests_differ_and_are_as_long():
    plan = Plan(0, "/", 1, 0.0, 0.0, '{"c":', "}", ("A b. C d. E f. G h. I j",))
    clients = http_load._Clients(plan)
    draw = random.Random(0)
    bodies = {clients._body(draw) for _ in range(20)}
    assert len(bodies) > 10
    assert {len(json.loads(body)["c"]) for body in bodies} == {len(plan.texts[0])}


def test_clients_that_nobody_answers_say_so():
    # Port 9 of this machine answers nobody.
    plan = Plan(9, "/", 2, 0.0, 0.15, '{"c":', "}", ("A b. C d",))
    outcome = bench_http._load(plan)
    assert outcome.done == 0
    assert outcome.failed == {"ConnectionRefusedError": sum(outcome.failed.values())}
    assert json.loads(json.dumps(asdict(outcome)))["latencies"] == []


def test_jobs_are_named_one_by_one():
    assert groups_of("main, http,main") == ("main", "http")
    with pytest.raises(Unusable, match=f"--jobs speed is no known job.*{', '.join(NAMES)}"):
        groups_of("main,speed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "all"], "--jobs all is no known job"),
        (["--synthetic", "gemma-4-tiny", "--against", "transformers"], "--against goes with"),
        (["--profile"], "--profile is of jobs"),
        (["--extraction", "--jobs", "main"], "--extraction is a job of its own"),
        (["--extraction", "--questions", "7"], "--extraction has questions of its own"),
        (["--jobs", ""], "--jobs  is no known job"),
        (["--commit", "abc"], "--commit is noted beside jobs"),
        (["--clients", "2"], "--clients and --seconds are of the job http"),
        (["--jobs", "main", "--seconds", "2"], "--clients and --seconds are of the job http"),
        (["--scheme", "rows"], "--scheme rows is of --synthetic weights"),
        (["--tokenizer", "a.gguf"], "--tokenizer a.gguf is for --synthetic weights"),
        (["embedded", "--synthetic", "gemma-4-tiny"], "the model embedded is named and so is"),
        (["--synthetic", "gemma-4-tiny", "--quant", "fp8"], "--quant fp8 is of a model's weights"),
        (["--out", "."], "--out . cannot be written"),
        (["--jobs", "main", "--out", "/dev/null/x"], "--out /dev/null/x cannot be written"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: list[str], message: str):
    found = CliRunner().invoke(app, ["bench", *arguments])
    assert isinstance(found.exception, Unusable)
    assert str(found.exception).startswith(message)


def test_a_tokenizer_that_is_not_there_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(Unusable, match="does not exist"):
        tokenizer_at(tmp_path / "tokenizer.json")
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(Unusable, match=r"should be a tokenizer\.json, its folder, or a GGUF file"):
        tokenizer_at(tmp_path / "vocab.json")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unusable, match="spinf-serve models fetch embedded"):
        tokenizer_at(None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card here")
def test_a_large_model_without_a_card_is_refused():
    with pytest.raises(Unusable, match="gemma-4-12b needs an NVIDIA GPU, and"):
        synthetic_engine("gemma-4-12b", "static", regex_bpe(), EngineConfig(), Limits(), print)
    wanted = EngineConfig(device="cuda")
    with pytest.raises(Unusable, match="--device cuda: .*or leave --device out"):
        synthetic_engine("gemma-4-tiny", "static", regex_bpe(), wanted, Limits(), print)


def test_a_card_that_cannot_hold_or_compute_a_made_up_model_is_told_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
):
    def refusal(capability: tuple[int, int], gib: int) -> str:
        size = gib << 30
        card = Card(0, "NVIDIA Example", capability, size, size, 100, "580", capability >= (8, 9))
        monkeypatch.setattr("spinf_serve.engine.bench.synthetic_engine.find_card", lambda: card)
        with pytest.raises(Unusable) as caught:
            synthetic_engine("gemma-4-12b", "rows", regex_bpe(), EngineConfig(), Limits(), print)
        return str(caught.value)

    assert refusal((8, 0), 80) == (
        "--scheme rows is fp8, which NVIDIA Example does not compute in; take --scheme int8"
    )
    assert refusal((9, 0), 8).startswith("too little memory on the card: with weights in fp8")


@pytest.mark.skipif(torch.cuda.is_available(), reason="made for the interpreter")
def test_the_tiny_model_is_measured_on_a_card_s_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "spinf_serve.engine.bench.synthetic_engine.tokenizer_at", lambda path: regex_bpe()
    )
    wanted = Wanted(
        synthetic="gemma-4-tiny",
        scheme="static",
        tokenizer=None,
        groups=("main",),
        sizes=replace(SMALL, contents=2, questions=1, content_tokens=4.0, question_tokens=4.0),
        repeats=2,
        profile=True,
        clients=1,
        seconds=1.0,
        commit="abc",
        out=tmp_path / "tiny.json",
    )
    said: list[str] = []
    (found,) = run(ServerConfig(engine=EngineConfig(device="cpu")), wanted, said.append)
    assert found.linears_ceiling_questions_per_s is not None
    assert found.linears_sequence_questions_per_s is not None
    assert {one["layer"] for one in found.linears} == {"qkv", "out", "gate_up", "down"}
    assert set(found.device_ms) == {"linears", "attention", "element-wise", "head"}
    (row,) = json.loads((tmp_path / "tiny.json").read_text())
    assert (row["model"], row["scheme"], row["commit"]) == (
        "synthetic/gemma-4-tiny",
        "static",
        "abc",
    )
    assert row["device_ms"] == found.device_ms
