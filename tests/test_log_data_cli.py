"""From a server's log to labelled data and to drift: the commands, with what they refuse."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spinf_serve import cli
from spinf_serve.engine.work import Limits
from spinf_serve.evals.data.rows import rows
from spinf_serve.evals.project import Project
from spinf_serve.server.config import ServerConfig
from tests.support.decision_logs import decided, entry, log_of, written
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import running
from tests.support.stub_engine import StubEngine
from tests.support.waiting import until


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    """Runs `spinf-serve …` in an empty folder; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spinf-serve", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def log(tmp_path, run):
    run("data", "new", "p.duckdb")
    return written(
        tmp_path / "log.db",
        [
            entry("first", decided=(decided({"anger": 0.7}),), parameters={"shop": "Bolt"}),
            entry("second", decided=(decided({"anger": 0.2}),), rate=0.5),
            entry("third", drawn=False, decided=(decided({"anger": 0.9}),)),
        ],
    )


def taken(name: str) -> dict[str, tuple[str, float | None]]:
    return {one.text: (one.drawn, one.weight) for one in rows(Project(Path("p.duckdb")), name)}


def test_a_log_is_imported_as_what_it_is(run, log):
    code, out, err = run("data", "import", "p.duckdb", "sample", log, "--slice", "endpoint")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "log.db (decision log) -> sample: 2 of 2 rows taken, 0 refused"
    assert taken("sample") == {"first": ("random", 4.0), "second": ("random", 2.0)}
    assert run("data", "import", "p.duckdb", "queue", log, "--drawn", "queue")[0] == 0
    assert taken("queue") == {"first": ("queue", None), "third": ("queue", None)}
    assert run("data", "import", "p.duckdb", "all", log, "--drawn", "import")[0] == 0
    assert {how for how, _ in taken("all").values()} == {"import"} and len(taken("all")) == 3
    # The second time they are there already.
    code, _, err = run("data", "import", "p.duckdb", "sample", log, "--append")
    assert code == 2 and "none of 2 rows can be taken" in err


def test_what_a_log_has_by_itself_is_not_to_be_named(run, log, tmp_path):
    for flags in (["--text", "body"], ["--id", "id"], ["--weight", "w"], ["--encoding", "utf-8"]):
        code, _, err = run("data", "import", "p.duckdb", "x", log, *flags)
        assert code == 2 and "is a decision log, whose columns are known" in err, flags
    assert (
        "write random, queue or import"
        in run("data", "import", "p.duckdb", "x", log, "--drawn", "blindly")[2]
    )
    (tmp_path / "rows.csv").write_text("text\nhello\n")
    for flags in (["--pack", "a/b"], ["--since", "today"], ["--until", "today"]):
        code, _, err = run("data", "import", "p.duckdb", "x", "rows.csv", *flags)
        assert code == 2 and "are about a decision log" in err, flags


def test_drift_needs_to_know_what_to_compare(run, log, tmp_path):
    for flags, message in (
        ([], "say what to compare with"),
        (["--against", "b.json", "--before", "today"], "say what to compare with"),
        (["--before", "today"], "name it with --pack"),
        (["--against", "none.json"], "none.json cannot be read"),
    ):
        code, out, err = run("log", "drift", log, *flags)
        assert (code, out) == (2, "") and message in err, flags


def test_a_later_time_is_compared_with_an_earlier_one(run, tmp_path):
    values = np.random.default_rng(1).random(240)
    day = 86_400
    path = written(
        tmp_path / "log.db",
        [
            entry(
                f"content {n}",
                decided=(decided({"anger": float(p**3 if n >= 160 else p)}),),
                at=1_800_000_000 + day * (n // 80),
                rate=0.5 if n < 200 else 0.25,
            )
            for n, p in enumerate(values)
        ],
    )
    first, second, third = "2027-01-15", "2027-01-16", "2027-01-17"
    flags = ("--pack", "demo/support")
    code, out, _ = run("log", "drift", path, *flags, "--before", second, "--until", third)
    assert code == 0
    assert out.splitlines()[-1] == "pass: every rule holds (2 pass)"
    code, out, _ = run("log", "drift", path, *flags, "--since", first, "--before", third)
    assert code == 3
    assert out.splitlines()[0] == "80 entries of the random sample, 80 different contents"
    assert "drawn at several rates (0.25, 0.5)" in out.splitlines()[1]
    assert "cannot judge: anger: rows like the baseline's: 80 new scores, 160 in" in out
    code, out, _ = run("log", "drift", path, *flags, "--before", third, "--json")
    assert (code, json.loads(out)["word"], json.loads(out)["entries"]) == (3, "cannot judge", 80)


def test_a_server_s_sample_becomes_a_baseline_and_then_tells_of_drift(run, tmp_path):
    """Logged over HTTP, imported, evaluated against that server, and held beside what came later."""
    write_packs(tmp_path / "packs", fitted(contexts={"email": 'Email:\n"{X}"\n'}))
    packs = served_from(tmp_path / "packs")
    config = ServerConfig(decision_log="log.db", log_content="sample", log_sample=1.0, debug=True)
    pack = next((tmp_path / "packs").iterdir())

    def ask(server: Any, *contents: str) -> None:
        entries = [
            {"id": str(n), "messages": [{"role": "user", "content": text}]}
            for n, text in enumerate(contents)
        ]
        body = {"inputs": entries, "scoring": {"packs": [{"id": "demo/support"}]}}
        assert server.score(body).status_code == 200

    with running(lambda: StubEngine(Limits()).as_engine(), config, packs=packs) as server:
        ask(server, *(f"monday {n}" for n in range(60)))
        until(lambda: log_of(server).counts().written == 60)
        assert run("data", "new", "p.duckdb")[0] == 0
        assert run("data", "import", "p.duckdb", "monday", "log.db")[0] == 0
        code, out, err = run(
            "eval", pack, "--data", "p.duckdb", "--server", server.url, "--json", "base.json"
        )
        assert code == 0, out + err
        cut = "1h"
        code, out, err = run("log", "drift", "log.db", "--against", "base.json", "--since", cut)
        assert code == 0, out + err
        # The very rows of the baseline: no distance at all, in any category.
        assert out.count("distance 0.000") == 3
    baseline = json.loads((tmp_path / "base.json").read_text())
    baseline["made"]["model_digest"] = "0" * 64
    (tmp_path / "base.json").write_text(json.dumps(baseline))
    code, out, _ = run("log", "drift", "log.db", "--against", "base.json")
    assert code == 4 and "stale fingerprint" in out
