"""The page Scores: its states, its filters, a label fixed in place and undone."""

import json
from typing import Any

import numpy as np
import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.evals.data.rows import rows as rows_of
from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.measuring import evaluate, known
from spinf_serve.evals.project import create
from spinf_serve.evals.store import matrix
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.evaluate import evaluate as pack_evaluate
from spinf_serve.packs.loader import load_pack
from spinf_serve.workbench import jobs, views
from spinf_serve.workbench.actions import scores
from spinf_serve.workbench.actions.labelling import labels_on
from spinf_serve.workbench.actions.scores_figures import drawn, figures, histogram
from spinf_serve.workbench.actions.scores_row import answered, fix, last_fixed, undo_last
from spinf_serve.workbench.actions.scores_rows import Filter, Listing, slices
from spinf_serve.workbench.audit import events
from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.views import build, keep_pack, view_of
from tests.support.evaluations import MADE
from tests.workbench.score_desks import BITS, scored
from tests.workbench.support import messages, page


def opened(desk, *, fitted=True):
    """The desk's pack, constants and view."""
    pack = load_pack(desk.pack_files()[0])
    constants = pack.constants(("stub",))
    assert (constants is not None) == fitted
    view = view_of(desk, pack, constants, "d", BITS)
    assert isinstance(view, views.View)
    return pack, constants, view


def listed(
    desk, pack, constants, view, target="refund", key="category:refund", split=None, **wanted
):
    """Ids of the rows that a filter lets through, in order; all of them on one page."""
    subject = next(
        one for one in scores.subjects(pack, constants, view, target, all_of=True) if one.key == key
    )
    base = scores.base(desk, pack, constants, view, target, split)
    listing = Listing(desk, view, pack, constants, base, subject, Filter(**wanted))
    found = listing.page(0, 1000)
    assert listing.count() == len(found)
    return [one["row_id"] for one in found]


def test_figures_are_those_of_a_report(tmp_path):
    desk = scored(tmp_path, 200, refused=3)
    pack, constants, view = opened(desk)
    held = matrix(desk.project, "d", pack, BITS)
    report = evaluate(pack, constants, known(rows_of(desk.project, "d")), held, MADE)
    for target in ("refund", "angry", DECISION):
        told = report.target(target)
        assert told is not None
        base = scores.base(desk, pack, constants, view, target, None)
        given = scores.subjects(pack, constants, view, target, all_of=False)
        found = figures(view, base, pack, given)
        if target == DECISION:
            labels = base.labels(given[0], pack)
            expected = {None: 3, True: 0, False: 1}
            at = {row: index for index, row in enumerate(held.rows)}
            for row, label in zip(told.judged.rows, told.judged.labels, strict=True):
                assert labels[at[row]] == expected[label]
            continue
        area = told.metrics["roc_area"]
        own = found[f"category:{target}"]
        assert own.roc_area == area
        assert own.refused == 3 and own.rows == 197
        for read in told.reads:
            assert found[f"read:{read.read}"].roc_area == read.roc_area
            subject = next(one for one in given if one.key == f"read:{read.read}")
            assert subject.floor == read.floor_p
            means = found[subject.key]
            assert means.mean_yes is not None and subject.floor is not None
            assert means.mean_yes - subject.floor == pytest.approx(read.lift_yes, abs=1e-12)


def test_a_cut_on_one_answer_is_where_its_category_is_flagged(tmp_path):
    desk = scored(tmp_path, 300, questions=2)
    pack, constants, view = opened(desk)
    given = scores.subjects(pack, constants, view, "refund", all_of=False)
    read = next(one for one in given if one.place is not None)
    assert read.cut is not None and read.cut == pytest.approx(0.7)
    flagged = view.columns(["flagged:refund"])["flagged:refund"].astype(bool)
    np.testing.assert_array_equal(read.values(view) >= read.cut, flagged)
    # Of several answers, none has a cut of its own.
    wide = scored(tmp_path / "wide", 10)
    pack, constants, view = opened(wide)
    given = scores.subjects(pack, constants, view, "refund", all_of=False)
    assert [one.cut for one in given if one.place is not None] == [None] * 4


