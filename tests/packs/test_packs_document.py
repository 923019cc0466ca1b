"""What docs/packs.md shows is true: its packs load, its plain form is theirs."""

import json
import re

import pytest

from spinf_serve.pack_pages import fit_page
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.metrics import auc
from spinf_serve.packs.new import starter
from spinf_serve.packs.plain import plain
from spinf_serve.packs.sample import read_sample
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


def test_the_sample_that_is_shown_fits_the_pack_that_new_writes(tmp_path):
    text = (PAGE.parent / "fitting.md").read_text("utf-8")
    shown = re.findall(r"^```text\n(id,.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "sample.csv").write_text(shown[0])
    pack = read_pack(starter("demo/shop")["pack.yaml"].encode(), "pack.yaml")
    rows = read_sample(tmp_path / "sample.csv", pack)
    assert [row.split for row in rows] == ["fit", "fit", "test"]
    assert rows[2].labels == {"angry": None, "money": False, "delivery": True}


def test_every_column_of_the_report_is_explained():
    text = (PAGE.parent / "fitting.md").read_text("utf-8")
    report = {"pack_id": "a/b", "version": "1", "model": "m", "fit_rows": 10, "test_rows": 5}
    report |= {"categories": {}, "macro_auc": None, "routed": None, "notes": []}
    _, head, *_ = fit_page(report)
    for column in head.split()[1:]:
        assert f"\n| `{column}` | " in text


@pytest.mark.parametrize(
    ("p", "n", "error"), [(2, 8, 0.21), (5, 15, 0.13), (25, 75, 0.06), (100, 300, 0.03)]
)
def test_the_errors_that_are_shown_are_those_of_the_formula(p, n, error):
    # Scores in which 80 of 100 pairs are in order.
    text = (PAGE.parent / "fitting.md").read_text("utf-8")
    assert f"| {p} and {n} | {error} |" in text
    right = round(0.8 * p * n)
    above = [min(n, max(0, right - n * index)) for index in range(p)]
    scores = [number - 0.5 for number in above] + list(range(n))
    found = auc(scores, [True] * p + [False] * n)
    assert found is not None
    assert found.value == pytest.approx(0.8, abs=0.02)
    assert found.error == pytest.approx(error, abs=0.01)
