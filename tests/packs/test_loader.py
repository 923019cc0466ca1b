"""A file's every fault is told, with its place; what is right loads as it was written."""

import json
import time
import tracemalloc
from copy import deepcopy
from random import Random
from textwrap import dedent, indent
from typing import Any

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import load_pack, read_pack
from spinf_serve.packs.notes import MAX_FAULTS
from tests.support.packs import GOLDEN


def author(questions: str, rest: str = "") -> str:
    """A YAML pack around some questions, which begin in line 6."""
    return (
        'pack: demo/small\nversion: 1.0.0\ncontexts:\n  default: "{X}\\n"\n'
        f"scoring:\n  queries:\n{indent(dedent(questions), '    ')}{dedent(rest)}"
    )


ONE = author(
    """\
    - id: mood
      template: "\\nThe writer is{?}"
      options: [angry, calm]
      category: anger
    """
)


def faults(text: str | bytes, name: str = "p.yaml") -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(InvalidPack) as refused:
        read_pack(data, name)
    assert all(fault.file == name for fault in refused.value.faults)
    return [str(fault) for fault in refused.value.faults]


def json_faults(change) -> list[str]:
    """Faults of the golden pack after a change, by param and message."""
    file = deepcopy(dict(GOLDEN))
    change(file)
    with pytest.raises(InvalidPack) as refused:
        read_pack(json.dumps(file).encode(), "p.json")
    assert all(fault.line == 1 and fault.column >= 1 for fault in refused.value.faults)
    return [f"{fault.param}: {fault.message}" for fault in refused.value.faults]


def read(text: str, name: str = "p.yaml"):
    return read_pack(text.encode(), name)


def test_the_golden_pack_loads_and_its_lock_holds():
    pack = read(json.dumps(GOLDEN), "golden.json")
    assert (pack.id, pack.version, pack.group) == ("demo/support", "0.1.0", "demo/support@0.1.0")
    assert pack.answers == "logprob" and not pack.empty_floor and not pack.case_insensitive
    assert list(pack.contexts) == ["email", "chat"]
    assert pack.contexts["chat"].before == 'Chat line:\n"' and pack.contexts["chat"].after == '"\n'
    assert pack.parameters["shop"].default == "the shop" and not pack.parameters["shop"].required
    assert [prompt.text for prompt in pack.questions[1].prompts] == [
        "\nIt mentions a refund. True or false?",
        "\nIt mentions a bug. True or false?",
    ]
    assert {question.group for question in pack.questions} == {"demo/support@0.1.0"}
    assert [(read.id, read.kind, read.value) for read in pack.reads] == [
        ("angry", "pair", None),
        ("refund", "option", "a refund"),
        ("bill", "set", None),
        ("notbill", "any", None),
    ]
    assert pack.modes == ("per_category", "max", "micro_layer")
    (constants,) = pack.fitted.values()
    assert constants.max_threshold == 0.6
    assert constants.reads["bill"].mu == (-1.2, -1.1, -0.9)
    assert constants.categories["topic"].threshold is None
    assert constants.layer is not None and constants.layer.holds
    assert constants.layer.weights == (0.5, 0.25, 0.125, -0.25, 0.5)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file["reads"][0].update(sd=2.5),
        lambda file: file["reads"][0].update(mean=-1),
        lambda file: file["scoring"]["queries"][0].update(note="x"),
        lambda file: file["categories"]["topic"].update(platt=[1, 0.0]),
    ],
    ids=["sd", "-1 for -1.0", "a field more", "1 for 1.0"],
)
def test_the_lock_does_not_hold_after_a_change(change):
    file = deepcopy(dict(GOLDEN))
    change(file)
    pack = read(json.dumps(file), "golden.json")
    assert not pack.fitted["demo/model"].layer.holds


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file["categories"]["anger"].update(threshold=0.9, label="x"),
        lambda file: file["decision"].update(critical=[]),
        lambda file: file["contexts"].update(new="{X}"),
    ],
)
def test_what_is_not_locked_may_change(change):
    file = deepcopy(dict(GOLDEN))
    change(file)
    assert read(json.dumps(file), "golden.json").fitted["demo/model"].layer.holds


