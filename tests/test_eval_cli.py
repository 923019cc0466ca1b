"""`spinf-serve eval` and `compare` over scores that a stub gave: verdicts, files and exit codes."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from spinf_serve import evaluating
from spinf_serve.eval_cli import compare_sides, eval_pack
from spinf_serve.evals.project import Project, create
from spinf_serve.evals.runner import run
from spinf_serve.packs.loader import read_pack
from tests.support.fitting_world import YAML
from tests.support.kept_scores import Counting, put
from tests.support.packs import golden
from tests.support.stub_engine import SERVED

TEXTS = [f"content number {index} of all" for index in range(60)]

app = typer.Typer(pretty_exceptions_enable=False)
app.command("eval")(eval_pack)
app.command("compare")(compare_sides)


def pack_file(folder: Path, name: str = "pack.json", proof=None, **changes) -> Path:
    plain = golden(**{"decision__mode": "max", "model": SERVED.id, **changes})
    if proof is not None:
        plain["proof"] = proof
    file = folder / name
    file.write_text(json.dumps(plain), encoding="utf-8")
    return file


def label(project: Project, flags, dataset: str = "d", target: str = "anger", wrong=()) -> None:
    """Labels that agree with the verdicts on row after row, but for some."""
    with project.open(write=True) as connection:
        connection.executemany(
            "INSERT INTO label VALUES (?, ?, ?, ?, 'a', now()::TIMESTAMP, 'random', false, false)",
            [
                (dataset, row, target, "yes" if flag != (row in wrong) else "no")
                for row, flag in flags.items()
            ],
        )


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A pack's file, and a project whose rows are scored and labelled as the pack has it."""
    folder = tmp_path_factory.mktemp("template")
    file = pack_file(folder)
    pack = read_pack(file.read_bytes(), str(file))
    project = create(folder / "shop.duckdb")
    put(project, TEXTS)
    scorer = Counting()
    run(project, "d", pack, scorer, print)
    label(project, verdicts(project, file, scorer))
    for target in ("money", "topic"):
        label(project, {f"r{number + 1}": number % 2 == 0 for number in range(60)}, target=target)
    return file, project, scorer.identity


@pytest.fixture
def ready(template, tmp_path):
    """A copy of the template that a test may change."""
    file, project, identity = template
    copied = Project(Path(shutil.copy(project.path, tmp_path)))
    return Path(shutil.copy(file, tmp_path)), copied, identity


def verdicts(project, file, scorer, dataset="d", target="anger") -> dict[str, bool]:
    who = evaluating.Who(scorer.identity, (SERVED.id,), None)
    data = evaluating.Data(project, dataset, None)
    pack = read_pack(file.read_bytes(), str(file))
    found = evaluating.measure(pack, data, who, print).evaluation.target(target)
    assert found is not None and found.judged.flagged is not None
    return dict(zip(found.judged.rows, found.judged.flagged, strict=True))


def called(*words, identity=None):
    given = [str(word) for word in words]
    return CliRunner().invoke(app, given + ([] if identity is None else ["--bits", identity.bits]))


def test_a_pack_that_keeps_its_rules_passes_with_every_report(ready, tmp_path):
    file, project, identity = ready
    outputs = {name: tmp_path / f"out.{name}" for name in ("json", "junit", "markdown", "html")}
    result = called(
        "eval",
        file,
        "--data",
        f"{project.path}:d",
        "--rule",
        "anger.accuracy >= 0.99",
        "--rule",
        "refused <= 0",
        *[word for name, path in outputs.items() for word in (f"--{name}", path)],
        identity=identity,
    )
    assert result.exit_code == 0, result.output
    assert result.output.startswith("pass: every rule holds (2 pass), exit code 0")
    assert "60 of 60" in result.output
    told = json.loads(outputs["json"].read_text())
    assert (told["verdict"]["word"], told["verdict"]["exit_code"]) == ("pass", 0)
    assert ElementTree.parse(outputs["junit"]).getroot().attrib["failures"] == "0"
    assert outputs["markdown"].read_text().startswith("## pass")
    page = outputs["html"].read_text()
    assert page.startswith("<!DOCTYPE html>") and "<svg" in page
    for path in outputs.values():
        assert "content number" not in path.read_text(), "a report holds no text of a row"


