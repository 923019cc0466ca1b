import time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from spinf_serve.engine.text.cut import EMPTY_CUT, LONGEST_TAIL_CHARS, cut
from spinf_serve.engine.text.joins import (
    PromptTokens,
    compile_prompt,
    compile_prompts,
    join,
    join_anew,
    joins_cleanly,
)
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.packs.errors import Refused
from tests.support.join_rule import common, paths_of, spellings_of
from tests.support.texts import options as option_lists
from tests.support.texts import texts
from tests.support.toy_tokenizers import (
    ByteTokenizer,
    crossing_bpe,
    regex_bpe,
    sentencepiece_bpe,
)

PROVING = [
    ByteTokenizer(),
    regex_bpe(with_bos=True),
    regex_bpe(with_bos=True, compose=True),
    sentencepiece_bpe(),
]
ALL = [*PROVING, crossing_bpe()]
PROMPTS = st.one_of(
    st.sampled_from(
        [
            "\n\nNext the driver decided to",
            "\nAnswer:",
            "\nAnswer: ",
            " Answer:\n",
            "",
            "word",
            "\n\n今天可以退货吗？",
        ]
    ),
    texts(6),
)
LONG = 1000
"""Tokens allowed in an option where its length is not the subject."""


def joined(
    tokenizer: Tokenizer, content: str, text: str, options: list[str], case: bool = False
) -> PromptTokens:
    compiled = compile_prompts(tokenizer, [text], options, case, LONG)
    return join(tokenizer, cut(tokenizer, content), [text], compiled, options, case, LONG)[0]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PROVING), texts(), PROMPTS, option_lists())
@example(regex_bpe(with_bos=True), "moved off", "", ["s", " go"])
@example(regex_bpe(with_bos=True), "moved off", "\n", ["\n"])
@example(regex_bpe(with_bos=True), "", "\n", ["\n"])
@example(regex_bpe(with_bos=True), "moved off ", "Answer: ", ["Yes", " No"])
@example(sentencepiece_bpe(), "believ", "", ["able"])
def test_a_prompt_behind_a_content_is_tokenised_as_one_text(tokenizer, content, text, options):
    made = cut(tokenizer, content)
    assume(len(made.tail) <= LONGEST_TAIL_CHARS)
    path, option_paths = paths_of(tokenizer, content + text, options)
    assume(len(set(option_paths)) == len(options))
    prompt = joined(tokenizer, content, text, options)
    assert made.trunk + prompt.path == path
    assert [paths for [paths] in prompt.options] == option_paths


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL), texts(), PROMPTS, option_lists(), st.booleans())
@example(regex_bpe(with_bos=True), "moved off", "\n", ["\n"], True)
def test_the_cheap_join_is_the_general_one(tokenizer, content, text, options, case):
    made = cut(tokenizer, content)
    assume(joins_cleanly(tokenizer, made, text))
    try:
        compiled = compile_prompts(tokenizer, [text], options, case, LONG)
    except Refused as refused:
        assert refused.code == "duplicate_option"
        assume(False)
    cheap = join(tokenizer, made, [text], compiled, options, case, LONG)
    assert cheap == join_anew(tokenizer, made, [text], compiled, options, case, LONG)
    assert cheap[0].path == made.stem + compiled[0].path


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL), PROMPTS, option_lists())
@example(regex_bpe(with_bos=True), "\nAnswer: ", ["Yes", "No"])
@example(regex_bpe(with_bos=True), "\nAnswer: ", [" yes", " no", "ing"])
@example(regex_bpe(with_bos=True), "\nAnswer:", [" yes", " no", "YES "])
def test_spellings_are_those_of_the_rule(tokenizer, text, options):
    assume(len({option.strip().casefold() for option in options}) == len(options))
    wanted = spellings_of(tokenizer, text, options)
    assume(len({paths[0] for paths in wanted}) == len(options))
    prompt = compile_prompt(tokenizer, text, options, True, LONG)
    assert [list(paths) for paths in prompt.options] == wanted


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(ALL), texts(6), PROMPTS, option_lists(), option_lists(max_size=1))
@example(regex_bpe(with_bos=True), "moved off.", "\nAnswer: ", [" yes", " no"], ["ing"])
@example(regex_bpe(with_bos=True), "moved off.", "\nlo", [" s", " yes"], ["wer"])
@example(regex_bpe(with_bos=True), "moved off.", "\nAnswer:", [" yes", " no"], [" Yes"])
@example(sentencepiece_bpe(), "moved off.", "\nAnswer: ", [" yes", " no"], ["go"])
@example(crossing_bpe(), "moved off.", "the", ["s"], [" go"])
def test_another_option_changes_no_spelling_but_the_one_it_is(
    tokenizer, content, text, options, another
):
    try:
        without = joined(tokenizer, content, text, options, case=True)
        beside = joined(tokenizer, content, text, options + another, case=True)
    except Refused as refused:
        assert refused.code == "duplicate_option"
        return
    claimed = beside.path + beside.options[-1][0]
    for before, after in zip(without.options, beside.options[:-1], strict=True):
        whole = [without.path + path for path in before]
        assert [beside.path + path for path in after] == [p for p in whole if p != claimed]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL), texts(), PROMPTS, option_lists(), st.booleans())
