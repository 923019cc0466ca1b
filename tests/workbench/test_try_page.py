"""One text tried: what comes back is the evaluator's, whoever answers; the page in its states."""

from dataclasses import replace

import pytest
from pandas.testing import assert_frame_equal

from spinf_serve.engine.work import Limits
from spinf_serve.engine.work import Work as EngineWork
from spinf_serve.evals.score_tables import identities
from spinf_serve.evals.scorer import in_process
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.evaluate import evaluate
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.present import wrapped
from spinf_serve.packs.reads import vectors
from spinf_serve.workbench import model as model_module
from spinf_serve.workbench.actions.drafts import draft_of, keep
from spinf_serve.workbench.actions.kept_answers import first_kept
from spinf_serve.workbench.actions.pack_choices import pack_of
from spinf_serve.workbench.actions.trying import (
    MOST_RECENT,
    Asked,
    Content,
    ask,
    forget_tried,
    found_rows,
    judged,
    note_tried,
    recent,
    rows_of,
)
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.model import Asking, Model
from tests.support import model_process
from tests.support.pack_files import json_pack
from tests.support.recorded_engine import RecordedEngine
from tests.support.stub_engine import NAN, SERVED, StubEngine
from tests.workbench.serving import recorded_server
from tests.workbench.support import messages, page, read

PACK = "packs/triage/pack.yaml"
TEXT = "Where is my parcel? It was due on Monday."


@pytest.fixture
def stub_model(monkeypatch):
    """A model in a process of its own, which is the stub."""
    monkeypatch.setattr(model_module, "_COMMAND", model_process.COMMAND)
    found = Model(Who(None))
    yield found
    found.stop()


def mood(**more) -> tuple[str, str]:
    return json_pack(model=SERVED.id, **more), "pack.json"


def code(asked: Asked) -> str:
    """Why there is no answer."""
    assert asked.stopped is not None
    return asked.stopped[0]


def served(folder, who, **params):
    return page("try_it", folder, how={"server": who.server, "token": who.token}, **params)


def test_what_comes_back_is_what_the_one_evaluator_says(folder):
    desk = open_desk(folder)
    pack = pack_of(desk, PACK)
    engine = RecordedEngine()
    ((_, content),) = found_rows(desk, "messages", "t0004")
    asked = ask(in_process(engine.as_engine()), pack, content)
    whole = wrapped(pack, content.text, content.context, dict(content.parameters))
    assert asked.chunks == (whole,)
    (result,) = engine.run([EngineWork(whole, pack.questions)])
    constants = pack.constants((engine.served.id,))
    assert constants is not None
    found = evaluate(pack, constants, [vectors(pack, result.answers)], DecisionCall())
    told = judged(pack, asked)
    assert told is not None
    assert told.found == found
    assert told.state == "provisional"
    assert " 0." in told.reason
    # What is recorded was answered by a model, and nothing of it was made up here.
    assert engine.unrecorded == 0
    rows = rows_of(pack, asked.answers[0])
    prompts = [prompt for question in pack.questions for prompt in question.prompts]
    assert len(rows) == sum(len(one.options) for one in pack.questions for _ in one.prompts)
    assert rows["number"].max() == len(prompts) - 1
    assert (rows["lift"] == rows["p"] - rows["floor"]).all()
    assert rows.groupby("number")["p"].sum().round(9).eq(1).all()
    first: QuestionAnswer = asked.answers[0][0]
    assert rows["p"][0] == first.prompts[0].options[0].p


def test_refusals_are_told_and_cost_no_exception():
    text, name = mood()
    pack = read_pack(text.encode(), name)
    scorer = in_process(StubEngine(Limits(max_content_tokens=7)).as_engine())
    assert code(ask(scorer, pack, Content("word " * 9))) == "content_too_long"
    assert code(ask(scorer, pack, Content(" "))) == "missing_value"
    asked = ask(scorer, pack, Content(f"a {NAN}"))
    assert code(asked) == "engine_error" and judged(pack, asked) is None
    # Floors are asked for, whatever the pack wants in its answers.
    quiet = replace(
        pack, questions=tuple(replace(one, empty_floor=False) for one in pack.questions)
    )
    assert rows_of(quiet, ask(scorer, quiet, Content("a")).answers[0])["floor"].notna().all()
    # Another context, and a parameter that the pack has not, are left out.
    assert ask(scorer, pack, Content("a", "none", (("shop", "Lamps"),))).stopped is None


