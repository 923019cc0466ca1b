"""The data commands: what they print, how they exit, and that a project goes all the way through."""

import json
import sys

import pytest

from spinf_serve import cli

ROWS = """id;text;spam;kind;thread;lang
1;Win a prize now, just click here;yes;ad;a;en
2;The minutes of our meeting are attached;NO;mail;a;en
3;The minutes of our meeting are attached;yes;mail;;de
4;Your parcel could not be delivered today;maybe;ad;;de
5;Lunch at noon in the usual place?;;mail;;
"""


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    """Runs `spinf-serve data …` in an empty folder; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spinf-serve", "data", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def rows(run, tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    assert run("new", "p.duckdb") == (0, "p.duckdb is a project now\n", "")
    return tmp_path / "rows.csv"


IMPORT = (
    "import", "p.duckdb", "mail", "rows.csv", "--id", "id", "--label", "spam", "--label",
    "sort=kind", "--classes", "sort", "--slice", "lang", "--group", "thread", "--drawn", "random",
)  # fmt: skip


def test_a_report_says_what_was_found(run, rows):
    code, out, err = run(*IMPORT)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "rows.csv (utf-8) -> mail: 4 of 5 rows taken, 1 refused"
    assert "  cells are separated by ';'" in lines
    assert any(line.startswith("refused: line 5 (4): column 'spam': 'maybe'") for line in lines)
    assert "unknown labels of spam: 'maybe' in 1" in lines
    assert "blank: column 'spam' in 1 rows" in lines
    assert "conflict: one text, different spam: 2: no, 3: yes" in lines
    assert "labels of spam: yes 2, no 1; missing 1" in lines
    assert "labels of sort: mail 3, ad 1; missing 0" in lines
    code, out, _ = run("report", "p.duckdb", "mail")
    assert code == 0
    assert out.splitlines()[:3] == [
        "mail: 4 rows",
        "  (no split): 4 rows in 2 groups, spam holds in 2",
        "drawn random: 7 labels",
    ]


def test_json_is_the_whole_report_and_nothing_else(run, rows):
    code, out, err = run(*IMPORT, "--json", "--dry-run")
    told = json.loads(out)
    assert (code, err, told["rows_read"], told["rows_taken"]) == (0, "", 5, 0)
    assert told["refused"][0]["line"] == 5
    assert run("list", "p.duckdb")[1] == "no dataset yet; `spinf-serve data import` makes one\n"
    run(*IMPORT)
    code, out, _ = run("list", "p.duckdb", "--json")
    assert [(one["name"], one["rows"], one["labels"]) for one in json.loads(out)["datasets"]] == [
        ("mail", 4, 7)
    ]
    assert json.loads(run("report", "p.duckdb", "mail", "--json")[1])["apart"] == 0


def test_strict_exits_with_one_and_writes_nothing(run, rows):
    code, out, _ = run(*IMPORT, "--strict")
    assert code == 1
    assert "warning: --strict: rows were refused, and nothing was written" in out
    assert "no dataset yet" in run("list", "p.duckdb")[1]


def test_splitting_labelling_exporting_deleting(run, rows, tmp_path):
    run(*IMPORT)
    code, out, _ = run("split", "p.duckdb", "mail", "fit=0.5", "test=0.5", "--seed", "3")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["  fit", "  test"]
    assert run("label", "p.duckdb", "mail", "5", "spam=no", "--annotator", "ann")[0] == 0
    assert run("label", "p.duckdb", "mail", "5", "spam=yes", "--annotator", "bob")[0] == 0
    assert "to adjudicate: 5, spam: ann: no, bob: yes" in run("report", "p.duckdb", "mail")[1]
    (tmp_path / "labels.csv").write_text("id,target,value\n5,spam,no\n")
    code, out, _ = run("label", "p.duckdb", "mail", "--file", "labels.csv", "--adjudicate")
    assert (code, out) == (0, "1 labels stored\n")
    assert "adjudicate" not in run("report", "p.duckdb", "mail")[1]
    assert run("export", "p.duckdb", "mail", "out.jsonl", "--without-text")[1].startswith("4 rows")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["label.spam"] for row in found] == ["yes", "no", "yes", "no"]
    assert "text" not in found[0]
    run("label", "p.duckdb", "mail", "5", "spam=no", "--drawn", "queue", "--score-visible")
    assert "score visible: 1 labels" in (out := run("report", "p.duckdb", "mail")[1])
    assert "agreement on spam, bob and me: 0 of 1 rows" in out
    assert run("export", "p.duckdb", "mail", "labels.jsonl", "--labels")[1].startswith("10 labels")
    told = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [one["drawn"] for one in told if one["annotator"] == "me"] == ["queue"]
    assert run("delete", "p.duckdb", "mail", "1", "5")[1] == "2 rows deleted\n"
    assert "mail: 2 rows" in run("report", "p.duckdb", "mail")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "none.duckdb"), "project none.duckdb is not there; make one with"),
        (("new", "p.duckdb"), "p.duckdb is there already; nothing was written"),
        (("report", "p.duckdb", "none"), "there is no dataset 'none' in the project; it has none"),
        ((*IMPORT, "--drawn", "chance"), "--drawn chance: write random, queue or import"),
        ((*IMPORT, "--annotator", " "), "--annotator is blank"),
        ((*IMPORT, "--label", "spam=kind"), "--label"),
        ((*IMPORT, "--label", "=kind"), "'=kind' is no --label"),
        ((*IMPORT, "--weight", "none"), "rows.csv has no column 'none'"),
        (("split", "p.duckdb", "mail", "fit=half", "test=0.5"), "fit=half: write a share"),
        (("label", "p.duckdb", "mail", "1"), "name a row and what it is"),
        (("label", "p.duckdb", "mail", "1", "spam=perhaps"), "'perhaps' is no label; write yes"),
        (("export", "p.duckdb", "mail", "p.duckdb"), "is the project itself"),
    ],
)
def test_faults_are_a_line_and_code_two(run, rows, arguments, words):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_query_in_place_of_a_file(run, rows):
    code, out, _ = run(
        "import", "p.duckdb", "asked", "--query",
        "SELECT 'q' || range AS id, 'text ' || range AS text, range % 2 = 0 AS even FROM range(9)",
        "--id", "id", "--label", "even",
    )  # fmt: skip
    assert code == 0
    assert "labels of even: yes 5, no 4; missing 0" in out


def test_labels_of_questions_are_any_text(run, tmp_path):
    (tmp_path / "moods.csv").write_text(
        "text,mood,bug\nThe minutes are attached,very calm,True\nWhere is my parcel?,angry,no\n"
    )
    run("new", "p.duckdb")
    code, _, err = run(
        "import", "p.duckdb", "mail", "moods.csv", "--label", "question:mood=mood",
        "--label", "question:about[F=a = b]=bug",
    )  # fmt: skip
    assert (code, err) == (0, "")
    from spinf_serve.evals.data.rows import rows
    from spinf_serve.evals.project import Project

    first, second = rows(Project(tmp_path / "p.duckdb"), "mail")
    about = "question:about[F=a = b]"
    assert first.classes == {"question:mood": "very calm", about: "True"}
    assert (second.classes, second.labels) == ({"question:mood": "angry"}, {about: False})
