"""The install script: what it says before it does anything. That it installs is a step of .ci/run."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent.parent / "deploy" / "install.sh"


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", str(SCRIPT), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--into is missing"),
        (("--into",), "--into needs a value"),
        (("--into", "x", "--gpu"), "--gpu is no option"),
        (("--torch-index", ""), "--torch-index needs a value"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(arguments, told):
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {told}") and ran.stderr.count("\n") == 1


def test_a_missing_or_old_python_is_named(tmp_path):
    into = tmp_path / "into"
    ran = run("--into", str(into), PYTHON="no-such-python")
    assert ran.returncode == 2 and ran.stderr.startswith("error: no no-such-python here")
    old = tmp_path / "old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1 && exit\nexit 1\n')
    old.chmod(0o755)
    ran = run("--into", str(into), PYTHON=str(old))
    assert ran.returncode == 2 and "is Python 3.9.1; Python 3.11 or newer" in ran.stderr
    assert not into.exists()


def test_its_help_names_every_option():
    ran = run("--help")
    assert ran.returncode == 0
    for option in ("--into", "--embedded", "--torch-index", "PYTHON"):
        assert option in ran.stdout
    assert "set -eu" not in ran.stdout