def test_the_texts_that_were_tried_are_listed_once_and_forgotten(folder):
    desk = open_desk(folder)
    assert recent(desk) == []
    first = note_tried(desk, Content("one"))
    note_tried(desk, Content("two", "chat", (("shop", "Lamps"),)))
    again = note_tried(desk, Content("one"))
    assert again.id == first.id
    assert [one.text for one in recent(desk)] == ["one", "two"]
    assert recent(desk)[1].parameters == (("shop", "Lamps"),)
    forget_tried(desk, first.id)
    assert [one.text for one in recent(desk)] == ["two"]
    for number in range(MOST_RECENT + 5):
        note_tried(desk, Content(f"text {number}"))
    assert len(recent(desk)) == MOST_RECENT
    forget_tried(desk, None)
    assert recent(desk) == []


def test_the_models_process_cuts_long_texts_as_the_pack_says(stub_model):
    assert stub_model.state == "off"
    text, name = mood(on_long={"chunk": "max"})
    content = Content("word " * 100)
    asked = stub_model.ask(text, name, content)
    assert stub_model.state == "ready"
    assert len(asked.chunks) == len(asked.answers) > 1
    limits = Limits(max_content_tokens=model_process.MOST_TOKENS)
    pack = read_pack(text.encode(), name)
    here = ask(in_process(StubEngine(limits).as_engine()), pack, content)
    assert asked == here
    told = judged(pack, asked)
    assert told is not None and told == judged(pack, here)
    text, name = mood()
    assert code(stub_model.ask(text, name, content)) == "content_too_long"
    with pytest.raises(Unusable, match="`version` is missing"):
        stub_model.ask('{"pack": "a/b"}', name, content)


def test_a_models_process_that_ended_is_started_again(stub_model):
    text, name = mood()
    first = stub_model.ask(text, name, Content("a"))
    stub_model._child.kill()
    stub_model._child.wait()
    assert stub_model.state == "off"
    assert stub_model.ask(text, name, Content("a")) == first
    child = stub_model._child
    child.stdin.close()
    # It ends with the workbench, whose end of the pipe is gone then.
    assert child.wait(60) == 0


def test_a_model_that_cannot_be_opened_says_why(monkeypatch):
    monkeypatch.setattr(
        model_module, "_COMMAND", ["python3", "-c", "raise SystemExit('no weights')"]
    )
    broken = Model(Who(None))
    with pytest.raises(Unusable, match="cannot be opened: no weights"):
        broken.ask(*mood(), Content("a"))
    assert broken.state == "off"


def test_the_same_question_is_asked_once(folder):
    asking = Asking()
    data = (folder / PACK).read_bytes()
    with recorded_server() as (who, engine):
        one = asking.answer(who, data, "pack.yaml", Content(TEXT)).result(60)
        passes = len(engine.passes)
        assert asking.answer(who, data, "pack.yaml", Content(TEXT)).result(60) is one
        assert len(engine.passes) == passes
        asking.answer(who, data, "pack.yaml", Content("Another")).result(60)
        assert len(engine.passes) > passes
    gone = replace(who, server="http://127.0.0.1:9")
    failed = asking.answer(gone, data, "pack.yaml", Content(TEXT))
    with pytest.raises(Unusable):
        failed.result(60)
    assert asking.answer(gone, data, "pack.yaml", Content(TEXT)) is failed
    again = asking.answer(gone, data, "pack.yaml", Content(TEXT), again=True)
    assert again is not failed
    with pytest.raises(Unusable):
        again.result(60)
    asking.close()