def test_a_category_s_floor_is_the_pack_s_own_score_of_an_empty_text(tmp_path):
    desk = scored(tmp_path, 10)
    pack, constants, view = opened(desk)
    empty: dict[tuple[str, str | None], Any] = {
        (one.id, None): np.array(view.floor((one.id, 0))) for one in pack.questions
    }
    told = pack_evaluate(pack, constants, [empty], DecisionCall())
    given = scores.subjects(pack, constants, view, "refund", all_of=True)
    floors = {one.name: one.floor for one in given if one.place is None}
    assert floors == pytest.approx({id: one.score for id, one in told.categories.items()})
    # A category whose floors are not all kept has none.
    known = scores.category_floors(pack, constants, view)
    with desk.project.open(write=True) as connection:
        connection.execute("DELETE FROM floor WHERE prompt = 1")
    pack, constants, view = opened(desk)
    assert scores.category_floors(pack, constants, view) == {"angry": known["angry"]}


def test_rows_are_filtered_searched_and_sorted_in_the_database(tmp_path):
    desk = scored(tmp_path, 120, refused=2)
    pack, constants, view = opened(desk)
    flagged = view.columns(["flagged:refund"])["flagged:refund"]
    said = {}
    with desk.project.open(write=False) as connection:
        said = dict(
            connection.execute("SELECT row_id, value FROM label WHERE target = 'refund'").fetchall()
        )
    ids = [f"r{number}" for number in range(1, 121)]
    alarms = [i for i, flag in zip(ids, flagged, strict=True) if flag and said[i] == "no"]
    misses = [i for i, flag in zip(ids, flagged, strict=True) if flag is False and said[i] == "yes"]
    assert alarms and misses

    def find(**wanted):
        return listed(desk, pack, constants, view, **wanted)

    assert find(verdict="false alarm") == alarms
    assert find(verdict="miss") == misses
    assert len(find(verdict="right")) == 118 - len(alarms) - len(misses)
    assert find(refused=True) == ["r1", "r2"]
    assert find(search="NUMBER 77 ") == ["r77"] and find(search="r78") == ["r78"]
    assert find(search="100%") == []
    assert set(find(slice=("language", "de"))) == {f"r{n}" for n in range(3, 121, 3)}
    assert len(find(split="fit")) == 60
    assert find(labels=("yes",)) == [i for i in ids if said[i] == "yes"]
    assert find(labels=("no label",)) == []
    values = view.columns(["score:refund"])["score:refund"]
    order = [ids[place] for place in np.argsort(-values, kind="stable") if values[place] > 0]
    assert find(by='"score:refund"')[:118] == order
    assert find(by='"score:refund"', falling=False)[:118] == order[::-1]
    low, high = 0.4, 0.6
    inside = [i for i, value in zip(ids, values, strict=True) if low <= value <= high]
    assert find(ranges=(('"score:refund"', low, high),)) == inside
    assert slices(desk, "d") == {"language": {"en": 80, "de": 40}}


def test_labels_of_a_question_are_seen_from_the_option(tmp_path):
    desk = scored(tmp_path, 10, labelled=False)
    pack, constants, view = opened(desk)
    target = "question:wants"
    said = {"r1": "wantsyes", "r2": "wantsno", "r3": "unsure", "r4": "yes", "r5": "no"}
    put_labels(
        desk.project,
        "d",
        [Label(row, target, value, "ann", now(), None) for row, value in said.items()],
    )
    assert scores.targets(desk, pack, "d", fitted=True) == [target]
    (subject,) = [
        one
        for one in scores.subjects(pack, constants, view, target, all_of=False)
        if one.place is not None
    ]
    base = scores.base(desk, pack, constants, view, target, None)
    labels = [scores.LABELS[one] for one in base.labels(subject, pack).tolist()]
    assert labels[:6] == ["yes", "no", "unsure", "yes", "no", "no label"]
    key = subject.key
    found = listed(desk, pack, constants, view, target, key, labels=("yes",))
    assert found == ["r1", "r4"]
    assert len(listed(desk, pack, constants, view, target, key, labels=("no label",))) == 5