def test_unknown_fields_are_tolerated_in_json_and_refused_in_yaml():
    file = deepcopy(dict(GOLDEN))
    file |= {"homepage": "x", "license": {"spdx": "MIT"}, "tags": None}
    file["reads"][0]["note"] = file["categories"]["anger"]["note"] = {"any": 1}
    pack = read(json.dumps(file), "p.json")
    assert pack.body["homepage"] == "x" and pack.body["reads"][0]["note"] == {"any": 1}
    assert pack.license == ""
    assert faults(ONE.replace("options", "optins") + "homepage: x\n") == [
        "p.yaml:9:7: scoring.queries.0.optins: `optins` is not a field here; did you mean `options`?",
        (
            "p.yaml:11:1: homepage: `homepage` is not a field here; there is `pack`, `version`, `name`,"
            " `description`, `tags`, `license`, `model`, `media`, `answers`, `parameters`, `contexts`,"
            " `bands` and 9 more"
        ),
    ]


def test_a_field_in_the_wrong_place_is_told_where_it_belongs():
    assert faults(ONE + "case_insensitive: true\nunsafe: [a]\n") == [
        (
            "p.yaml:11:1: case_insensitive: `case_insensitive` is not a field here; it belongs into"
            " `scoring`"
        ),
        "p.yaml:12:1: unsafe: `unsafe` is not a field here; it belongs into `reads`",
    ]


def test_a_misspelt_field_that_is_needed_is_one_fault_in_either_form():
    def change(file):
        file["contexst"] = file.pop("contexts")

    assert json_faults(change) == [": `contexts` is missing; `contexst` is not a field"]
    assert [fault.split(": ")[1] for fault in faults(ONE.replace("contexts", "contexst"))] == [
        "contexst"
    ]


def test_all_faults_of_a_file_are_told_at_once():
    text = author(
        """\
        - id: one
          template: "no slot"
          options: [a, b]
          category: x
        - id: two
          template: "\\nt{?}"
          options: [a, a]
          categry: x
        - id: three
          template: "\\nt{?}"
          options: true
        """,
        """\
        categories: {x: {decides: yes}}
        route: {categories: [x, y]}
        bands: {decision: {act: 0.1, review: 0.2}}
        """,
    )
    assert [fault.split(" ")[0] for fault in faults(text)] == [
        "p.yaml:8:17:",
        "p.yaml:13:20:",
        "p.yaml:14:7:",
        "p.yaml:17:16:",
        "p.yaml:18:27:",
        "p.yaml:19:25:",
        "p.yaml:20:19:",
    ]


def test_a_long_list_of_faults_is_cut_short_and_says_so():
    told = faults(ONE + "".join(f"field{i}: 1\n" for i in range(MAX_FAULTS + 20)))
    assert len(told) == MAX_FAULTS + 1
    assert told[-1].endswith("and 20 more faults")


# T-H1, T-H2
def test_words_and_numbers_are_the_text_that_was_written():
    words = ["yes", "no", "on", "off", "1.10", "010", "1_000", "12:30", "2024-01-05", "null", "~"]
    text = author(
        f"""\
        - id: q
          template: "\\nAnswer:{{?}}"
          options: [{", ".join(words)}]
          category: x
          unsafe: [010]
        - id: grid
          template: "\\n{{F}} it is:{{?}}"
          options: yes/no
          for: {{F: [{", ".join(words)}]}}
          category: x
        """
    ).replace("version: 1.0.0", "version: 1.10")
    pack = read(text)
    assert pack.version == "1.10"
    assert pack.questions[0].options == tuple(f" {word}" for word in words)
    assert [prompt.values["F"] for prompt in pack.questions[1].prompts] == words
    assert pack.reads[0].unsafe == (5,)
    assert [read.value for read in pack.reads[1:]] == words


# T-H3
def test_a_key_twice_and_an_id_twice_name_both_lines():
    (twice,) = faults(ONE.replace("category: anger", "options: [a, b]"))
    assert twice.startswith("p.yaml:10:7: ") and "line 9" in twice
    again = '- id: mood\n  template: "\\nt{?}"\n  options: [a, b]\n  category: anger\n'
    assert faults(author(again + again)) == [
        (
            "p.yaml:11:11: scoring.queries.1.id: two questions have the id 'mood'; give one another id"
            " (the first stands in line 7)"
        )
    ]


