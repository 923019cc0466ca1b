"""The image: linted, runs as nobody in particular, copies what there is, sets what is a setting."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spinf_serve.server.settings import SETTINGS
from tests.support.layout import FOLDERS, TOP

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "deploy" / "Dockerfile"
HADOLINT = Path(sys.executable).parent / "hadolint"
# Read by libraries: the hub's client, Triton, Python itself, and the shell.
OTHERS = {"PATH", "PYTHONUNBUFFERED", "HF_HOME", "TRITON_CACHE_DIR"}


def lint(text: str) -> str:
    ran = subprocess.run(
        [str(HADOLINT), "--no-color", "-"], input=text, capture_output=True, text=True, check=False
    )
    return ran.stdout + ran.stderr


def instructions(text: str) -> list[tuple[str, str]]:
    """Name and arguments of each instruction, comments and line ends taken out."""
    plain = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in plain.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, rest in lines]


def last_stage() -> list[tuple[str, str]]:
    found = instructions(FILE.read_text("utf-8"))
    start = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such linter for this system")
def test_the_linter_finds_nothing():
    assert lint(FILE.read_text("utf-8")) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such linter for this system")
@pytest.mark.parametrize(
    ("good", "bad", "rule"),
    [
        ("ARG BASE=nvidia/cuda:13.0.0-base-ubuntu24.04", "FROM ubuntu", "DL3006"),
        ("WORKDIR /data", "WORKDIR data", "DL3000"),
        (" --no-install-recommends", "", "DL3015"),
    ],
)
def test_the_linter_would_find_something(good, bad, rule):
    text = FILE.read_text("utf-8")
    assert good in text
    assert rule in lint(text.replace(good, bad))


def test_it_does_not_run_as_root_and_says_how_it_is():
    stage = last_stage()
    names = [name for name, _ in stage]
    assert dict(stage)["USER"] == "10001" and "--uid 10001" in str(stage)
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert dict(stage)["HEALTHCHECK"].endswith('["python", "/opt/spinf-serve/healthcheck.py"]')
    assert dict(stage)["VOLUME"] == '["/models", "/data"]'
    assert dict(stage)["ENTRYPOINT"] == '["spinf-serve"]'


def test_what_it_sets_is_read_by_somebody():
    settings = {setting.env for setting in SETTINGS}
    (values,) = [rest for name, rest in last_stage() if name == "ENV"]
    named = set(re.findall(r"(\w+)=", values))
    assert named - OTHERS <= settings
    assert "SPINF_HOST" in named


def copied() -> set[str]:
    """What the image is built from, without slashes at ends."""
    found = set()
    for name, rest in instructions(FILE.read_text("utf-8")):
        words = [word for word in rest.split() if not word.startswith("--")]
        if name == "COPY" and "--from" not in rest:
            found |= {word.rstrip("/") for word in words[:-1]}
    return found


def test_what_it_copies_is_there_and_is_sent_to_the_builder():
    sent = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE))
    for path in copied():
        assert (ROOT / path).exists(), path
        assert path.split("/")[0] in sent, path
    assert {TOP, *FOLDERS} <= copied()


def test_it_installs_with_the_script_that_installs_from_what_it_copies():
    script = (ROOT / "deploy" / "install.sh").read_text("utf-8")
    (parts,) = re.findall(r"^for part in (.+); do$", script, re.MULTILINE)
    assert {*parts.split(), "constraints.txt", "deploy/install.sh"} == (
        copied() - {"deploy/healthcheck.py"}
    )
    runs = [rest for name, rest in instructions(FILE.read_text("utf-8")) if name == "RUN"]
    assert any("deploy/install.sh --into /opt/spinf-serve --embedded" in rest for rest in runs)