def test_no_option_is_empty_or_lost_and_no_path_counts_twice(
    tokenizer, content, text, options, case
):
    try:
        prompt = joined(tokenizer, content, text, options, case)
    except Refused as refused:
        assert refused.code == "duplicate_option"
        return
    assert len(prompt.options) == len(options)
    flat = [path for paths in prompt.options for path in paths]
    assert all(flat)
    assert len(set(flat)) == len(flat)
    assert prompt.path or not cut(tokenizer, content).trunk


@settings(deadline=None)
@given(st.sampled_from(ALL), st.lists(PROMPTS, max_size=5), option_lists(), st.booleans())
def test_prompts_compiled_together_are_as_alone(tokenizer, prompts, options, case):
    try:
        alone = [compile_prompt(tokenizer, text, options, case, LONG) for text in prompts]
    except Refused:
        with pytest.raises(Refused):
            compile_prompts(tokenizer, prompts, options, case, LONG)
        return
    assert compile_prompts(tokenizer, prompts, options, case, LONG) == alone


@settings(deadline=None)
@given(st.sampled_from(ALL), texts(), PROMPTS, option_lists())
def test_usage_counts_the_template_alone(tokenizer, content, text, options):
    extra = sum(len(tokenizer.encode(option)) - 1 for option in options)
    try:
        prompt = joined(tokenizer, content, text, options)
    except Refused:
        return
    assert prompt.template_tokens == len(tokenizer.encode(text))
    assert prompt.query_tokens == prompt.template_tokens + extra


def test_a_prefix_option_changes_nothing_for_the_others():
    # T-A1: " go" is a prefix of " going" in letters and of " go ahead" in tokens.
    text = "\n\nNext the driver decided to"
    content = "The light changed and the lorry moved off."
    tokenizer = regex_bpe()
    two = joined(tokenizer, content, text, [" go", " going"])
    three = joined(tokenizer, content, text, [" go", " going", " go ahead"])
    assert three.path == two.path
    assert three.options[:2] == two.options
    assert three.options[2][0][: len(three.options[0][0])] == three.options[0][0]


def test_a_trailing_space_in_the_template_reads_the_same_tokens_first():
    # T-A2: as given and by case, both ways of writing it ask for the same tokens at the same place.
    tokenizer = regex_bpe()
    tight = joined(tokenizer, "moved off.", "\nAnswer:", [" Yes", " No"], case=True)
    loose = joined(tokenizer, "moved off.", "\nAnswer: ", ["Yes", "No"], case=True)
    assert loose.path == tight.path
    for of_tight, of_loose in zip(tight.options, loose.options, strict=True):
        assert of_loose[0] == of_tight[0]
        spaced = {path for path in of_tight if tokenizer.token_bytes(path[0]).startswith(b" ")}
        assert spaced <= set(of_loose)


def test_no_leading_space_is_forced_and_shared_endings_stay_apart():
    # T-A3
    tokenizer = regex_bpe()
    content, text = "店员说今天不能退货。", "\n\n今天可以退货吗？"
    prompt = joined(tokenizer, content, text, ["可以", "不可以"])
    read = [b"".join(map(tokenizer.token_bytes, prompt.path + path)) for [path] in prompt.options]
    assert [text.decode() for text in read] == [
        (content + "\n\n今天可以退货吗？" + option)[-len(text.decode()) :]
        for text, option in zip(read, ["可以", "不可以"], strict=True)
    ]


def test_options_that_differ_in_outer_space_only_are_three_when_case_matters():
    # T-A4
    prompt = joined(regex_bpe(), "off.", "\nTeam:", ["Billing", "Billing ", "billing"])
    assert len({paths for paths in prompt.options}) == 3


def test_options_that_share_their_first_token_keep_their_own_paths():
    # T-A9
    options = [f" north {word}" for word in ("gate", "door", "word", "light", "lorry")]
    options += [f" south {word}" for word in ("gate", "door", "word", "light", "lorry")]
    prompt = joined(regex_bpe(), "off.", "\nIt is the", options)
    turned = joined(regex_bpe(), "off.", "\nIt is the", options[::-1])
    assert len({path for [path] in prompt.options}) == 10
    assert prompt.options[0][0][0] == prompt.options[4][0][0]
    assert turned.options == prompt.options[::-1]
    assert turned.path == prompt.path


