"""Decision formats on the real engine around a made-up model: bits, whole labels, frames of a chat."""

import math
from typing import Any

import pytest

from spinf_serve.engine.api import Engine
from spinf_serve.server.config import ServerConfig
from tests.contract.test_systemone import HEAT, NOUL, QUESTIONS, TEAM, answers
from tests.support.fake_forward import next_logprobs
from tests.support.made_up_engine import FRAME, VOCABULARY, made_up_engine
from tests.support.servers import running

STATE = "Billed twice."
BOS = 256


@pytest.fixture(scope="module", params=[None, FRAME], ids=["cloze", "chat"])
def server(request):
    with running(lambda: made_up_engine(request.param), ServerConfig()) as it:
        yield it


def sure(engine: Engine, before: list[int], behind: list[int]) -> float:
    """logprob of tokens behind others, by the chain rule."""
    total = 0.0
    for index, token in enumerate(behind):
        total += float(next_logprobs([BOS, *before, *behind[:index]], VOCABULARY)[token])
    return total


def softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(value - max(logits)) for value in logits]
    return [weight / sum(weights) for weight in weights]


def ask(server: Any, question: dict[str, Any], state: Any = STATE) -> dict[str, Any]:
    found: dict[str, Any] = answers(server, {"q": question}, state=state)["q"]
    return found


def test_ids_order_company_and_the_order_of_options_move_no_bit(server):
    alone = {name: ask(server, value) for name, value in QUESTIONS.items()}
    together = answers(server, dict(reversed(QUESTIONS.items())), state=STATE)
    assert together == alone
    backwards = dict(reversed(TEAM["criteria"].items()))
    assert ask(server, {**TEAM, "criteria": backwards}) == alone["team"]


def test_a_label_that_begins_another_takes_none_of_its_mass(server):
    """As if every label ended in what follows it: the shares are those of the chain rule."""
    labels = ["New", "New York", "Newer"]
    asked = "Where?"
    found = ask(
        server, {"type": "choice", "instructions": asked, "criteria": dict.fromkeys(labels)}
    )
    engine = server.service.worker.engine
    frame = engine.served.frame
    if frame is None:
        cloze = f"\n\nQuestion: {asked}\nAnswer:"
        logits = []
        for label in labels:
            option = list(f" {label}\n".encode())
            on_content = sure(engine, list((STATE + cloze).encode()), option)
            logits.append(on_content - sure(engine, list(cloze.encode()), option))
    else:
        listed = "\n".join(f"- {label}" for label in sorted(labels))
        turn = (
            f"\n\n{asked}\n\n{listed}\n\nAnswer with one option of this list only, word for word."
        )
        before = [*frame.before, *(STATE + turn).encode(), *frame.behind]
        logits = [sure(engine, before, [*label.encode(), *frame.close]) for label in labels]
    assert list(found["probabilities"].values()) == pytest.approx(softmax(logits), abs=1e-5)


def test_yes_and_no_are_read_as_the_document_says(server):
    engine = server.service.worker.engine
    frame = engine.served.frame
    asked = NOUL["instructions"]
    if frame is None:
        cloze = list(f"\n\nQuestion: {asked}\nAnswer:".encode())
        logits = [
            sure(engine, [*STATE.encode(), *cloze], option) - 0.5 * sure(engine, cloze, option)
            for option in (list(b" Yes"), list(b" No"))
        ]
    else:
        turn = f"{STATE}\n\n{asked}\n\nAnswer with Yes or No only.".encode()
        before = [*frame.before, *turn, *frame.behind]
        logits = [sure(engine, before, [*text, *frame.close]) for text in (b"Yes", b"No")]
    assert ask(server, NOUL)["noul"] == pytest.approx(softmax(logits)[0], abs=1e-5)


def test_a_state_of_any_length_is_framed_alike(server):
    """Also an empty one, one without a space, and one with a long trunk."""
    seen = {ask(server, NOUL, state=state)["noul"] for state in ("", "x", "word " * 40, "a" * 150)}
    assert len(seen) == 4


def test_levels_are_read_in_their_own_order(server):
    found = ask(server, HEAT)
    levels = HEAT["criteria"]
    upside_down = ask(server, {**HEAT, "criteria": levels[::-1]})
    if server.service.worker.engine.served.frame is None:
        assert list(upside_down["probabilities"].values()) == list(
            reversed(found["probabilities"].values())
        )
    else:
        assert upside_down["probabilities"] != found["probabilities"]
