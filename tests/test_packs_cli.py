"""The packs commands: what they print, how they exit, and what they do without the extras."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spinf_serve import cli
from spinf_serve.engine.fingerprint import model_digest
from spinf_serve.engine.loading.manifest import read_manifests
from spinf_serve.engine.work import Work
from spinf_serve.pack_pages import counted
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.fit import fit
from spinf_serve.packs.loader import load_pack, read_pack
from spinf_serve.packs.new import starter
from spinf_serve.packs.pack import Constants
from spinf_serve.packs.reads import vectors
from spinf_serve.packs.recording import read_recording
from spinf_serve.packs.sample import read_sample
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import interruptible
from tests.support.pack_files import folder_of, json_pack, yaml_pack
from tests.support.servers import running
from tests.support.stub_engine import StubEngine

MODEL = StubEngine().served.id


@pytest.fixture
def run(monkeypatch, capfdbinary, tmp_path):
    """Runs `spinf-serve packs …` in an empty folder; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINF_PACKS_CACHE", str(tmp_path / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spinf-serve", "packs", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return int(ended.value.code or 0), out.decode(), err.decode()

    return call


@pytest.fixture(scope="module")
def server():
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0, debug=True)) as started:
        yield started


@pytest.fixture
def started(tmp_path) -> Path:
    """The folder of a new pack."""
    return folder_of(tmp_path / "mood", dict(starter("demo/mood")))


def table(out: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in out.splitlines()]


def test_list_shows_the_official_packs(run, root):
    code, out, err = run("list")
    assert (code, err) == (0, "")
    rows = table(out)
    assert rows[0][:2] == ["pack", "version"]
    names = sorted(f"spinf/{file.parent.name}" for file in root.glob("packs/spinf/*/pack.yaml"))
    assert sorted(row[0] for row in rows[1:]) == names
    assert {row[-1] for row in rows[1:]} == {"official"}


def test_list_tells_the_state_on_a_model_and_what_is_wrong(run, tmp_path):
    folder_of(
        tmp_path / "own",
        {
            "a.yaml": yaml_pack("demo/draft"),
            "b.json": json_pack("demo/fitted"),
            "c.yaml": yaml_pack("demo/broken").replace("options: yes/no", "options: [a, a]"),
        },
    )
    code, out, _ = run("list", "--packs", "own", "--no-official-packs", "--model", "demo/model")
    assert code == 0
    assert [row[:3] for row in table(out)[1:3]] == [
        ["demo/draft", "1.0.0", "draft"],
        ["demo/fitted", "1.0.0", "provisional"],
    ]
    assert "not served:" in out
    assert re.search(r"c\.yaml:\d+:\d+: scoring\.queries\.0\.options\.1: options 0", out)
    code, out, _ = run("list", "--packs", "own", "--no-official-packs", "--json")
    told = json.loads(out)
    assert told["model"] == "smollm2-135m-instruct"
    assert [(one["id"], one["state"], one["prompts"]) for one in told["packs"]] == [
        ("demo/draft", "draft", 1),
        ("demo/fitted", "draft", 1),
    ]
    assert len(told["faults"]) == 1


def test_list_calls_a_pack_certified_when_its_proof_is_of_this_model_and_these_numbers(
    run, tmp_path
):
    manifest = next(one for one in read_manifests() if one.served.id == "smollm2-135m-instruct")
    assert manifest.source.sha256 is not None
    bare = json_pack(model=manifest.served.id)
    pack = read_pack(bare.encode(), "p.json")
    constants = pack.constants((manifest.served.id,))
    assert constants is not None
    proof = {
        "model": model_digest(manifest.source.sha256, "float32"),
        "constants": constants_digest(constants),
        "asked": asked_digest(pack.body),
    }
    folder_of(tmp_path / "own", {"p.json": json_pack(model=manifest.served.id, proof=proof)})

    def state(*more: str) -> str:
        out = run("list", "--packs", "own", "--no-official-packs", "--json", *more)[1]
        return str(json.loads(out)["packs"][0]["state"])

    assert state() == "certified"
    assert state("--dtype", "bfloat16") == "provisional"
    assert state("--model", "other/model") == "draft"


