"""Pages of a workbench whose server answers tell tokens too: about, and by whose tokenizer."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.parts.waiting import tokens
from spinf_serve.workbench.started import Started, start_as
from tests.workbench.serving import recorded_server
from tests.workbench.support import messages, page

SECONDS = 120
TOLD = "by the tokenizer of smollm2-135m-instruct: that of owner/large is not here"

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def server():
    with recorded_server() as (who, engine):
        engine.served = replace(engine.served, id="owner/large")
        yield who
        start_as(Started(Path("."), who.server, token=who.token))
        tokens().close()


def until(test, words):
    """The page once a text stands on it: what another process works out comes later."""
    end = time.monotonic() + SECONDS
    while words not in messages(test):
        assert time.monotonic() < end, messages(test)
        assert not test.exception
        time.sleep(0.2)
        test.run()
    return test


def shown(path, folder, who, **params):
    return page(path, folder, how={"server": who.server, "token": who.token}, **params)


def test_the_cost_of_a_run_is_told_before_anybody_was_asked(folder, server):
    with open_desk(folder).project.open(write=True) as connection:
        for table in ("score", "content", "prompt", "model"):
            connection.execute(f"DELETE FROM {table}")
    test = until(shown("run", folder, server), TOLD)
    read = next(one.value for one in test.metric if one.label == "Tokens to read")
    assert read.startswith("about ")


def test_the_grid_and_the_preview_show_tokens(folder, server):
    until(shown("pack", folder, server, tab="Grid and cost"), TOLD)
    test = shown("pack", folder, server, tab="Preview")
    next(one for one in test.toggle if one.label == "Show the tokens").set_value(True).run()
    assert "tokens of smollm2-135m-instruct" in messages(until(test, TOLD))


def test_lint_looks_at_tokens_and_says_whose(folder, server):
    with open_desk(folder).project.open(write=True) as connection:
        connection.execute("UPDATE model SET served = 'owner/large'")
    test = until(
        shown("pack", folder, server, tab="Lint"), f"What is said of tokens: about, {TOLD}"
    )
    skipped = [one for one in test.expander if one.label.startswith("Not looked at")]
    assert not any("token" in one.value for box in skipped for one in box.markdown)
