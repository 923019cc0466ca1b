"""The quickstart's requests get answers, and the index of the documents leads to all of them."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.server.config import ServerConfig
from tests.support.served_packs import served_from
from tests.support.servers import Running, running
from tests.support.stub_engine import StubEngine

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "quickstart.md").read_text("utf-8")


def curls() -> list[list[str]]:
    """The words of each curl command that is shown."""
    shown = re.findall(r"^```console\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [shlex.split(command) for command in shown]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    """A server on the stub with the official packs, which are drafts there."""
    empty = tmp_path_factory.mktemp("packs")
    packs = served_from(empty, official=ROOT / "packs" / "spinf")
    with running(lambda: StubEngine().as_engine(), ServerConfig(), packs=packs) as it:
        yield it


def send(server: Running, words: list[str]) -> Any:
    (url,) = [word for word in words if word.startswith("http://127.0.0.1:8000/")]
    path = url.removeprefix("http://127.0.0.1:8000")
    if "-d" not in words:
        return server.http.get(path)
    return server.http.post(path, json=json.loads(words[words.index("-d") + 1]))


def test_each_request_that_is_shown_is_answered(server):
    answers = [send(server, words) for words in curls()]
    assert [answer.status_code for answer in answers] == [200] * 4
    ready, score, systemone, packs = (answer.json() for answer in answers)
    assert ready["ready"]
    assert [query["id"] for query in score["results"][0]["queries"]] == ["wants", "mood"]
    assert set(systemone["answers"]) == {"refund", "team"}
    assert {"categories", "decision"} <= set(packs["results"][0]["packs"][0])
    for answer in (score, systemone):
        assert not answer.get("warnings") and "x_warnings" not in answer


def test_the_index_leads_to_every_document():
    index = (DOCS / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([a-z-]+\.(?:md|json))\)", index))
    assert linked == {file.name for file in DOCS.iterdir() if file.is_file()} - {"README.md"}
