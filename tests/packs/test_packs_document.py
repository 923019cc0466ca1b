"""What docs/packs.md shows is true: its packs load, its plain form is theirs."""

import json
import re

import pytest

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.plain import plain
from tests.support.pack_documents import PAGE, page

TEXT = PAGE.read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def packs():
    return [read_pack(block.encode(), "reviews.yaml") for block in blocks("yaml")]


def test_the_tables_are_fresh():
    assert page() == TEXT, "run `make fix`"


def test_every_pack_that_is_shown_loads():
    first, full, fitted = packs()
    assert first.questions[0].options == (" unhappy", " happy")
    assert list(first.categories) == ["negative"] and first.fitted == {}
    assert [read.id for read in full.reads] == [
        "anger",
        "thanks",
        "about/a refund",
        "about/a parcel",
        "topic/payment",
        "topic/shipping",
        "tone",
    ]
    assert list(fitted.fitted) == ["demo/small-model"]


def test_the_plain_form_that_is_shown_is_the_export():
    (shown,) = blocks("json")
    assert plain(packs()[2], "demo/small-model") == json.loads(shown)
    assert read_pack(shown.encode(), "p.json").fitted == packs()[2].fitted


def test_the_fault_that_is_shown_is_told():
    text = blocks("yaml")[0].replace("options", "optins")
    with pytest.raises(InvalidPack) as refused:
        read_pack(text.encode(), "reviews.yaml")
    assert str(refused.value) == blocks("text")[0].rstrip()
