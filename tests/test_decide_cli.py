"""The commands decide and estimate: flags, files, what they print and refuse."""

import csv
import json
from pathlib import Path

import pytest
import typer

from spinf_serve.decide_cli import decide, estimate
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import load_pack
from spinf_serve.server.config import ServerConfig
from tests.support.pack_files import json_pack
from tests.support.servers import running
from tests.support.stub_engine import SERVED, StubEngine

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(decide)
app.command()(estimate)


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    """Runs a command in an empty folder on the stub, which is opened where an engine is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINF_PACKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("spinf_serve.engine.api.open_engine", lambda *_: StubEngine())

    def call(*arguments: str) -> tuple[str, str]:
        capfd.readouterr()
        app(list(arguments), standalone_mode=False)
        out, err = capfd.readouterr()
        return out, err

    (tmp_path / "pack.json").write_text(json_pack(model=SERVED.id))
    return call


def sheet(count: int = 3, name: str = "in.csv") -> Path:
    path = Path(name)
    path.write_text("id,note\n" + "".join(f"{n},text {n}\n" for n in range(count)))
    return path


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_decide_writes_beside_the_sheet_and_sums_up(run):
    sheet()
    out, err = run("decide", "in.csv", "--pack", "pack.json", "--text", "note")
    rows = rows_of("in.decided.csv")
    assert [row["note"] for row in rows] == ["text 0", "text 1", "text 2"]
    unsafe = sum(row["spinf_decision"] == "unsafe" for row in rows)
    parts = {"safe": 3 - unsafe, "unsafe": unsafe}
    told = ", ".join(f"{count} {name}" for name, count in parts.items() if count)
    assert out.splitlines()[0] == f"3 rows: {told}"
    assert out.splitlines()[-1].endswith("the sheet is in.decided.csv")
    assert "warning: the thresholds of demo/mood 1.0.0 are provisional" in err


def test_decide_asks_a_server_for_the_same(run, tmp_path):
    sheet()
    run("decide", "in.csv", "--pack", "pack.json", "--text", "note")
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0, debug=True)) as server:
        run(
            "decide", "in.csv", "--pack", "pack.json", "--text", "note",
            "--server", server.url, "--out", "other.csv",
        )  # fmt: skip
    assert (tmp_path / "other.csv").read_bytes() == (tmp_path / "in.decided.csv").read_bytes()


def test_decide_replaces_nothing_without_being_told(run):
    sheet()
    command = ("decide", "in.csv", "--pack", "pack.json", "--text", "note", "--out", "out.csv")
    Path("out.csv").write_text("mine")
    with pytest.raises(Unusable, match="out.csv is there already; give --force"):
        run(*command)
    assert Path("out.csv").read_text() == "mine"
    run(*command, "--force")
    assert len(rows_of("out.csv")) == 3
    # A decided sheet can be decided again under other names.
    again = ("decide", "out.csv", "--pack", "pack.json", "--text", "note")
    with pytest.raises(Unusable, match="'spinf_decision' already"):
        run(*again)
    run(*again, "--prefix", "new_")
    row = rows_of("out.decided.csv")[0]
    assert row["new_score_mood"] == row["spinf_score_mood"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--out", "in.csv"], "is the sheet itself"),
        (["--out", "out.xlsx"], "a .csv file is written as one"),
        (["--text", "notes"], "no column 'notes'; it has id, note"),
        (["--context", "x"], "no context 'x'"),
        (["--parameter", "x"], "write NAME=VALUE"),
        (["--parameter", "x=1"], "no parameter 'x'"),
        (["--sheet", "x"], "no worksheets"),
    ],
)
def test_decide_refuses_what_cannot_be(run, more, message):
    sheet()
    given = ["--text", "note"] if "--text" not in more else []
    with pytest.raises(Unusable, match=message):
        run("decide", "in.csv", "--pack", "pack.json", *given, *more)
    assert sorted(path.name for path in Path().glob("*.*")) == ["in.csv", "pack.json"]


def test_estimate_measures_the_rate_where_none_is_given(run, monkeypatch):
    sheet()
    monkeypatch.setattr("spinf_serve.counting.measured_rate", lambda engine, works: 500.0)
    command = ("estimate", "pack.json", "in.csv", "--text", "note", "--gpu-hour", "3.6")
    out, err = run(*command, "--json")
    told = json.loads(out)
    # Words of the stub: three and a line end a content; the question five, its options one each.
    assert told["counted"]["rows"] == told["counted"]["calls"] == 3
    each = told["counted"]["tree_tokens"] / 3
    assert told["per_1000"]["tree"] == pytest.approx(
        {"tokens": each * 1000, "seconds": each * 2, "money": each * 2 / 1000}
    )
    assert told["tokens_per_second"] == 500
    assert "measuring the rate" in err
    out, _ = run(*command)
    assert out.splitlines()[1].startswith("3 rows counted: ")
    assert "one call per question" in out


def test_estimate_takes_rows_evenly(run, monkeypatch):
    sheet(count=100)
    monkeypatch.setattr("spinf_serve.counting.measured_rate", lambda engine, works: 1.0)
    command = ("estimate", "pack.json", "in.csv", "--text", "note", "--gpu-hour", "1", "--json")
    out, _ = run(*command, "--rows", "30")
    assert json.loads(out)["counted"]["rows"] == 25
    with pytest.raises(Unusable, match="--rate 0"):
        run(*command, "--rate", "0")


@pytest.mark.weights
def test_estimate_counts_as_the_embedded_engine_does_without_its_weights(run, monkeypatch, root):
    def fail(*_):
        raise AssertionError("no engine is needed")

    monkeypatch.setattr("spinf_serve.engine.api.open_engine", fail)
    sheet(count=2)
    pack = str(root / "packs/spinf/triage/pack.yaml")
    out, _ = run(
        "estimate", pack, "in.csv", "--text", "note", "--gpu-hour", "2", "--rate", "1000", "--json",
        "--model", "embedded",
    )  # fmt: skip
    told = json.loads(out)["counted"]
    tokenizer = open_checkpoint("embedded", offline=True).tokenizer
    chosen = load_pack(root / "packs/spinf/triage/pack.yaml")
    prompts = [(one, prompt) for one in chosen.questions for prompt in one.prompts]
    assert told["calls"] == 2 * len(prompts)
    contents = [len(tokenizer.encode(f"Support ticket: text {n}\n")) for n in range(2)]
    assert told["content_tokens"] == sum(contents)
    # One call: start token, content, question; options of one token cost none more.
    least = sum(len(tokenizer.encode(prompt.text)) for _, prompt in prompts)
    bos = tokenizer.bos_id is not None
    assert told["apart_tokens"] >= sum(len(prompts) * (bos + each) + least for each in contents)
    assert told["tree_tokens"] < told["apart_tokens"] / 2
