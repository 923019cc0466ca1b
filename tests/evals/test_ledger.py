"""Chances that were spent: by target and by the rows that were counted, once per certification."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from spinf_serve.evals.ledger import Spent, keep_fit, spend, spent
from spinf_serve.evals.project import Project, create

ONE = Spent("spam", 0.05, "precision:0.9", "fit", datetime(2026, 1, 2), "ada", "k1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create(tmp_path / "p.duckdb")


def test_a_certification_counts_for_its_target_and_the_rows_that_it_saw(project: Project) -> None:
    on_all = replace(ONE, split=None, key="k2", at=datetime(2026, 1, 3))
    other = replace(ONE, target="rude", key="k3")
    held = replace(ONE, split="test", key="k4", at=datetime(2026, 1, 4))
    spend(project, "mail", [ONE, on_all, other, held])
    assert spent(project, "mail", "spam", "fit") == [ONE, on_all]
    assert spent(project, "mail", "spam", "test") == [on_all, held]
    assert spent(project, "mail", "spam", None) == [ONE, on_all, held]
    assert spent(project, "other", "spam", None) == []


def test_the_same_certification_again_spends_nothing(project: Project) -> None:
    spend(project, "mail", [ONE])
    spend(project, "mail", [replace(ONE, delta=0.01, at=datetime(2026, 5, 5)), ONE])
    assert spent(project, "mail", "spam", "fit") == [ONE]
    again = replace(ONE, key="k9", at=datetime(2026, 5, 5))
    spend(project, "mail", [again])
    assert spent(project, "mail", "spam", "fit") == [ONE, again]


def test_a_fit_is_kept_with_who_made_it(project: Project) -> None:
    keep_fit(project, "shop/spam", "1.0.0", "ada", "d" * 64, {"spam": {"cut": 0.1 + 0.2}})
    with project.open(write=False) as connection:
        [row] = connection.execute(
            'SELECT pack, version, "by", data_digest, report FROM fitted'
        ).fetchall()
    assert row[:4] == ("shop/spam", "1.0.0", "ada", "d" * 64)
    assert json.loads(row[4]) == {"spam": {"cut": 0.1 + 0.2}}
