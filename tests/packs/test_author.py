"""What an author writes in few words is the plain pack that was meant."""

from textwrap import dedent, indent

import pytest

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack


def pack_of(questions: str, rest: str = "", scoring: str = "", contexts: str = '"{X}\\n"'):
    text = (
        f"pack: demo/small\nversion: 1.0.0\ncontexts: {{default: {contexts}}}\n"
        f"scoring:\n  queries:\n{indent(dedent(questions), '    ')}{scoring}{dedent(rest)}"
    )
    return read_pack(text.encode(), "p.yaml")


def told(questions: str, rest: str = "", scoring: str = "", **more: str) -> list[str]:
    with pytest.raises(InvalidPack) as refused:
        pack_of(questions, rest, scoring, **more)
    return [str(fault).removeprefix("p.yaml:") for fault in refused.value.faults]


def options_of(template: str, options: str, more: str = ""):
    pack = pack_of(
        f"""\
        - id: q
          template: {template}
          options: {options}
          category: x
          {more}
        """
    )
    return pack.questions[0].options


@pytest.mark.parametrize(
    ("template", "options", "expected"),
    [
        ('"\\nIt is:{?}"', "[yes, no]", (" yes", " no")),
        ('"\\nIt is:{?}"', "yes/no", (" yes", " no")),
        ('"\\nIt is:{?}"', "true/false", (" true", " false")),
        ('"\\nIt is: {?}"', "[yes, no]", ("yes", "no")),
        ('"\\nIt is:\\n{?}"', "true/false", ("true", "false")),
        ('"\\nIt is \\"{?}"', "[yes, no]", ("yes", "no")),
        ('"\\nSaid \\"so\\", it is{?}"', "[yes, no]", (" yes", " no")),
        ('"\\nThe word \\"so\\"{?}"', "[yes, no]", (" yes", " no")),
        ('"\\nIt is (\'{?}"', "[yes, no]", ("yes", "no")),
        ('"\\nThe writers\'{?}"', "[yes, no]", (" yes", " no")),
        ('"\\nIt is “{?}"', "[yes, no]", ("yes", "no")),
        ('"\\nIt is ({?}"', "[yes, no]", ("yes", "no")),
        ('"\\nIt is:{?}"', '[" yes", "\\tno"]', (" yes", "\tno")),
        ('"\\nIt is:{?}"', '[yes, " no"]', (" yes", " no")),
        ('"{?}"', "[yes, no]", (" yes", " no")),
    ],
)
def test_options_get_the_space_of_running_text(template, options, expected):
    assert options_of(template, options) == expected


def test_exact_options_stay_as_they_are():
    assert options_of('"\\nIt is:{?}"', "[yes, no]", "exact_options: true") == ("yes", "no")
    assert options_of('"\\nIt is:{?}"', "yes/no", "exact_options: true") == ("yes", "no")


def grid(values: str) -> str:
    return f"""\
        - id: q
          template: "\\nIt is {{F}}{{?}}"
          options: [a, b]
          for: {{F: [{values}]}}
          category: x
        """


def test_a_template_that_ends_in_a_value_takes_the_space_that_its_values_need():
    assert pack_of(grid("red, blue")).questions[0].options == (" a", " b")
    assert pack_of(grid('"red: ", "blue: "')).questions[0].options == ("a", "b")
    (fault,) = told(grid('red, "blue: "'))
    assert fault.startswith(
        "7:17: scoring.queries.0.template: some filled templates end in a space"
    )


@pytest.mark.parametrize(
    ("options", "scoring", "expected"),
    [
        ("[yes, no]", "", True),
        ("[May, may]", "", False),
        ("[yes, no]", "  case_insensitive: false\n", False),
    ],
)
def test_case_counts_only_where_options_differ_by_nothing_else(options, scoring, expected):
    question = f'- {{id: q, template: "\\nt:{{?}}", options: {options}, category: x}}\n'
    pack = pack_of(question, scoring=scoring)
    assert pack.case_insensitive is expected
    assert pack.body["scoring"]["case_insensitive"] is expected
    assert pack.questions[0].case_insensitive is expected


def test_case_that_was_asked_for_is_not_overruled():
    question = '- {id: q, template: "\\nt:{?}", options: [May, may], category: x}\n'
    (fault,) = told(question, scoring="  case_insensitive: true\n")
    assert "options 0 (' May') and 1 (' may') are the same" in fault