def test_samples_and_histograms_cover_what_they_say(tmp_path):
    desk = scored(tmp_path, 500)
    pack, constants, view = opened(desk)
    base = scores.base(desk, pack, constants, view, "refund", "fit")
    subject = scores.subjects(pack, constants, view, "refund", all_of=False)[0]
    values = subject.values(view)
    at = drawn(base, ~np.isnan(values), 100)
    assert len(at) == 100 == len(set(at.tolist()))
    assert (base.number[at] % 2 == 0).all()
    assert drawn(base, ~np.isnan(values), 100).tolist() == at.tolist()
    bins = histogram(values, base.labels(subject, pack), base.inside)
    assert sum(one["rows"] for one in bins) == 250
    least = min(one["from"] for one in bins if one["rows"])
    assert least <= np.nanmin(values[base.inside]) < least + 1 / 40


def test_a_label_is_fixed_settles_and_can_be_undone_after_a_reload(tmp_path):
    desk = scored(tmp_path, 10)
    with pytest.raises(Unusable, match="no label that you could undo"):
        undo_last(desk, "bob", "d")

    def held():
        pack, constants, view = opened(desk)
        base = scores.base(desk, pack, constants, view, "refund", None)
        subject = scores.subjects(pack, constants, view, "refund", all_of=False)[0]
        return scores.LABELS[base.labels(subject, pack)[0]]

    before = held()
    other = "no" if before == "yes" else "yes"
    fix(desk, "bob", "d", "r1", "refund", other, seen=None)
    assert held() == other
    with desk.project.open(write=False) as connection:
        (mine,) = [one for one in labels_on(connection, "d", "r1") if one.annotator == "bob"]
    # A row that was drawn at random stays one, though its score was seen.
    assert mine.score_visible and mine.adjudicated and mine.drawn == "random"
    assert events(desk)[0].action == "label" and events(desk)[0].user == "bob"
    last = last_fixed(desk, "bob", "d")
    assert last is not None and last.label.value == other
    assert last_fixed(desk, "ann", "d") is None
    undo_last(desk, "bob", "d")
    assert held() == before and last_fixed(desk, "bob", "d") is None
    fix(desk, "bob", "d", "r1", "refund", other, seen=None)
    # What another tab changed is not overwritten, and not undone.
    with pytest.raises(Unusable, match="changed elsewhere"):
        fix(desk, "bob", "d", "r1", "refund", before, seen=None)
    put_labels(desk.project, "d", [Label("r1", "refund", "unsure", "bob", now(), None)])
    with pytest.raises(Unusable, match="nothing was undone"):
        undo_last(desk, "bob", "d")


def test_a_row_s_answers_are_all_told(tmp_path):
    desk = scored(tmp_path, 10, refused=1)
    pack, _, view = opened(desk)
    found = answered(view, pack, "r2")
    assert found is not None and len(found.answers) == 16 and len(found.categories) == 2
    first = found.answers[0]
    assert first["option"] == "wantsyes"
    assert first["lift"] == first["p"] - first["floor p"]
    assert first["residual"] == pytest.approx(0.1)
    assert found.answers[1]["p"] == 1 - first["p"]
    assert found.reason and found.unsafe is not None
    refused = answered(view, pack, "r1")
    assert refused is not None and refused.refused == "content_too_long"
    assert refused.unsafe is None and refused.answers[0]["p"] is None
    assert answered(view, pack, "gone") is None


# The page.