# T-H4
@pytest.mark.parametrize("block", ["|", "|-", "|+", ">"])
def test_a_template_s_trailing_newline_is_dropped(block):
    text = author(
        f"""\
        - id: q
          template: {block}
            The writer is{{?}}
          options: [angry, calm]
          category: x
        """
    )
    assert read(text).questions[0].prompts[0].text == "The writer is"


# T-H7
def test_a_mark_at_the_start_and_windows_line_ends_are_read_and_a_tab_is_refused():
    same = read(ONE)
    marked = read_pack(b"\xef\xbb\xbf" + ONE.replace("\n", "\r\n").encode(), "p.yaml")
    assert (marked.questions, marked.reads, marked.contexts, marked.body) == (
        same.questions,
        same.reads,
        same.contexts,
        same.body,
    )
    (tab,) = faults(ONE.replace("      category", "\tcategory"))
    assert tab.startswith("p.yaml:10:1: ") and "tab" in tab
    assert read_pack(b"\xef\xbb\xbf" + json.dumps(GOLDEN).encode(), "p.json").id == "demo/support"


def test_what_is_no_text_gets_the_quoted_form():
    (fault,) = faults(ONE.replace('"\\nThe writer is{?}"', "[It is so]"))
    assert fault.endswith('in double quotes: "[It is so]"')
    assert json_faults(lambda file: file.update(version=1.5, pack=True)) == [
        'pack: is true; write it as text: "true"',
        'version: is the number 1.5; write it as text: "1.5"',
    ]


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "True", '"true"', "1"])
def test_a_flag_takes_true_and_false_only(word):
    (fault,) = faults(ONE + f"categories: {{anger: {{decides: {word}}}}}\n")
    assert "categories.anger.decides: " in fault and "write" in fault
    meant = {"yes": "write true", "on": "write true", "no": "write false", "off": "write false"}
    assert fault.endswith(meant.get(word, "write true or false, without quotes"))


@pytest.mark.parametrize("word", [".inf", ".nan", "0x10", "010", "1_0", '"1"', "1e999", "one"])
def test_a_number_is_a_finite_decimal(word):
    (fault,) = faults(ONE + f"categories: {{anger: {{threshold: {word}}}}}\n")
    assert "categories.anger.threshold: " in fault


def test_numbers_keep_their_form():
    fitted = """\
        fitted:
          m:
            reads: {mood: {mean: -1, sd: 2.0}}
            categories: {anger: {platt: [+1.5e0, 0], threshold: .5}}
        """
    constants = read(ONE + dedent(fitted)).fitted["m"]
    numbers = [constants.reads["mood"].mean, constants.reads["mood"].sd]
    numbers += [*constants.categories["anger"].platt, constants.categories["anger"].threshold]
    assert numbers == [-1, 2.0, 1.5, 0, 0.5]
    assert [type(number) for number in numbers] == [int, float, float, int, float]


def test_a_draft_has_no_constants():
    pack = read(ONE)
    assert pack.fitted == {} and pack.decision.mode == "per_category"
    stripped = deepcopy(dict(GOLDEN))
    for read_ in stripped["reads"]:
        for key in ("mean", "sd", "mu"):
            read_.pop(key, None)
    for category in stripped["categories"].values():
        for key in ("platt", "threshold", "normal_quantiles"):
            category.pop(key, None)
    stripped["decision"] = {"mode": "micro_layer"}
    del stripped["model"]
    draft = read(json.dumps(stripped), "p.json")
    assert draft.fitted == {} and draft.modes == ("per_category", "micro_layer")


FITTED = """\
    fitted:
      demo/one:
        reads: {mood: {mean: 0.5, sd: 1.5}}
        categories: {anger: {platt: [1.0, -0.5], threshold: 0.4}}
        proof: {model: 12e3, anything: [1, 2.5, "3", true, null, x]}
      demo/two:
        reads: {mood: {mean: 0.25, sd: 1.25}}
        categories: {anger: {platt: [2.0, -0.5]}}
        bands: {decision: {act: 0.8, review: 0.1}}
    """


