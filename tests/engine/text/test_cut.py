import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spinf_serve.engine.text.cut import (
    EMPTY_CUT,
    LONGEST_TAIL_CHARS,
    VERIFIED_TAIL_CHARS,
    border_before,
    cut,
    cut_all,
    first_border,
    last_border,
)
from spinf_serve.packs.errors import Refused
from tests.support.texts import texts
from tests.support.toy_tokenizers import (
    ByteTokenizer,
    LearnedTokenizer,
    crossing_bpe,
    regex_bpe,
    sentencepiece_bpe,
)

TOKENIZERS = [ByteTokenizer(), regex_bpe(), regex_bpe(compose=True), sentencepiece_bpe()]
ALL = [*TOKENIZERS, crossing_bpe()]


def words(count: int) -> str:
    return " ".join(["The lorry moved off."] * count)


class CountingTokenizer(LearnedTokenizer):
    """Counts the characters it is asked to encode."""

    def __init__(self, other: LearnedTokenizer) -> None:
        super().__init__(other._inner, other._proven, other.bos_id is not None)
        self.chars = 0

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        self.chars += len(text)
        return super().encode_with_ends(text)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(TOKENIZERS), texts(), texts(4))
@example(regex_bpe(), "moved off", "\nNext")
@example(regex_bpe(), "moved off ", "Next")
@example(regex_bpe(compose=True), "moved e", "\u0301")
@example(sentencepiece_bpe(), "believ", "able")
def test_nothing_appended_moves_the_tokens_before_a_short_tail(tokenizer, content, appended):
    made = cut(tokenizer, content)
    if len(made.tail) <= LONGEST_TAIL_CHARS:
        joint = [*made.trunk, *made.held, *tokenizer.encode(made.tail + appended)]
        assert joint == tokenizer.encode(content + appended)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(ALL), texts(30))
def test_trunk_held_and_tail_are_the_tokens_of_the_content(tokenizer, content):
    made = cut(tokenizer, content)
    assert made.content_tokens == len(tokenizer.encode(content))
    assert made.tail_tokens == tuple(tokenizer.encode(made.tail))
    assert content.endswith(made.tail)
    assert bool(made.tail) == bool(content)
    assert len(made.held) == 1 or not made.trunk
    if made.merged:
        assert [*made.trunk, *made.stem] == tokenizer.encode(content)


@settings(deadline=None)
@given(st.sampled_from(ALL), st.lists(texts(), max_size=4))
def test_contents_cut_together_are_cut_as_alone(tokenizer, contents):
    assert cut_all(tokenizer, contents) == [cut(tokenizer, content) for content in contents]


def test_the_tail_is_the_last_word_with_its_space():
    made = cut(regex_bpe(), "The light changed and the lorry moved off.")
    assert made.tail == " off."
    assert made.held == (regex_bpe().encode(" moved")[-1],)


@pytest.mark.parametrize(
    ("content", "tail"),
    [
        ("", ""),
        ("off", "off"),
        ("\n\n", "\n\n"),
        (" off", " off"),
        ("moved off \n", " \n"),
        ("moved\noff", "\noff"),
        ("moved \n off", " \n off"),
        ("moved 8841", " 8841"),
        ("店员说今天不能退货。", "店员说今天不能退货。"),
    ],
)
def test_short_contents(content, tail):
    assert cut(regex_bpe(), content).tail == tail


def test_the_empty_content_is_the_floor():
    assert cut(regex_bpe(), "") == EMPTY_CUT


def test_a_border_needs_white_space_behind_another_sign():
    assert last_border(regex_bpe(), "a b") == 1
    assert last_border(regex_bpe(), " b") == 0
    assert last_border(regex_bpe(), "a\x1cb") == 0  # no white space to the pre-tokenizer
    assert last_border(crossing_bpe(), "a b") == 0


@pytest.mark.parametrize("tokenizer", ALL)
@pytest.mark.parametrize("run", ["x" * 4000, "店员说今天不能退货" * 400, " " * 3000, "👍" * 900])
def test_a_long_run_without_borders_is_cut_inside(tokenizer, run):
    content = words(3) + run
    made = cut(tokenizer, content)
    assert made.merged
    assert [*made.trunk, *made.stem] == tokenizer.encode(content)
    assert VERIFIED_TAIL_CHARS <= len(made.tail) <= 2 * LONGEST_TAIL_CHARS


@settings(deadline=None)
@given(st.text(alphabet="店员说今天不能退货可以x👍", min_size=200, max_size=300), texts(3))
def test_a_verified_border_holds_for_what_follows(run, appended):
    tokenizer = regex_bpe()
    made = cut(tokenizer, run)
    assert made.merged
    joint = [*made.trunk, *made.held, *tokenizer.encode(made.tail + appended)]
    assert joint == tokenizer.encode(run + appended)


class MarkingTokenizer(ByteTokenizer):
    """Proves nothing and puts a token before or behind every text: no border ever verifies."""

    def __init__(self, before: list[int], behind: list[int]) -> None:
        super().__init__()
        self._before, self._behind = before, behind

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        tokens, ends = super().encode_with_ends(text)
        before, behind = self._before, self._behind
        return (
            [*before, *tokens, *behind],
            [0] * len(before) + ends + [len(text)] * len(behind),
        )

    def encode(self, text: str) -> list[int]:
        plain = super().encode(text)
        return [*self._before, *plain, *self._behind] if text else []

    def breaks_before(self, char: str) -> bool:
        return False


@pytest.mark.parametrize("tokenizer", [MarkingTokenizer([255], []), MarkingTokenizer([], [255])])
def test_without_any_border_that_verifies_the_join_is_marked(tokenizer):
    made = cut(tokenizer, words(20))
    assert not made.merged
    assert len(made.tail) == VERIFIED_TAIL_CHARS
    assert made.content_tokens == len(tokenizer.encode(words(20)))
    assert made.tail_tokens == tuple(tokenizer.encode(made.tail))


class PickyTokenizer(ByteTokenizer):
    """Bytes; puts a token before every text but those that begin as wanted. Proves nothing."""

    def encode(self, text: str) -> list[int]:
        plain = super().encode(text)
        return plain if text.startswith(("T", "店")) else [255, *plain]

    def breaks_before(self, char: str) -> bool:
        return False


def test_only_borders_between_characters_are_tried():
    # Nine characters of four tokens lie between the first border tried and the one that verifies.
    made = cut(PickyTokenizer(), "T" * 200 + "店" + "👍" * (VERIFIED_TAIL_CHARS + 9))
    assert made.merged
    assert made.tail.startswith("店")


def test_a_mark_that_some_vocabularies_write_for_a_space_is_no_border():
    assert (
        last_border(ByteTokenizer(), "a\u2581 b") == first_border(ByteTokenizer(), "a\u2581 b") == 0
    )
    assert not border_before(ByteTokenizer(), "a\u2581", " ")
    assert border_before(ByteTokenizer(), "a", " ")
    assert not border_before(ByteTokenizer(), "a", "")
    assert border_before(ByteTokenizer(), "", "")


@pytest.mark.parametrize("unit", ["The lorry moved off. ", "店员说今天不能退货", "x"])
def test_the_work_grows_linearly(unit):
    tokenizer = CountingTokenizer(regex_bpe())
    content = unit * (60_000 // len(unit))
    cut(tokenizer, content)
    assert tokenizer.chars <= 3 * len(content)


def test_half_an_emoji_is_refused():
    with pytest.raises(Refused) as refused:
        cut(regex_bpe(), "moved \ud83d off")
    assert refused.value.code == "invalid_field"
