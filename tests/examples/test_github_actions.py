"""The example for GitHub Actions: its commands exist, and its steps run on the embedded model."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.test_docs import parsed

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "github-actions-evals.yml"
PACK = ROOT / "packs" / "spinf" / "entertainment"
ROWS = 24


def steps() -> dict[str, str]:
    """Name -> script, of the steps that run one."""
    read = YAML(typ="safe").load(EXAMPLE.read_text("utf-8"))
    return {step["name"]: step["run"] for step in read["jobs"]["pack"]["steps"] if "run" in step}


def test_every_command_of_it_is_understood():
    script = "\n".join(steps().values()).replace("\\\n", " ")
    seen = 0
    for command in re.split(r"\n|\|\||&&|;|\|", script):
        words = shlex.split(command)
        if words and words[0] == "spinf-serve":
            seen += 1
            parsed(words[1:], command)
    assert seen == 5


def test_it_tells_the_exit_codes_as_they_are():
    from spinf_serve.evals.gate import EXIT_CODES

    told = ", ".join(f"{code} {word}" for word, code in EXIT_CODES.items())
    assert f"Ends with {told}." in EXAMPLE.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.weights
def test_its_steps_run_on_the_embedded_model(tmp_path):
    with (PACK / "sample.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "?" not in row["labels"]][:ROWS]
    with (tmp_path / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "language", "labels", "text"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    pack = (PACK / "pack.yaml").read_text("utf-8")
    (tmp_path / "pack.yaml").write_text(pack, encoding="utf-8")
    scripts = steps()
    assert run(scripts["Import the labels"], tmp_path).returncode == 0
    first = scripts["Judge the pack"].replace("--against baseline.json", "")
    made = run(first.replace("evals.json", "baseline.json"), tmp_path)
    assert made.returncode == 0, made.stdout
    again = run(scripts["Import the labels"], tmp_path)
    assert again.returncode == 0, "a restored project has the dataset already"
    judged = run(scripts["Judge the pack"], tmp_path)
    assert judged.returncode == 0, judged.stdout
    assert " 0 answers asked" in judged.stdout
    verdict = json.loads((tmp_path / "evals.json").read_text())["verdict"]
    assert (verdict["word"], verdict["exit_code"]) == ("pass", 0)
    assert ElementTree.parse(tmp_path / "evals.xml").getroot().attrib["errors"] == "0"
    assert run(scripts["Show the verdict"], tmp_path).returncode == 0
    assert (tmp_path / "summary.md").read_text().startswith("## pass")
    edited = re.sub(r"threshold: [0-9.]+", "threshold: 0.0", pack)
    (tmp_path / "pack.yaml").write_text(edited, encoding="utf-8")
    assert run(scripts["Judge the pack"], tmp_path).returncode == 1


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A step as a runner runs it."""
    places = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    given = {"DATASET": "labels-1", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **places, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=500,
    )