def test_a_broken_rule_is_a_regression_in_every_report(ready, tmp_path):
    file, project, identity = ready
    junit = tmp_path / "junit.xml"
    words = ["eval", file, "--data", project.path, "--rule", "anger.accuracy <= 0.5"]
    result = called(*words, "--junit", junit, identity=identity)
    assert result.exit_code == 1
    assert result.output.startswith("regression: ")
    assert ElementTree.parse(junit).getroot().attrib["failures"] == "1"


def test_rows_without_labels_cannot_be_judged(ready):
    file, project, identity = ready
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM label WHERE target = 'money'")
    words = ["eval", file, "--data", project.path]
    result = called(*words, "--rule", "money.accuracy >= 0.5", identity=identity)
    assert result.exit_code == 3
    assert "cannot judge" in result.output
    assert called(*words, "--rule", "anger.accuracy >= 0.5", identity=identity).exit_code == 0
    assert called(*words, "--against", file, identity=identity).exit_code == 3


def test_against_its_own_baseline_nothing_changed_and_an_edit_shows(ready, tmp_path):
    file, project, identity = ready
    baseline = tmp_path / "baseline.json"
    words = ["eval", file, "--data", project.path]
    assert called(*words, "--json", baseline, identity=identity).exit_code == 0
    again = called(*words, "--against", baseline, identity=identity)
    assert again.exit_code == 0, again.output
    assert "60 rows on both sides" in again.output
    moved = pack_file(tmp_path, "moved.json", categories__anger__threshold=0.9999)
    worse = called("eval", moved, "--data", project.path, "--against", baseline, identity=identity)
    assert worse.exit_code == 1
    assert "broken: r" in worse.output
    # The packs themselves, measured now, say the same.
    same = called("eval", moved, "--data", project.path, "--against", file, identity=identity)
    assert same.exit_code == 1
    compared = called("compare", file, moved, "--data", project.path, identity=identity)
    assert compared.exit_code == 1
    assert called("compare", moved, file, "--data", project.path, identity=identity).exit_code == 0


def test_a_category_that_nobody_labels_holds_nothing_up_where_it_decides_nothing(ready, tmp_path):
    _, project, identity = ready
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM label WHERE target = 'topic'")
    data = ("--data", f"{project.path}:d")
    for decides, code in ((False, 0), (True, 3)):
        file = pack_file(tmp_path, "other.json", categories__topic__decides=decides)
        baseline = tmp_path / f"{decides}.json"
        assert called("eval", file, *data, "--json", baseline, identity=identity).exit_code == 0
        again = called("eval", file, *data, "--against", baseline, identity=identity)
        assert again.exit_code == code, again.output
        assert ("it decides nothing: topic" in again.output) != decides
        assert called("compare", baseline, baseline).exit_code == code


def test_evaluations_are_compared_without_rows_or_a_model(ready, tmp_path):
    file, project, identity = ready
    moved = pack_file(tmp_path, "moved.json", categories__anger__threshold=0.9999)
    files = []
    for number, pack in enumerate((file, moved)):
        files.append(tmp_path / f"{number}.json")
        words = ["eval", pack, "--data", project.path, "--json", files[-1]]
        assert called(*words, identity=identity).exit_code == 0
    assert called("compare", *files).exit_code == 1
    assert called("compare", *files[::-1]).exit_code == 0
    refused = called("compare", files[0], file)
    assert refused.exit_code != 0 and "--data" in str(refused.exception)


def test_rows_that_only_one_side_has_are_listed_apart(ready, tmp_path):
    file, project, identity = ready
    baseline = tmp_path / "baseline.json"
    words = ["eval", file, "--data", f"{project.path}:d", "--json", baseline]
    assert called(*words, identity=identity).exit_code == 0
    told = json.loads(baseline.read_text())
    for target in told["targets"]:
        for values in target["scored"].values():
            del values[-5:]
    baseline.write_text(json.dumps(told))
    words = ["eval", file, "--data", f"{project.path}:d", "--against", baseline]
    result = called(*words, identity=identity)
    assert result.exit_code == 0, result.output
    assert "55 rows on both sides" in result.output
    assert "5 only here: r56, r57, r58, r59, r60" in result.output


