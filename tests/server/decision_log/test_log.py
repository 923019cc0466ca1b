"""The log of a running server: what it keeps of a request, and that no request waits or fails."""

import json
import logging
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.decision_log import log as log_module
from spinf_serve.server.decision_log import making, writing
from spinf_serve.server.decision_log.entries import Entry, content_digest
from spinf_serve.server.decision_log.log import DecisionLog
from spinf_serve.server.decision_log.opening import open_decision_log
from spinf_serve.server.decision_log.reading import Wanted, entries, pack_facts
from spinf_serve.server.decision_log.removing import remove
from spinf_serve.server.decision_log.tables import connect, create
from tests.support.decision_logs import log_of
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import Running, inputs, question, request, running
from tests.support.stub_engine import NAN, SERVED, StubEngine
from tests.support.waiting import until

ANGRY = "Where is my money? Third email!"
PACK = {"id": "demo/support"}


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "given"
    write_packs(
        folder,
        fitted(),
        fitted(pack="demo/draft", model="other/model"),
        fitted(pack="demo/max", on_long={"chunk": "max"}),
    )
    return served_from(folder)


@pytest.fixture
def serving(packs, tmp_path):
    """Runs a server with a log; `changes` are settings."""

    @contextmanager
    def run(engine: StubEngine | None = None, **changes: Any) -> Iterator[Running]:
        config = ServerConfig(decision_log=str(tmp_path / "decisions.db"), **changes)
        stub = engine or StubEngine(Limits(max_content_tokens=64))
        with running(stub.as_engine, config, packs=packs) as server:
            yield server

    return run


def kept(path: Path) -> list[Entry]:
    with closing(connect(path, write=False)) as connection:
        return list(entries(connection, Wanted(), newest_first=False))


