"""The log commands: one command that says why, and deletion that leaves no byte behind."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spinf_serve import cli
from spinf_serve.engine.work import Limits
from spinf_serve.moments import when
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.decision_log.entries import content_digest
from spinf_serve.server.decision_log.tables import connect
from spinf_serve.server.served_packs import ServedPacks
from tests.support.decision_logs import log_of
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import Running, question, running
from tests.support.stub_engine import SERVED, StubEngine
from tests.support.waiting import until

ANGRY = "Where is my money? Third email!"
CALM = "Thanks, all good."
PER_CATEGORY = {"mode": "per_category", "critical": []}


@dataclass(frozen=True, slots=True)
class World:
    """A log of three requests: two of one content, and one of two contents.

    Attributes:
        path: the log.
        answers: the bodies of the three answers.
        server: what answered; it still runs, and has the log open.
    """

    path: Path
    answers: list[dict[str, Any]]
    server: Running


def body(*contents: str, **pack: Any) -> dict[str, Any]:
    entries = [
        {"id": f"c{n}", "messages": [{"role": "user", "content": text}]}
        for n, text in enumerate(contents)
    ]
    scoring = {"packs": [{"id": "demo/support", **pack}], "precision": "full"}
    return {"inputs": entries, "scoring": scoring}


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "given"
    write_packs(folder, fitted())
    return served_from(folder)


@contextmanager
def made(packs: ServedPacks, path: Path) -> Iterator[World]:
    config = ServerConfig(decision_log=str(path), log_content="text", log_sample=1.0)
    with running(lambda: StubEngine(Limits()).as_engine(), config, packs=packs) as server:
        answers = []
        for sent in (
            body(ANGRY),
            body(ANGRY, decision=PER_CATEGORY),
            body(CALM, "", decision=PER_CATEGORY | {"thresholds": {"anger": 1.0, "money": 1.0}}),
        ):
            answer = server.score(sent)
            assert answer.status_code == 200, answer.text
            answers.append(answer.json())
        until(lambda: log_of(server).counts().written == 4)
        yield World(path, answers, server)


@pytest.fixture
def world(packs, tmp_path) -> Iterator[World]:
    with made(packs, tmp_path / "log.db") as it:
        yield it


@pytest.fixture(scope="module")
def shared(packs, tmp_path_factory) -> Iterator[World]:
    """A world for tests that only look."""
    with made(packs, tmp_path_factory.mktemp("shared") / "log.db") as it:
        yield it


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs `spinf-serve log …`; exit code, stdout, stderr."""

    def call(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spinf-serve", "log", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def left_in(world: World) -> bytes:
    files = world.path.parent.glob(f"{world.path.name}*")
    return b"".join(file.read_bytes() for file in files)


def test_a_list_has_the_newest_first_and_can_be_narrowed(run, shared):
    code, out, err = run("list", shared.path)
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.startswith("4 entries from ") and head.endswith("4 with their text")
    ids = [line.split()[3] for line in lines]
    first, second, third = (answer["id"] for answer in shared.answers)
    assert ids == [f"{third}/c1", f"{third}/c0", f"{second}/c0", f"{first}/c0"]
    assert "  demo/support 0.1.0  unsafe  anger " in lines[2]
    assert run("list", shared.path, "--limit", 1)[1].splitlines()[-1] == (
        "and 3 more; --limit shows them, or narrow it down"
    )

    def found(*flags: str) -> int:
        return int(json.loads(run("list", shared.path, "--json", *flags)[1])["found"])

    assert found("--safe") == 2 and found("--unsafe") == 2
    assert found("--flagged", "anger") == 2 and found("--flagged", "topic") == 0
    assert found("--pack", "demo/support") == 4 and found("--pack", "demo/other") == 0
    assert found("--since", "1h") == 4 and found("--until", "yesterday") == 0
    assert found("--sample") == 4 and found("--not-sample") == 0
    assert found("--caller", "anonymous") == 4 and found("--band", "act") == 0


def test_one_command_says_why_with_questions_thresholds_and_how_to_ask_again(run, shared):
    code, out, err = run("why", shared.path, "--text", ANGRY)
    assert (code, err) == (0, "")
    told = shared.answers[1]["results"][0]["packs"][0]
    anger = told["categories"]["anger"]["score"]
    lines = out.splitlines()
    assert lines[0] == f"request {shared.answers[1]['id']}, content c0 (entry 2)"
    for line in (
        f"    | {ANGRY}",
        f"  model    {SERVED.id}",
        "pack demo/support 0.1.0 (provisional), file sha256 ",
        '  context  email: Email sent to {shop}: "{X}"',
        "  decision unsafe, mode per_category",
        f"  because  anger {anger:.4g} reaches 0.5",
        f"  anger: score {anger:.6g}, reaches 0.5, flagged, above ",
        "The writer is angry. True or false? [true / false]",
        "earlier entries about the content: 1; --all shows each",
    ):
        assert line in out, line
    assert "    topic: score" in out and "no threshold" in out
    assert any(line.startswith("  spinf-serve log show") for line in lines)


def test_a_content_is_found_by_its_file_with_or_without_the_last_line_end(run, shared, tmp_path):
    file = tmp_path / "mail.txt"
    for text in (ANGRY, f"{ANGRY}\n", f"{ANGRY}\r\n"):
        file.write_bytes(text.encode())
        assert run("why", shared.path, "--content", file)[0] == 0
    file.write_text(f"{ANGRY}\n\n")
    assert run("why", shared.path, "--content", file) == (1, "the log holds no such decision\n", "")


def test_a_request_has_a_reason_for_each_of_its_contents(run, shared):
    code, out, _ = run("why", shared.path, "--request", shared.answers[2]["id"])
    assert code == 0
    assert sum(line.startswith("request ") for line in out.splitlines()) == 2
    assert "content c0" in out and "content c1" in out and "stays below 1" in out


def test_with_nothing_flagged_the_nearest_category_is_explained(run, shared):
    _, out, _ = run("why", shared.path, "--text", CALM)
    lines = out.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line == "  the others"]
    explained = [line for line in lines[:at] if re.match(r"  \w+: score", line)]
    assert len(explained) == 1 and "stays below 1, not flagged" in explained[0]
    others = [line.split(":")[0].strip() for line in lines[at + 1 : at + 3]]
    assert "topic" in others and set(others) < {"anger", "money", "topic"}


