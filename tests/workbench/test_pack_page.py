"""The page Pack in its states, and what its buttons do."""

import json
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.evals.estimate import Counted
from spinf_serve.evals.project import create
from spinf_serve.packs.loader import read_pack
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions import drafts
from spinf_serve.workbench.actions.drafts import draft_of, keep
from spinf_serve.workbench.desk import Desk, key_of, open_desk
from spinf_serve.workbench.pages import pack_bar, pack_grid, pack_lint, pack_preview
from spinf_serve.workbench.parts.editor.component import Sent
from spinf_serve.workbench.started import Started, start_as
from spinf_serve.workbench.tokens import Costs, Pieces
from tests.workbench.support import messages, page

LINT: Mapping[str, float | None] = {"residual": 0.99999, "floor": 0.999}


class Words:
    """A tokenizer's stand-in: a token is a word with the white space before it."""

    def pieces(self, texts: list[str]) -> "Future[Pieces]":
        found = []
        for text in texts:
            parts = text.replace(" ", "\0 ").replace("\n", "\0\n").split("\0")
            found.append(tuple((sum(map(ord, part)), part) for part in parts if part))
        return _there(Pieces("smollm2-135m-instruct", tuple(found), False, LINT))

    def costs(self, pack: str, name: str, contents: list[str]) -> "Future[Costs]":
        read = read_pack(pack.encode(), name, fitted=False)
        prompts = [len(one.text.split()) for each in read.questions for one in each.prompts]
        rows = len(contents)
        content = sum(len(one.split()) for one in contents)
        calls = rows * len(prompts)
        apart = content * len(prompts) + rows * sum(prompts)
        counted = Counted(rows, calls, content, content + rows * sum(prompts), apart)
        return _there(Costs("smollm2-135m-instruct", counted, {}, tuple(prompts)))


def _there(value: Any) -> "Future[Any]":
    made: Future[Any] = Future()
    made.set_result(value)
    return made


@pytest.fixture(autouse=True)
def _tokens(monkeypatch):
    for module in (pack_grid, pack_lint, pack_preview):
        monkeypatch.setattr(module, "tokens", Words)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example's project, which no test changes."""
    return open_desk(tmp_path_factory.mktemp("pack") / "example")


@pytest.fixture
def desk(tmp_path):
    """A project without rows, with the example's pack."""
    create(tmp_path / "project.duckdb")
    text = Path(pack_bar.__file__).parents[1] / "example" / "pack.yaml"
    (tmp_path / "pack.yaml").write_bytes(text.read_bytes())
    return Desk(tmp_path, tmp_path / "project.duckdb")


@pytest.fixture
def file(desk):
    return desk.folder / "pack.yaml"


def button(test, label):
    return next(one for one in test.button if one.label == label)


def test_the_example_opens_without_a_fault(example):
    test = page("pack", example.folder)
    assert not test.exception and not test.error
    assert test.title[0].value == "Pack"
    told = messages(test)
    assert "packs/triage/pack.yaml" in told and "valid pack" in told
    assert button(test, "Save").disabled and button(test, "Undo").disabled


def test_a_project_without_a_pack_says_what_to_do(tmp_path):
    create(tmp_path / "project.duckdb")
    test = page("pack", tmp_path)
    assert not test.exception and "no pack yet" in messages(test)


def test_a_file_that_is_no_text_is_told(desk, file):
    file.write_bytes(b"pack: a/b\nname: \xff\n")
    test = page("pack", desk.folder)
    assert not test.exception
    assert "not UTF-8" in messages(test)


def test_a_fault_is_listed_and_its_fix_taken_then_saved(desk, file):
    right = file.read_text()
    file.write_text(right.replace("category: urgent", "category: urgen", 1))
    test = page("pack", desk.folder)
    assert "did you mean `urgent`?" in messages(test) and "1 fault" in messages(test)
    button(test, "Write urgent").click().run()
    assert "valid pack" in messages(test)
    assert draft_of(desk, file).text == right and "urgen\n" in file.read_text()
    button(test, "Save").click().run()
    assert file.read_text() == right
    assert [one.action for one in audit.events(desk)] == ["save pack"]
    assert button(test, "Save").disabled


def test_a_draft_with_faults_is_kept_and_not_saved(desk, file):
    before = file.read_text()
    keep(desk, file, before + "nonsense\n", 0)
    test = page("pack", desk.folder)
    button(test, "Save").click().run()
    assert "Not saved" in test.error[0].value and "unsaved draft" in messages(test)
    assert file.read_text() == before and draft_of(desk, file).text == before + "nonsense\n"


def test_undo_and_redo_go_through_the_history(desk, file):
    before = file.read_text()
    keep(desk, file, before + "# more\n", 0)
    test = page("pack", desk.folder)
    button(test, "Undo").click().run()
    assert draft_of(desk, file).text == before
    button(test, "Redo").click().run()
    assert draft_of(desk, file).text == before + "# more\n"


