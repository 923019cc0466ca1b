"""Whoever answers, every work has its own outcome, and the same bits."""

from dataclasses import replace

import pytest

from spinf_serve.engine.api import Work as EngineWork
from spinf_serve.engine.api import open_engine
from spinf_serve.engine.config import EMBEDDED, EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.evals.remote import Remote, open_remote
from spinf_serve.evals.runner import run
from spinf_serve.evals.scorer import Work, cautions, counted, in_process, over_http
from spinf_serve.evals.store import kept, matrix, recording
from spinf_serve.evals.verify import verify
from spinf_serve.packs.errors import Busy, Fault, Refused, Unusable
from spinf_serve.packs.present import wrapped
from spinf_serve.server.config import ServerConfig
from tests.support.kept_scores import golden_pack, project_with
from tests.support.servers import running
from tests.support.stub_engine import NAN, StubEngine

CONTENTS = ["a", "word " * 5000, "b", f"bad {NAN}", "c"]


@pytest.fixture(scope="module")
def server():
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0, debug=True)) as started:
        yield started


def here():
    return in_process(StubEngine().as_engine())


def kinds(outcomes):
    return [one if isinstance(one, tuple) else type(one) for one in outcomes]


def test_one_refusal_or_fault_costs_no_other_row_its_answer(server):
    questions = golden_pack().questions
    works = [Work(content, questions) for content in CONTENTS]
    mine = kinds(here().run(works))
    assert [one for one in mine if not isinstance(one, tuple)] == [Refused, Fault]
    theirs = kinds(over_http(server.url, None).run(works))
    for one, other in zip(mine, theirs, strict=True):
        if not isinstance(one, tuple):
            assert one is other
            continue
        for own, told in zip(one, other, strict=True):
            assert [p.options for p in own.prompts] == [p.options for p in told.prompts]


def test_what_is_read_is_counted_alike_here_and_by_a_server(server):
    # Without floors, which are read once and for all.
    questions = tuple(replace(one, empty_floor=False) for one in golden_pack().questions)
    works = [Work(content, questions) for content in ("a", "b c d", "word " * 5000)]
    mine, theirs = here(), over_http(server.url, None)
    for one in (mine, theirs):
        one.run(works)
    assert counted(mine) == counted(theirs)
    prompts = sum(len(one.prompts) for one in questions)
    assert (counted(mine).rows, counted(mine).calls) == (2, 2 * prompts)
    assert counted(mine).content_tokens == 4
    assert counted(mine).tree_tokens < counted(mine).apart_tokens
    with_floors = over_http(server.url, None)
    with_floors.run([Work(content, golden_pack().questions) for content in ("a", "b c d")])
    assert counted(with_floors) == counted(mine)


@pytest.mark.weights
def test_the_embedded_models_scores_are_kept_and_asked_again_bit_for_bit(tmp_path):
    config = EngineConfig(model=EMBEDDED, device="cpu", token_budget=512)
    scorer = in_process(open_engine(config, Limits(max_content_tokens=64)))
    contents = ["It came late.", "word " * 100, "Where is my money?", ""]
    project = project_with(tmp_path, contents, parameters='{"shop": "Lamps"}')
    report = run(project, "d", golden_pack(), scorer, print)
    assert (report.asked, report.floors, report.refused) == (12, 4, {"content_too_long": 1})
    found = verify(project, "d", golden_pack(), scorer)
    assert (found.rows, found.answers, found.floors, found.different) == (3, 12, 4, ())
    alone = open_engine(config, Limits())
    held = recording(project, "d", golden_pack(), scorer.identity.bits)
    (question,) = golden_pack().questions[2:]
    content = wrapped(golden_pack(), contents[2], None, {"shop": "Lamps"})
    (result,) = alone.run([EngineWork(content, (question,))])
    (prompt,) = result.answers[0].prompts
    assert held.logprobs(content, question) == tuple(one.logprob for one in prompt.options)