def test_constants_stand_by_model():
    pack = read(ONE + dedent(FITTED) + "bands: {decision: {act: 0.9, review: 0.5}}\n")
    assert list(pack.fitted) == ["demo/one", "demo/two"]
    one, two = pack.fitted.values()
    assert one.reads["mood"].mean == 0.5 and one.categories["anger"].threshold == 0.4
    assert one.proof == {"model": "12e3", "anything": [1, 2.5, "3", True, None, "x"]}
    assert one.bands.decision.act == 0.9 and two.bands.decision.act == 0.8
    assert two.categories["anger"].threshold is None
    assert pack.constants(("DEMO/TWO",)) is two and pack.constants(("other",)) is None


def test_a_category_s_own_threshold_holds_where_a_model_has_none():
    pack = read(ONE + dedent(FITTED) + "categories: {anger: {threshold: 0.7}}\n")
    thresholds = [fit.categories["anger"].threshold for fit in pack.fitted.values()]
    assert thresholds == [0.4, 0.7]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{mood: {mean: 0.5, sd: 1.5}}", "{}", "demo/one.reads: lacks the read `mood`; fit again"),
        ("mood: {mean: 0.5", "mod: {mean: 0.5", "demo/one.reads.mod: the pack has no read 'mod'"),
        ("mean: 0.5, ", "", "fitted.demo/one.reads.mood: `mean` is missing"),
        ("sd: 1.5", "sd: 0", "demo/one.reads.mood.sd: is 0; a standard deviation is above 0"),
        ("sd: 1.5", "sd: 1.5, mu: 1", "mood.mu: a read of kind `pair` has no mu"),
        ("[1.0, -0.5]", "[1.0]", "anger.platt: has 1 numbers; write two"),
        ("[1.0, -0.5]", "[1.0, -0.5], beta: [1, 2]", "anger.beta: has 2 numbers; write three"),
        ("[1.0, -0.5]", "[1.0, -0.5], beta: [-0.1, 2, 3]", "anger.beta.0: is -0.1; a map that"),
        ("[1.0, -0.5]", "[1.0, -0.5], beta: [1, -2, 3]", "anger.beta.1: is -2; a map that rises"),
        (
            "[1.0, -0.5]",
            "[1.0, -0.5], beta: [1, 2, .nan]",
            "beta.2: is the text '.nan'; write a finite",
        ),
        ("[1.0, -0.5]", "[1.0, -0.5], beta: [1, 2, 1.0e7]", "anger.beta: is [1, 2, 10000000.0]"),
        ("threshold: 0.4", "threshold: 1.4", "anger.threshold: is 1.4; write a number between"),
        ("demo/two:", "DEMO/one:", "a second set of numbers for the model 'DEMO/one'"),
        ("act: 0.8", "act: 0.01", "act is 0.01 and below review, 0.1"),
        ("{anger: {platt: [2.0, -0.5]}}", "{}", "demo/two.categories: lacks the category `anger`"),
    ],
)
def test_a_model_s_constants_are_complete_and_in_range(old, new, told):
    text = ONE + dedent(FITTED)
    assert old in text
    assert any(told in fault for fault in faults(text.replace(old, new)))


def test_constants_that_no_longer_fit_can_be_left_out():
    text = (ONE + dedent(FITTED)).replace("id: mood", "id: temper")
    assert len(faults(text)) == 4
    assert read_pack(text.encode(), "p.yaml", fitted=False).fitted == {}
    changed = deepcopy(dict(GOLDEN))
    changed["reads"][2]["unsafe"], changed["reads"][2]["mu"] = [0, 1], [0.5]
    draft = read_pack(json.dumps(changed).encode(), "p.json", fitted=False)
    assert draft.fitted == {} and draft.reads[2].unsafe == (0, 1)
    assert "mu" not in draft.body["reads"][2]


def at(*path, value):
    """A change of the golden pack."""

    def change(file):
        for step in path[:-1]:
            file = file[step]
        if value is None:
            del file[path[-1]]
        else:
            file[path[-1]] = value

    return change


