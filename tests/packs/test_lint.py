"""Lint: each rule finds what it should and leaves a sound pack alone; waivers are honoured."""

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.lint import asked, instructions, lint
from spinf_serve.packs.lint_rules import (
    RULES,
    Limits,
    context_braces,
    idle_requirements,
    reordered,
    skeleton,
)
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.question import Prompt
from tests.support.packs import golden, made

HEAD = 'pack: demo/lint\nversion: 1.0.0\ncontexts:\n  default: "{X}\\n"\nscoring:\n  queries:\n'
TAIL = "categories: {c: {}}\n"
SOUND = '    - {id: sound, template: "\\nIs it?{?}", options: [good, bad], category: c}\n'

Logprobs = Callable[[str, str, int], Sequence[float]]
"""Question, filled template, number of the content (-1 for none) -> logprobs of the options."""


def yaml(*queries: str, tail: str = TAIL) -> bytes:
    return (HEAD + SOUND + "".join(f"    - {query}\n" for query in queries) + tail).encode()


def answers(pack, contents: int, logprobs: Logprobs):
    """What a model says that is given by a function."""
    rows = []
    for content in range(contents):
        row = []
        for question in asked(pack):
            prompts = []
            for prompt in question.prompts:
                here, floor = (
                    list(logprobs(question.id, prompt.text, at))[: len(question.options)]
                    for at in (content, -1)
                )
                options = [
                    OptionAnswer(text, l, p, fp, fl)
                    for text, l, p, fp, fl in zip(
                        question.options, here, softmax(here), softmax(floor), floor, strict=True
                    )
                ]
                rest = [max(0.0, 1 - sum(map(math.exp, each))) for each in (here, floor)]
                prompts.append(PromptAnswer(prompt.values, tuple(options), *rest))
            row.append(QuestionAnswer(question.id, tuple(prompts), True))
        rows.append(row)
    return rows


def softmax(logs: Sequence[float]) -> list[float]:
    total = sum(map(math.exp, logs))
    return [math.exp(one) / total for one in logs]


def lively(question: str, prompt: str, content: int) -> list[float]:
    """Answers of a model that finds no fault: each content and question another one."""
    dice = Random(f"{prompt} {content}")
    shares = [1 + dice.random() for _ in range(12)]
    return [math.log(share / 10) for share in shares]


def but(special: Mapping[str, Logprobs]) -> Logprobs:
    def said(question: str, prompt: str, content: int) -> Sequence[float]:
        return special.get(question, lively)(question, prompt, content)

    return said


def words(text: str) -> list[int]:
    """A token a word, pieces of eight letters of longer words."""
    pieces = []
    for word in text.replace("\n", " \n").split(" "):
        pieces += [word[at : at + 8] for at in range(0, max(1, len(word)), 8)]
    return [hash(piece) for piece in pieces]


def report(data: bytes, said: Logprobs = lively, contents: int = 24, tokens=words):
    pack = read_pack(data, "pack.yaml")
    rows = answers(pack, contents, said)
    return lint(pack, instructions(data, "pack.yaml"), Limits(), rows, tokens)


def found(data: bytes, said: Logprobs = lively, **more) -> list[tuple[str, str]]:
    return [(one.rule, one.on) for one in report(data, said, **more).findings]


def test_a_sound_pack_has_no_finding():
    said = report(yaml())
    assert (said.findings, said.waived, said.skipped) == ((), (), {})


QUERY = '{id: q, template: "\\nSo{?}", options: [up, down], category: c}'


