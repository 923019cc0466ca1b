"""The process that holds the tokenizer: asked once, ended without harm, and what it cannot do."""

from pathlib import Path

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import load
from spinf_serve.workbench import example
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.tokens import Tokens

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
    assert found.model == "smollm2-135m-instruct" and not found.starts
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


def test_a_server_does_not_lend_its_tokenizer():
    made = Tokens(Who("http://127.0.0.1:9"))
    with pytest.raises(Unusable, match="does not lend its tokenizer"):
        made.pieces(["a"]).result(WAIT_SECONDS)
    made.close()


def test_a_model_that_is_not_there_is_told(tmp_path):
    config = load({"model": str(tmp_path / "nothing")}, {})
    made = Tokens(Who(None, None, config))
    with pytest.raises(Unusable, match="no tokenizer can be opened here"):
        made.pieces(["a"]).result(WAIT_SECONDS)
    made.close()