def test_scores_of_a_server_and_of_this_process_are_one_store(server, tmp_path):
    project = project_with(tmp_path, CONTENTS)
    remote = over_http(server.url, None)
    assert remote.identity.bits == here().identity.bits
    assert not list(cautions(remote.identity))
    report = run(project, "d", golden_pack(), remote, print)
    assert (report.asked, report.floors, report.failed) == (12, 4, 1)
    assert report.refused == {"content_too_long": 1}
    again = run(project, "d", golden_pack(), here(), print)
    assert (again.asked, again.reused) == (0, 12)


def test_a_server_without_full_precision_is_kept_as_rounded(server, tmp_path, monkeypatch):
    from spinf_serve.evals import remote as module

    def poorer(url, body, token):
        if b'"precision"' in body:
            error = {"code": "invalid_field", "message": "scoring.precision is not known"}
            return 400, {"error": error}
        return module_post(url, body, token)

    module_post = module.post
    monkeypatch.setattr(module, "post", poorer)
    project = project_with(tmp_path, ["a", "b"])
    scorer = over_http(server.url, None)
    assert scorer.identity.rounded
    lines: list[str] = []
    report = run(project, "d", golden_pack(), scorer, lines.append)
    assert (report.asked, report.floors) == (8, 0)
    assert "rounded" in lines[0]
    assert kept(project)[0].identity.rounded
    bits = scorer.identity.bits
    arrays = matrix(project, "d", golden_pack(), bits)
    assert arrays.floors == {}
    assert all((array.round(6) == array).all() for array in arrays.logprobs.values())
    # Unrounded scores of the same bits are others, and go before.
    assert run(project, "d", golden_pack(), here(), print).asked == 8
    assert recording(project, "d", golden_pack(), bits).floors


def test_a_server_that_does_not_trust_the_caller_is_known_by_its_fingerprint():
    config = ServerConfig(port=0, token="secret-a", trusted_token="secret-b")
    with running(lambda: StubEngine().as_engine(), config) as closed:
        plain, trusted = (over_http(closed.url, token) for token in ("secret-a", "secret-b"))
    assert (plain.identity.model, len(plain.identity.bits)) == ("", 64)
    assert plain.identity.bits != trusted.identity.bits == here().identity.bits
    assert "does not tell its model's digest" in next(cautions(plain.identity))


def test_a_server_without_any_fingerprint_is_known_by_its_address(server, monkeypatch):
    from spinf_serve.evals import remote as module

    asked = module.post

    def silent(url, body, token):
        status, told = asked(url, body, token)
        return status, {
            key: value for key, value in told.items() if key not in ("engine", "system_fingerprint")
        }

    monkeypatch.setattr(module, "post", silent)
    scorer = over_http(server.url, None)
    assert scorer.identity.facts["address"] == server.url
    assert "stay when its model changes" in list(cautions(scorer.identity))[1]
    assert isinstance(scorer.run([Work("a", golden_pack().questions)])[0], tuple)


def test_a_busy_server_is_waited_for_and_given_up_in_the_end(server, monkeypatch):
    waits: list[float] = []
    scorer = over_http(server.url, None, waits.append)
    works = [Work("a", golden_pack().questions)]
    asked = Remote.run

    def busy_at_first(self, works):
        if len(waits) < 2:
            raise Busy("concurrency_limit", "no room", 3)
        return asked(self, works)

    monkeypatch.setattr(Remote, "run", busy_at_first)
    assert isinstance(scorer.run(works)[0], tuple)
    assert waits == [3, 3]

    def busy(self, works):
        raise Busy("warming_up", "no room", 50)

    monkeypatch.setattr(Remote, "run", busy)
    with pytest.raises(Unusable, match="no room; waited 150 s"):
        scorer.run(works)


def test_a_model_that_changes_meanwhile_is_noticed(server):
    questions = golden_pack().questions
    remote = open_remote(server.url, None)
    assert remote.fingerprint == StubEngine().fingerprint.short
    changed = Remote(remote.url, None, remote.model, remote.digests, "fp_0000000000")
    with pytest.raises(Unusable, match="its model or machine was changed"):
        changed.run([Work("a", questions)])