def test_new_rows_are_held_to_the_baseline_s_rates_and_scores(ready, tmp_path):
    file, project, identity = ready
    baseline = tmp_path / "baseline.json"
    words = ["eval", file, "--data", f"{project.path}:d", "--json", baseline]
    assert called(*words, identity=identity).exit_code == 0
    put(project, [f"another {text}" for text in TEXTS], "new")
    pack = read_pack(file.read_bytes(), str(file))
    scorer = Counting()
    run(project, "new", pack, scorer, print)
    words = ["eval", file, "--data", f"{project.path}:new", "--against", baseline]
    drift = [*words, "--new-rows"]
    alike = called(*drift, identity=identity)
    assert alike.exit_code == 0
    assert alike.output.count("rows like the baseline's") == 4
    told = json.loads(baseline.read_text())
    shifted = tmp_path / "shifted.json"
    for target in told["targets"]:
        target["scored"]["score"] = [one / 3 for one in target["scored"]["score"]]
    shifted.write_text(json.dumps(told))
    unlike = called(*words[:-1], shifted, "--new-rows", identity=identity)
    assert unlike.exit_code == 3
    assert "label some of the new rows" in unlike.output
    assert called(*words, identity=identity).exit_code == 3, "no row is shared"
    flags = verdicts(project, file, scorer, "new")
    label(project, flags, "new", wrong=[f"r{n}" for n in range(1, 31)])
    fallen = called(*drift, identity=identity)
    assert fallen.exit_code == 1
    assert "still as when promised: accuracy" in fallen.output
    assert "30 of 60 on these rows, 60 of 60 when" in fallen.output


def test_another_model_than_the_proof_s_or_the_baseline_s_is_stale(ready, tmp_path):
    file, project, identity = ready
    proven = pack_file(tmp_path, "proven.json", proof={"model": "f" * 64})
    stale = called("eval", proven, "--data", project.path, identity=identity)
    assert stale.exit_code == 4, stale.output
    assert stale.output.startswith("stale fingerprint: ")
    baseline = tmp_path / "baseline.json"
    called("eval", file, "--data", project.path, "--json", baseline, identity=identity)
    told = json.loads(baseline.read_text())
    told["made"]["model_digest"] = "e" * 64
    baseline.write_text(json.dumps(told))
    words = ["eval", file, "--data", project.path, "--against", baseline]
    assert called(*words, identity=identity).exit_code == 4
    assert called("compare", baseline, baseline).exit_code == 0, "models may differ here"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rule", "mean >= 0.8"], "no metric"),
        (["--rule", "sad.accuracy >= 0.8"], "no target"),
        (["--new-rows"], "--against"),
        (["--against", "none.json"], "none.json"),
        (["--server", "http://127.0.0.1:9"], "--bits"),
        (["--split", "none"], "d has no split 'none'; it has none"),
        (["--slice", "langauge"], "no row of shop.duckdb:d has such a column; it has none"),
    ],
)
def test_what_cannot_be_done_is_an_error_of_its_own(ready, words, message):
    file, project, identity = ready
    result = called("eval", file, "--data", project.path, *words, identity=identity)
    assert message in str(result.exception)
    assert type(result.exception).__name__ == "Unusable", "main ends with 2"


def test_a_faulty_pack_and_a_fault_of_ours_end_with_2_and_not_with_1(ready, tmp_path, monkeypatch):
    file, project, identity = ready
    broken = tmp_path / "broken.yaml"
    broken.write_text("pack: demo/x\n")
    assert called("eval", broken, "--data", project.path, identity=identity).exit_code == 2

    def fails(*_args, **_given):
        raise KeyError("of ours")

    monkeypatch.setattr(evaluating, "measure", fails)
    result = called("eval", file, "--data", project.path, identity=identity)
    assert result.exit_code == 2
    assert "KeyError: 'of ours'" in result.output


def test_reports_say_what_a_day_has_where_that_is_known(ready, tmp_path):
    file, project, identity = ready
    for words, told in ((("--per-day", "2000"), True), ((), False)):
        written = tmp_path / "summary.md"
        page = tmp_path / "page.html"
        called(
            "eval", file, "--data", project.path, "--markdown", written, "--html", page, *words,
            identity=identity,
        )  # fmt: skip
        for text in (written.read_text(), page.read_text()):
            assert "of 1,000 messages" in text
            assert ("a day" in text) == told
    result = called("eval", file, "--data", project.path, "--per-day", "-1", identity=identity)
    assert result.exit_code == 2 and "--per-day" in result.output
    result = called("eval", file, "--data", project.path, "--per-day", "inf", identity=identity)
    assert "--per-day is a number" in str(result.exception)


