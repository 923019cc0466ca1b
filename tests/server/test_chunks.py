"""Long contents: cut where every pack of the call says so, else refused with the reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Limits
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.calls import Call, Input, UsedPack
from spinf_serve.server.chunks import chunked, pieces_of
from spinf_serve.server.served_packs import Fit
from tests.support.packs import golden, made
from tests.support.stub_engine import StubEngine
from tests.support.toy_tokenizers import crossing_bpe, regex_bpe, sentencepiece_bpe

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


def test_a_context_that_fills_the_limit_is_left_to_be_refused():
    engine = stub().as_engine()
    assert pieces_of(engine, WORDS, "x " * 30, "", LIMIT) == [WORDS]
    assert pieces_of(engine, "", "x", "y", LIMIT) == [""]


@pytest.mark.parametrize("text", ["x" * 2000, " " * 500, "a" * 700 + " b " + "c" * 700])
def test_what_has_no_place_to_cut_is_cut_inside(text):
    engine = stub()
    pieces = pieces_of(engine.as_engine(), text, "<", ">", LIMIT)
    assert "".join(pieces) == text
    assert all(len(engine.tokenizer.encode(f"<{piece}>")) <= LIMIT for piece in pieces)
    assert all(pieces)


class _Engine(StubEngine):
    """The stub with a tokenizer whose tokens reach over words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer  # type: ignore[assignment]


def holds(engine: StubEngine, text: str, before: str, after: str, limit: int) -> None:
    pieces = pieces_of(engine.as_engine(), text, before, after, limit)
    assert "".join(pieces) == text
    count = engine.tokenizer.encode
    if len(count(before)) + len(count(after)) < limit:
        for piece in pieces:
            assert len(piece) <= 1 or len(count(before + piece + after)) <= limit


@given(st.text(max_size=200), st.text(max_size=6), st.text(max_size=6), st.integers(2, 40))
def test_nothing_is_lost_and_every_chunk_fits(text, before, after, limit):
    holds(StubEngine(), text, before, after, limit)


@pytest.fixture(scope="module", params=[regex_bpe, sentencepiece_bpe, crossing_bpe])
def learned(request):
    return _Engine(request.param())


@given(text=st.text(alphabet="the cat\n sé.", max_size=300), limit=st.integers(3, 40))
def test_nothing_is_lost_with_tokens_that_reach_over_words(learned, text, limit):
    holds(learned, text, 'Mail: "', '" end', limit)


@pytest.mark.parametrize("tokenizer", [regex_bpe, sentencepiece_bpe])
def test_chunks_are_filled(tokenizer):
    learned = _Engine(tokenizer())
    text = "the cat sat on the mat and the dog ran to the river. " * 60
    count = learned.tokenizer.encode
    pieces = pieces_of(learned.as_engine(), text, "(", ")", 100)
    assert len(pieces) <= 1 + len(count(text)) / 80
