"""The glossary: one definition a word, found by any of its names, and enough of them."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from spinf_serve.workbench import glossary

ROOT = Path(__file__).resolve().parents[2]
WANTED = [
    "floor",
    "lift",
    "residual",
    "category",
    "cut",
    "threshold",
    "precision",
    "recall",
    "promise",
    "delta",
    "calibration",
    "draft",
    "provisional",
    "certified",
    "split",
    "slice",
    "weight",
    "drawn",
    "fingerprint",
    "question",
    "option",
    "score",
    "label",
    "band",
    "route",
    "decision",
    "unsure",
    "interval",
    "npv",
]


@pytest.mark.parametrize("word", WANTED)
def test_words_that_a_page_uses_have_a_definition(word: str) -> None:
    assert len(glossary.help(word)) > 30
    assert glossary.help(word.upper()) == glossary.help(word)


def test_every_word_is_defined_once_in_a_known_theme() -> None:
    words = Counter(term.word.casefold() for term in glossary.TERMS)
    assert words.most_common(1)[0][1] == 1
    assert {term.theme for term in glossary.TERMS} == set(glossary.THEMES)
    for term in glossary.TERMS:
        assert term.means.endswith("."), term
        assert "—" not in term.means
        assert len(re.split(r"(?<=\.) ", term.means)) <= 3, term


def test_an_unknown_word_is_an_error() -> None:
    with pytest.raises(KeyError):
        glossary.help("no such word")


def test_a_word_is_found_by_its_other_names_and_stands_first() -> None:
    assert glossary.found("threshold")[0].word == "cut"
    assert glossary.found("  Floor ")[0].word == "floor"
    assert glossary.found("kapp")[0].word == "agreement"
    assert glossary.found("zzz") == []
    assert glossary.found() == list(glossary.TERMS)


def test_every_word_that_the_code_asks_for_is_there() -> None:
    asked = []
    for path in (ROOT / "workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "help"
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "glossary"
                and isinstance(node.args[0], ast.Constant)
            ):
                asked.append((path.name, str(node.args[0].value)))
    unknown = []
    for place, word in asked:
        try:
            glossary.help(word)
        except KeyError:
            unknown.append((place, word))
    assert not unknown


def _page() -> None:
    from spinf_serve.workbench.parts.glossary import glossary_button

    glossary_button()


def _list() -> None:
    from spinf_serve.workbench.parts.glossary import glossary_list

    glossary_list()


def test_the_button_opens_the_list() -> None:
    page = AppTest.from_function(_page).run()
    assert not page.markdown
    page.button(key="glossary-open").click().run()
    assert not page.exception
    assert len(page.markdown) == len(glossary.TERMS)


def test_the_list_is_searched() -> None:
    page = AppTest.from_function(_list).run()
    page.text_input(key="glossary-search").set_value("threshold").run()
    assert page.markdown[0].value.startswith("**cut** (threshold):")
    assert len(page.markdown) < 5
    page.text_input(key="glossary-search").set_value("qqq").run()
    assert not page.markdown
    assert page.caption[0].value == "No word like that. Try a shorter part of it."
