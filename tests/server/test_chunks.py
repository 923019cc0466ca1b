"""Long contents: cut where every pack of the call says so, else refused with the reason."""

from dataclasses import replace

import pytest

from spinf_serve.engine.work import Limits
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Prompt, Question, Slot
from spinf_serve.packs.template import SlotKind
from spinf_serve.server.calls import Call, Input, UsedPack
from spinf_serve.server.chunks import chunked
from spinf_serve.server.served_packs import Fit
from tests.support.packs import golden, made
from tests.support.stub_engine import StubEngine

LIMIT = 20
OWN = Question("own", (Prompt("So?"),), (" yes", " no"))


def used(on_long: str, draft: bool = False, pack_id: str = "demo/support") -> UsedPack:
    pack, constants = made(golden(pack=pack_id))
    fit = Fit(None if draft else constants, "draft" if draft else "provisional", 5)
    context = pack.contexts["email"]
    pack = replace(pack, on_long=on_long)  # type: ignore[arg-type]
    return UsedPack("scoring.packs.0", pack, fit, context, False, DecisionCall())


def call(content: str, *packs: UsedPack, own: int = 0, id: str = "a") -> Call:
    questions = (OWN,) * own + tuple(q for one in packs for q in one.pack.questions)
    paths = ("p",) * len(questions)
    entry = Input(id, "inputs.0", f"<b {content} a>", questions, paths, own, ("<b ", " a>"))
    return Call((entry,), Limits(max_content_tokens=LIMIT), packs)


WORDS = " ".join(f"w{n}" for n in range(40))


def stub() -> StubEngine:
    return StubEngine(Limits(max_content_tokens=LIMIT))


def test_a_long_content_is_cut_behind_white_space_and_each_chunk_is_wrapped():
    engine = stub()
    [*chunks] = chunked(engine.as_engine(), call(WORDS, used("max"))).inputs
    assert len(chunks) == 3
    assert [(one.part, one.parts) for one in chunks] == [(n, 3) for n in range(3)]
    inner = [one.content.removeprefix("<b ").removesuffix(" a>") for one in chunks]
    assert "".join(inner) == WORDS
    assert all(one.endswith(" ") for one in inner[:-1])
    assert all(len(engine.tokenizer.encode(one.content)) <= LIMIT for one in chunks)
    assert {(one.id, one.path) for one in chunks} == {("a", "inputs.0")}


def test_the_cut_depends_on_nothing_but_content_context_and_limit():
    engine = stub().as_engine()
    alone = chunked(engine, call(WORDS, used("max")))
    both = chunked(engine, call(WORDS, used("mean"), used("max", pack_id="demo/other")))
    assert [one.content for one in alone.inputs] == [one.content for one in both.inputs]


@pytest.mark.parametrize("content", ["short", " ".join("w" * 9 for _ in range(7))])
def test_a_content_that_fits_stays_whole_whatever_its_bytes(content):
    made = call(content, used("max"), own=1)
    assert chunked(stub().as_engine(), made).inputs == made.inputs


@pytest.mark.parametrize("packs", [(), (used("refuse"),)])
def test_a_long_content_is_left_to_the_engine_where_nothing_is_cut(packs):
    made = call(WORDS, *packs, own=1)
    assert chunked(stub().as_engine(), made) is made


@pytest.mark.parametrize(
    ("packs", "own", "says"),
    [
        ((used("max"),), 1, "question 'own' of the call is about the whole of it"),
        (
            (used("max"), used("refuse", pack_id="demo/other")),
            0,
            "the pack demo/other refuses long contents",
        ),
        ((used("mean", draft=True),), 0, "demo/support is a draft on the served model"),
    ],
)
def test_a_long_content_that_may_not_be_cut_is_refused_with_the_reason(packs, own, says):
    with pytest.raises(Refused) as caught:
        chunked(stub().as_engine(), call(WORDS, *packs, own=own))
    assert (caught.value.code, caught.value.param) == ("content_too_long", "inputs.0")
    assert says in caught.value.message
    assert "the limit is 20" in caught.value.message


def test_a_long_content_with_a_slot_of_its_own_is_not_cut():
    asked = call(WORDS, used("max"))
    slot = Slot("sum", (Prompt("Sum:"),), SlotKind.NUMBER)
    entry = replace(asked.inputs[0], slots=(slot,), slot_paths=("s",), slot_places=(0,))
    with pytest.raises(Refused, match="'sum'") as caught:
        chunked(stub().as_engine(), replace(asked, inputs=(entry,)))
    assert (caught.value.code, caught.value.param) == ("content_too_long", "inputs.0")