def test_old_numbers_are_told_and_can_be_taken_out(desk, file):
    text = file.read_text().replace("options: [payment,", "options: [invoice, payment,", 1)
    keep(desk, file, text, 0)
    test = page("pack", desk.folder)
    assert "earlier wording" in messages(test)
    button(test, "Take the old numbers out").click().run()
    assert "valid pack" in messages(test)
    assert "# `email` for mail" in draft_of(desk, file).text


def test_a_file_that_changed_on_disk_asks_what_to_do(desk, file):
    before = file.read_text()
    keep(desk, file, before + "# mine\n", 0)
    file.write_text(before + "# theirs\n")
    test = page("pack", desk.folder)
    assert "changed on disk" in messages(test)
    button(test, "Take the file's text; my draft stays in the history").click().run()
    assert draft_of(desk, file).text == before + "# theirs\n"
    button(test, "Undo").click().run()
    assert draft_of(desk, file).text == before + "# mine\n"


class Typing:
    """What the editor sends, without a browser."""

    def __init__(self, monkeypatch, desk, file):
        start_as(Started(desk.folder))
        self.state: dict[str, Any] = {}
        self.desk, self.file, self.seq, self.message = desk, file, 0, None
        empty = pack_bar._state()
        self.state |= {**empty, "handled": set(), "mine": {}}
        monkeypatch.setattr(pack_bar, "_state", lambda: self.state)
        monkeypatch.setattr(pack_bar, "sent", lambda key: self.message)

    def send(self, text, base, then=None, client="tab"):
        self.seq += 1
        name = self.desk.name_of(self.file)
        self.message = Sent(name, client, self.seq, base, client, text, then)
        pack_bar.take(self.desk, "ann")


def test_what_the_editor_sends_is_kept_once_and_answered(monkeypatch, desk, file):
    typing = Typing(monkeypatch, desk, file)
    typing.send("one", 0)
    assert typing.state["ack"] == {"client": "tab", "seq": 1, "kept": True, "revision": 1}
    # A run of the page for another reason brings the same message again.
    drafts.undo(desk, file, 1)
    pack_bar.take(desk, "ann")
    assert draft_of(desk, file).text == file.read_text()


def test_what_another_changed_meanwhile_is_a_choice_not_a_loss(monkeypatch, desk, file):
    typing = Typing(monkeypatch, desk, file)
    keep(desk, file, "theirs", 0, writer="other")
    typing.send("mine", 0)
    assert typing.state["ack"]["kept"] is False and pack_bar.mine(file) == "mine"
    typing.send("mine, and more", 0)
    assert pack_bar.mine(file) == "mine, and more"
    assert draft_of(desk, file).text == "theirs"


def test_saving_with_the_keyboard_saves_what_was_typed(monkeypatch, desk, file):
    typing = Typing(monkeypatch, desk, file)
    text = file.read_text() + "# typed\n"
    typing.send(text, 0, "save")
    assert file.read_text() == text and typing.state["told"][0] == "toast"
    typing.send(text + "nonsense\n", 2, "save")
    assert typing.state["told"][0] == "error" and file.read_text() == text
    typing.send(text + "nonsense\n", 3, "undo")
    assert draft_of(desk, file).text == text


def test_the_preview_shows_what_the_model_reads(example):
    test = page("pack", example.folder, tab="Preview", question="sentiment", row="3")
    assert not test.exception
    shown = test.get("html")[0].proto.body
    assert "Support ticket:" in shown and "Sentiment:" in shown and "↵" in shown
    assert ":blue-badge[␣positive] :blue-badge[␣negative]" in messages(test)
    assert "Row 3" in messages(test)


def test_the_preview_of_a_text_of_ones_own_with_its_tokens(example):
    test = page("pack", example.folder, tab="Preview", question="topic")
    test.radio[0].set_value("A text of my own").run()
    test.text_area[0].set_value("Where is <b>it</b>?").run()
    assert "&lt;b&gt;it&lt;/b&gt;" in test.get("html")[0].proto.body
    test.toggle[0].set_value(True).run()
    assert "tokens of smollm2-135m-instruct" in messages(test)
    table = test.dataframe[-1].value
    assert list(table["option"])[:2] == ["␣payment", "␣refund"] and set(table["tokens"]) == {1}


def test_the_grid_tells_rows_tokens_and_cost(example):
    test = page("pack", example.folder, tab="Grid and cost")
    assert not test.exception
    told = {one.label: one.value for one in test.metric}
    tree = float(told["Tokens for 1,000 contents"].replace(",", ""))
    apart = float(told["As one call per question"].replace(",", ""))
    assert apart > tree > 0
    assert told["Saved by reading once"] == f"{apart / tree:.1f} ×"
    table = test.dataframe[0].value
    assert len(table) == 33 and list(table["tokens"])[:2] == [1, 4]
    test.text_input[0].set_value("sentiment").run()
    assert list(test.dataframe[0].value["question"]) == ["sentiment"]