def charts_of(test):
    """The charts of a page; their elements have no class of their own."""
    return [one for one in test if one.type == "vega_lite_chart"]


def lines_of(chart):
    """Word -> place of the lines across a chart."""
    frames = [convert_arrow_bytes_to_pandas_df(one.data.data) for one in chart.proto.datasets]
    return {
        word: at
        for frame in frames
        if "word" in frame
        for at, word in zip(frame["at"], frame["word"], strict=True)
    }


def test_the_example_shows_all_answers_and_opens_one_from_a_link(folder):
    test = page("scores", folder)
    assert not test.exception and not test.error
    assert "600 rows" in messages(test)
    assert len(charts_of(test)) == 1
    key = "category:urgent"
    test = page("scores", folder, target="urgent", question=key, row="t0002")
    assert not test.exception and not test.error
    assert "Row t0002" in messages(test)
    assert {one.label for one in test.metric} >= {"ROC area", "Cut"}
    for kind in ("histogram", "residual", "lift", "p"):
        test = page("scores", folder, target="angry", question="tone#0/0", chart=kind)
        assert not test.exception and not test.error
        assert "Floor" in {one.label for one in test.metric}
        assert test.query_params["chart"] in (kind, [kind])


def test_a_category_shows_floor_and_cut_in_p_and_in_lift_and_its_questions_lead_to_it(folder):
    words = {}
    for kind in ("p", "lift"):
        test = page("scores", folder, target="urgent", question="category:urgent", chart=kind)
        assert not test.exception and not test.error
        assert {"Cut", "Floor"} <= {one.label for one in test.metric}
        assert test.query_params["chart"] in (kind, [kind])
        words[kind] = lines_of(charts_of(test)[0])
        assert set(words[kind]) >= {"floor", "cut"}
    assert words["lift"]["floor"] == 0
    floor = words["p"]["floor"]
    assert 0 < floor < 1 and words["lift"]["cut"] == pytest.approx(words["p"]["cut"] - floor)
    pack = load_pack(folder / "packs" / "triage" / "pack.yaml")
    read = next(one for one in pack.reads if one.category == "urgent")
    test = page("scores", folder, target="urgent", question=f"read:{read.id}")
    size = sum(one.category == "urgent" for one in pack.reads)
    assert size > 1 and f"cut is on the score of {size} answers" in messages(test)
    (show,) = [one for one in test.button if one.label.startswith("Show the category")]
    test = show.click().run()
    assert not test.exception and "Cut" in {one.label for one in test.metric}
    assert test.query_params["question"] in ("category:urgent", ["category:urgent"])


def test_empty_states_say_what_to_do(tmp_path):
    create(tmp_path / "project.duckdb")
    assert "Make one on the page" in messages(page("scores", tmp_path))
    (tmp_path / "pack.yaml").write_text("pack: a/b\nversion: nonsense\n")
    test = page("scores", tmp_path)
    assert "has faults" in messages(test) and not test.exception


def test_rows_without_scores_and_questions_nobody_asked(tmp_path):
    desk = scored(tmp_path, 10, asked=0)
    # Nothing is kept of any model.
    assert "Ask a model on the page" in messages(page("scores", desk.folder))
    other = scored(tmp_path / "b", 10)
    file = other.pack_files()[0]
    file.write_text(file.read_text().replace("\\n", "\\nNow: ").split("fitted:")[0])
    said = messages(page("scores", other.folder))
    assert "None of this pack's questions was asked" in said and "10 rows" in said
    # Some were asked: their answers are there.
    partly = scored(tmp_path / "c", 10, asked=3)
    test = page("scores", partly.folder)
    assert "an answer to every question yet" in messages(test)
    assert not test.exception and charts_of(test)


def test_a_draft_has_answers_and_no_categories(tmp_path):
    desk = scored(tmp_path, 10, fitted=False)
    test = page("scores", desk.folder)
    assert "no categories and no decision" in messages(test)
    assert not test.exception and not [one for one in test.selectbox if one.label == "Verdict"]