def test_a_grid_makes_every_combination_the_last_name_fastest():
    pack = pack_of(
        """\
        - id: q
          template: "\\n{A} before {B}?{?}"
          options: yes/no
          for: {B: [tea, bed], A: [noon, dusk]}
        - {id: r, template: "\\nt{?}", options: yes/no, category: x}
        """
    )
    assert [prompt.text for prompt in pack.questions[0].prompts] == [
        "\nnoon before tea?",
        "\nnoon before bed?",
        "\ndusk before tea?",
        "\ndusk before bed?",
    ]
    query = pack.body["scoring"]["queries"][0]
    assert query["combinations"] == "all" and "for" not in query


def shown(pack) -> list[tuple[object, ...]]:
    return [
        (read.id, read.query, read.value, read.kind, read.category, read.sign, read.unsafe)
        for read in pack.reads
    ]


def test_reads_are_made_from_the_short_forms():
    pack = pack_of(
        """\
        - {id: pair, template: "\\na{?}", options: [a, b], category: x, view: v}
        - {id: turned, template: "\\nb{?}", options: [a, b], category: x, sign: -1}
        - id: grid
          template: "\\n{F}{?}"
          options: yes/no
          for: {F: [p, q]}
          category: y
        - id: each
          template: "\\n{F}?{?}"
          options: yes/no
          combinations: [{F: p}, {F: q}, {F: r}]
          category: {p: x, r: z}
        - {id: some, template: "\\nc{?}", options: [a, b, c], category: z, unsafe: [c, " a"]}
        - {id: kind, template: "\\nd{?}", options: [a b, c, d], categories: {a b: x, d: w}}
        """,
        """\
        reads:
          - {id: own, query: kind, kind: any, category: z}
        """,
    )
    assert shown(pack) == [
        ("own", "kind", None, "any", "z", 1, ()),
        ("pair", "pair", None, "pair", "x", 1, ()),
        ("turned", "turned", None, "pair", "x", -1, ()),
        ("grid/p", "grid", "p", "pair", "y", 1, ()),
        ("grid/q", "grid", "q", "pair", "y", 1, ()),
        ("each/p", "each", "p", "pair", "x", 1, ()),
        ("each/r", "each", "r", "pair", "z", 1, ()),
        ("some", "some", None, "set", "z", 1, (2, 0)),
        ("kind/a b", "kind", None, "set", "x", 1, (0,)),
        ("kind/d", "kind", None, "set", "w", 1, (2,)),
    ]
    assert pack.reads[1].view == "v"
    assert list(pack.categories) == ["z", "x", "y", "w"]
    assert pack.decision.mode == "per_category"


TWO = '- {{id: q, template: "\\nt{{?}}", options: [a, b], {0}}}\n'
THREE = '- {{id: q, template: "\\nt{{?}}", options: [a, b, c], {0}}}\n'
GRID = '- {{id: q, template: "\\n{{F}}{{?}}", options: [a, b], for: {{F: [p, q]}}, {0}}}\n'


@pytest.mark.parametrize(
    ("form", "fields", "expected"),
    [
        (THREE, "category: x", "category: the question has 3 options; list those that speak"),
        (THREE, "category: x, unsafe: [d]", "unsafe.0: there is no option 'd'; there is `a`"),
        (THREE, "category: x, unsafe: [a, b, c]", "unsafe: lists 3 of 3 options"),
        (THREE, "category: x, unsafe: [a], sign: -1", "sign: is for two options"),
        (THREE, "categories: {d: x}", "categories.d: there is no option 'd'"),
        (THREE, "categories: {a: x}, category: y", "categories: stands beside `category`"),
        (THREE, "categories: {a: x}, unsafe: [a]", "unsafe: makes no read without `category`"),
        (TWO, "category: x, unsafe: [a]", "unsafe: is for three or more options"),
        (TWO, "category: {a: x}", "category: is a mapping from values of `F` to categories"),
        (TWO, "category: x, sign: 2", "sign: is 2; write 1 or -1"),
        (TWO, "sign: -1", "sign: makes no read without `category`"),
        (TWO, "view: v", "view: makes no read without `category`"),
        (TWO, "category: [x]", "category: is a list; write a text or a mapping"),
        (GRID, "category: {r: x}", "category.r: `F` has no value 'r'; there is `p`, `q`"),
        (GRID, "categories: {a: x}", "categories: is for a question without values of `F`"),
        (GRID, "category: x, values: {F: [p]}", "for: stands beside `combinations` or `values`"),
    ],
)
def test_short_forms_that_contradict_themselves_are_refused(form, fields, expected):
    found = told(form.format(fields), "categories: {x: {}, y: {}}\n")
    assert any(f"scoring.queries.0.{expected}" in fault for fault in found), found