def test_a_project_without_packs_says_what_to_do(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    shown = page("try_it", tmp_path)
    assert not shown.exception
    assert "no pack yet" in messages(shown)


def test_a_text_is_asked_about_and_stays_over_a_reload(folder):
    with recorded_server() as (who, _):
        shown = served(folder, who)
        assert "Nothing was asked yet" in messages(shown)
        shown.text_area[0].set_value(TEXT)
        next(one for one in shown.button if one.label == "Ask").click().run()
        assert not shown.exception
        (kept,) = recent(open_desk(folder))
        assert shown.query_params["try"] == kept.id
        shown = served(folder, who, **{"try": kept.id})
        assert not shown.exception
        assert shown.text_area[0].value == TEXT
        assert "Answered by smollm2-135m-instruct" in messages(shown)
        said = messages(shown)
        assert "lagged**" in said and "goes to" in said
        categories = shown.dataframe[0].value
        assert len(categories) == len(pack_of(open_desk(folder), PACK).categories)
        numbers = shown.dataframe[1].value
        assert {"p", "floor", "lift", "residual"} <= set(numbers.columns)


def test_the_first_rows_kept_answers_are_shown_and_nobody_is_asked(folder):
    shown = served(folder, Who("http://127.0.0.1:9", None))
    assert not shown.exception
    said = messages(shown)
    assert "For example: row t0001" in said and "nobody was asked now" in said
    assert "lagged**" in said and "cannot be reached" not in said
    desk = open_desk(folder)
    pack = pack_of(desk, PACK)
    with desk.project.open(write=False) as connection:
        (model,) = identities(connection)
    kept = first_kept(desk, pack, model, "messages", None)
    assert kept is not None
    _, content, asked = kept
    live = ask(in_process(RecordedEngine().as_engine()), pack, content)
    assert asked.chunks == live.chunks
    # To the last digit but for how a softmax is summed.
    assert_frame_equal(rows_of(pack, asked.answers[0]), rows_of(pack, live.answers[0]), rtol=1e-12)
    told, fresh = judged(pack, asked), judged(pack, live)
    assert told is not None and fresh is not None and told.reason == fresh.reason
    # Of a pack that asks something else nothing is kept, and nothing is shown.
    file = folder / PACK
    file.write_text(file.read_text().replace(" asks for", " begs for", 1))
    shown = served(folder, Who("http://127.0.0.1:9", None))
    assert not shown.exception and "For example" not in messages(shown)


def test_a_link_to_a_row_asks_about_it(folder):
    with recorded_server() as (who, engine):
        shown = served(folder, who, row="t0004")
        assert not shown.exception
        assert "row" not in shown.query_params
        assert shown.text_area[0].value.startswith("The Fennick grinder")
        assert "goes to **refund**" in messages(shown)
        # The one question by which a server is got to know.
        assert engine.unrecorded == 1


def test_two_packs_stand_side_by_side_and_a_refusal_is_told(folder):
    with recorded_server(Limits(max_content_tokens=60)) as (who, _):
        shown = served(folder, who, row="t0004", beside="pack", other="official:spinf/triage")
        assert not shown.exception
        titles = [one.value for one in shown.subheader]
        assert titles == [PACK, "spinf/triage (official)"]
        assert len([one for one in shown.dataframe if "score" in one.value.columns]) == 2
        kept = note_tried(open_desk(folder), Content("word " * 90))
        shown = served(folder, who, **{"try": kept.id})
        assert not shown.exception
        assert "content_too_long" in messages(shown)


def test_two_models_stand_side_by_side(folder):
    with recorded_server() as (one, _), recorded_server() as (other, engine):
        # Another model: it answers by other numbers.
        engine._recording = replace(engine._recording, scores={})
        engine.served = replace(engine.served, id="another-model", name="another-model")
        shown = served(folder, one, row="t0004", beside="model")
        who = next(box for box in shown.selectbox if box.key == "try-2-who")
        who.set_value("other").run()
        for name, value in (("url", other.server), ("token", other.token)):
            next(box for box in shown.text_input if box.key == f"try-2-{name}").set_value(value)
        shown.run()
        assert not shown.exception
        titles = [read(box.value) for box in shown.subheader]
        assert titles == [PACK, f"{PACK}, {other.server}"]
        said = messages(shown)
        assert "Answered by smollm2-135m-instruct" in said and "Answered by another-model" in said
        mine, theirs = (box.value for box in shown.dataframe if "lift" in box.value.columns)
        assert (mine["template"] == theirs["template"]).all()
        assert (mine["p"] != theirs["p"]).any()
        # The pack has no numbers for the other one, so nothing is decided there.
        assert "is a draft on another-model" in said


def test_the_unsaved_draft_can_be_tried(folder):
    desk = open_desk(folder)
    file = folder / PACK
    draft = draft_of(desk, file)
    text = draft.text.replace(" asks for", " begs for", 1)
    keep(desk, file, text, draft.revision, user="ann")
    kept = note_tried(desk, Content(TEXT))
    with recorded_server() as (who, _):
        shown = served(folder, who, **{"try": kept.id})
        assert not shown.exception
        assert [one.value for one in shown.subheader] == [f"{PACK}, unsaved draft"]
        templates = shown.dataframe[-1].value["template"]
        assert templates.str.contains(" begs for").any()
        shown.toggle[0].set_value(False).run()
        assert [one.value for one in shown.subheader] == [PACK]
        assert not shown.dataframe[-1].value["template"].str.contains(" begs for").any()
        keep(desk, file, "pack: [", draft_of(desk, file).revision, user="ann")
        shown = served(folder, who, **{"try": kept.id})
        assert not shown.exception
        assert "the draft has faults" in messages(shown)


def test_nobody_there_is_told_and_can_be_asked_again(folder):
    kept = note_tried(open_desk(folder), Content(TEXT))
    shown = served(folder, Who("http://127.0.0.1:9", None), **{"try": kept.id})
    assert not shown.exception
    assert "cannot be reached" in messages(shown)
    assert any(one.label == "Ask again" for one in shown.button)