def test_outputs_never_replace_what_is_read(ready, tmp_path):
    file, project, identity = ready
    for option in ("--json", "--html"):
        result = called("eval", file, "--data", project.path, option, file, identity=identity)
        assert "the pack itself" in str(result.exception)
    baseline = tmp_path / "baseline.json"
    words = ["eval", file, "--data", project.path]
    called(*words, "--json", baseline, identity=identity)
    renewed = called(*words, "--against", baseline, "--json", baseline, identity=identity)
    assert renewed.exit_code == 0
    assert json.loads(baseline.read_text())["comparisons"]


def test_a_project_with_several_data_sets_wants_one_named(ready):
    file, project, identity = ready
    put(project, ["one"], "other")
    result = called("eval", file, "--data", project.path, identity=identity)
    assert "d, other" in str(result.exception)
    result = called("eval", file, "--data", f"{project.path}:none", identity=identity)
    assert "it has d, other" in str(result.exception)


def test_a_split_or_column_that_is_not_there_is_told_with_those_that_are(ready):
    file, project, identity = ready
    with project.open(write=True) as connection:
        connection.execute(
            "UPDATE item SET split = 'test', slices = MAP {'language': 'en'} WHERE row_id <> 'r1'"
        )
    words = ["eval", file, "--data", project.path]
    for wrong, told in (
        (["--split", "tset"], "it has test"),
        (["--slice", "langauge"], "it has language"),
    ):
        assert told in str(called(*words, *wrong, identity=identity).exception)
    right = called(*words, "--split", "test", "--slice", "language", identity=identity)
    assert right.exit_code == 0, right.output
    assert "59 of 59" in right.output


def test_a_baseline_that_is_missing_is_said_before_a_model_is_loaded(ready, monkeypatch):
    file, project, _ = ready
    monkeypatch.setattr(evaluating, "who_answers", lambda *_given: pytest.fail("it was loaded"))
    result = called("eval", file, "--data", project.path, "--against", "none.json")
    assert "none.json cannot be read" in str(result.exception)


def test_how_far_a_comparison_is_comes_without_a_warning(ready, monkeypatch):
    file, project, identity = ready
    scorer = Counting()
    who = evaluating.Who(identity, (SERVED.id,), scorer)
    monkeypatch.setattr(evaluating, "who_answers", lambda *_given: who)
    result = called("compare", file, file, "--data", project.path)
    assert result.exit_code == 0, result.output
    assert "60 rows: 0 answers asked" in result.stderr
    assert "warning" not in result.stderr


def test_a_baseline_of_another_pack_cannot_judge_and_says_so(ready, tmp_path):
    file, project, identity = ready
    baseline = tmp_path / "baseline.json"
    words = ["eval", file, "--data", project.path]
    assert called(*words, "--json", baseline, identity=identity).exit_code == 0
    told = json.loads(baseline.read_text())
    told["made"]["pack"] = "demo/other"
    baseline.write_text(json.dumps(told))
    result = called(*words, "--against", baseline, identity=identity)
    assert result.exit_code == 3
    assert "the baseline is of demo/other, and this is demo/support" in result.output
    # Who names a pack means another one.
    assert called(*words, "--against", file, identity=identity).exit_code == 0


def test_a_target_that_is_gone_is_not_passed_over(ready, tmp_path):
    file, project, identity = ready
    baseline = tmp_path / "baseline.json"
    words = ["eval", file, "--data", project.path]
    assert called(*words, "--json", baseline, identity=identity).exit_code == 0
    told = json.loads(baseline.read_text())
    gone = json.loads(json.dumps(told["targets"][0])) | {"target": "threats"}
    told["targets"].append(gone)
    baseline.write_text(json.dumps(told))
    result = called(*words, "--against", baseline, identity=identity)
    assert result.exit_code == 1
    assert "threats" in result.output and "here it is no target any more" in result.output
    gone["decides"] = False
    baseline.write_text(json.dumps(told))
    assert called(*words, "--against", baseline, identity=identity).exit_code == 3


def test_a_draft_is_refused_before_a_model_is_loaded(ready, tmp_path, monkeypatch):
    _, project, _ = ready

    def opened(*_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("spinf_serve.engine.api.open_engine", opened)
    draft = tmp_path / "draft.yaml"
    draft.write_text(YAML)
    result = called("eval", draft, "--data", project.path)
    assert result.exit_code != 0
    assert "demo/mail is a draft" in str(result.exception or result.output)