def test_a_category_that_is_not_listed_is_a_fault_at_the_word():
    question = '- id: q\n  template: "\\nt{?}"\n  options: [a, b]\n  category: angr\n'
    assert told(
        question + question.replace("id: q", "id: r").replace("angr", "anger"),
        "categories: {anger: {}}\n",
    ) == ["9:17: scoring.queries.0.category: there is no category 'angr'; did you mean `anger`?"]


def test_faults_of_what_was_made_stand_where_it_was_written():
    long = "x" * 300
    (fault,) = told(
        f'- {{id: q, template: "\\n{{F}}?{{?}}", options: [a, b], for: {{F: [p, {long}]}}, category: x}}\n'
    )
    assert fault.startswith("6:68: scoring.queries.0.for.F.1: values.F.1 has 300 characters")


def test_reads_need_a_placeholder_named_f():
    (fault,) = told(
        '- {id: q, template: "\\n{G}?{?}", options: [a, b], for: {G: [p, q]}, category: x}\n'
    )
    assert "category: the question has combinations but no placeholder `F`" in fault


def test_a_question_negates_another_one_of_the_pack():
    form = '- {{id: q, template: "\\nt{{?}}", options: [a, b], category: x, negates: {0}}}\n'
    assert "there is no question 'p'" in told(form.format("p"))[0]
    assert "cannot deny itself" in told(form.format("q"))[0]
    assert "there is no question 'null'" in told(form.format("null"))[0]


def test_lint_s_instructions_are_not_exported():
    pack = pack_of(
        '- {id: q, template: "\\nt{?}", options: [a, b], category: x, negates: p}\n'
        '- {id: p, template: "\\ns{?}", options: [a, b], category: x}\n',
        "lint: {waive: [{rule: floor, on: q, reason: meant}]}\n",
    )
    assert "lint" not in pack.body
    assert "negates" not in pack.body["scoring"]["queries"][0]


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        (
            "Is {F} so?",
            "",
            (
                "7:17: scoring.queries.0.template: has `{F}` and no values for it; write `for: {F: "
                "[first, second]}` below"
            ),
        ),
        (
            "Is {F} so?",
            "for: {G: [a]}",
            (
                "10:12: scoring.queries.0.for: has no values for `{F}` (it has `{G}`, which the template "
                "lacks); write `for: {F: [first, second]}`"
            ),
        ),
        (
            "Is {F} so?",
            "for: {F: [a], G: [b]}",
            (
                "10:24: scoring.queries.0.for.G: the template has no `{G}`; write it there, or remove "
                "these values"
            ),
        ),
        (
            "Is it so?",
            "for: {G: [b]}",
            (
                "10:16: scoring.queries.0.for.G: the template has no `{G}`; write it there, or remove "
                "these values"
            ),
        ),
        (
            "Is {F} so?",
            "for: [a, b]",
            (
                "10:12: scoring.queries.0.for: is a list; write a mapping of keys to values, placeholder "
                "and values: `for: {F: [first, second]}`"
            ),
        ),
    ],
)
def test_placeholders_and_their_values_are_told_once_in_the_short_form(template, values, expected):
    question = f"""\
        - id: q
          template: "{template}{{?}}"
          options: yes/no
          category: {{a: x, b: x}}
          {values}
        """
    assert told(question) == [expected]


def test_a_misspelt_field_of_a_question_is_the_only_fault():
    question = """\
        - id: q
          template: "So?{?}"
          options: yes/no
          categry: spam
        """
    (fault,) = told(question, "categories: {spam: {}}")
    assert "did you mean `category`?" in fault


def test_a_category_that_no_question_names_is_told_how():
    question = """\
        - id: q
          template: "So?{?}"
          options: yes/no
          category: ham
        """
    (fault,) = told(question, "categories: {ham: {}, spam: {}}")
    assert "no read counts for 'spam'; write `category: spam` in a question" in fault


def test_a_line_break_in_single_quotes_is_a_fault():
    question = """\
        - id: q
          template: TEMPLATE
          options: yes/no
          category: spam
        """
    (fault,) = told(question.replace("TEMPLATE", "'\\nSo?{?}'"))
    assert "template: begins with a backslash and an n" in fault
    assert "put the text in double quotes" in fault
    (fault,) = told(question.replace("TEMPLATE", "So?{?}"), "", "", contexts="'{X}\\n'")
    assert "contexts.default: ends with a backslash and an n" in fault
    # Inside a text it may be meant.
    assert pack_of(question.replace("TEMPLATE", "'Is a \\n in it?{?}'"))
