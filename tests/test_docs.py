"""Documents are tests: what is made from code is fresh, what is shown runs, links lead somewhere."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import typer

from examples import demo
from spinf_serve.cli import app
from spinf_serve.packs.errors import CODES
from spinf_serve.server.config import load
from spinf_serve.server.settings import SETTINGS
from tests.support import documents, layout

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
README = ROOT / "README.md"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize("name", documents.made())
def test_what_is_made_from_code_is_fresh(name):
    assert (documents.DOCS / name).read_text("utf-8") == documents.made()[name], "run `make fix`"


def test_the_tables_hold_every_setting_and_every_code():
    made = documents.made()
    for setting in SETTINGS:
        assert f"| `{setting.name}` | `{setting.flag}` | `{setting.env}` |" in made["settings.md"]
    for code in CODES.values():
        assert f"| `{code.name}` | {code.status} |" in made["error-codes.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_files_that_are_shown_load(page, tmp_path):
    for number, block in enumerate(blocks(page, "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        load({}, {}, file)


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for block in blocks(page, "console"):
            # The request in a curl command runs over several lines; it has a test of its own.
            if "curl" in block:
                continue
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    yield page.name, words


def test_make_targets_that_are_shown_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        word
        for _, words in shown_commands()
        if words[0] == "make"
        for word in words[1:]
        if "=" not in word
    }
    assert {"demo", "test", "setup", "check"} <= shown
    assert shown <= targets


def test_commands_that_are_shown_are_understood():
    seen = 0
    for page, words in shown_commands():
        if words[0].rpartition("/")[2] == "spinf-serve":
            seen += 1
            parsed(words[1:], f"{page}: {shlex.join(words)}")
    assert seen >= 3


def parsed(words: list[str], shown: str) -> None:
    """Fails unless every word is a command, an argument or an option that the command has."""
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(shown, words, resilient_parsing=False)


def test_the_folder_map_is_the_tree():
    named = set(re.findall(r"^([a-z_]+)/ ", README.read_text("utf-8"), re.MULTILINE))
    assert named == {*layout.FOLDERS, layout.TOP, "docs", "examples", "tests"}
    assert all((ROOT / folder).is_dir() for folder in named)


def test_the_changelog_s_newest_entry_is_this_version():
    from spinf_serve import __version__

    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = text.split("\n## ")[1]
    assert newest.startswith(__version__)
    for heading in ("Added", "Changed", "Fixed", "Scores change"):
        assert f"\n### {heading}\n" in newest


@pytest.fixture(scope="module")
def first_request() -> dict[str, Any]:
    """The body of the README's first curl command."""
    (command,) = [block for block in blocks(README, "console") if "curl" in block]
    words = shlex.split(command.replace("\\\n", " "))
    body: dict[str, Any] = json.loads(words[words.index("-d") + 1])
    return body


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of a running server on the embedded model, started as the demo starts it."""
    with demo.server() as address:
        yield address


@pytest.mark.weights
@pytest.mark.parametrize("block", blocks(README, "python"), ids=["spinf-client", "openai"])
def test_the_clients_that_are_shown_get_an_answer(block, url):
    code = block.replace("http://127.0.0.1:8000", url)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    options = ast.literal_eval(ran.stdout)
    assert [option["text"] for option in options] == [" angry", " happy", " calm"]
    assert abs(sum(option["p"] for option in options) - 1) < 1e-5


@pytest.mark.weights
def test_the_curl_that_is_shown_gets_the_answer_that_is_shown(first_request, url):
    answer = demo.score(url, first_request)
    assert_near(json.loads(blocks(README, "json")[0]), answer["results"], "results")


@pytest.mark.weights
def test_the_pack_that_is_shown_gets_the_answer_that_is_shown(url):
    _, asked, answered = blocks(README, "json")
    answer = demo.score(url, json.loads(asked))
    assert answer["warnings"] == []
    assert_near(json.loads(answered), answer["results"], "results")


def assert_near(shown: Any, got: Any, path: str) -> None:
    """Same shape, same texts, numbers within 1e-3."""
    assert type(shown) is type(got), path
    if isinstance(shown, dict):
        assert list(shown) == list(got), path
        for key in shown:
            assert_near(shown[key], got[key], f"{path}.{key}")
    elif isinstance(shown, list):
        assert len(shown) == len(got), path
        for index, (a, b) in enumerate(zip(shown, got, strict=True)):
            assert_near(a, b, f"{path}.{index}")
    elif isinstance(shown, float):
        assert abs(shown - got) <= 1e-3, f"{path}: {shown} is shown, {got} is answered"
    else:
        assert shown == got, path


def test_the_readme_tells_the_recorded_figures():
    found = json.loads((documents.RESULTS / "cpu-float32.json").read_text())
    readme = (documents.DOCS.parent / "README.md").read_text("utf-8")
    for told in (
        f"one prompt per question | {found['against']['ratios']['one by one']:.2f} |",
        f"as one batch | {found['against']['ratios']['cached prefix']:.2f} |",
        f"floors included | {median(found['host_seconds']) * 1000:.0f} ms |",
        f"memory | {found['peak_rss_mib']:.0f} MiB |",
    ):
        assert told in readme
