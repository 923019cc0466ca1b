"""A tokenizer.json gives the same tokenizer as a GGUF file with the same vocabulary, as literal."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, Split

from spinf_serve.engine.loading.borders import LLAMA3_PATTERN, SPACES
from spinf_serve.engine.loading.bpe_tokenizer import BpeTokenizer
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.loading.json_tokenizer import tokenizer_from_folder
from spinf_serve.packs.errors import Unusable
from tests.support.gguf_files import (
    Vocabulary,
    learned_byte_level,
    learned_sentence_pieces,
    write_tokenizer,
)
from tests.support.model_folders import edit_json, tokenizer_json, write_json
from tests.support.texts import texts

_GPT2 = ByteLevel(add_prefix_space=False, use_regex=True)
_LLAMA3 = [Split(Regex(LLAMA3_PATTERN), "isolated"), ByteLevel(False, use_regex=False)]
_PIECES = (*"▁etaoinsrhldcu.:<>店", "▁t", "he", "▁the", "in", "▁▁", "st", "ar", ".▁", "</")
NAMES = ["gpt-2", "smollm", "llama-bpe", "pieces"]


@pytest.fixture(scope="module")
def vocabularies() -> dict[str, Vocabulary]:
    return {
        "gpt-2": learned_byte_level([_GPT2], added=["<table>", "\n\n"]),
        "smollm": learned_byte_level([Digits(individual_digits=True), _GPT2]),
        "llama-bpe": learned_byte_level(_LLAMA3),
        "pieces": learned_sentence_pieces(_PIECES, ["\n", "\n\n", "  ", "<b>"]),
    }


@pytest.fixture(scope="module")
def folders(vocabularies, tmp_path_factory) -> dict[str, Path]:
    made = {}
    for name, vocabulary in vocabularies.items():
        made[name] = tmp_path_factory.mktemp(name)
        write_json(made[name] / "tokenizer.json", tokenizer_json(vocabulary, name))
    return made


@pytest.fixture(scope="module")
def pairs(vocabularies, folders) -> dict[str, tuple[BpeTokenizer, BpeTokenizer]]:
    made = {}
    for name, vocabulary in vocabularies.items():
        pre = "default" if name == "pieces" else name
        path = write_tokenizer(folders[name] / "t.gguf", vocabulary, pre=pre)
        made[name] = (
            tokenizer_from_folder(folders[name]),
            tokenizer_from_gguf(read_gguf(path)),
        )
    return made


@pytest.fixture(scope="module")
def composing(vocabularies, tmp_path_factory) -> BpeTokenizer:
    folder = tmp_path_factory.mktemp("composing")
    nfc = {"type": "NFC"}
    return tokenizer_from_folder(save(folder, vocabularies["gpt-2"], "gpt-2", normalizer=nfc))


@pytest.mark.parametrize("name", NAMES)
@given(text=texts())
def test_both_sources_give_the_same_tokens(pairs, name, text):
    from_json, from_gguf = pairs[name]
    assert from_json.encode_with_ends(text) == from_gguf.encode_with_ends(text)


@pytest.mark.parametrize("name", NAMES)
def test_both_sources_say_the_same_of_tokens_and_borders(pairs, name):
    from_json, from_gguf = pairs[name]
    assert from_json.vocab_size == from_gguf.vocab_size
    assert from_json.control_ids == from_gguf.control_ids
    for number in range(from_json.vocab_size):
        assert from_json.token_bytes(number) == from_gguf.token_bytes(number)
    for space in SPACES:
        assert from_json.breaks_before(space) is from_gguf.breaks_before(space)
    assert any(map(from_json.breaks_before, SPACES))


@pytest.mark.parametrize("name", NAMES)
def test_control_tokens_are_text_where_the_file_itself_would_obey_them(folders, pairs, name):
    text = "x<|im_start|>y" if name != "pieces" else "x<start_of_turn>y"
    tokenizer, _ = pairs[name]
    as_published = Tokenizer.from_file(str(folders[name] / "tokenizer.json"))
    assert tokenizer.control_ids.intersection(as_published.encode(text).ids)
    ids = tokenizer.encode(text)
    assert not tokenizer.control_ids.intersection(ids)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()


def test_nothing_is_cut_off(pairs):
    tokenizer, _ = pairs["gpt-2"]
    assert len(tokenizer.encode("zebra " * 100)) > 400


def save(folder: Path, vocabulary: Vocabulary, pre: str, **changes) -> Path:
    values = tokenizer_json(vocabulary, pre, bos=changes.pop("bos", None))
    write_json(folder / "tokenizer.json", {**values, **changes})
    return folder


@pytest.mark.parametrize(
    ("first", "config", "expected"),
    [
        (None, {}, None),
        ("<|im_start|>", {}, 1),
        ("<|im_start|>", {"add_bos_token": True}, 1),
        ("<|im_start|>", {"add_bos_token": False}, None),
        (None, {"add_bos_token": True, "bos_token": "<|endoftext|>"}, 0),
        (None, {"add_bos_token": True, "bos_token": {"content": "<|im_start|>"}}, 1),
        (None, {"bos_token": "<|im_start|>"}, None),
    ],
)
def test_bos_is_what_the_files_put_before_a_text(tmp_path, vocabularies, first, config, expected):
    folder = save(tmp_path, vocabularies["smollm"], "smollm", bos=first)
    write_json(folder / "tokenizer_config.json", config)
    assert tokenizer_from_folder(folder).bos_id == expected


def test_bos_may_be_named_by_the_other_configs(tmp_path, vocabularies):
    folder = save(tmp_path, vocabularies["smollm"], "smollm")
    write_json(folder / "tokenizer_config.json", {"add_bos_token": True})
    with pytest.raises(Unusable, match="add_bos_token is set, but no file says which"):
        tokenizer_from_folder(folder)
    write_json(folder / "config.json", {"bos_token_id": 1})
    assert tokenizer_from_folder(folder).bos_id == 1
    write_json(folder / "generation_config.json", {"bos_token_id": 0})
    assert tokenizer_from_folder(folder).bos_id == 0
    edit_json(folder / "tokenizer_config.json", bos_token="<gone>")
    with pytest.raises(Unusable, match="the vocabulary lacks the token '<gone>'"):
        tokenizer_from_folder(folder)


def test_a_normaliser_takes_all_claims_of_borders_away(tmp_path, vocabularies):
    folder = save(tmp_path, vocabularies["gpt-2"], "gpt-2", normalizer={"type": "NFC"})
    tokenizer = tokenizer_from_folder(folder)
    assert not any(map(tokenizer.breaks_before, SPACES))
    assert tokenizer.encode("e\u0301") == tokenizer.encode("é")
    ids, ends = tokenizer.encode_with_ends("ae\u0301b")
    assert ids == tokenizer.encode("aéb")
    assert ends == [1, *[3] * len(tokenizer.encode("é")), 4]


@given(text=texts())
def test_ends_behind_a_normaliser_cover_the_text(composing, text):
    ids, ends = composing.encode_with_ends(text)
    assert ids == composing.encode(text)
    assert ends == sorted(ends) and ends[-1:] == [len(text)] * bool(ids)
    # A token border between two ends is one in the text too.
    for end in sorted(set(ends)):
        count = sum(other <= end for other in ends)
        head = b"".join(map(composing.token_bytes, ids[:count])).decode()
        assert head == unicodedata.normalize("NFC", text)[: len(head)]


def test_an_unknown_pattern_is_run_but_claims_nothing(tmp_path, vocabularies):
    steps = [
        {"type": "Split", "pattern": {"Regex": r"\S\s|."}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ]
    pre = {"type": "Sequence", "pretokenizers": steps}
    folder = save(tmp_path, vocabularies["gpt-2"], "gpt-2", pre_tokenizer=pre)
    tokenizer = tokenizer_from_folder(folder)
    assert not any(map(tokenizer.breaks_before, SPACES))
    assert tokenizer.encode("a b")


def test_a_space_put_before_every_text_takes_all_claims_away(tmp_path, vocabularies):
    pre = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    folder = save(tmp_path, vocabularies["gpt-2"], "gpt-2", pre_tokenizer=pre)
    tokenizer = tokenizer_from_folder(folder)
    assert not any(map(tokenizer.breaks_before, SPACES))
    ids, ends = tokenizer.encode_with_ends("ab")
    assert tokenizer.token_bytes(ids[0]).startswith(b" ") and ends[-1] == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "Unigram"}}, "tokenizers of type Unigram are not supported"),
        ({"model": None}, "tokenizers of type None are not supported"),
        ({"model": {"type": "BPE", "vocab": [1]}}, r"model\.vocab should give each token its id"),
        ({"added_tokens": [{"id": 1}]}, "added_tokens should list tokens with content and id"),
        ({"pre_tokenizer": None}, "neither byte-level nor has byte fallback"),
        ({"pre_tokenizer": {"type": "ByteLevel", "nonsense": 1}}, "not a readable tokenizer"),
    ],
)
def test_what_cannot_be_made_exact_is_refused(tmp_path, vocabularies, changes, message):
    folder = save(tmp_path, vocabularies["gpt-2"], "gpt-2", **changes)
    with pytest.raises(Unusable, match=message):
        tokenizer_from_folder(folder)


def test_a_folder_without_the_file_says_what_to_do(tmp_path):
    with pytest.raises(Unusable, match=r"tokenizer\.json is missing; .*fetch them again"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(Unusable, match=r"tokenizer\.model alone is not supported; convert it"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(Unusable, match=r"tokenizer\.json: not valid JSON"):
        tokenizer_from_folder(tmp_path)