def test_a_category_that_lacks_another_says_so(run, world):
    decision = PER_CATEGORY | {"thresholds": {"anger": 1.0, "money": 0.0}}
    assert world.server.score(body("no anger", decision=decision)).status_code == 200
    until(lambda: run("why", world.path, "--text", "no anger")[0] == 0)
    out = run("why", world.path, "--text", "no anger")[1]
    assert "reaches 0, not flagged without anger" in out


def test_why_as_json_has_everything(run, shared):
    told = json.loads(run("why", shared.path, "--digest", content_digest(CALM), "--json")[1])
    (entry,) = told["entries"]
    assert (told["found"], entry["input"], entry["text"]) == (1, "c0", CALM)
    digest = entry["decided"][0]["digest"]
    assert told["packs"][digest]["categories"]["anger"] == {"label": "Anger", "requires": []}


def test_an_entry_becomes_the_request_that_asks_for_it_again(run, world):
    for number, answer in enumerate(world.answers[:2], 1):
        sent = json.loads(run("show", world.path, number, "--as-request")[1])
        again = world.server.score(sent).json()
        assert again["results"] == answer["results"]


def test_the_log_itself_is_checked_against_whoever_answers(run, world, monkeypatch):
    url = world.server.url
    code, out, _ = run("verify", world.path, "--server", url)
    assert code == 0
    assert out.splitlines() == [
        "the file is whole, and every kept text has its digest",
        "4 entries asked again; their scores and decisions came out the same, bit for bit",
    ]
    with closing(connect(world.path)) as connection:
        connection.execute(
            "UPDATE decided SET categories = json_set(categories, '$.anger.score', 0.25),"
            " unsafe = 0, decision = json_set(decision, '$.unsafe', json('false')) WHERE asked = 1"
        )
    code, out, _ = run("verify", world.path, "--server", url, "--json")
    different = json.loads(out)["different"]
    assert code == 1
    assert [id for id, _ in different] == [1, 1]
    assert different[0][1].startswith("demo/support: anger was 0.25 and is ")
    assert different[1][1] == "demo/support: it was safe and is unsafe"
    with closing(connect(world.path)) as connection:
        connection.execute("UPDATE asked SET text = 'something else' WHERE id = 3")
        connection.execute("UPDATE model SET bits = 'ff' || bits")
    code, out, _ = run("verify", world.path, "--server", url, "--rows", 0)
    assert (code, out) == (
        1,
        "the text of entry 3 is not the one that its digest was made from\n",
    )
    with closing(connect(world.path)) as connection:
        connection.execute("UPDATE asked SET text = ? WHERE id = 3", [CALM])
    code, out, _ = run("verify", world.path, "--server", url)
    assert code == 0
    # The server keeps what it is asked here too.
    assert out.splitlines()[1].endswith("are of another model or machine and were not compared")


