"""Questions compiled together: each refusal names the question and the field it is about."""

from dataclasses import replace

import pytest

from spinf_serve.engine.scoring.job import compile_job
from spinf_serve.engine.scoring.question_set import Compiler
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Prompt, Question
from tests.support.toy_tokenizers import ByteTokenizer

LACKED = "\x1d"


class Lacking(ByteTokenizer):
    """Has no token for one character, and counts it from 1 in the text that it is given."""

    def encode(self, text: str) -> list[int]:
        if LACKED in text:
            place = text.index(LACKED) + 1
            raise Refused("invalid_field", f"no token for character {place}")
        return super().encode(text)


def question(*texts: str | dict[str, str], options: tuple[str, ...] = (" yes", " no")) -> Question:
    """A question of plain templates (texts) or filled ones (text and values in one mapping)."""
    prompts = [
        Prompt(text) if isinstance(text, str) else Prompt(" ".join(text.values()), text)
        for text in texts
    ]
    return Question("q", tuple(prompts), options)


def refusal(*questions: Question, limits: Limits | None = None, content: str = "x") -> Refused:
    tokenizer = Lacking()
    limits = limits or Limits()
    compiler = Compiler(tokenizer, limits)
    with pytest.raises(Refused) as caught:
        compile_job(Work(content, questions), compiler, tokenizer, limits, 1000)
    return caught.value


GOOD = question("\nLate? Answer:")


@pytest.mark.parametrize(
    ("bad", "field", "place"),
    [
        (question(f"\nIs it so {LACKED} now? Answer:"), "template", 11),
        (question(f"\nIs it so now? Answer: {LACKED}"), "template", 24),
        (question({"A": "a b"}, {"A": f"b c {LACKED}"}), "combinations.1", 5),
        (question("\nLate?", options=(" yes", f" no {LACKED}")), "options.1", 5),
    ],
)
@pytest.mark.parametrize("before", [(), (GOOD,), (GOOD, GOOD, question("x", options=("a",)))])
def test_a_character_without_a_token_is_found_in_its_field(bad, field, place, before):
    refused = refusal(*before, bad, GOOD)
    assert (refused.code, refused.param) == ("invalid_field", f"questions.{len(before)}.{field}")
    assert refused.message == f"no token for character {place}"


@pytest.mark.parametrize("content", [f"It came late {LACKED}.", f"{LACKED} It"])
def test_in_a_content_the_place_counts_from_its_beginning(content):
    refused = refusal(GOOD, content=content)
    assert refused.message == f"no token for character {content.index(LACKED) + 1}"


def test_options_that_questions_share_are_refused_at_the_first_of_them():
    long = question("\nLate?", options=(" yes", " certainly not"))
    refused = refusal(GOOD, long, long, limits=Limits(max_option_tokens=4))
    assert (refused.code, refused.param) == ("option_too_long", "questions.1.options.1")
    assert "more than the 4 allowed (max_option_tokens)" in refused.message


def test_a_template_that_is_too_long_is_named_by_its_field():
    limits = Limits(max_query_tokens=8)
    assert refusal(GOOD, limits=limits).param == "questions.0.template"
    filled = question({"A": "b"}, {"A": "a long value"})
    assert refusal(filled, limits=limits).param == "questions.0.combinations.1"


def test_labels_of_any_length_do_not_lay_out_gigabytes():
    labels = tuple(f"{letter * 6_000}" for letter in "abc")
    long = replace(question("\nWhich?", options=labels), any_option_length=True)
    refused = refusal(GOOD, long)
    assert (refused.code, refused.param) == ("request_too_large", "questions")
    assert "behind up to 6007 tokens" in refused.message
    assert refusal(GOOD, replace(long, options=("a" * 2_000, "b" * 2_000))).code == (
        "content_too_long"
    )


def test_many_options_behind_a_long_template_do_not_lay_out_gigabytes():
    options = tuple(f" {letter}{n:03}" for letter in "abcdefghij" for n in range(100))
    many = question(*[{"A": f"w{n}"} for n in range(300)], options=options)
    limits = Limits(max_query_tokens=10_000)
    refused = refusal(many, question("x" * 300), limits=limits)
    assert (refused.code, refused.param) == ("request_too_large", "questions")
