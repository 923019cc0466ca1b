"""The process that holds the tokenizer: asked once, ended without harm, and what it cannot do."""

from dataclasses import replace
from pathlib import Path

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import load
from spinf_serve.workbench import example
from spinf_serve.workbench.answering import Who, counting, served_by
from spinf_serve.workbench.tokens import Tokens
from tests.workbench.serving import recorded_server

WAIT_SECONDS = 120
PACK = (Path(example.__file__).parent / "example" / "pack.yaml").read_text("utf-8")


@pytest.fixture(scope="module")
def tokens():
    made = Tokens(Who(None, None, load({}, {})))
    yield made
    made.close()


@pytest.mark.weights
def test_tokens_are_the_models_and_make_up_the_text(tokens):
    found = tokens.pieces(["Support ticket: hello\n", "wörld 🙂", ""]).result(WAIT_SECONDS)
    assert found.model == "smollm2-135m-instruct" and found.stands_for is None
    assert not found.starts
    assert ["".join(piece for _, piece in text) for text in found.texts] == [
        "Support ticket: hello\n",
        "wörld 🙂",
        "",
    ]
    assert found.lint["residual"] == pytest.approx(0.99999)


@pytest.mark.weights
def test_a_pack_costs_less_read_once_than_call_by_call(tokens):
    contents = ["Support ticket: my parcel is late\n", "Support ticket: thanks\n"]
    future = tokens.costs(PACK, "pack.yaml", contents)
    found = future.result(WAIT_SECONDS)
    assert found.counted.rows == 2 and found.counted.calls == 2 * 33 == 2 * len(found.prompts)
    assert found.per_1000.times == pytest.approx(
        found.counted.apart_tokens / found.counted.tree_tokens
    )
    assert found.per_1000.times > 1
    # The same is not counted twice.
    assert tokens.costs(PACK, "pack.yaml", contents) is future


@pytest.mark.weights
def test_a_process_that_ended_is_started_again(tokens):
    tokens.pieces(["a"]).result(WAIT_SECONDS)
    tokens._child.kill()
    tokens._child.wait(WAIT_SECONDS)
    assert tokens.pieces(["another"]).result(WAIT_SECONDS).texts[0]


@pytest.mark.weights
def test_a_pack_with_faults_is_told_and_the_process_goes_on(tokens):
    with pytest.raises(Unusable, match="not a field"):
        tokens.costs(PACK + "nonsense: 1\n", "pack.yaml", ["a"]).result(WAIT_SECONDS)
    assert tokens.pieces(["still there"]).result(WAIT_SECONDS).texts[0]


@pytest.mark.weights
def test_tokens_of_a_served_model_are_exact_where_its_files_are_here():
    with recorded_server() as (who, engine):
        assert served_by(who) == engine.served.id == "smollm2-135m-instruct"
        made = Tokens(Who(who.server, who.token, load({"model": "no/such"}, {})))
        found = made.pieces(["hello"]).result(WAIT_SECONDS)
        made.close()
    assert (found.model, found.stands_for) == ("smollm2-135m-instruct", None)


@pytest.mark.weights
def test_another_model_stands_for_one_that_is_not_here_and_is_told():
    with recorded_server() as (who, engine):
        engine.served = replace(engine.served, id="owner/large")
        made = Tokens(Who(who.server, who.token, load({}, {})))
        found = made.costs(PACK, "pack.yaml", ["hello"]).result(WAIT_SECONDS)
        made.close()
    assert (found.model, found.stands_for) == ("smollm2-135m-instruct", "owner/large")


@pytest.mark.weights
def test_a_server_that_does_not_answer_leaves_tokens_about():
    made = Tokens(Who("http://127.0.0.1:9"))
    found = made.pieces(["a"]).result(WAIT_SECONDS)
    made.close()
    assert found.stands_for == "the model of http://127.0.0.1:9"


@pytest.mark.weights
def test_what_a_server_calls_its_model_is_no_path_here(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    found = counting(Who(None, None, load({}, {})), str(tmp_path))
    assert found.model == "smollm2-135m-instruct"


def test_a_model_that_is_not_there_is_told(tmp_path):
    config = load({"model": str(tmp_path / "nothing")}, {})
    made = Tokens(Who(None, None, config))
    with pytest.raises(Unusable, match="no tokenizer can be opened here"):
        made.pieces(["a"]).result(WAIT_SECONDS)
    made.close()
