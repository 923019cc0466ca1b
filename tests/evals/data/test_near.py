"""Near-duplicates: found with the chance that bands promise, and hardly anything else."""

import numpy as np
import pytest

from spinf_serve.evals.data.near import NearFinder

WORDS = 35


@pytest.fixture(scope="module")
def texts():
    random = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, length)) for length in random.integers(2, 9, 3000)]
    return words, [[words[n] for n in row] for row in random.integers(0, 3000, (1000, WORDS))]


def changed(row, words, count, random):
    row = list(row)
    for at in random.choice(WORDS, count, replace=False):
        row[at] = words[random.integers(len(words))]
    return row


def shared(one, other):
    def runs(text):
        return {text[at : at + 8] for at in range(len(text) - 7)}

    return len(runs(one) & runs(other)) / len(runs(one) | runs(other))


@pytest.mark.parametrize(
    ("words_changed", "least", "most"), [(1, 0.98, 1), (2, 0.85, 1), (15, 0, 0.02)]
)
def test_the_more_two_texts_share_the_more_surely_they_are_found(texts, words_changed, least, most):
    words, rows = texts
    random = np.random.default_rng(words_changed)
    others = [" ".join(changed(row, words, words_changed, random)) for row in rows]
    finder = NearFinder()
    finder.add([" ".join(row) for row in rows])
    finder.add(others)
    groups = finder.groups()
    assert (groups[: len(rows)] == np.arange(len(rows))).all()
    assert least <= (groups[len(rows) :] == np.arange(len(rows))).mean() <= most
    if words_changed == 1:
        assert np.mean([shared(" ".join(a), b) for a, b in zip(rows, others, strict=True)]) < 0.92


def test_case_and_white_space_do_not_count_and_batches_do_not_matter():
    given = [
        "Hello there, my dear friend",
        "hello  there,\nmy dear FRIEND ",
        "",
        "x",
        "X",
        "y",
        "é",
    ]
    one, other = NearFinder(), NearFinder()
    one.add(given)
    for text in given:
        other.add([text])
    assert one.groups().tolist() == [0, 0, 2, 3, 3, 5, 6] == other.groups().tolist()
    assert NearFinder().groups().tolist() == []


def test_very_many_of_one_text_are_one_group():
    finder = NearFinder()
    finder.add(["the same words again and again"] * 20_000)
    assert (finder.groups() == 0).all()


def test_texts_in_a_chain_belong_together():
    text = [f"word{number}" for number in range(60)]
    chain = [" ".join([*text[:at], *(f"new{n}" for n in range(at)), *text[at:]]) for at in range(8)]
    finder = NearFinder()
    finder.add(chain)
    assert set(finder.groups().tolist()) == {0}
