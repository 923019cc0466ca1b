"""The published conformance suite of the System One format, unmodified, as its command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import TOKEN
from tests.support.servers import running
from tests.support.stub_engine import StubEngine

_WITHOUT_KEY = {"MUST": 32, "SHOULD": 13}
_WITH_KEY = {"MUST": 32, "SHOULD": 15}
"""Requirements that the suite tries in either mode; each mode leaves out the other's."""


@pytest.mark.parametrize(
    ("token", "tried"), [(None, _WITHOUT_KEY), (TOKEN, _WITH_KEY)], ids=["open", "keyed"]
)
def test_every_requirement_is_met(token, tried, tmp_path):
    report = tmp_path / "report.json"
    with running(lambda: StubEngine().as_engine(), ServerConfig(token=token)) as server:
        command = [str(Path(sys.executable).with_name("jevcompat")), "test", server.url]
        key = [] if token is None else ["--key", token]
        done = subprocess.run(
            [*command, *key, "--json", str(report)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    summary = json.loads(report.read_text("utf-8"))["summary"]
    assert done.returncode == 0, done.stdout
    assert summary["conformant"], done.stdout
    assert {level: summary[level]["passed"] for level in tried} == tried, done.stdout
    assert not any(summary[level]["failed"] for level in tried), done.stdout
