"""Long texts in pieces: nothing lost, every piece within the limit, cut where words end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.chunks import Reader, Tokens, chunks_of, pieces_of
from tests.support.stub_engine import WordTokenizer
from tests.support.toy_tokenizers import crossing_bpe, regex_bpe, sentencepiece_bpe

LIMIT = 20
TOKENS = WordTokenizer()
WORDS = " ".join(f"w{n}" for n in range(40))


def test_what_fits_is_read_whole_and_each_piece_of_what_does_not_is_wrapped():
    reader = Reader(TOKENS, LIMIT)
    # More bytes than the limit has tokens, but not more tokens.
    assert chunks_of(reader, "incomprehensibilities", "<", ">") == ["<incomprehensibilities>"]
    chunks = chunks_of(reader, WORDS, "<b ", " a>")
    assert len(chunks) == 3
    assert all(one.startswith("<b ") and one.endswith(" a>") for one in chunks)
    assert "".join(one.removeprefix("<b ").removesuffix(" a>") for one in chunks) == WORDS


def test_a_context_that_fills_the_limit_is_left_to_be_refused():
    assert pieces_of(TOKENS, WORDS, "x " * 30, "", LIMIT) == [WORDS]
    assert pieces_of(TOKENS, "", "x", "y", LIMIT) == [""]


@pytest.mark.parametrize("text", ["x" * 2000, " " * 500, "a" * 700 + " b " + "c" * 700])
def test_what_has_no_place_to_cut_is_cut_inside(text):
    pieces = pieces_of(TOKENS, text, "<", ">", LIMIT)
    assert "".join(pieces) == text
    assert all(len(TOKENS.encode(f"<{piece}>")) <= LIMIT for piece in pieces)
    assert all(pieces)


def holds(tokens: Tokens, text: str, before: str, after: str, limit: int) -> None:
    pieces = pieces_of(tokens, text, before, after, limit)
    assert "".join(pieces) == text
    count = tokens.encode
    if len(count(before)) + len(count(after)) < limit:
        for piece in pieces:
            assert len(piece) <= 1 or len(count(before + piece + after)) <= limit


@given(st.text(max_size=200), st.text(max_size=6), st.text(max_size=6), st.integers(2, 40))
def test_nothing_is_lost_and_every_chunk_fits(text, before, after, limit):
    holds(TOKENS, text, before, after, limit)


@pytest.fixture(scope="module", params=[regex_bpe, sentencepiece_bpe, crossing_bpe])
def learned(request):
    return request.param()


@given(text=st.text(alphabet="the cat\n sé.", max_size=300), limit=st.integers(3, 40))
def test_nothing_is_lost_with_tokens_that_reach_over_words(learned, text, limit):
    holds(learned, text, 'Mail: "', '" end', limit)


@pytest.mark.parametrize("tokenizer", [regex_bpe, sentencepiece_bpe])
def test_chunks_are_filled(tokenizer):
    learned = tokenizer()
    text = "the cat sat on the mat and the dog ran to the river. " * 60
    count = learned.encode
    pieces = pieces_of(learned, text, "(", ")", 100)
    assert len(pieces) <= 1 + len(count(text)) / 80
