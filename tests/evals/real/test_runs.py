"""A documented run: who is asked, what is kept, and what the result says; and the page of it."""

import json
import os
from pathlib import Path

import pytest

from spinf_serve.engine.api import open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.evals.real import __main__ as command
from spinf_serve.evals.real import drawing, judging
from spinf_serve.evals.real.drawing import Plan
from spinf_serve.evals.real.packs import PACKS
from spinf_serve.evals.real.readers import Text, read
from spinf_serve.evals.scorer import in_process
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.question import Question
from spinf_serve.packs.recording import Header, Recording
from spinf_serve.server.config import ServerConfig
from tests.support import real_page
from tests.support.servers import running
from tests.support.stub_engine import StubEngine

REVIEWS = "gensim/test/test_data/pang_lee_polarity.cor"


@pytest.fixture
def plan(monkeypatch) -> Plan:
    """A run of a hundred rows."""
    plan = Plan(20, 50, 30)
    for module in (drawing, judging):
        monkeypatch.setattr(module, "PLANS", {"reviews": plan})
    return plan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / REVIEWS
    path.parent.mkdir(parents=True)
    lines = [f"__label__{'pos' if n % 2 else 'neg'} review {n}\n" for n in range(100)]
    path.write_text("".join(lines))
    return tmp_path


def test_a_run_asks_a_server_once_and_says_that_noise_promises_nothing(plan, folder, tmp_path):
    scores, out = tmp_path / "scores.jsonl.gz", tmp_path / "result.json"
    flags = ["reviews", "--folder", str(folder), "--scores", str(scores), "--out", str(out)]
    with pytest.raises(Unusable, match="give the address of a server"):
        command.main(flags)
    engine = StubEngine()
    with running(lambda: engine.as_engine(), ServerConfig(port=0, debug=True)) as server:
        command.main([*flags, "--server", server.url])
    found = json.loads(out.read_text())
    assert found["rows"] == {"fit": plan.fit, "cut": plan.cut, "held": plan.held}
    assert sum(found["classes"]["held"].values()) == plan.held
    assert found["model_digest"] == engine.fingerprint.model
    # The stub's answers know nothing of the labels.
    assert found["promised"]["positive"]["reachable"] is False
    # Again, from what was kept.
    out.unlink()
    command.main(flags)
    assert json.loads(out.read_text()) == found


def test_rows_that_are_not_kept_are_counted_where_there_is_no_server(plan, folder, tmp_path):
    scores, out = tmp_path / "scores.jsonl.gz", tmp_path / "result.json"
    flags = ["reviews", "--folder", str(folder), "--scores", str(scores), "--out", str(out)]
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0, debug=True)) as server:
        command.main([*flags, "--server", server.url])
    path = folder / REVIEWS
    path.write_text(path.read_text().replace("review 7\n", "another\n"))
    with pytest.raises(Unusable, match="1 of 100 texts are not in"):
        command.main(flags)
    scores.write_bytes(b"x")
    with pytest.raises(Unusable, match="holds no answers"):
        command.main(flags)


def told(pack, texts: list[Text], wrong: frozenset[str]) -> Recording:
    """Answers that know the label, but for some rows."""
    recording = Recording(Header("m", "0" * 64, "0" * 64, pack.id, pack.version))
    for number, text in enumerate(texts):
        holds = (text.label == "positive") != (text.id in wrong)
        first = -0.1 - number / 1000 if holds else -3.0 - number / 1000
        content = judging.wrapped(pack, text)
        for question in pack.questions:
            _keep(recording, content, question, first)
    return recording


def _keep(recording: Recording, content: str, question: Question, first: float) -> None:
    from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer

    options = tuple(
        OptionAnswer(text, value, 0.5, None, None)
        for text, value in zip(question.options, (first, -3.1 - first), strict=True)
    )
    answer = QuestionAnswer(question.id, (PromptAnswer({}, options, 0.0, None),), True)
    recording.add(content, (question,), (answer,))


def test_a_score_that_knows_the_label_gets_a_cut_and_its_errors_are_counted(monkeypatch):
    plan = Plan(40, 160, 60)
    for module in (drawing, judging):
        monkeypatch.setattr(module, "PLANS", {"reviews": plan})
    texts = [
        Text(str(n), f"review {n}", "positive" if n % 2 else "negative", None) for n in range(260)
    ]
    parts = drawing.drawn("reviews", texts)
    pack = read_pack(PACKS["reviews"].encode(), "pack.yaml")
    clean = judging.judge("reviews", pack, parts, told(pack, texts, frozenset()))
    promise = clean["promised"]["positive"]
    assert clean["auc_held"]["positive"]["value"] == 1.0
    assert promise["reachable"] is True
    assert promise["cut_rows"]["bound"] >= 0.9
    # One negative of the held rows that answers like a positive.
    odd = next(text.id for text in parts["held"] if text.label == "negative")
    once = judging.judge("reviews", pack, parts, told(pack, texts, frozenset({odd})))
    held = once["promised"]["positive"]["held"]["precision"]
    assert once["promised"]["positive"]["cut_rows"] == promise["cut_rows"]
    before = promise["held"]["precision"]
    assert (held["of"], held["right"]) == (before["of"] + 1, before["right"])


@pytest.mark.slow
@pytest.mark.weights
def test_the_embedded_model_tells_praise_from_blame(monkeypatch, tmp_path):
    for module in (drawing, judging):
        monkeypatch.setattr(module, "PLANS", {"reviews": Plan(20, 10, 70)})
    place = os.environ.get("REAL_DATA")
    try:
        read("reviews", None if place is None else Path(place))
    except Unusable as missing:
        pytest.skip(str(missing))
    engine = open_engine(EngineConfig(model="embedded", device="cpu"), Limits())
    monkeypatch.setattr(command, "over_http", lambda *_: in_process(engine))
    out = tmp_path / "result.json"
    folder = [] if place is None else ["--folder", place]
    scores = str(tmp_path / "scores.jsonl.gz")
    command.main(["reviews", *folder, "--server", "here", "--scores", scores, "--out", str(out)])
    area = json.loads(out.read_text())["auc_held"]["positive"]
    # It was 0.875 with a standard error of 0.043.
    assert area["value"] > 0.7


def test_the_page_tells_the_recorded_results():
    assert real_page.PAGE.read_text("utf-8") == real_page.page()
    assert {file.stem for file in real_page.RESULTS.glob("real-*.json")} == {
        "real-r8",
        "real-reviews",
        "real-spam",
    }