@pytest.mark.parametrize(
    ("rule", "query", "said"),
    [
        ("floor_skewed", QUERY, lambda q, p, n: [math.log(0.9), math.log(0.01)] if n < 0 else lively(q, p, n)),
        ("residual_high", QUERY, lambda q, p, n: [one - 2.5 for one in lively(q, p, n)]),
        ("flat", QUERY, lambda q, p, n: [-1.0, -1.1 + n / 1e4]),
        ("template_space", QUERY.replace("So{?}", "So {?}"), lively),
        ("template_space", QUERY.replace("So{?}", "So\\u00a0{?}"), lively),
        ("options_alike", QUERY.replace("up, down", "coop, сoop"), lively),
        ("options_alike", QUERY.replace("up, down", '"a b", "a  b"'), lively),
        ("options_alike", QUERY.replace("up, down", "down up, down up now"), lively),
        ("option_tokens", QUERY.replace("up, down", "up, downwards"), lively),
        ("no_rest_option", "{id: q, template: \"\\nSo{?}\", options: [a, b, c], category: c, unsafe: [a]}", lively),
        (
            "order_sensitive",
            QUERY.replace("So{?}", "Up or down?{?}"),
            lambda q, p, n: [-0.1, -3.0 - n / 9] if p.endswith("Up or down?") else [-3.0 - n / 9, -0.1],
        ),
        (
            "negation",
            QUERY.replace("category: c", "category: c, sign: -1, negates: sound"),
            lambda q, p, n: [-0.1 - (n % 3) / 9, -3.0],
        ),
        ("duplicate_like", QUERY, lambda q, p, n: [1.2 * one for one in lively("sound", "\nIs it?", n)]),
    ],
)  # fmt: skip
def test_each_rule_finds_its_fault_and_no_other(rule, query, said):
    special = {"q": said, "lint/reordered/1": said}
    if rule == "negation":
        special["sound"] = lambda q, p, n: [-0.2 - (n % 5) / 9, -2.5]
    assert found(yaml(query), but(special)) == [(rule, "q")]


def test_an_opposite_counts_as_a_duplicate():
    opposite = lambda q, p, n: [-one for one in lively("sound", "\nIs it?", n)]
    said = report(yaml(QUERY), but({"q": opposite}))
    duplicate = next(one for one in said.findings if one.rule == "duplicate_like")
    assert duplicate.message.startswith("q and sound correlate by -1.000 over 24 contents")


def test_two_options_of_one_question_are_no_duplicates():
    query = '{id: q, template: "\\nSo{?}", options: [a, b, other], categories: {a: c, b: c}}'

    def seesaw(question: str, prompt: str, content: int) -> list[float]:
        share = 0.3 + 0.2 * Random(content).random()
        return [math.log(share), math.log(0.8 - share), math.log(0.01)]

    assert found(yaml(query), but({"q": seesaw})) == []


@pytest.mark.parametrize("word", ["other", "None", "neither", "okay", "otra", "기타"])
def test_a_rest_option_is_known_by_its_word(word):
    query = f'{{id: q, template: "\\nSo{{?}}", options: [a, b, {word}], category: c, unsafe: [a]}}'
    assert found(yaml(query)) == []


def test_a_denial_that_adds_up_is_no_finding():
    query = QUERY.replace("category: c", "category: c, sign: -1, negates: sound")

    def denied(question: str, prompt: str, content: int) -> list[float]:
        stated = lively("sound", "\nIs it?", content)
        return [stated[1], stated[0] + 0.3 * Random(content).random()]

    assert found(yaml(query), but({"q": denied}), contents=10) == []


def test_a_denial_of_other_values_cannot_be_compared():
    grid = '{id: g, template: "\\n{F}?{?}", options: yes/no, for: {F: [a, b]}, category: c}'
    denial = QUERY.replace("category: c", "category: c, negates: g")
    said = report(yaml(grid, denial))
    assert [one.rule for one in said.findings] == ["negation"]
    assert said.findings[0].message.startswith("cannot be compared with g")


def test_the_worst_value_of_a_grid_is_named_with_the_count():
    grid = '{id: g, template: "\\n{F}?{?}", options: yes/no, for: {F: [a, b, c]}, category: c}'

    def poor(question: str, prompt: str, content: int) -> list[float]:
        mass = {"\na?": 1, "\nb?": 0.01, "\nc?": 0.05}[prompt]
        return [one + math.log(mass) for one in lively(question, prompt, content)]

    said = report(yaml(grid), but({"g": poor}))
    assert [one.rule for one in said.findings] == ["residual_high"]
    assert "for F = b and 1 more of 3 (limit 0.9)" in said.findings[0].message


def test_floors_are_asked_for_and_lists_turned_around():
    data = yaml('{id: q, template: "\\nTrue or false?{?}", options: true/false, category: c}')
    pack = read_pack(data.replace(b"scoring:\n", b"scoring:\n  empty_floor: false\n"), "pack.yaml")
    own, other, turned = asked(pack)
    assert own.empty_floor and other.empty_floor
    assert [prompt.text for prompt in turned.prompts] == ["\nFalse or true?"]
    assert turned.options == other.options


