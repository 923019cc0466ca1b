import shutil
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

import pytest

from spinf_serve.workbench.actions.asking import remember
from spinf_serve.workbench.actions.baselines import keep_baseline
from spinf_serve.workbench.actions.evaluations import (
    ComparisonWish,
    EvaluationWish,
    SideWish,
    evaluate_job,
)
from spinf_serve.workbench.answering import scorer
from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.jobs import jobs, wait
from tests.support.recorded_engine import recording
from tests.workbench.serving import TOKEN, recorded_server, result_of
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


def sides(**params: str | None) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in params.items()}


def test_two_servers_are_named_on_the_page_asked_and_compared(folder):
    desk = open_desk(folder)
    with recorded_server() as (one, _), recorded_server() as (other, _):
        remember(desk, one, scorer(one))
        given = sides(
            before_bits="ask", before_server=one.server, now_bits="ask", now_server=other.server
        )
        shown = page("compare", folder, before=PACK, **given)
        assert not shown.exception
        assert [one.value for one in shown.text_input if one.label == "Address"] == [
            one.server,
            other.server,
        ]
        assert "is smollm2-135m-instruct" in messages(shown)
        assert f"Nobody asked `{other.server}`" in messages(shown)
        next(field for field in shown.text_input if field.key == "compare-now-token").set_value(
            TOKEN
        )
        (ask,) = (field for field in shown.button if field.label == "Ask it")
        ask.click().run()
        assert not shown.exception
        (run,) = jobs(desk, "run")
        # Every answer is kept: the server is only got to know.
        assert result_of(wait(desk, run.id, 90))["asked"] == 0
        shown.run()
        assert "answers are equal bit for bit" in messages(shown)
        assert "Both sides are the same" in messages(shown)
        # Where a model is chosen by what is kept of it, its servers stand there.
        shown = page("compare", folder, before=PACK)
        assert (
            messages(shown).count(f"Asked at `{one.server}`, `{other.server}`")
            + messages(shown).count(f"Asked at `{other.server}`, `{one.server}`")
            == 2
        )


def test_answers_that_are_missing_are_counted(folder):
    desk = open_desk(folder)
    with recorded_server() as (who, engine):
        engine.fingerprint = replace(engine.fingerprint, bits="f" * 64)
        remember(desk, who, scorer(who))
        given = sides(now_bits="ask", now_server=who.server)
        shown = page("compare", folder, **given)
        assert not shown.exception
        assert "19,800 answers" in messages(shown) and "are missing" in messages(shown)
        assert [one.label for one in shown.button].count("Ask it") == 1


def test_a_stored_run_says_why_no_wording_is_compared(folder):
    wish = EvaluationWish(SideWish(PACK, recording().header.bits), "messages")
    desk = open_desk(folder)
    key = evaluate_job(desk, asdict(wish), Said())["key"]
    stored = desk.name_of(keep_baseline(desk, key, "mine"))
    shown = page("compare", folder, before=f"evaluation:{stored}")
    assert not shown.exception
    assert "and not its text" in messages(shown)
