import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.evals.compare import compare
from spinf_serve.evals.gate import Outcome, hold, not_worse, parse_rule, verdict
from spinf_serve.evals.judged import Measured, Refusal, Slice
from spinf_serve.evals.measuring import Known, measured
from spinf_serve.evals.metrics.probability import reliability
from spinf_serve.evals.reports.charts import histogram_chart, noise_band, reliability_chart
from spinf_serve.evals.reports.html import html
from spinf_serve.evals.reports.junit import junit
from spinf_serve.evals.reports.markdown import escaped, markdown
from spinf_serve.evals.reports.terminal import lines
from spinf_serve.evals.reports.told import MOST_LISTED, figure, listed
from spinf_serve.evals.volumes import volumes
from tests.support.evaluations import drawn, evaluation, judged, lifts

ODD = "<b>&\"'|`*_[x](y) @team \x00\x07\x1b\ud800\ufffe 😀 ]]>"
RENDERED = (junit, markdown, html)


def odd_case():
    """A regression whose ids are markup, control characters and emoji."""
    rows = [f"{ODD}{index}" for index in range(40)]
    before = judged([True] * 40, [True] * 40, rows=rows, target=ODD)
    now = judged([True] * 40, [True] * 25 + [False] * 15, rows=rows, target=ODD)
    one = evaluation(now, refused=[Refusal(f"{ODD}no", "content_too_long")])
    report = replace(
        one.targets[0],
        lifts=lifts(30, 1),
        notes=(ODD,),
        confusion={"tp": 25, "fp": 0, "fn": 15, "tn": 0},
        ece_noise=0.1,
        slices=(Slice("language", ODD, 7, {"accuracy": Measured(0.5, 0.2, 0.8, 7, 3)}, "small"),),
    )
    one = replace(one, targets=(report,), notes=(ODD,))
    pair = compare(before, now)
    return one, verdict(not_worse([pair])), (pair,)


def test_junit_is_valid_xml_whatever_the_ids_hold():
    one, found, _ = odd_case()
    text = junit(one, found)
    root = ElementTree.fromstring(text.encode())
    suite = root[0]
    cases = suite.findall("testcase")
    assert len(cases) == len(found.outcomes) == int(suite.attrib["tests"])
    failure = cases[0].find("failure")
    assert failure is not None and failure.text is not None
    assert "<b>&\"'|`*_[x](y) @team \\x00\\x07\\x1b\\ud800\\ufffe 😀 ]]>39" in failure.text
    assert cases[0].attrib["classname"].startswith("demo/shop@1.2.0.<b>&")


@settings(max_examples=200)
@given(st.text(st.characters(), max_size=30))
def test_any_text_is_written_as_valid_xml_and_utf_8(text):
    one = evaluation(judged([True] * 30, [True] * 30, target=text))
    found = verdict([Outcome(text, text, "regression", text, (text,))])
    root = ElementTree.fromstring(junit(one, found).encode())
    assert len(root.findall("testsuite/testcase/failure")) == 1
    for rendered in (markdown(one, found), html(one, found)):
        assert rendered.encode()


@pytest.mark.parametrize(
    ("word", "failures", "errors"),
    [
        ("pass", 0, 0),
        ("regression", 1, 0),
        ("cannot judge", 0, 1),
        ("stale fingerprint", 0, 1),
        ("error", 0, 1),
    ],
)
def test_junit_agrees_with_the_exit_code(word, failures, errors):
    found = verdict([Outcome("a rule", "angry", word, "seen")])
    root = ElementTree.fromstring(junit(evaluation(drawn(30, 0)), found))
    for place in (root, root[0]):
        assert (place.attrib["failures"], place.attrib["errors"]) == (str(failures), str(errors))
    assert len(root.findall(".//failure")) == failures
    assert len(root.findall(".//error")) == errors
    assert (failures + errors == 0) == (found.exit_code == 0)


def test_junit_without_a_rule_has_a_case_that_says_so():
    root = ElementTree.fromstring(junit(evaluation(drawn(30, 0)), verdict([])))
    (case,) = root.findall(".//testcase")
    assert "no rule" in case.attrib["name"]


@pytest.mark.parametrize("render", RENDERED)
def test_wrong_rows_within_the_limit_fail_nothing_and_both_numbers_are_shown(render):
    one = evaluation(judged([True] * 31, [True] * 28 + [False] * 3))
    found = verdict(hold([parse_rule("accuracy >= 0.8")], one))
    text = render(one, found)
    assert found.exit_code == 0
    assert "28 of 31" in text and "0.9032" in text
    assert "0.8" in text.replace("&gt;", ">").replace("&#62;", ">").split(">=", 1)[1][:5]
    assert "<failure" not in text and "<error" not in text


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_html_is_one_file_without_scripts_or_anything_from_elsewhere():
    text = html(*odd_case())
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "b"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"src", "href", "srcset", "style"} & names
    assert not any(name.startswith("on") for name in names)
    assert "http:" not in text and "https:" not in text
    assert "url(" not in text and "@import" not in text
    # Whoever embeds it, such as the workbench, lets nothing in it run or fetch.
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    shown = "".join(page.words)
    assert "<b>&\"'|`*_[x](y) @team" in shown
    assert "😀" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", text)