def ask(server: Running, content: str, *queries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    entry = {"id": "mail-7", "messages": [{"role": "user", "content": content}], **fields}
    body = {
        "endpoint": "inbox",
        "inputs": [entry],
        "scoring": {"queries": list(queries), "packs": [PACK], "precision": "full"},
    }
    answer = server.score(body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_an_entry_says_what_the_answer_said_and_more(serving, tmp_path):
    with serving() as server:
        answer = ask(server, ANGRY, parameters={"shop": "Bolt & Co"})
    (entry,) = kept(tmp_path / "decisions.db")
    assert (entry.request, entry.input) == (answer["id"], "mail-7")
    assert (entry.at, entry.route, entry.endpoint) == (answer["created"], "score", "inbox")
    assert (entry.caller, entry.chunks) == ("anonymous", 1)
    assert entry.parameters == {"shop": "Bolt & Co"}
    assert entry.identity.served == SERVED.id
    assert len(entry.identity.model) == len(entry.identity.bits) == 64
    assert (entry.digest, entry.text) == (content_digest(ANGRY), None)
    (told,) = answer["results"][0]["packs"]
    (decided,) = entry.decided
    assert (decided.pack, decided.version, decided.context) == (
        told["id"], told["version"], told["context"]
    )  # fmt: skip
    assert decided.state == told["state"]
    for name, one in told["categories"].items():
        found = decided.categories[name]
        assert {key: found[key] for key in one} == one
    assert decided.categories["money"]["threshold"] == 0.4
    verdict = told["decision"]
    assert decided.decision is not None and decided.reason is not None
    assert {key: decided.decision[key] for key in verdict} == verdict
    assert decided.reason.startswith(("critical: anger", "the layer"))
    assert set(decided.reads) == {"angry", "refund", "bill", "notbill"}


def test_the_pack_s_questions_are_kept_once(serving, tmp_path):
    with serving() as server:
        ask(server, ANGRY)
        ask(server, "Thanks")
    first, second = kept(tmp_path / "decisions.db")
    with closing(connect(tmp_path / "decisions.db")) as connection:
        facts = pack_facts(connection, first.decided[0].digest).facts
        assert connection.execute("SELECT count(*) FROM pack").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM model").fetchone() == (1,)
    assert second.decided[0].digest == first.decided[0].digest
    assert facts["reads"]["refund"] == {
        "category": "money",
        "question": "\nIt mentions a refund. True or false?",
        "options": [" true", " false"],
    }
    assert facts["contexts"]["chat"] == 'Chat line:\n"{X}"\n'
    assert facts["categories"]["money"] == {"label": "Money", "requires": ["anger"]}
    assert list(facts["categories"]) == ["anger", "money", "topic"]


def test_a_call_s_own_thresholds_are_kept(serving, tmp_path):
    decision = {"mode": "per_category", "thresholds": {"anger": 0.0}, "critical": []}
    with serving() as server:
        body = request(ANGRY, packs=[PACK | {"context": "chat", "decision": decision}])
        del body["scoring"]["queries"]
        assert server.score(body).status_code == 200
    ((decided,),) = [one.decided for one in kept(tmp_path / "decisions.db")]
    assert decided.call == decision
    assert decided.categories["anger"]["threshold"] == 0.0
    assert decided.context == "chat"
    assert decided.reason is not None
    assert "anger" in decided.reason and "reaches 0" in decided.reason


def test_texts_are_kept_never_when_drawn_or_always(serving, tmp_path, monkeypatch):
    path = tmp_path / "decisions.db"
    contents = [f"content {n}" for n in range(200)]
    for content in ("digest", "sample", "text"):
        with serving(log_content=content, log_sample=0.25) as server:
            assert server.score(inputs(*contents[:100])).status_code == 200
            assert server.score(inputs(*contents[100:])).status_code == 200
        found = kept(path)
        assert [one.digest for one in found] == [content_digest(text) for text in contents]
        drawn = {one.digest for one in found if one.drawn}
        # 25 of 100 on average; outside of this once in a million.
        assert 20 < len(drawn) < 85
        assert {one.rate for one in found} == {0.25}
        texts = {"digest": set(), "sample": drawn, "text": {one.digest for one in found}}[content]
        assert {one.digest for one in found if one.text is not None} == texts
        assert all(one.text is None or content_digest(one.text) == one.digest for one in found)
        path.unlink()


def test_own_answers_are_kept_on_request(serving, tmp_path):
    grid = {**question("about", template="\n{F}? Answer:{?}"), "combinations": [{"F": "late"}]}
    for wanted in (False, True):
        with serving(log_answers=wanted) as server:
            answer = server.score(request("Late!", question(), grid, precision="full")).json()
    bare, full = kept(tmp_path / "decisions.db")
    assert bare.answers == ()
    first, second = full.answers
    told = answer["results"][0]["queries"][0]["combinations"][0]["options"]
    assert first.p == {option["text"]: option["p"] for option in told}
    assert (second.question, second.asked) == ("about", "\nlate? Answer:")
    assert second.values == {"F": "late"}


def test_the_answers_of_a_decision_are_what_was_decided(serving, tmp_path):
    desks = {"billing": None, "technical": None}
    questions = {
        "desk": {"type": "choice", "instructions": "Which desk?", "criteria": desks},
        "urgent": {"type": "noul", "instructions": "Is it urgent?"},
    }
    with serving() as server:
        body = {"model": "jev-latest", "state": ANGRY, "questions": questions}
        answer = server.http.post("/v1/systemone", json=body)
        assert answer.status_code == 200, answer.text
    (entry,) = kept(tmp_path / "decisions.db")
    assert (entry.route, entry.digest, entry.decided) == ("systemone", content_digest(ANGRY), ())
    desk, urgent = entry.answers
    told = answer.json()["answers"]
    assert (desk.question, urgent.question) == ("desk", "urgent")
    assert desk.p == pytest.approx(told["desk"]["probabilities"], abs=1e-6)
    assert urgent.p["Yes"] == pytest.approx(told["urgent"]["noul"], abs=1e-6)
    assert desk.asked == "Which desk?"
    assert list(desk.p) == ["billing", "technical"]
    assert sum(desk.p.values()) == pytest.approx(1)
    assert urgent.asked == "Is it urgent?"


def test_a_draft_is_kept_without_a_decision(serving, tmp_path):
    with serving() as server:
        body = request(ANGRY, packs=[{"id": "demo/draft"}])
        assert server.score(body).status_code == 200
    ((decided,),) = [one.decided for one in kept(tmp_path / "decisions.db")]
    assert (decided.state, decided.decision, decided.reason, decided.categories) == (
        "draft", None, None, {}
    )  # fmt: skip


def test_a_content_in_chunks_is_one_entry_of_its_whole_text(serving, tmp_path):
    text = " ".join(f"word{n}" for n in range(300))
    with serving(log_content="text") as server:
        body = request(text, packs=[{"id": "demo/max"}])
        del body["scoring"]["queries"]
        answer = server.score(body).json()
    (entry,) = kept(tmp_path / "decisions.db")
    assert entry.text == text
    assert entry.chunks == answer["results"][0]["packs"][0]["chunks"] > 1
    flagged = answer["results"][0]["packs"][0]["categories"]["anger"]["score"]
    assert entry.decided[0].categories["anger"]["score"] == pytest.approx(flagged, abs=1e-6)


def test_a_request_that_failed_decided_nothing(serving, tmp_path):
    with serving() as server:
        assert server.score(request(f"{NAN}")).status_code == 500
        assert server.score({"inputs": []}).status_code == 400
        assert server.score(request("fine")).status_code == 200
    assert [one.digest for one in kept(tmp_path / "decisions.db")] == [content_digest("fine")]


def test_callers_are_kept_by_the_name_of_their_key(serving, tmp_path):
    with serving(token="s3cret") as server:
        headers = {"authorization": "Bearer s3cret"}
        assert server.score(request("hi"), **headers).status_code == 200
    (entry,) = kept(tmp_path / "decisions.db")
    assert entry.caller == "token"
    assert b"s3cret" not in (tmp_path / "decisions.db").read_bytes()


def test_a_log_goes_on_after_a_restart(serving, tmp_path):
    for content in ("one", "two"):
        with serving() as server:
            assert server.score(request(content)).status_code == 200
    found = kept(tmp_path / "decisions.db")
    assert [one.digest for one in found] == [content_digest("one"), content_digest("two")]
    assert (tmp_path / "decisions.db").stat().st_mode & 0o077 == 0


def test_old_entries_leave_by_themselves(serving, tmp_path, monkeypatch):
    path = tmp_path / "decisions.db"
    with serving(log_content="text") as server:
        for content in ("older than a week", "from today"):
            assert server.score(request(content)).status_code == 200
    with closing(connect(path)) as connection:
        connection.execute(
            "UPDATE asked SET at = at - 8 * 86400 WHERE digest = ?",
            [content_digest("older than a week")],
        )
    assert b"older than a week" in path.read_bytes()
    with serving(log_content="text", log_days=7):
        until(lambda: len(kept(path)) == 1)
    assert [one.text for one in kept(path)] == ["from today"]
    left = b"".join(file.read_bytes() for file in tmp_path.glob("decisions.db*"))
    assert b"older than a week" not in left and b"from today" in left


def test_a_log_that_cannot_be_written_fails_no_request_and_loses_nothing(
    serving, tmp_path, monkeypatch, caplog
):
    path = tmp_path / "decisions.db"
    monkeypatch.setattr(log_module, "RETRY_SECONDS", 0.05)
    real = writing.write
    faults: list[int] = []

    def write(*arguments: Any) -> None:
        if len(faults) < 3:
            faults.append(1)
            raise sqlite3.OperationalError("database or disk is full")
        real(*arguments)

    monkeypatch.setattr(log_module, "write", write)
    with caplog.at_level(logging.WARNING), serving() as server:
        for n in range(3):
            assert server.score(request(f"content {n}")).status_code == 200
        until(lambda: log_of(server).counts().written == 3)
    assert len(kept(path)) == 3
    lines = [record.getMessage() for record in caplog.records if record.name == log_module.__name__]
    assert len(lines) == 2
    assert lines[0].endswith("tried again every 0.05 s: database or disk is full")
    assert lines[1].endswith("is written again; 0 contents were lost meanwhile")


def test_a_log_that_is_locked_for_long_loses_what_finds_no_room_and_counts_it(
    serving, tmp_path, monkeypatch, caplog
):
    path = tmp_path / "decisions.db"
    monkeypatch.setattr(log_module, "WAITING_BYTES", 3 * 6_000)
    with serving() as server:
        log = log_of(server)
        with closing(connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            start = time.monotonic()
            for n in range(20):
                assert server.score(request(f"content {n}")).status_code == 200
            assert time.monotonic() - start < 5, "requests waited for the log"
            counts = log.counts()
            assert counts.lost > 0 and counts.written == 0
            assert counts.lost + counts.waiting == 20
            other.execute("ROLLBACK")
        until(lambda: log.counts().waiting == 0)
        counts = log.counts()
        assert counts.written + counts.lost == 20
    assert len(kept(path)) == counts.written > 0
    told = [r for r in caplog.records if "come faster" in r.getMessage()]
    assert len(told) == 1


def test_a_request_larger_than_all_the_room_is_kept_when_nothing_waits(
    serving, tmp_path, monkeypatch
):
    monkeypatch.setattr(log_module, "WAITING_BYTES", 10)
    with serving() as server:
        assert server.score(request("hi")).status_code == 200
    assert len(kept(tmp_path / "decisions.db")) == 1


def test_a_log_that_was_moved_away_is_begun_anew(serving, tmp_path):
    path, aside = tmp_path / "decisions.db", tmp_path / "november.db"
    with serving() as server:
        assert server.score(request("old")).status_code == 200
        until(lambda: log_of(server).counts().written == 1)
        for end in ("", "-wal", "-shm"):
            (tmp_path / f"decisions.db{end}").rename(tmp_path / f"november.db{end}")
        assert server.score(request("new")).status_code == 200
    assert [one.digest for one in kept(path)] == [content_digest("new")]
    assert [one.digest for one in kept(aside)] == [content_digest("old")]


def test_a_fault_in_one_request_s_entries_leaves_the_others(serving, tmp_path, monkeypatch, caplog):
    real = making.entries_of

    def entries_of(request: Any, *rest: Any) -> Any:
        if "poison" in request.asked.call.inputs[0].content:
            raise ZeroDivisionError
        return real(request, *rest)

    monkeypatch.setattr(log_module, "entries_of", entries_of)
    with serving() as server:
        for content in ("one", "poison", "two"):
            assert server.score(request(content)).status_code == 200
        until(lambda: log_of(server).counts().written == 2)
        assert log_of(server).counts().lost == 1
    assert len(kept(tmp_path / "decisions.db")) == 2


def test_without_the_setting_nothing_is_kept(packs, tmp_path):
    with running(StubEngine().as_engine, ServerConfig(), packs=packs) as server:
        assert server.score(request("hi")).status_code == 200
        assert not [one for one in server.service.observers if isinstance(one, DecisionLog)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "changes",
    [{"log_content": "text"}, {"log_sample": 0.5}, {"log_days": 3}, {"log_answers": True}],
)
def test_settings_of_no_log_are_refused(changes):
    with pytest.raises(
        Unusable, match=f"{next(iter(changes))} is set, but there is no decision log"
    ):
        open_decision_log(ServerConfig(**changes), StubEngine().as_engine)


def test_what_is_no_log_is_refused_and_left_alone(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("my notes")
    with pytest.raises(Unusable, match=r"notes\.txt is no decision log"):
        create(other)
    assert other.read_text() == "my notes"
    foreign = tmp_path / "other.db"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE asked (x)")
    with pytest.raises(Unusable, match="is no decision log"):
        create(foreign)
    with pytest.raises(Unusable, match="is no regular file"):
        create(tmp_path)
    with pytest.raises(Unusable, match="cannot be made: No such file"):
        create(tmp_path / "no" / "folder.db")
    newer = tmp_path / "newer.db"
    create(newer)
    with closing(connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(Unusable, match="has tables of version 2"):
        create(newer)


def test_every_column_that_is_json_can_be_asked_in_sql(serving, tmp_path):
    with serving() as server:
        ask(server, ANGRY)
    with closing(connect(tmp_path / "decisions.db")) as connection:
        (score,) = connection.execute(
            "SELECT json_extract(categories, '$.anger.score') FROM decided"
        ).fetchone()
    assert json.loads(json.dumps(score)) == score and 0 < score < 1


def test_what_was_written_is_there_when_the_server_dies(serving, tmp_path):
    path, image = tmp_path / "decisions.db", tmp_path / "crashed"
    image.mkdir()
    with serving() as server:
        for n in range(5):
            assert server.score(request(f"content {n}")).status_code == 200
        until(lambda: log_of(server).counts().written == 5)
        # What a killed process leaves: its files as they are, with nothing closed.
        for file in (path, path.with_name(f"{path.name}-wal")):
            shutil.copy(file, image)
    assert len(kept(image / "decisions.db")) == 5


def test_a_log_is_read_and_deleted_from_while_it_is_written(serving, tmp_path):
    path = tmp_path / "decisions.db"
    removed = 0
    with serving(log_content="text") as server:
        for n in range(60):
            assert server.score(inputs(f"keep {n}", f"forget {n}")).status_code == 200
            if n % 5 == 4:
                wanted = Wanted(digests=[content_digest(f"forget {m}") for m in range(n + 1)])
                with closing(connect(path)) as connection:
                    removed += remove(connection, wanted).entries
        until(lambda: log_of(server).counts().waiting == 0)
        counts = log_of(server).counts()
    assert (counts.written, counts.lost) == (120, 0)
    texts = [one.text for one in kept(path)]
    assert removed > 0
    assert len(texts) == 120 - removed
    assert [text for text in texts if text and text.startswith("keep")] == [
        f"keep {n}" for n in range(60)
    ]