def test_show_prints_what_is_asked_and_what_it_means(run, started):
    code, out, err = run("show", "mood/pack.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("demo/mood 0.1.0: Mood\n")
    assert repr("\nDoes the message mention a delivery? Answer:") in out
    assert "      hostile -> angry (pair)\n" in out
    assert "      payment -> money (set)\n" in out
    assert "fitted on no model: a draft" in out
    code, out, _ = run("show", "mood/pack.yaml", "--json")
    told = json.loads(out)
    assert told["prompts"]["mood"] == ["\nThe writer is"]
    assert told["pack"]["reads"][0]["id"] == "mood"


def test_show_tells_bands_and_route(run, started):
    more = (
        "bands: {decision: {act: 0.9, review: 0.5}, categories: {angry: {act: 0.8, review: 0.4}}}\n"
        "route: {categories: [money, delivery], margin: 0.1, minimum: 0.3}\n"
    )
    text = (started / "pack.yaml").read_text()
    (started / "pack.yaml").write_text(
        text.replace("decision: {mode: per_cat", more + "decision: {mode: per_cat")
    )
    out = run("show", "mood/pack.yaml")[1]
    assert "  bands of decision: act from 0.9, review from 0.5\n" in out
    assert "  bands of angry: act from 0.8, review from 0.4\n" in out
    assert "  route: money, delivery; unsure below a score of 0.3 or a lead of 0.1\n" in out


def test_show_finds_a_pack_by_its_id_and_version(run, tmp_path):
    folder_of(tmp_path / "own", {"1.json": json_pack(), "2.json": json_pack(version="2.0.0")})
    for arguments in (("demo/mood@1.0.0",), ("demo/mood", "--version", "1.0.0")):
        code, out, _ = run("show", *arguments, "--packs", "own")
        assert code == 0
        assert out.startswith("demo/mood 1.0.0")
        assert "fitted on demo/model, without proof" in out
    code, out, err = run("show", "demo/mod", "--packs", "own")
    assert (code, out) == (2, "")
    assert err.startswith("error: there is no file demo/mod, and among the packs on this machine")
    assert err.endswith("--packs): no pack 'demo/mod' is served; did you mean demo/mood?\n")


def test_validate_prints_every_fault_on_its_line(run, tmp_path):
    broken = yaml_pack().replace("options: yes/no", "options: [a, a]").replace("1.0.0", '"1 0"')
    folder_of(tmp_path, {"good.yaml": yaml_pack(), "bad.yaml": broken})
    code, out, err = run("validate", "good.yaml", "bad.yaml")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert re.findall(r"^bad\.yaml:\d+:\d+: ([\w.]+): ", out, re.MULTILINE) == [
        "version",
        "scoring.queries.0.options.1",
    ]
    assert lines[-1] == "1 valid pack and 0 samples, 2 faults in 1 file"
    code, out, _ = run("validate", "good.yaml")
    assert (code, out) == (0, "1 valid pack and 0 samples, no fault\n")
    code, out, _ = run("validate", "bad.yaml", "--json")
    assert code == 1
    assert [fault["line"] for fault in json.loads(out)["faults"]] == [3, 11]


def test_validate_checks_folders_with_listing_working_files_and_samples(run, started):
    assert run("validate", "mood")[:2] == (0, "1 valid pack and 1 sample, no fault\n")
    assert run("publish", "mood/pack.yaml")[0] == 0
    assert run("validate", "mood")[:2] == (0, "2 valid packs and 1 sample, no fault\n")
    with open(started / "sample.csv", "a") as file:
        file.write("r99,fit,en,angryy,Hello\n")
    with open(started / "pack.yaml", "a") as file:
        file.write("extra: 1\n")
    with open(started / "versions" / "0.1.0.yaml", "a") as file:
        file.write("# touched\n")
    code, out, _ = run("validate", "mood")
    assert code == 1
    assert re.search(r"mood/pack\.yaml:\d+:1: extra: ", out)
    assert "0.1.0.yaml" in out
    (started / "pack.yaml").write_text(starter("demo/mood")["pack.yaml"])
    code, out, _ = run("validate", "mood/pack.yaml")
    assert code == 1
    assert "mood/sample.csv:18:1: labels: row 'r99', column labels: there is no category" in out


def test_validate_tells_a_lock_that_does_not_hold(run, tmp_path):
    from tests.support.packs import golden

    text = json.dumps(golden(scoring__queries__0__template="\nThe writer rages.{?}"))
    folder_of(tmp_path, {"pack.json": text})
    code, out, _ = run("validate", "pack.json")
    assert code == 1
    assert (
        "pack.json: fitted.demo/model.decision.micro_layer.lock: the micro layer was fitted" in out
    )


def test_validate_of_nothing_is_one_line(run, tmp_path):
    (tmp_path / "empty").mkdir()
    for path, message in (("empty", "holds no pack"), ("absent", "cannot be read: No such file")):
        code, out, err = run("validate", path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_diff_exits_0_for_the_same_and_1_for_another(run, started):
    text = (started / "pack.yaml").read_text()
    folder_of(started, {"b.yaml": "# more\n" + text, "c.yaml": text.replace("calm", "quiet")})
    assert run("diff", "mood/pack.yaml", "mood/pack.yaml")[:2] == (0, "the files are the same\n")
    code, out, _ = run("diff", "mood/pack.yaml", "mood/b.yaml")
    assert (code, out) == (0, "nothing differs but comments and layout\n")
    code, out, _ = run("diff", "mood/pack.yaml", "mood/c.yaml")
    assert code == 1
    assert out == 'question mood\n  options: [" angry", " calm"] -> [" angry", " quiet"]\n'
    code, out, _ = run("diff", "mood/pack.yaml", "mood/c.yaml", "--json")
    told = json.loads(out)
    assert (code, told["same"], len(told["groups"])) == (1, False, 1)


def test_export_writes_plain_json_and_replaces_nothing(run, started):
    code, out, err = run("export", "mood/pack.yaml")
    assert (code, err) == (0, "")
    assert json.loads(out)["scoring"]["queries"][0]["options"] == [" angry", " calm"]
    assert run("export", "mood/pack.yaml", "--out", "plain.json")[:2] == (0, "")
    Path("plain.json").write_text("mine")
    code, _, err = run("export", "mood/pack.yaml", "--out", "plain.json")
    assert (code, Path("plain.json").read_text()) == (2, "mine")
    assert err == (
        "error: plain.json is there already; give --force to replace it, or another name\n"
    )
    assert run("export", "mood/pack.yaml", "--out", "plain.json", "--force")[0] == 0
    assert load_pack(Path("plain.json")).id == "demo/mood"
    assert json.loads(Path("plain.json").read_text()) == json.loads(out)


def test_export_takes_one_models_numbers(run, tmp_path):
    text = json.loads(json_pack())
    del text["model"]
    numbers = {
        "reads": {"happy": {"mean": 0.0, "sd": 1.0}},
        "categories": {"mood": {"platt": [1.0, 0.0], "threshold": 0.5}},
    }
    text["reads"][0].pop("mean"), text["reads"][0].pop("sd")
    text["categories"] = {"mood": {}}
    text["fitted"] = {"one": numbers, "two": numbers}
    folder_of(tmp_path, {"two.json": json.dumps(text), "one.json": json_pack()})
    assert json.loads(run("export", "one.json")[1])["model"] == "demo/model"
    code, _, err = run("export", "two.json")
    assert (code, err) == (2, "error: demo/mood is fitted on one, two; say which with --model\n")
    assert json.loads(run("export", "two.json", "--model", "two")[1])["model"] == "two"
    code, _, err = run("export", "two.json", "--model", "three")
    assert code == 2
    assert err == "error: --model three: demo/mood has numbers for one, two; name one of them\n"
    folder_of(tmp_path, {"draft.yaml": yaml_pack()})
    code, _, err = run("export", "draft.yaml", "--model", "three")
    assert (code, "is a draft, without numbers for any model" in err) == (2, True)


def test_new_writes_a_valid_pack_and_overwrites_nothing(run, tmp_path):
    code, out, _ = run("new", "demo/fresh")
    assert (code, out) == (0, "fresh/pack.yaml\nfresh/sample.csv\nfresh/pack.schema.json\n")
    assert run("schema")[1] == (tmp_path / "fresh" / "pack.schema.json").read_text()
    first = (tmp_path / "fresh" / "pack.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=pack.schema.json"
    assert run("validate", "fresh")[0] == 0
    (tmp_path / "fresh" / "pack.yaml").unlink()
    (tmp_path / "fresh" / "sample.csv").write_text("mine")
    code, _, err = run("new", "demo/other", "fresh")
    assert (code, err) == (2, "error: fresh/sample.csv is there already; nothing was written\n")
    assert not (tmp_path / "fresh" / "pack.yaml").exists()
    code, out, err = run("new", "Fresh")
    assert (code, out) == (2, "")
    assert err.startswith("error: 'Fresh' is no pack id; write `namespace/name`")


def test_publish_copies_lists_and_raises_the_version(run, started):
    code, out, _ = run("publish", "mood/pack.yaml")
    assert code == 0
    assert out.startswith("demo/mood 0.1.0 published: ")
    assert "nothing changed" in run("publish", "mood/pack.yaml")[1]
    text = (started / "pack.yaml").read_text()
    (started / "pack.yaml").write_text(text.replace("calm", "quiet"))
    code, _, err = run("publish", "mood/pack.yaml")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = run("publish", "mood/pack.yaml", "--bump", "mayor")
    assert (code, err) == (2, "error: --bump mayor: write major, minor or patch\n")
    code, out, _ = run("publish", "mood/pack.yaml", "--bump", "minor")
    assert code == 0
    assert out.startswith("demo/mood 0.2.0 (raised from 0.1.0) published: ")
    assert (started / "versions" / "0.2.0.yaml").is_file()


def test_lint_asks_a_server_and_exits_1_for_findings(run, started, server):
    code, out, _ = run("lint", "mood/pack.yaml", "--server", server.url, "--json")
    told = json.loads(out)
    assert (told["pack"], told["model"], told["contents"]) == ("demo/mood", MODEL, 16)
    assert code == (1 if told["findings"] else 0)
    text = (started / "pack.yaml").read_text().replace("The writer is{?}", "The writer is {?}")
    (started / "pack.yaml").write_text(text)
    code, out, _ = run("lint", "mood/pack.yaml", "--server", server.url)
    assert code == 1
    assert "template_space on mood: '\\nThe writer is ' ends in a space\n" in out
    out = run("lint", "mood/pack.yaml", "--server", server.url, "--content", "One")[1]
    assert re.search(r": (1 finding|\d+ findings), 0 waived, 4 questions on 1 content\n$", out)
    waiver = "lint: {waive: [{rule: template_space, on: mood, reason: as it must}]}\n"
    (started / "pack.yaml").write_text(text + waiver)
    out = run("lint", "mood/pack.yaml", "--server", server.url)[1]
    assert "waived template_space on mood" in out
    assert "because as it must" in out


def test_lint_takes_contents_from_where_it_is_told(run, started, server, tmp_path):
    def contents(*more: str) -> object:
        out = run("lint", "mood/pack.yaml", "--server", server.url, "--json", *more)[1]
        return json.loads(out)["contents"]

    assert contents("--rows", "4") == 4
    assert contents("--content", "One", "--content", "Two") == 2
    (tmp_path / "lines.txt").write_text("One\n\nTwo\nThree\n")
    assert contents("--contents", "lines.txt", "--content", "Zero") == 4
    (started / "sample.csv").unlink()
    code, _, err = run("lint", "mood/pack.yaml", "--server", server.url)
    assert (code, err.count("\n")) == (2, 1)
    assert "give contents with --content or --contents" in err


def test_fit_scores_writes_the_numbers_and_reports(run, started, server):
    arguments = ("fit", "mood/pack.yaml", "mood/sample.csv", "--server", server.url)
    before = (started / "pack.yaml").read_bytes()
    code, out, _ = run(*arguments, "--dry-run")
    assert code == 0
    assert out.startswith(f"demo/mood 0.1.0 on {MODEL}: fitted on 12 rows, judged on 4\n")
    assert out.endswith("dry run: mood/pack.yaml is as it was\n")
    assert (started / "pack.yaml").read_bytes() == before
    recording = read_recording(
        started / "scores.jsonl.gz", StubEngine().fingerprint.model, pytest.fail
    )
    assert recording is not None
    assert len(recording.scores) == 16
    without_sample = (*arguments[:2], *arguments[3:])
    code, out, err = run(*without_sample, "--out-report", "report.json")
    assert code == 0
    assert "scores.jsonl.gz holds 16 contents" in err
    few = "note: categories.money: holds for 1 of the 4 rows of the part test, fewer than 5: its"
    assert few in out
    pack = load_pack(started / "pack.yaml")
    constants = pack.constants((MODEL,))
    assert constants is not None
    report = json.loads(Path("report.json").read_text())
    assert report["pack_digest"] == pack.digest
    assert report["model_digest"] == StubEngine().fingerprint.model
    assert report["categories"]["angry"]["n"] == 4
    assert report["categories"]["angry"]["threshold"] == constants.categories["angry"].threshold
    assert constants == fitted_here(started / "sample.csv")


def fitted_here(sample: Path) -> Constants:
    """What a fit on the engine's own answers gives."""
    pack = read_pack(starter("demo/mood")["pack.yaml"].encode(), "pack.yaml")
    rows = [row for row in read_sample(sample, pack) if row.split == "fit"]
    works = [Work(f"Message: {row.text}\n", pack.questions) for row in rows]
    answers = [vectors(pack, result.answers) for result in StubEngine().run(works)]
    return fit(pack, [[one] for one in answers], [row.labels for row in rows], MODEL).constants


def test_fit_refuses_another_models_recording_and_a_sample_without_rows(run, started, server):
    arguments = ("fit", "mood/pack.yaml", "mood/sample.csv", "--server", server.url)
    assert run(*arguments, "--dry-run")[0] == 0
    other = StubEngine()
    other.fingerprint = type(other.fingerprint)("0" * 64, "1" * 64, {})
    with running(lambda: other.as_engine(), ServerConfig(port=0, debug=True)) as second:
        code, _, err = run(*arguments[:-1], second.url)
    assert code == 2
    assert "none of it is used; name another file with --recording" in err
    sample = (started / "sample.csv").read_text().replace(",fit,", ",test,")
    (started / "sample.csv").write_text(sample)
    code, _, err = run(*arguments)
    assert code == 2
    assert err.startswith(
        "error: mood/sample.csv has 0 rows with split fit; at least 10 are needed"
    )


def test_a_published_pack_finds_its_sample_and_is_not_fitted_in_its_place(run, started, server):
    assert run("publish", "mood/pack.yaml")[0] == 0
    where = ("--server", server.url)
    out = run("lint", "demo/mood", "--packs", "mood", "--no-official-packs", "--json", *where)[1]
    assert json.loads(out)["contents"] == 16
    copy = started / "versions" / "0.1.0.yaml"
    published = copy.read_bytes()
    code, _, err = run("fit", "mood/versions/0.1.0.yaml", *where)
    assert (code, err.count("\n")) == (2, 1)
    assert "is published and never changes: fit the working file" in err
    code, out, _ = run("fit", "mood/versions/0.1.0.yaml", "--dry-run", *where)
    assert (code, copy.read_bytes()) == (0, published)


@pytest.mark.parametrize("command", ["fit", "export", "publish"])
def test_what_takes_a_file_takes_no_id(run, started, command):
    code, _, err = run(command, "demo/mood")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: there is no file demo/mood; a pack's file is needed, not its id")


def test_fit_says_what_to_distrust(run, started, server):
    text = (started / "pack.yaml").read_text()
    text = text.replace("money: {label", "money: {threshold: null, label")
    (started / "pack.yaml").write_text(text)
    code, out, _ = run("fit", "mood/pack.yaml", "--server", server.url, "--dry-run")
    assert code == 0
    assert "note: categories.money: has no threshold in the file, so none was fitted" in out
    turned = re.findall(r"note: categories\.(\w+): AUC (\S+) on the part test, worse than", out)
    figures = {row[0]: row[3] for row in table(out) if len(row) == 8}
    below = {id for id, auc in figures.items() if re.match(r"0\.[0-4]", auc)}
    assert below
    assert {id for id, _ in turned} == below


def test_fit_says_that_it_makes_no_beta_map_anew(run, started, server):
    arguments = ("fit", "mood/pack.yaml", "--server", server.url)
    assert "beta map" not in run(*arguments)[1]
    text = (started / "pack.yaml").read_text()
    with_map = re.sub(r"(platt: \[[^]]*\])", r"\1, beta: [1, 2, 0.5]", text, count=1)
    (started / "pack.yaml").write_text(with_map)
    shown = run("show", "mood/pack.yaml")[1]
    assert ": calibrated by beta 1 2 0.5\n" in shown
    code, out, _ = run(*arguments)
    assert code == 0 and out.count(": its beta map is gone with the scores before") == 1
    assert (started / "pack.yaml").read_text() == text


def test_a_server_is_named_by_its_root(run, started, server):
    for ending in ("/v1", "/v1/", "/v1/score"):
        code, _, err = run("lint", "mood/pack.yaml", "--server", server.url + ending)
        assert code == 2
        assert err.endswith(f": the server's root is needed, {server.url}\n")


def test_fit_needs_a_server_that_tells_its_digest(run, started):
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0)) as closed:
        code, _, err = run("fit", "mood/pack.yaml", "mood/sample.csv", "--server", closed.url)
    assert code == 2
    assert "does not tell this caller its model's digest" in err


@pytest.mark.weights
def test_lint_and_fit_in_this_process(run, started):
    code, out, _ = run("lint", "mood/pack.yaml", "--rows", "2")
    assert code == 0
    assert out.endswith("0 findings, 0 waived, 4 questions on 2 contents\n")
    code, out, _ = run("fit", "mood/pack.yaml", "mood/sample.csv")
    assert code == 0
    pack = load_pack(started / "pack.yaml")
    assert pack.constants(("smollm2-135m-instruct",)) is not None
    code, out, _ = run("list", "--packs", "mood", "--no-official-packs", "--json")
    assert json.loads(out)["packs"][0]["state"] == "provisional"


WITHOUT = """
import json, sys
for name in ("torch", "tokenizers", "fastapi", "uvicorn", "huggingface_hub"):
    sys.modules[name] = None
from spinf_serve import cli
*light, last = json.loads(sys.argv[1])
for words in light:
    sys.argv = ["spinf-serve", "packs", *words]
    try:
        cli.main()
    except SystemExit as ended:
        assert not ended.code, (words, ended.code)
sys.argv = ["spinf-serve", "packs", *last]
cli.main()
"""


def test_nothing_but_lint_and_fit_needs_torch(started, tmp_path):
    file = "mood/pack.yaml"
    commands = [
        ["list"],
        ["show", file],
        ["validate", "mood"],
        ["diff", file, file],
        ["export", file],
        ["new", "demo/another"],
        ["publish", file],
        ["lint", file],
    ]
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(commands)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.startswith("error: torch is not installed; ")


def test_one_is_not_told_in_the_plural():
    assert [counted(number, "finding") for number in (0, 1, 2)] == [
        "0 findings",
        "1 finding",
        "2 findings",
    ]


def test_fit_finds_out_first_whether_it_can_write(run, started, server, tmp_path, monkeypatch):
    pack, sample = started / "pack.yaml", started / "sample.csv"
    before = pack.read_bytes(), sample.read_bytes()
    (tmp_path / "link").symlink_to(sample)
    fit = ("fit", str(pack), "--server", server.url)
    for options, words in (
        (("--out-report", str(pack)), "is the pack itself"),
        (("--out-report", "link"), "is the sample itself"),
        (("--out-report", str(started / "scores.jsonl.gz")), "is the recording itself"),
        (("--out-report", "nowhere/report.json"), "cannot be written: No such file"),
        (("--out-report", "r" * 5000), "cannot be written: File name too long"),
        (("--recording", "nowhere/scores.gz"), "cannot be written: No such file"),
        (("--recording", str(sample)), "is the sample itself"),
    ):
        code, out, err = run(*fit, *options)
        assert (code, out) == (2, "") and words in err and err.count("\n") == 1, err
    assert (pack.read_bytes(), sample.read_bytes()) == before
    assert not (started / "scores.jsonl.gz").exists()


def test_a_report_goes_into_a_device_and_behind_what_is_printed(run, started, server):
    fit = ("fit", str(started / "pack.yaml"), "--server", server.url, "--dry-run")
    assert run(*fit, "--out-report", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()
    code, out, _ = run(*fit, "--out-report", "/dev/stdout")
    assert code == 0 and "dry run" in out and out.endswith("}\n")


def test_export_does_not_replace_its_source(run, started):
    pack = started / "pack.yaml"
    before = pack.read_bytes()
    code, _, err = run("export", str(pack), "--out", str(pack), "--force")
    assert code == 2 and "is the pack itself" in err
    assert pack.read_bytes() == before


@pytest.mark.parametrize("command", ["validate", "show", "lint", "fit", "publish", "export"])
def test_a_pipe_and_a_name_too_long_are_refused_in_one_line(run, tmp_path, command):
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in ("pipe.yaml", "n" * 5000 + ".yaml"):
        code, _, err = run(command, name)
        assert code in (1, 2) and err.count("\n") == 1 and "Traceback" not in err, err


def test_a_file_with_any_bytes_in_its_name_is_told(run, tmp_path):
    name = os.fsdecode(b"\xff.yaml")
    (tmp_path / name).write_text("pack: x\n")
    code, out, _ = run("validate", name)
    assert code == 1 and "\\udcff.yaml:1:1: " in out
    (tmp_path / name).write_text(yaml_pack())
    assert json.loads(run("show", name, "--json")[1])["file"] == name


def test_sigterm_lets_what_was_scored_be_kept(monkeypatch, capsys):
    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr("spinf_serve.streams.leave", leave)
    kept = []
    with pytest.raises(SystemExit, match="143"), interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            kept.append("scores")
    assert kept and capsys.readouterr().err == "error: terminated\n"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