def test_rows_without_labels_are_shown_all_the_same(tmp_path):
    desk = scored(tmp_path, 10, labelled=False)
    test = page("scores", desk.folder)
    assert "Label some on the page" in messages(test)
    assert not test.exception and "10 rows" in messages(test)


def test_texts_of_a_pack_about_harm_are_hidden_until_they_are_asked_for(tmp_path):
    desk = scored(tmp_path, 10, tag="moderation")
    test = page("scores", desk.folder, row="r3", question="category:refund", target="refund")
    assert "Mail number" not in json.dumps([one.value.to_json() for one in test.dataframe])
    assert "Mail number" not in messages(test)
    next(one for one in test.button if one.label == "Show the text").click().run()
    assert "Mail number 3" in messages(test)


def test_a_label_is_fixed_on_the_page_and_undone(folder):
    desk = open_desk(folder)
    test = page("scores", folder, target="urgent", question="category:urgent", row="t0002")
    groups: list[Any] = list(test.get("button_group"))
    (control,) = [one for one in groups if one.label.startswith("Label:")]
    before = control.value
    other = "yes" if before != "yes" else "no"
    control.set_value(other).run()
    assert not test.exception and not test.error

    def held():
        with desk.project.open(write=False) as connection:
            return [
                one.value for one in labels_on(connection, "messages", "t0002") if one.adjudicated
            ]

    assert held() == [other]
    assert "label" in {one.action for one in events(desk)}
    # After a reload, too.
    test = page("scores", folder, target="urgent", question="category:urgent", row="t0002")
    (undo,) = [one for one in test.button if one.label.startswith("Undo")]
    undo.click().run()
    assert not test.exception and not test.error
    assert held() == []


def test_a_hundred_thousand_rows_are_paged(tmp_path, monkeypatch):
    desk = scored(tmp_path, 100_000, questions=2)
    monkeypatch.setattr(views, "AT_ONCE", 10)
    pack = load_pack(desk.pack_files()[0])
    constants = pack.constants(("stub",))
    wanted = view_of(desk, pack, constants, "d", BITS)
    assert isinstance(wanted, views.Building)
    keep_pack(desk, desk.pack_files()[0].read_bytes(), pack)

    class Report:
        folder = tmp_path

        def progress(self, done, of, words="", **more):
            assert done <= of

        def check(self):
            pass

    build(desk, wanted.arguments, Report())  # type: ignore[arg-type]
    test = page("scores", desk.folder, question="category:refund", target="refund")
    assert not test.exception and not test.error
    said = messages(test)
    assert "100,000 rows" in said and "chosen by chance" in said
    assert all(len(one.value) <= 50 for one in test.dataframe)
    assert "Rows 1 to 25 of 100,000" in said


def test_many_rows_are_laid_out_by_a_job(tmp_path, monkeypatch):
    desk = scored(tmp_path, 30)
    monkeypatch.setattr(views, "AT_ONCE", 10)
    test = page("scores", desk.folder)
    assert "laid out for the charts first" in messages(test) and not test.exception
    (job,) = jobs.jobs(desk, "view")
    assert jobs.wait(desk, job.id, 120).state == "done", job.log()
    test = page("scores", desk.folder)
    assert "30 rows" in messages(test) and not test.exception
    # Scores that come later leave the older state, and say so.
    with desk.project.open(write=True) as connection:
        connection.execute("DELETE FROM score WHERE content = 1")
    test = page("scores", desk.folder)
    assert "What is shown is older" in messages(test)
    next(one for one in test.button if one.label == "Bring up to date").click().run()
    latest = jobs.jobs(desk, "view")[0]
    assert jobs.wait(desk, latest.id, 120).state == "done"
    assert "What is shown is older" not in messages(page("scores", desk.folder))