QUERIES = ("scoring", "queries")
LAYER = ("decision", "micro_layer")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (at("pack", value="Demo/x"), "pack: 'Demo/x' is no pack id"),
        (at("pack", value="demo"), "pack: 'demo' is no pack id"),
        (at("pack", value="demo/x\n"), "pack: 'demo/x\\n' is no pack id"),
        (at("pack", value="a/" + "b" * 130), "pack: `<id>@<version>` has 138 characters"),
        (at("version", value="-1"), "version: '-1' is no version"),
        (at("model", value=None), ": `model` is missing"),
        (at("media", value=["image"]), "media: `text` is not among them"),
        (at("media", value=["text", "text"]), "media: `text` is listed 2 times"),
        (at("media", value=["text", "smell"]), "media.1: is the text 'smell'"),
        (at("answers", value="logit"), "answers: is the text 'logit'; write 'p' or 'logprob'"),
        (at("parameters", "X", value={}), "parameters.X: 'X' cannot be a parameter"),
        (at("parameters", "1a", value={}), "parameters.1a: '1a' cannot be a parameter"),
        (at("parameters", "shop", "default", value=True), "parameters.shop.default: is true"),
        (at("contexts", value={}), "contexts: there is none"),
        (at("contexts", "chat", value="no content"), "contexts.chat: `{X}` is not in it"),
        (at("contexts", "chat", value="{X}{X}"), "contexts.chat: `{X}` stands in it 2 times"),
        (at("contexts", "chat", value="{shp}{X}"), "contexts.chat: `{shp}` is not declared"),
        (at("scoring", "extra", value=1), "scoring.extra: `extra` is not a field"),
        (at("scoring", "queries", value=[]), "scoring.queries: there is none"),
        (at(*QUERIES, 0, "group", value="g"), "queries.0.group: a pack's questions have no group"),
        (at(*QUERIES, 0, "options", value=[" a"]), "queries.0.options: there is one option"),
        (at(*QUERIES, 0, "options", value=[" a", " a"]), "queries.0.options.1: options 0"),
        (at(*QUERIES, 0, "options", value="yes/no"), "queries.0.options: is the text 'yes/no'"),
        (at(*QUERIES, 0, "max_tokens", value=4), "queries.0.max_tokens: max_tokens belongs to"),
        (
            at(*QUERIES, 0, "template", value="{n}"),
            "queries.0.template: a scored question has no slot",
        ),
        (at(*QUERIES, 1, "combinations", value=None), "queries.1.combinations: the template has"),
        (at(*QUERIES, 1, "combinations", 1, value={"G": "x"}), "queries.1.combinations.1"),
        (at(*QUERIES, 2, "id", value="angry"), "queries.2.id: two questions have the id 'angry'"),
        (at("reads", value=[]), "reads: there is none"),
        (at("reads", 1, "id", value="angry"), "reads.1.id: two reads have the id 'angry'"),
        (
            at("reads", 0, "query", value="angri"),
            "reads.0.query: there is no question 'angri'; did",
        ),
        (at("reads", 0, "category", value="x"), "reads.0.category: there is no category 'x'"),
        (at("reads", 0, "F", value="a"), "reads.0.F: the question 'angry' has no combinations"),
        (at("reads", 1, "F", value=None), "reads.1: `F` is missing: the question 'about' has the"),
        (at("reads", 1, "F", value="a refnd"), "reads.1.F: the question 'about' has no value"),
        (at("reads", 0, "kind", value="pairs"), "reads.0.kind: is the text 'pairs'"),
        (at("reads", 0, "sign", value=0), "reads.0.sign: is 0; write 1 or -1"),
        (at("reads", 0, "query", value="kind"), "reads.0.kind: `pair` compares two options"),
        (at("reads", 1, "option", value=None), "reads.1: `option` is missing"),
        (
            at("reads", 1, "option", value=2),
            "reads.1.option: is 2; the question has options 0 to 1",
        ),
        (at("reads", 1, "option", value=-1), "reads.1.option: is -1"),
        (at("reads", 1, "mu", value=[1.0, 2.0]), "reads.1.mu: has 2 numbers; a read of kind `opt"),
        (at("reads", 1, "mu", value=None), "reads.1: `mu` of the read 'refund' is missing"),
        (at("reads", 2, "mu", value=[1.0]), "reads.2.mu: has 1 numbers; a read of kind `set` has"),
        (at("reads", 2, "unsafe", value=[]), "reads.2.unsafe: lists 0 of 3 options"),
        (at("reads", 2, "unsafe", value=[0, 1, 2]), "reads.2.unsafe: lists 3 of 3 options"),
        (at("reads", 2, "unsafe", value=[0, 0]), "reads.2.unsafe: [0, 0] names an option twice"),
        (at("reads", 2, "unsafe", value=[3]), "reads.2.unsafe: is [3]"),
        (at("reads", 2, "unsafe", value=None), "reads.2: `unsafe` is missing"),
        (at("reads", 3, "sd", value=-1), "reads.3.sd: is -1; a standard deviation is above 0"),
        (at("reads", 3, "sd", value=5e-324), "reads.3.sd: is 5e-324; no fit gives less than 1e-06"),
        (at("reads", 3, "mean", value=-1e308), "reads.3.mean: holds -1e+308; no fit gives more"),
        (
            at("reads", 2, "mu", value=[0, 1e7, 0]),
            "reads.2.mu: holds 10000000.0; no fit gives more",
        ),
        (at("reads", 3, "mean", value=None), "reads.3: `mean` of the read 'notbill' is missing"),
        (at("reads", 3, "mean", value="0"), "reads.3.mean: is the text '0' where a number"),
        (at("categories", value={}), "categories: there is none"),
        (at("categories", "new", value={"platt": [1, 1], "threshold": None}), "categories.new: no"),
        (at("categories", "anger", "platt", value=None), "categories.anger: `platt` of the cat"),
        (at("categories", "anger", "platt", value=[1]), "categories.anger.platt: has 1 numbers"),
        (at("categories", "anger", "threshold", value=None), "categories.anger: `threshold` of"),
        (at("categories", "anger", "threshold", value=1.5), "categories.anger.threshold: is 1.5"),
        (
            at("categories", "money", "requires", value=["money"]),
            "money.requires.0: 'money' cannot",
        ),
        (
            at("categories", "money", "requires", value=["x"]),
            "requires.0: there is no category 'x'",
        ),
        (
            at("categories", "anger", "aggregate", value="views"),
            "anger.aggregate: is `views` but no",
        ),
        (
            at("categories", "anger", "normal_quantiles", "levels", value=[0, 1]),
            "anger.normal_quantiles: has 2 levels and 3 values",
        ),
        (
            at("categories", "anger", "normal_quantiles", "levels", value=[0, 0.5, 1.5]),
            "anger.normal_quantiles.levels.2: is 1.5; write a number between 0 and 1",
        ),
        (
            at("categories", "anger", "platt", value=[1.0, -1e7]),
            "anger.platt: is [1.0, -10000000.0]; no fit gives more than 1e+06",
        ),
        (
            at("categories", "anger", "normal_quantiles", "values", value=[0.5, 0.4, 0.9]),
            "anger.normal_quantiles.values.1: 0.4 stands behind 0.5",
        ),
        (
            at("categories", "anger", "normal_quantiles", "levels", value=None),
            "categories.anger.normal_quantiles: `levels` is missing",
        ),
        (at("decision", "mode", value="min"), "decision.mode: is the text 'min'"),
        (at("decision", "max", value={}), "decision: `max.threshold` is missing"),
        (at("decision", "max", "threshold", value=2), "decision.max.threshold: is 2"),
        (at("decision", "critical", value=["x"]), "decision.critical.0: there is no category 'x'"),
        (at("decision", "micro_layer", value=None), "decision.micro_layer: lacks `inputs`, `weigh"),
        (at(*LAYER, "inputs", 0, value="c:x"), "micro_layer.inputs.0: 'c:x' is neither"),
        (at(*LAYER, "inputs", value=[]), "micro_layer.inputs: there is none"),
        (at(*LAYER, "weights", value="AAAA"), "micro_layer.weights: has 3 bytes; 3 inputs and 0"),
        (at(*LAYER, "weights", value="A!"), "micro_layer.weights: is not base64"),
        (at(*LAYER, "weights", value="AADAfwAAgD4AAAA+AACAvgAAAD8="), "weights: holds a number"),
        (at(*LAYER, "hidden", value=2), "micro_layer.weights: has 20 bytes; 3 inputs and 2 hidden"),
        (at(*LAYER, "hidden", value=-1), "micro_layer.hidden: is -1"),
        (at(*LAYER, "dtype", value="float16"), "micro_layer.dtype: is the text 'float16'"),
        (at(*LAYER, "lock", value="sha256:12"), "micro_layer.lock: 'sha256:12' is no lock"),
        (at("bands", value={"categories": {"x": {"act": 1, "review": 0}}}), "bands.categories.x"),
        (
            at("bands", value={"decision": {"act": 0.1, "review": 0.2}}),
            "bands.decision: act is 0.1",
        ),
        (at("bands", value={"decision": {"act": 0.1}}), "bands.decision: `review` is missing"),
        (at("route", value={"categories": ["anger"]}), "route.categories: at least two"),
        (at("route", value={"categories": ["anger", "x"]}), "route.categories.1: there is no cat"),
        (at("route", value={"categories": ["anger", "anger"]}), "route.categories.1: 'anger' is"),
        (at("route", value={"categories": ["anger", "money"], "margin": 2}), "route.margin: is 2"),
        (
            at("route", value={"categories": ["anger", "money"], "abstain": "money"}),
            "route.abstain: 'money' must be a name that is none of the categories",
        ),
        (at("on_long", value="cut"), "on_long: is the text 'cut'; write 'refuse'"),
        (at("on_long", value={"chunk": "min"}), "on_long.chunk: is the text 'min'"),
        (
            at("fitted", value={"DEMO/model": {"reads": {}, "categories": {}}}),
            "fitted.DEMO/model: a second set of numbers",
        ),
    ],
)
def test_every_rule_of_the_format_is_held(change, told):
    found = json_faults(change)
    assert any(told in fault for fault in found), found
    # One mistake is not told as many.
    assert len(found) == 1, found