@pytest.mark.parametrize(
    ("text", "options", "turned"),
    [
        ("Is it a, b or c?", [" a", " b", " c"], "Is it c, b or a?"),
        ("True or false. True or false?", [" true", " false"], "True or false. False or true?"),
        ("(New York / New)", [" New", " New York"], "(New / New York)"),
        ("1. up\n2. down\n", ["up", "down"], "1. down\n2. up\n"),
        ("Is it good?", [" good", " bad"], None),
        ("good things are never ever really bad", [" good", " bad"], None),
        ("goods or badly", [" good", " bad"], None),
    ],
)
def test_lists_are_found_and_turned_around(text, options, turned):
    made = reordered(Prompt(text), options)
    assert (None if made is None else made.text) == turned


def test_lookalikes_have_one_skeleton():
    assert skeleton("Сору") == skeleton("Copy ") == skeleton("co\u200bpy") == skeleton("ｃｏｐｙ")
    assert skeleton("Il") == skeleton("l1")
    assert skeleton("cat") != skeleton("cut")


def test_few_contents_and_no_tokens_leave_rules_out_and_say_so():
    said = report(yaml(QUERY.replace("up, down", "up, upwards")), contents=3, tokens=None)
    assert [one.rule for one in said.findings] == ["options_alike"]
    assert set(said.skipped) == {"flat", "duplicate_like", "option_tokens"}


def waived(*waivers: str) -> bytes:
    listed = ", ".join(waivers)
    return yaml(QUERY.replace("So{?}", "So {?}"), tail=TAIL + f"lint: {{waive: [{listed}]}}\n")


def test_a_waiver_accepts_its_finding_and_keeps_the_reason():
    for on in ("q", '"*"'):
        said = report(waived(f"{{rule: template_space, on: {on}, reason: so it is}}"))
        assert said.findings == ()
        assert [(one.rule, one.on, waiver.reason) for one, waiver in said.waived] == [
            ("template_space", "q", "so it is")
        ]


@pytest.mark.parametrize(
    ("rule", "on", "message"),
    [
        ("flat", "q", "flat finds nothing there"),
        ("template_space", "sound", "template_space finds nothing there"),
        ("template_spaces", "q", "no rule 'template_spaces'; did you mean `template_space`?"),
        ("template_space", "qq", "there is no question 'qq'"),
    ],
)
def test_a_waiver_that_accepts_nothing_is_a_finding(rule, on, message):
    said = report(waived(f"{{rule: {rule}, on: {on}, reason: none}}"))
    unused = [one for one in said.findings if one.rule == "waiver_unused"]
    assert len(unused) == 1
    assert message in unused[0].message
    assert unused[0].on == on


def test_a_waiver_of_a_rule_that_was_not_looked_at_is_no_finding():
    data = waived("{rule: template_space, on: q, reason: a}", "{rule: flat, on: q, reason: b}")
    assert report(data, contents=2).findings == ()


def test_every_rule_has_a_remedy_and_findings_carry_it():
    finding = report(waived()).findings[0]
    assert finding.remedy == RULES["template_space"].remedy
    assert all(rule.finds and rule.remedy for rule in RULES.values())


def test_a_json_file_says_nothing_to_lint():
    assert instructions(b'{"lint": {"waive": 1}}', "pack.json").waivers == ()


def golden_with(**changes) -> list[tuple[str, str]]:
    pack, _ = made(golden(**changes))
    rules = [*context_braces(pack), *idle_requirements(pack)]
    return [(finding.rule, finding.on) for finding in rules]


def test_a_brace_that_is_no_parameter_is_found():
    assert golden_with() == []
    for template in ('To {shop}: "{X}" {sho', "{{{X}}}", 'To {shop }: "{X}"'):
        assert golden_with(contexts={"email": template}) == [("context_brace", "email")]


def test_a_requirement_that_nothing_meets_is_found():
    assert golden_with(categories__money__requires=["topic"]) == [("requires_idle", "money")]
    circle = golden_with(
        categories__anger__requires=["money"], categories__money__requires=["anger"]
    )
    assert circle == [("requires_idle", "anger"), ("requires_idle", "money")]
