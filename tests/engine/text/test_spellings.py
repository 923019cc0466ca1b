import pytest

from spinf_serve.engine.text.spellings import spell
from spinf_serve.packs.errors import Refused
from tests.support.toy_tokenizers import ByteTokenizer, regex_bpe

BPE = regex_bpe()


def others(option: str, case_insensitive: bool = True) -> set[str]:
    [more] = spell(BPE, [option], case_insensitive, 5).others
    return {spelling.text for spelling in more}


def test_case_and_leading_space_vary():
    wanted = {"yes", "Yes", "YES", " yes", " Yes", " YES"}
    for option in [" yes", "Yes", "yEs", " YES\n"]:
        assert others(option) == wanted - {option}


def test_only_the_first_letter_is_capital():
    cased = {"GO ahead", "go ahead", "Go ahead", "GO AHEAD"}
    assert others("GO ahead") == (cased | {" " + text for text in cased}) - {
        "GO ahead",
        " GO ahead",
    }


def test_every_spelling_comes_with_its_own_tokens():
    [more] = spell(BPE, [" going ahead"], True, 5).others
    assert len(more) == 5
    assert all(spelling.tokens == tuple(BPE.encode(spelling.text)) for spelling in more)


def test_a_multi_token_option_stays_as_given():
    spelled = spell(BPE, [" go ahead"], True, 5)
    assert [spelling.text for spelling in spelled.given] == [" go ahead"]
    assert spelled.given[0].tokens == tuple(BPE.encode(" go ahead"))
    assert len(spelled.given[0].tokens) > 1


def test_no_other_spelling_when_case_matters_or_nothing_is_left():
    assert others(" yes", case_insensitive=False) == set()
    assert others("\n") == set()


@pytest.mark.parametrize("option", ["İptal", "iptal", "STRASSE", "straße", "ß", "ı", "可以", "ﬁ"])
def test_folding_traps_are_spelled_without_loss(option):
    spelled = spell(ByteTokenizer(), [option], True, 16)
    assert spelled.given[0].text == option


def test_a_single_letter_has_every_case():
    assert others("a") >= {"A"}
    assert {text.strip().lower() for text in others("a")} == {"a"}


def test_usage_counts_each_options_tokens_but_one():
    options = [" yes", " go ahead", "zebra"]
    wanted = sum(len(BPE.encode(option)) - 1 for option in options)
    assert wanted > 0
    assert spell(BPE, options, True, 5).extra_tokens == wanted


def test_an_option_of_too_many_tokens_is_refused_by_place():
    with pytest.raises(Refused) as refused:
        spell(ByteTokenizer(), ["a", "abcdef"], False, 5)
    assert (refused.value.code, refused.value.param) == ("option_too_long", "options.1")
    assert "'abcdef' has 6 tokens, more than the 5" in refused.value.message


def test_an_option_that_is_no_token_is_refused():
    class Deaf(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return super().encode(text.replace("\u200b", ""))

    with pytest.raises(Refused) as refused:
        spell(Deaf(), ["a", "\u200b"], False, 5)
    assert (refused.value.code, refused.value.param) == ("invalid_field", "options.1")
