import shutil
from dataclasses import asdict
from urllib.parse import quote

import pytest

from spinf_serve.workbench.actions.evaluations import ComparisonWish, SideWish, evaluate_job
from spinf_serve.workbench.desk import open_desk
from tests.support.recorded_engine import recording
from tests.workbench.support import messages, page
from tests.workbench.test_evaluations import PACK, Said

OFFICIAL = "official:spinf/triage"


def test_two_equal_sides_are_told(folder):
    shown = page("compare", folder, before=PACK)
    assert not shown.exception
    assert "Both sides are the same" in messages(shown)


def test_the_example_comes_compared_with_the_official_pack(folder):
    shown = page("compare", folder)
    assert not shown.exception
    assert shown.query_params["before"] == OFFICIAL
    assert "the first beyond chance" in messages(shown)
    assert len(shown.dataframe[0].value) > 5


def test_a_pack_without_other_versions_is_compared_with_the_first_other(folder):
    text = (folder / PACK).read_text().replace("example/triage", "my/own", 1)
    (folder / "own.yaml").write_text(text)
    shown = page("compare", folder, pack="own.yaml")
    assert not shown.exception
    assert shown.query_params["before"] == PACK


def test_two_packs_are_offered_for_comparison(folder):
    shutil.rmtree(folder / ".workbench" / "reports")
    shown = page("compare", folder, before=OFFICIAL)
    assert not shown.exception
    assert "not compared yet" in messages(shown)
    assert any(one.label == "Compare" for one in shown.button)


@pytest.mark.slow
def test_a_comparison_shows_what_broke_and_the_texts(folder):
    bits = recording().header.bits
    wish = ComparisonWish(SideWish(OFFICIAL, bits), SideWish(PACK, bits), "messages")
    evaluate_job(open_desk(folder), asdict(wish), Said())
    shown = page("compare", folder, before=OFFICIAL, target="shipping")
    assert not shown.exception
    (worse,) = [one.value for one in shown.error if "worse than the first" in one.value]
    assert "shipping" in worse and "account" not in worse
    table = shown.dataframe[0].value
    line = table[table["target"] == "shipping"].iloc[0]
    assert line["broken"] > line["fixed"]
    labels = [one.label for one in shown.expander]
    assert f"Broken: right before, wrong now ({line['broken']})" in labels
    assert any("of 1,000 messages" in one.value for one in shown.markdown)
    links = [one.value for one in shown.caption if "open in Scores" in one.value]
    assert len(links) >= min(line["broken"], 20) + min(line["fixed"], 20)
    address = f"pack={quote(PACK, safe='')}&data=messages&bits={bits}&row=t"
    assert all(f"(scores?{address}" in one for one in links)
    assert all(one.endswith("&target=shipping)") for one in links)


def test_a_project_without_rows_says_what_to_do(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    shown = page("compare", tmp_path)
    assert not shown.exception
    assert "no rows yet" in messages(shown)