@pytest.mark.parametrize("options", [["İptal", "iptal"], ["ı", "I"], ["STRASSE", "Gasse"]])
def test_folding_traps_lose_no_option(options):
    # T-A10
    prompt = joined(ByteTokenizer(), "off.", "\nSay:", options, case=True)
    given_paths = [paths[0] for paths in prompt.options]
    assert given_paths == [tuple(option.encode()) for option in options]


def test_two_ways_to_write_an_accent_are_one_option_to_a_composing_tokenizer():
    composing = regex_bpe(compose=True)
    with pytest.raises(Refused) as refused:
        compile_prompt(composing, "\nSay:", ["caf\u00e9", "cafe\u0301"], False, LONG)
    assert (refused.value.code, refused.value.param) == ("duplicate_option", "options.1")
    plain = compile_prompt(regex_bpe(), "\nSay:", ["caf\u00e9", "cafe\u0301"], False, LONG)
    assert plain.options[0] != plain.options[1]


def test_a_bare_slot_reads_behind_the_content():
    tokenizer = regex_bpe()
    compiled = compile_prompt(tokenizer, "", [" go"], False, LONG)
    assert (compiled.path, compiled.template_tokens) == ((), 0)
    made = cut(tokenizer, "moved off.")
    prompt = joined(tokenizer, "moved off.", "", [" go"])
    assert made.trunk + prompt.path == tuple(tokenizer.encode("moved off."))
    [floor] = join(tokenizer, EMPTY_CUT, [""], [compiled], [" go"], False, LONG)
    assert floor.path == ()


def test_an_option_that_merges_with_the_content_moves_the_path_back():
    tokenizer = regex_bpe()
    prompt = joined(tokenizer, "a word", "", ["s", " go"])
    words, word = tokenizer.encode(" words"), tokenizer.encode(" word")
    assert common(words, word) == 0
    assert prompt.path == tuple(tokenizer.encode("a"))
    assert prompt.options == ((tuple(words),), ((*word, *tokenizer.encode(" go")),))


def test_without_bos_a_text_that_merges_as_a_whole_is_read_apart():
    tokenizer = regex_bpe(with_bos=False)
    [word], [s] = tokenizer.encode(" word"), tokenizer.encode("s")
    prompt = joined(tokenizer, "", " word", ["s", " go"])
    assert prompt.path == (word,)
    assert prompt.options[0] == ((s,),)
    assert not prompt.merged
    with_bos = joined(regex_bpe(with_bos=True), "", " word", ["s", " go"])
    assert with_bos.merged and with_bos.path == ()


class TableTokenizer(ByteTokenizer):
    """Bytes, but for the texts of a table; proves nothing."""

    def __init__(self, table: dict[str, list[int]]) -> None:
        super().__init__()
        self._table = table

    def encode(self, text: str) -> list[int]:
        return self._table.get(text) or super().encode(text)

    def breaks_before(self, char: str) -> bool:
        return False


def test_an_option_that_vanishes_in_the_join_moves_the_path_back():
    tokenizer = TableTokenizer({"Say: ": [1, 2], "Say:  ": [1, 2], "Say: x": [1, 2, 3]})
    prompt = compile_prompt(tokenizer, "Say: ", [" ", "x"], False, LONG)
    assert prompt.path == (1,)
    assert prompt.options == (((2,),), ((2, 3),))


def test_a_spelling_that_would_move_the_path_does_not_count():
    table = {"ab": [1, 2], "abX": [1, 3], "abx": [4, 5], "x": [7], "X": [6]}
    prompt = compile_prompt(TableTokenizer(table), "ab", ["X"], True, LONG)
    assert prompt.path == (1,)
    assert (4, 5)[1:] not in prompt.options[0]
    assert prompt.options[0][0] == (3,)


def test_single_read_needs_every_spelling_in_one_token():
    tokenizer = regex_bpe()
    assert compile_prompt(tokenizer, "\nAnswer:", [" yes", " no"], True, LONG).single_read
    assert not compile_prompt(tokenizer, "\nAnswer:", [" yes", " go ahead"], True, LONG).single_read


def test_an_option_that_is_too_long_is_named():
    with pytest.raises(Refused) as refused:
        compile_prompt(regex_bpe(), "\nAnswer:", [" yes", " zebra zebra"], True, 5)
    assert (refused.value.code, refused.value.param) == ("option_too_long", "options.1")


def test_many_prompts_share_the_work_on_their_options():
    options = [f" word{number}" for number in range(200)]
    prompts = [f"\nIs {number} a gate? Answer:" for number in range(500)]
    started = time.perf_counter()
    compiled = compile_prompts(regex_bpe(), prompts, options, True, LONG)
    assert time.perf_counter() - started < 20
    assert len({id(prompt.options) for prompt in compiled}) == 1