def test_a_grid_of_ten_thousand_is_paged(desk, file):
    words = ", ".join(f"word{number}" for number in range(1000))
    questions = "".join(
        f'    - id: q{number}\n      template: "\\nIs it {number} or {{F}}:{{?}}"\n'
        f"      options: [yes, no]\n      for: {{F: [{words}]}}\n      category: c\n"
        for number in range(10)
    )
    file.write_text(
        f'pack: a/b\nversion: 1.0.0\ncontexts: {{m: "{{X}}"}}\nscoring:\n  queries:\n{questions}'
    )
    test = page("pack", desk.folder, tab="Grid and cost")
    assert not test.exception and "10,000 filled templates" in messages(test)
    assert len(test.dataframe[0].value) == 50
    assert "of 10,000" in messages(test) and "typical message" in messages(test)


def test_lint_looks_at_kept_answers_and_at_the_wording(example, desk, file):
    test = page("pack", example.folder, tab="Lint")
    assert not test.exception and "to 50 rows of messages, with its own limits" in messages(test)
    file.write_text(file.read_text().replace("nTopic:{?}", "nTopic: {?}", 1))
    test = page("pack", desk.folder, tab="Lint")
    told = messages(test)
    assert "no model has answered yet" in told and "wording only" in told
    assert "ends in a space" in told and button(test, "topic")


def test_a_finding_opens_its_line_in_the_editor(desk, file):
    file.write_text(file.read_text().replace("nTopic:{?}", "nTopic: {?}", 1))
    test = page("pack", desk.folder, tab="Lint")
    button(test, "topic").click().run()
    assert test.session_state["tab"] == "Text"
    line = test.session_state["pack-editing"]["jump"]["line"]
    assert "id: topic" in file.read_text().split("\n")[line - 1]


def test_the_question_of_an_address_is_where_the_cursor_goes(desk, file):
    test = page("pack", desk.folder, tab="Text", question="sentiment")
    assert not test.exception
    line = test.session_state["pack-editing"]["jump"]["line"]
    assert "id: sentiment" in file.read_text().split("\n")[line - 1]
    # Once: who goes elsewhere in the text stays there.
    test.run()
    assert test.session_state["pack-editing"]["jump_n"] == 1
    assert (
        page("pack", desk.folder, tab="Text", question="none").session_state["pack-editing"]["jump"]
        is None
    )


def test_versions_are_compared_restored_and_published(desk, file):
    before = file.read_text()
    keep(desk, file, before.replace("Sentiment:", "Mood:", 1), 0, user="ann")
    test = page("pack", desk.folder, tab="Versions")
    told = messages(test) + "\n".join(one.value for one in test.code)
    assert "Mood:" in told and "Sentiment:" in told
    assert button(test, "Publish").disabled and "Save the draft first" in messages(test)
    button(test, "Restore this text").click().run()
    assert draft_of(desk, file).text == before
    assert "Both are the same" in messages(test)
    note = next(one for one in test.text_input if one.label == "Note")
    note.set_value("The first one").run()
    button(test, "Publish").click().run()
    assert not test.error
    assert (desk.folder / "versions" / "1.0.0.yaml").read_text() == before
    manifest = json.loads((desk.folder / "prompt-packs.json").read_text())
    assert manifest["packs"][0]["versions"][0]["note"] == "The first one"
    event = audit.events(desk)[0]
    assert (event.action, event.details["version"]) == ("publish pack", "1.0.0")
    # The published copy can be compared with at once.
    assert any(
        "published 1.0.0" in one for one in test.selectbox(key=f"with-{key_of(file)}").options
    )


def test_only_an_approver_publishes(desk):
    how = {"approvers": frozenset({"boss"}), "user": "ann"}
    test = page("pack", desk.folder, how=how, tab="Versions")
    assert button(test, "Publish").disabled and "Only an approver" in messages(test)


def test_a_published_version_is_raised_with_the_next(desk, file):
    test = page("pack", desk.folder, tab="Versions")
    button(test, "Publish").click().run()
    text = draft_of(desk, file)
    changed = keep(desk, file, text.text.replace("Tone:", "Voice:", 1), text.revision)
    drafts.save(desk, "ann", file, changed)
    test = page("pack", desk.folder, tab="Versions")
    button(test, "Publish").click().run()
    assert "never changes" in test.error[0].value
    test.radio(key=f"part-{key_of(file)}").set_value("minor").run()
    button(test, "Publish").click().run()
    assert not test.error and 'version: "1.1.0"' in file.read_text()
    # The editor goes on with what publishing wrote.
    assert 'version: "1.1.0"' in draft_of(desk, file).text and not draft_of(desk, file).unsaved