def test_html_has_every_chart_and_the_flips():
    one = evaluation(drawn(300, 2))
    report = replace(one.targets[0], lifts=lifts(40, 1))
    other = judged(
        drawn(300, 2).labels,
        [True] * 300,
        scores=np.linspace(0, 1, 300).tolist(),
    )
    pair = compare(other, one.targets[0].judged)
    assert pair.flips is not None and pair.flips.fixes
    text = html(replace(one, targets=(report,)), verdict(not_worse([pair])), (pair,))
    page = Page(text)
    captions = re.findall("<figcaption>(.*?)</figcaption>", text)
    assert [caption.split(" (")[0] for caption in captions] == [
        "Scores",
        "Reliability",
        "ROC",
        "Precision and recall",
        "Wrong among the kept",
        "p against floor p",
    ]
    # Lift points are as many as answers.
    lift = text.split("p against floor p")[-1].split("</svg>")[0]
    assert lift.count("<circle") == 40
    assert f"{len(pair.flips.fixes)} fixed, {len(pair.flips.breaks)} broken" in "".join(page.words)


def test_html_of_unlabelled_rows_or_without_scores_leaves_out_what_is_not_known():
    silent = judged([None] * 5, None, scores=[0.1, 0.2, 0.3, 0.4, 0.5])
    one = evaluation(drawn(30, 1))
    for target, charts in ((silent, 1), (replace(silent, scores=None), 0)):
        report = replace(one.targets[0], judged=target)
        text = html(replace(one, targets=(report,)), verdict([]))
        assert text.count("<svg") == charts


def test_the_noise_band_holds_95_percent_of_calibrated_bins():
    generator = np.random.default_rng(0)
    for p, rows in ((0.5, 40), (0.1, 100), (0.97, 30)):
        low, high = noise_band(p, rows)
        shares = generator.binomial(rows, p, 4000) / rows
        inside = ((shares >= low) & (shares <= high)).mean()
        assert 0.94 <= inside <= 1


def test_empty_bins_have_no_mark():
    text = reliability_chart(reliability([0.05, 0.06, 0.95], [False, False, True]))
    assert text.count("<circle") == 2
    assert "2 rows" in text and "1 rows" in text


def test_markdown_escapes_ids_and_keeps_its_tables():
    one, found, comparisons = odd_case()
    text = markdown(one, found, comparisons)
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    for bad in ("<b>", "@team", "`", "](", "*"):
        assert bad not in text
    assert "broken: " in text
    assert "refused" in text
    headers = [line for line in text.splitlines() if line.startswith("| verdict")]
    rows = [line for line in text.splitlines() if line.startswith("| regression")]
    assert rows and all(row.count(" | ") == headers[0].count(" | ") for row in rows)


def of_rows(case):
    """A target's report, its figures measured."""
    return measured(case, [Known(id, id, None, {}, {}, "random", None) for id in case.rows])


def test_reports_say_what_verdicts_amount_to_in_messages():
    case = judged([True] * 4 + [False] * 6, [True] * 3 + [False] * 5 + [True] * 2)
    one = replace(evaluation(case), targets=(of_rows(case),))
    found = volumes(one.targets[0])
    assert found == pytest.approx({"flagged": 0.5, "false alarms": 0.2, "misses": 0.1})
    for render in (markdown, html):
        text = unescape(render(one, verdict([])))
        assert "500 of 1,000 messages" in text and "100 of 1,000 messages" in text
        assert " a day" not in text
        text = unescape(render(one, verdict([]), per_day=3000))
        assert "200 of 1,000 messages, 600 a day" in text
    # Where none is flagged none is a false alarm; without verdicts nothing is said.
    none = of_rows(judged([True, False], [False, False]))
    assert volumes(none) == {"flagged": 0.0, "false alarms": 0.0, "misses": 0.5}
    assert volumes(of_rows(judged([True, False], None, scores=[0.1, 0.2]))) is None


def test_escaped_reads_the_same():
    assert unescape(escaped("a<b> | `c` @d #1 é😀")) == "a<b> | `c` @d #1 é😀"
    assert escaped("plain text, 3.5 %") == "plain text, 3.5 %"


def test_rows_on_one_side_and_refused_ones_are_told():
    before = drawn(30, 0)
    now = replace_rows(before, 25)
    one = replace(evaluation(now, refused=[Refusal("r27", "invalid_media")]))
    pair = compare(before, now)
    for render in (markdown, html):
        text = render(one, verdict(not_worse([pair])), (pair,))
        assert "25 rows on both sides" in text
        assert "5 only in the baseline: r25, r26, r27, r28, r29" in text
        assert "1 of these refused by the model now: r27" in text
        assert "25 of 26 answered (1 refused: 1 invalid" in text


def replace_rows(one, count):
    assert one.scores is not None and one.flagged is not None
    return judged(one.labels[:count], one.flagged[:count], scores=one.scores[:count].tolist())


def test_lists_say_what_they_leave_out():
    assert listed(["a", "b"]) == ["a", "b"]
    long = listed([str(one) for one in range(MOST_LISTED + 7)])
    assert len(long) == MOST_LISTED + 1
    assert long[-1].startswith("and 7 more")


def test_figures():
    assert figure(None) == figure(Measured(None)) == "—"
    assert figure(Measured(0.5)) == "0.500"
    assert figure(Measured(0.5, 0.25, 0.75, 8, 4)) == "0.500 (0.250 to 0.750), 4 of 8"


def test_a_terminal_gets_the_word_its_code_and_no_control_character():
    one, found, comparisons = odd_case()
    told = lines(one, found, comparisons)
    assert told[0] == f"{found.sentence}, exit code 1"
    text = "\n".join(told)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert "\\x1b" in text and "😀" in text
    assert "15 broken" in text and "and 5 more" in text


def test_colours_are_explained_for_what_is_there():
    some = histogram_chart(np.array([0.1, 0.9]), [True, None], 0.5)
    assert ">holds<" in some and ">no label<" in some and ">does not<" not in some
    assert some.count("<title>1 rows</title>") == 2