def test_a_content_is_deleted_everywhere_and_no_byte_of_it_is_left(run, world):
    assert ANGRY.encode() in left_in(world)
    assert run("delete", world.path, "--text", ANGRY, "--dry-run")[1] == (
        "would delete 2 entries, 2 of them of the random sample\n"
    )
    assert run("delete", world.path, "--text", ANGRY) == (
        0, "deleted 2 entries, 2 of them of the random sample\n", ""
    )  # fmt: skip
    left = left_in(world)
    assert ANGRY.encode() not in left and content_digest(ANGRY).encode() not in left
    assert CALM.encode() in left
    # The server has the log open all the while, and goes on with it.
    assert world.server.score(body("Hello again")).status_code == 200
    until(lambda: run("why", world.path, "--text", "Hello again")[0] == 0)


def test_a_request_and_an_entry_can_be_deleted_alone(run, world):
    assert run("delete", world.path, "--entry", 1)[1].startswith("deleted 1 entries")
    assert run("why", world.path, "--text", ANGRY)[0] == 0
    assert run("delete", world.path, "--request", world.answers[2]["id"])[1].startswith("deleted 2")
    assert json.loads(run("list", world.path, "--json")[1])["found"] == 1
    told = json.loads(run("delete", world.path, "--entry", 2, "--json")[1])
    assert told == {"dry_run": False, "entries": 1, "samples": 1, "overwritten": True}
    with closing(connect(world.path)) as connection:
        for table in ("asked", "decided", "pack", "model"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_a_reader_keeps_deleted_bytes_in_the_wal_and_the_command_says_so(run, world, monkeypatch):
    monkeypatch.setattr("spinf_serve.server.decision_log.tables.WAIT_SECONDS", 0.05)
    with closing(connect(world.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM asked").fetchone()
        code, out, _ = run("delete", world.path, "--text", ANGRY)
        assert (code, out.splitlines()[1][:28]) == (0, "somebody is reading the log,")
        assert ANGRY.encode() in left_in(world)
    assert run("delete", world.path, "--text", ANGRY)[1] == (
        "deleted 0 entries, 0 of them of the random sample\n"
    )
    assert ANGRY.encode() not in left_in(world)


def test_old_entries_are_pruned(run, world):
    with closing(connect(world.path)) as connection:
        connection.execute("UPDATE asked SET at = at - 3 * 86400 WHERE id < 3")
    assert run("prune", world.path, "--days", 2, "--dry-run")[1].startswith("would delete 2 ")
    assert run("prune", world.path, "--days", 2)[1].startswith("deleted 2 ")
    assert json.loads(run("list", world.path, "--json")[1])["found"] == 2


def test_entries_are_exported_with_or_without_texts(run, shared, tmp_path):
    out = tmp_path / "out.jsonl"
    assert run("export", shared.path, out)[1] == f"4 entries written to {out}\n"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["text"] for line in lines] == [ANGRY, ANGRY, CALM, ""]
    assert lines[0]["decided"][0]["categories"]["anger"]["score"] > 0.5
    code, bare, _ = run("export", shared.path, "-", "--without-text", "--safe")
    assert code == 0
    assert [json.loads(line)["digest"] for line in bare.splitlines()] == [
        content_digest(CALM), content_digest("")
    ]  # fmt: skip
    assert CALM not in bare
    assert run("export", shared.path, shared.path)[2].endswith(
        "is the log itself: name another file\n"
    )


def test_what_cannot_be_meant_is_refused(run, shared):
    for arguments, message in (
        (["why"], "say which decision by one of --request ID, "),
        (["why", "--text", "a", "--entry", "1"], "; 2 are given"),
        (["delete"], "; 0 are given"),
        (["why", "--digest", "abc"], "--digest abc: a SHA-256 has 64 digits"),
        (["why", "--content", "no-such-file"], "--content no-such-file cannot be read"),
        (["list", "--since", "last week"], "--since last week: write 2026-11-30"),
        (["list", "--band", "red"], "--band red: write act, review or pass"),
        (["show", "99"], "has no entry 99"),
    ):
        command, *rest = arguments
        code, out, err = run(command, shared.path, *rest)
        assert (code, out) == (2, "")
        assert message in err


def test_a_file_that_is_no_log_is_named(run, tmp_path):
    code, _, err = run("list", tmp_path / "none.db")
    assert code == 2 and "is not there; `spinf-serve serve --decision-log FILE`" in err
    (tmp_path / "a.txt").write_text("x" * 200)
    assert "a.txt is no decision log" in run("list", tmp_path / "a.txt")[2]


def test_an_entry_without_text_needs_the_content_to_be_asked_again(run, world, tmp_path):
    with closing(connect(world.path)) as connection:
        connection.execute("UPDATE asked SET text = NULL")
    assert "keeps no text of entry 1" in run("show", world.path, 1, "--as-request")[2]
    file = tmp_path / "mail.txt"
    file.write_text(f"{ANGRY}\n")
    code, out, _ = run("show", world.path, 1, "--as-request", "--content", file)
    assert code == 0
    assert json.loads(out)["inputs"][0]["messages"][0]["content"] == ANGRY
    file.write_text(CALM)
    assert (
        "that is not the content of entry 1"
        in (run("show", world.path, 1, "--as-request", "--content", file)[2])
    )
    assert "no entry could be asked again" in run("verify", world.path)[1]


def test_a_log_that_nobody_answers_for_is_not_called_whole(run, shared, packs, tmp_path):
    config = ServerConfig(token="a-token-of-ours")
    with running(lambda: StubEngine(Limits()).as_engine(), config, packs=packs) as server:
        code, out, _ = run("verify", shared.path, "--server", server.url)
    assert code == 2
    _, refused, nothing = out.splitlines()
    assert refused.startswith("entries 1, 2, 3, 4 got no answer: invalid_token: ")
    assert nothing == "no entry was answered, so that nothing was compared"


def test_own_questions_alone_cannot_be_asked_again(run, world):
    sent = {"inputs": body(CALM)["inputs"], "scoring": {"queries": [question()]}}
    assert world.server.score(sent).status_code == 200
    until(lambda: run("show", world.path, 5)[0] == 0)
    assert "entry 5 has no pack" in run("show", world.path, 5, "--as-request")[2]
    said = run("why", world.path, "--entry", 5)[1]
    assert "no pack was asked, so nothing was decided" in said and "--log-answers" in said


NOW = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29T10:00", datetime(2026, 11, 29, 10, tzinfo=UTC)),
        ("2026-11-29T10:00+02:00", datetime(2026, 11, 29, 8, tzinfo=UTC)),
        ("today", datetime(2026, 11, 30, tzinfo=UTC)),
        ("yesterday", datetime(2026, 11, 29, tzinfo=UTC)),
        ("12h", datetime(2026, 11, 29, 20, 15, tzinfo=UTC)),
        ("7d", datetime(2026, 11, 23, 8, 15, tzinfo=UTC)),
    ],
)
def test_moments_are_written_as_people_do(text, moment):
    assert when(text, "--since", NOW) == int(moment.timestamp())


@pytest.mark.parametrize("text", ["", "7", "7w", "30.11.2026", "2026-13-01", "-1d"])
def test_other_moments_are_refused(text):
    with pytest.raises(Unusable, match="--since"):
        when(text, "--since", NOW)