def test_a_read_s_value_must_stand_once():
    def change(file):
        file["scoring"]["queries"][1] |= {
            "template": "\n{F} {G}{?}",
            "combinations": "all",
            "values": {"F": ["a refund"], "G": ["x", "y"]},
        }

    (fault,) = json_faults(change)
    assert fault.startswith("reads.1.F: 2 filled templates of 'about' have this value")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"pack": NaN}', "p.json:1:10: NaN is no number"),
        ('{"a": "NaN",\n "pack": -Infinity}', "p.json:2:10: -Infinity is no number"),
        ('{"pack": 1e999}', "p.json:1:10: 1e999 is too large"),
        ("1" * 5000, "p.json:1:1: 1111"),
        ('{"pack": "a/b",\n "pack": "c/d"}', "p.json:2:2: the key `pack` stands twice"),
        ('{"pack": ', "p.json:1:10: not JSON"),
        ('{"n": "' + " " * (1 << 20) + '", "a": 1, "a": 2}', "p.json: the key `a` stands twice"),
        ("", "p.json:1:1: not JSON"),
        ("[]", "p.json:1:1: the file is a list; a pack is a mapping"),
        ("null", "p.json:1:1: the file is null"),
        ("[" * 100_000, "p.json: nested deeper than 32 levels"),
        ('{"a":' * 40 + "1" + "}" * 40, "p.json: nested deeper than 32 levels"),
        ("[" + "0," * 300_000 + "0]", "p.json: more than 100,000 values"),
        (b"\xff\xfe{\x00", "p.json: the file is UTF-16"),
        (b'{"a": "\xff"}', "p.json:1:8: byte 0xff is not UTF-8"),
        (b'"' + b" " * (16 << 20) + b'"', "p.json: the file has"),
        ('{"pack": "\\ud800"}', "p.json: the escape \\ud800 is half of"),
        ('{"\\ud83d\\ude00": 1}', "p.json:1:1: `pack` is missing"),
    ],
)
def test_hostile_json_is_refused_with_a_sentence(text, told):
    found = faults(text, "p.json")
    assert any(fault.startswith(told) for fault in found), found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda file: file.update(reads=[1] * 90_000), "90,000 fields are unknown, missing or of"),
        (lambda file: file["scoring"]["queries"].extend([{}] * 5000), "`id` is missing"),
        (lambda file: file["decision"].update(critical=["x" * 99] * 4_000), "no category 'xxx"),
    ],
)
def test_very_many_faults_take_little_memory(change, told):
    file = deepcopy(dict(GOLDEN))
    change(file)
    tracemalloc.start()
    found = faults(json.dumps(file), "p.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told in found[0] and len(found) <= MAX_FAULTS + 1
    assert peak < 100 << 20


def test_a_large_file_takes_little_memory_and_time():
    file = json.dumps({**GOLDEN, "note": ["x" * 1000] * 15_000}).encode()
    assert len(file) > 14 << 20
    tracemalloc.start()
    began = time.perf_counter()
    pack = read_pack(file, "p.json")
    seconds = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pack.id == "demo/support"
    assert seconds < 30 and peak < 160 << 20


def test_too_many_filled_templates_are_refused_before_they_fill_the_memory():
    grid = [{"F": f"value {i}"} for i in range(1000)]

    def change(file):
        file["scoring"]["queries"] += [
            {"id": f"q{i}", "template": "\n{F}{?}", "options": [" a", " b"], "combinations": grid}
            for i in range(12)
        ]

    found = json_faults(change)
    assert any("have 10,004 filled templates; a pack may have 10,000" in one for one in found)


def test_a_missing_file_and_an_unknown_suffix_are_told(tmp_path):
    with pytest.raises(Unusable, match="cannot be read: No such file"):
        load_pack(tmp_path / "none.yaml")
    assert faults("x", "pack.toml") == [
        "pack.toml: the name of a pack's file ends in .json, .yaml, .yml"
    ]
    (tmp_path / "p.YML").write_text(ONE, "utf-8")
    assert load_pack(tmp_path / "p.YML").id == "demo/small"


def places(value, path=()):
    """Every path below a value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in entries:
        yield (*path, step)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, step))


@pytest.mark.parametrize("name", ["p.json", "p.yaml"])
def test_whatever_is_broken_is_refused_with_a_sentence(name):
    random = Random(7)
    junk: list[Any] = [
        None,
        True,
        -1,
        1.5,
        "",
        "x",
        "all",
        "{X}",
        [],
        {},
        [[]],
        [None],
        {"F": "x"},
        {"a": 1},
    ]
    refused = 0
    for _ in range(60):
        file = deepcopy(dict(GOLDEN)) | {"bands": {"decision": {"act": 0.9, "review": 0.1}}}
        for _ in range(random.choice([1, 2, 4])):
            path = random.choice(list(places(file)))
            holder = file
            for step in path[:-1]:
                holder = holder[step]
            if random.random() < 0.3:
                del holder[path[-1]]
            elif random.random() < 0.3 and isinstance(holder, dict):
                holder[f"{path[-1]}s"] = holder.pop(path[-1])
            else:
                holder[path[-1]] = deepcopy(random.choice(junk))
        try:
            read_pack(json.dumps(file).encode(), name)
        except InvalidPack as error:
            refused += 1
            assert error.faults and all(fault.message for fault in error.faults)
    assert refused > 40


def test_commas_and_brackets_inside_texts_are_no_values():
    file = {**GOLDEN, "description": ",[{" * 50_000 + '\\"'}
    assert read(json.dumps(file), "p.json").description.startswith(",[{,")


def test_very_many_wrong_names_are_told_soon():
    def change(file):
        read = file["reads"][0]
        names = [f"a category called {i}" for i in range(1000)]
        file["categories"] = dict.fromkeys(names, next(iter(file["categories"].values())))
        file["reads"] = [
            {**read, "id": str(i), "category": f"a kategory called {i}"} for i in range(1000)
        ]

    since = time.process_time()
    found = json_faults(change)
    assert time.process_time() - since < 3
    assert "did you mean `a category called 0`?" in found[0]
    assert len(found) == MAX_FAULTS + 1


def test_long_names_are_cut_short():
    def change(file):
        file["reads"][0]["category"] = "n" * 5000
        file["categories"]["m" * 5000] = {}

    found = json_faults(change)
    assert any(f"there is no category '{'n' * 64}…'" in fault for fault in found)
    assert max(map(len, found)) < 1000


def test_a_key_that_stands_thousands_of_times_is_told_soon():
    since = time.process_time()
    assert faults("{" + '"pack": 1,' * 90_000 + '"a": 1}', "p.json") == [
        "p.json: the key `pack` stands twice in one object"
    ]
    assert time.process_time() - since < 2
