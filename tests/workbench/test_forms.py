"""A pack edited by forms: any edits keep comments and untouched lines, and mean what was chosen."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.workbench.actions import drafts, forms
from spinf_serve.workbench.actions import form_questions as questions
from spinf_serve.workbench.actions.form_questions import Speaks
from spinf_serve.workbench.actions.forms import form_of
from spinf_serve.workbench.desk import Desk, open_desk
from spinf_serve.workbench.started import Started, start_as

TEXT = """\
# A pack of a shop.
pack: demo/shop   # its id
version: 1.0.0
name: Shop mail

tags: [mail, "support"]   # two

# How it is shown.
contexts:
  # by mail
  email: "Email to {shop}:\\n{X}\\n"   # the default
  chat: 'Chat: {X}'
parameters:
  shop: {label: Shop, required: false, default: the shop}   # named

scoring:
  queries:
    # Moods first.
    - id: anger   # asked first
      template: "\\nThe writer is{?}"
      options: [angry,  calm]   # two
      category: anger

    # The list.
    - id: topic
      # inside
      template: "\\nTopic:{?}"
      options:
        - payment   # money
        # of shipping
        - shipping
        - other
      categories: {payment: money, shipping: delivery}
    - id: about
      template: "\\nIt mentions {F}. True or false?{?}"
      options: true/false
      for: {F: [a refund, a parcel]}
      category: {a refund: money, a parcel: delivery}
    - {id: tone, template: "\\nThe tone is{?}", options: [hostile, rude, mild, other], category: anger, unsafe: [hostile, rude]}

# What is scored.
categories:
  anger: {label: Angry}   # the mood
  # two desks
  money:
    label: About money   # short
    decides: false
  delivery:

decision: {mode: max, max: {}, critical: [anger]}   # how
bands:
  categories:
    anger: {act: 0.8, review: 0.4}
route: {categories: [money, delivery], margin: 0.1}
# the end
"""
COMMENTS = re.findall(r"(?<!\S)#.*", TEXT)


def comments(text: str) -> list[str]:
    return sorted(re.findall(r"(?<!\S)#.*", text))


def lines_of(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that went, and lines that came."""
    old, new = before.split("\n"), after.split("\n")
    return [one for one in old if one not in new], [one for one in new if one not in old]


@pytest.mark.parametrize(
    ("edit", "gone", "come"),
    [
        (lambda t: forms.put(t, ["name"], "Mail: all"), ["name: Shop mail"], ['name: "Mail: all"']),
        (lambda t: forms.put(t, ["name"], ""), ["name: Shop mail"], []),
        (lambda t: forms.put(t, ["description"], "x"), [], ["description: x"]),
        (lambda t: forms.put(t, ["tags"], ["mail", "shop"]), ['tags: [mail, "support"]   # two'], ["tags: [mail, shop]   # two"]),
        (lambda t: questions.set_field(t, "anger", "template", "\nHe is{?}"), ['      template: "\\nThe writer is{?}"'], ['      template: "\\nHe is{?}"']),
        (lambda t: questions.set_options(t, "anger", ["furious", "calm"]), ["      options: [angry,  calm]   # two"], ["      options: [furious,  calm]   # two"]),
        (lambda t: questions.set_options(t, "anger", "yes/no"), ["      options: [angry,  calm]   # two"], ["      options: yes/no   # two"]),
        # A reworded option keeps what it speaks for.
        (lambda t: questions.set_options(t, "topic", ["payment", "parcel", "other"]), ["        - shipping", "      categories: {payment: money, shipping: delivery}"], ["        - parcel", "      categories: {payment: money, parcel: delivery}"]),
        (lambda t: questions.set_options(t, "topic", ["payment", "other"]), ["        - shipping", "      categories: {payment: money, shipping: delivery}"], ["      categories: {payment: money}"]),
        (lambda t: questions.set_options(t, "topic", ["payment", "shipping", "praise", "other"]), [], ["        - praise"]),
        (lambda t: questions.set_values(t, "about", "F", ["a refund", "a box"]), ["      for: {F: [a refund, a parcel]}", "      category: {a refund: money, a parcel: delivery}"], ["      for: {F: [a refund, a box]}", "      category: {a refund: money, a box: delivery}"]),
        (lambda t: questions.set_speaks(t, "anger", Speaks("anger", second=True)), [], ["      sign: -1"]),
        (lambda t: questions.set_speaks(t, "anger", Speaks()), ["      category: anger"], []),
        (lambda t: questions.set_speaks(t, "topic", Speaks(by_option={"payment": "money", "other": "rest"})), ["      categories: {payment: money, shipping: delivery}"], ["      categories: {payment: money, other: rest}"]),
        (lambda t: questions.rename_question(t, "anger", "mood"), ["    - id: anger   # asked first"], ["    - id: mood   # asked first"]),
        (lambda t: questions.add_question(t, "new", "topic", template="\nIt is{?}", options=["a", "b"], category="anger"), [], ["    - id: new", '      template: "\\nIt is{?}"', "      options: [a, b]"]),
        (lambda t: forms.set_category(t, "money", "decides", True), ["    decides: false"], []),
        (lambda t: forms.set_category(t, "delivery", "label", "Parcels"), ["  delivery:"], ["  delivery: {label: Parcels}"]),
        (lambda t: forms.set_category(t, "anger", "requires", ["money"]), ["  anger: {label: Angry}   # the mood"], ["  anger: {label: Angry, requires: [money]}   # the mood"]),
        (lambda t: forms.set_band(t, "anger", (0.9, 0.4)), ["    anger: {act: 0.8, review: 0.4}"], ["    anger: {act: 0.9, review: 0.4}"]),
        (lambda t: forms.set_band(t, "anger", None), ["bands:", "  categories:", "    anger: {act: 0.8, review: 0.4}"], []),
        (lambda t: forms.set_decision(t, "critical", []), ["decision: {mode: max, max: {}, critical: [anger]}   # how"], ["decision: {mode: max, max: {}}   # how"]),
        (lambda t: forms.set_route(t, "minimum", 0.2), ["route: {categories: [money, delivery], margin: 0.1}"], ["route: {categories: [money, delivery], margin: 0.1, minimum: 0.2}"]),
        (lambda t: forms.set_route(t, "categories", []), ["route: {categories: [money, delivery], margin: 0.1}"], []),
        (lambda t: forms.set_on_long(t, "max"), [], ["on_long: {chunk: max}"]),
        (lambda t: forms.rename_key(t, "parameters", "shop", "store"), ['  email: "Email to {shop}:\\n{X}\\n"   # the default', "  shop: {label: Shop, required: false, default: the shop}   # named"], ['  email: "Email to {store}:\\n{X}\\n"   # the default', "  store: {label: Shop, required: false, default: the shop}   # named"]),
        (lambda t: forms.add_key(t, "contexts", "web", "Form: {X}\n"), [], ['  web: "Form: {X}\\n"']),
        (lambda t: forms.add_read(t), [], ["reads:", "  - id: read", "    query: anger", "    kind: pair", "    category: anger"]),
    ],
)  # fmt: skip
def test_an_edit_touches_only_its_lines(
    edit: Callable[[str], str], gone: list[str], come: list[str]
) -> None:
    edited = edit(TEXT)
    assert lines_of(TEXT, edited) == (gone, come)
    assert comments(edited) == sorted(COMMENTS)


def test_a_category_is_renamed_everywhere() -> None:
    edited = forms.rename_category(TEXT, "anger", "furious")
    assert len(re.findall(r"\banger\b", edited)) == 1  # the question's own name
    pack = read_pack(edited.encode(), "p.yaml")
    assert list(pack.categories) == ["furious", "money", "delivery"]
    assert pack.decision.critical == ("furious",)
    assert comments(edited) == sorted(COMMENTS)


def test_what_is_still_used_is_not_removed() -> None:
    with pytest.raises(Unusable, match="topic, about still speak for 'money'"):
        forms.remove_category(TEXT, "money")
    text = forms.add_read(TEXT)
    with pytest.raises(Unusable, match="the read 'read' is made of it; .* in Reads"):
        questions.remove_question(text, "anger")
    with pytest.raises(Unusable, match="there is a question 'topic' already"):
        questions.rename_question(TEXT, "anger", "topic")
    with pytest.raises(Unusable, match="not there any more"):
        questions.set_field(TEXT, "gone", "template", "x")


def test_one_by_one_combinations_point_to_their_line() -> None:
    text = TEXT.replace(
        "for: {F: [a refund, a parcel]}",
        "combinations:\n        - {F: a refund}\n        - {F: a parcel}",
    )
    line = text.split("\n").index("      combinations:") + 2
    with pytest.raises(Unusable, match=f"edit them in the text, line {line}$"):
        questions.set_values(text, "about", "F", ["x"])


def test_a_file_without_categories_gets_them_when_one_is_described() -> None:
    text = TEXT[: TEXT.index("# What is scored.")] + "# end\n"
    assert list(form_of(text).categories) == ["anger", "money", "delivery"]
    edited = forms.set_category(text, "money", "label", "Money")
    assert read_pack(edited.encode(), "p.yaml").categories["money"].label == "Money"
    assert list(form_of(edited).categories) == ["anger", "money", "delivery"]
    assert edited.startswith(text)


WORD = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
LINES = st.lists(WORD, min_size=2, max_size=4, unique_by=str.casefold)


def _option_edit(data: st.DataObject, text: str, model: Any) -> str:
    query = data.draw(st.sampled_from(model["scoring"]["queries"]))
    options = data.draw(LINES)
    old = questions.options_of(query)
    text = questions.set_options(text, query["id"], options)
    renamed, gone = questions.reworded(old, options)
    query["options"] = options
    for name in ("categories", "unsafe"):
        held = query.get(name)
        if isinstance(held, dict):
            query[name] = {renamed.get(k, k): v for k, v in held.items() if k not in gone}
        elif isinstance(held, list):
            query[name] = [renamed.get(k, k) for k in held if k not in gone]
        if name in query and not query[name]:
            del query[name]
    return text


def _question_edit(data: st.DataObject, text: str, model: Any) -> str:
    queries = model["scoring"]["queries"]
    index = data.draw(st.integers(0, len(queries) - 1))
    name = queries[index]["id"]
    what = data.draw(st.sampled_from(["move", "remove", "word", "rename", "add", "copy"]))
    if what == "move":
        by = data.draw(st.sampled_from([-1, 1]))
        to = max(0, min(len(queries) - 1, index + by))
        queries.insert(to, queries.pop(index))
        return questions.move_question(text, name, by)
    if what == "remove" and len(queries) > 1:
        del queries[index]
        return questions.remove_question(text, name)
    if what == "rename":
        new = questions.free_id(form_of(text), data.draw(WORD))
        queries[index]["id"] = new
        return questions.rename_question(text, name, new)
    if what == "add":
        new = questions.free_id(form_of(text), "new")
        fields = {"template": data.draw(WORD) + "{?}", "options": data.draw(LINES)}
        queries.insert(index + 1, {"id": new, **fields})
        return questions.add_question(text, new, name, **fields)
    if what == "copy":
        text, new = questions.copy_question(text, name)
        queries.insert(index + 1, {**queries[index], "id": new})
        return text
    template = "\n" + data.draw(WORD) + "{?}"
    queries[index]["template"] = template
    return questions.set_field(text, name, "template", template)


def _other_edit(data: st.DataObject, text: str, model: Any) -> str:
    what = data.draw(st.sampled_from(["tags", "name", "context", "order", "label"]))
    if what == "tags":
        model["tags"] = data.draw(st.lists(WORD, min_size=1, max_size=3))
        return forms.put(text, ["tags"], model["tags"])
    if what == "name":
        model["name"] = data.draw(WORD)
        return forms.put(text, ["name"], model["name"])
    if what == "context":
        model["contexts"]["email"] = data.draw(WORD) + "{X}"
        return forms.put(text, ["contexts", "email"], model["contexts"]["email"])
    if what == "order":
        name = data.draw(st.sampled_from(list(model["categories"])))
        pairs = list(model["categories"].items())
        at = [key for key, _ in pairs].index(name)
        pairs.insert(max(0, at - 1), pairs.pop(at))
        model["categories"] = dict(pairs)
        return forms.move_key(text, "categories", name, -1)
    model["categories"]["money"]["label"] = data.draw(WORD)
    return forms.set_category(text, "money", "label", model["categories"]["money"]["label"])


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_any_edits_in_a_row_mean_what_was_chosen_and_keep_the_rest(data: st.DataObject) -> None:
    text = TEXT
    model: Any = copy.deepcopy(form_of(TEXT).file)
    removed = 0
    for _ in range(data.draw(st.integers(1, 6))):
        before = text
        edit = data.draw(st.sampled_from([_option_edit, _question_edit, _other_edit]))
        text = edit(data, text, model)
        assert form_of(text).file == model
        assert list(form_of(text).categories) == list(model["categories"])
        removed += len(form_of(text).questions) < len(form_of(before).questions)
        # Lines that no edit of here is about are there byte for byte, and in their order.
        fixed = [one for one in TEXT.split("\n") if one.startswith(("pack:", "version:", "route:", "bands:", "decision:", "# ", "parameters:", "  shop:", "  chat:"))]  # fmt: skip
        assert [one for one in text.split("\n") if one in fixed] == fixed
        if not removed:
            # An entry of a list keeps its comments unless the entry itself goes.
            kept = [one for one in COMMENTS if one not in ("# money", "# of shipping")]
            assert set(kept) <= set(comments(text))


# The page


def _form(folder: str) -> None:
    from pathlib import Path

    from spinf_serve.workbench.actions.drafts import draft_of
    from spinf_serve.workbench.frame import bench
    from spinf_serve.workbench.pages import pack_forms
    from spinf_serve.workbench.started import Started, start_as

    start_as(Started(Path(folder)))
    found = bench()
    assert found.file is not None
    pack_forms.draw(found, draft_of(found.desk, found.file))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pack.yaml").write_text(TEXT)
    start_as(Started(tmp_path))
    return open_desk(tmp_path)


def file_of(desk: Desk) -> Path:
    return desk.folder / "shop" / "pack.yaml"


def draft_text(desk: Desk) -> str:
    return drafts.draft_of(desk, file_of(desk)).text


def page(desk: Desk, **params: str) -> AppTest:
    test = AppTest.from_function(_form, args=(str(desk.folder),), default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    return test.run()


def field(test: AppTest, label: str) -> Any:
    kinds = (test.text_input, test.text_area, test.selectbox, test.multiselect, test.checkbox)
    found = [one for kind in kinds for one in kind if one.label == label]
    assert len(found) == 1, [one.label for kind in kinds for one in kind]
    return found[0]


def press(test: AppTest, label: str) -> AppTest:
    (found,) = [one for one in test.button if one.label == label]
    return found.click().run()


def test_the_form_edits_the_draft_and_follows_it(desk: Desk) -> None:
    test = page(desk)
    assert not test.exception
    assert field(test, "Wording").value == "The writer is{?}"
    field(test, "Wording").set_value("The author is{?}").run()
    assert '      template: "\\nThe author is{?}"\n' in draft_text(desk)
    assert file_of(desk).read_text() == TEXT
    # What another changes shows up; an undo too.
    draft = drafts.draft_of(desk, file_of(desk))
    drafts.keep(desk, draft.file, draft.text.replace("author", "sender"), draft.revision)
    assert field(test.run(), "Wording").value == "The sender is{?}"
    for expected in ("author", "writer"):
        draft = drafts.draft_of(desk, file_of(desk))
        drafts.undo(desk, draft.file, draft.revision)
        assert field(test.run(), "Wording").value == f"The {expected} is{{?}}"
    assert draft_text(desk) == TEXT


def test_edits_made_at_once_are_all_kept(desk: Desk) -> None:
    test = page(desk)
    field(test, "Wording").set_value("The author is{?}")
    field(test, "One a line").set_value("furious\ncalm")
    field(test, "Name").set_value("mood")
    test.run()
    assert not test.exception
    assert not test.error
    held = form_of(draft_text(desk)).questions[0]
    assert (held["id"], held["template"]) == ("mood", "\nThe author is{?}")
    assert held["options"] == ["furious", "calm"]
    assert test.query_params["question"] == "mood"
    assert comments(draft_text(desk)) == sorted(COMMENTS)


def test_a_fault_stands_beside_its_field(desk: Desk) -> None:
    test = page(desk)
    field(test, "Wording").set_value("The writer is").run()
    (said,) = [one.value for one in test.error]
    assert "{?}" in said
    # And is told from the other parts of the form.
    test.segmented_control(key="form").set_value("About").run()
    assert any("Questions" in one.value and "{?}" in one.value for one in test.markdown)
    press(test, "Go to Questions")
    field(test, "Wording").set_value("The writer is{?}").run()
    assert not test.error


def test_an_edit_that_cannot_be_made_is_told_and_keeps_what_was_typed(desk: Desk) -> None:
    test = page(desk)
    field(test, "Name").set_value("topic").run()
    assert test.error[0].value.startswith("Not changed: there is a question 'topic' already")
    assert field(test, "Name").value == "topic"
    assert draft_text(desk) == TEXT
    field(test, "Name").set_value("mood").run()
    assert not test.error


def test_questions_are_added_searched_moved_and_removed(desk: Desk) -> None:
    test = press(page(desk), "Add a question")
    assert field(test, "Name").value == "question"
    press(test, "Up")
    ids = [one["id"] for one in form_of(draft_text(desk)).questions]
    assert ids == ["question", "anger", "topic", "about", "tone"]
    press(test, "Remove")
    assert [one["id"] for one in form_of(draft_text(desk)).questions] == ids[1:]
    field(test, "Search questions").set_value("parcel")
    field(test, "Search questions").set_value("shipping").run()
    assert test.radio[0].options == ["topic"]


def test_what_a_question_speaks_for_is_chosen(desk: Desk) -> None:
    test = page(desk, question="topic")
    field(test, "Category of other").set_value("anger").run()
    assert form_of(draft_text(desk)).questions[1]["categories"]["other"] == "anger"
    field(test, "Category of payment").set_value("(none)").run()
    assert "payment" not in form_of(draft_text(desk)).questions[1]["categories"]
    test = page(desk, question="anger")
    field(test, "Spoken for by").set_value(True).run()
    assert form_of(draft_text(desk)).questions[0]["sign"] == "-1"


@pytest.mark.parametrize("part", ["Categories", "Decision", "Contexts", "About", "Reads"])
def test_every_part_draws(desk: Desk, part: str) -> None:
    test = page(desk)
    test.segmented_control(key="form").set_value(part).run()
    assert not test.exception
    assert not test.error
    assert draft_text(desk) == TEXT


def test_the_other_parts_edit_too(desk: Desk) -> None:
    test = page(desk)
    test.segmented_control(key="form").set_value("Categories").run()
    field(test, "Label").set_value("Furious").run()
    field(test, "Name").set_value("fury").run()
    test.segmented_control(key="form").set_value("Decision").run()
    field(test, "Critical").set_value(["fury", "money"]).run()
    test.segmented_control(key="form").set_value("About").run()
    field(test, "What it tells").set_value("Of mail.").run()
    pack = read_pack(draft_text(desk).encode(), "p.yaml")
    assert pack.categories["fury"].label == "Furious"
    assert pack.decision.critical == ("fury", "money")
    assert pack.description == "Of mail."
    assert comments(draft_text(desk)) == sorted(COMMENTS)


def test_a_text_that_is_no_yaml_points_to_the_editor(desk: Desk) -> None:
    file_of(desk).write_text(TEXT + "anchor: &a b\n")
    test = page(desk)
    assert not test.exception
    line = TEXT.count("\n") + 1
    assert f"Line {line}, column 9" in test.error[0].value
    press(test, f"Show line {line}")
    assert test.session_state["tab"] == "Text"


def test_a_layout_that_cannot_take_an_edit_points_to_its_line(desk: Desk) -> None:
    # The first key of each entry stands on the dash's line of another list.
    text = TEXT.replace("  queries:\n", "  queries:\n    - # odd\n      {id: odd, template: 'It is{?}',\n      options: [x, y]}\n")  # fmt: skip
    file_of(desk).write_text(text)
    test = page(desk, question="odd")
    assert not test.exception
    field(test, "Wording").set_value("He is{?}").run()
    assert form_of(draft_text(desk)).questions[0]["template"] in ("He is{?}", "\nHe is{?}")
    assert "# odd" in draft_text(desk)


def test_a_hundred_questions_are_listed_by_pages(desk: Desk) -> None:
    text = TEXT
    more = "".join(f'    - id: q{n}\n      template: "\\nIt is {n}{{?}}"\n      options: [yes, no]\n      category: anger\n' for n in range(100))  # fmt: skip
    file_of(desk).write_text(text.replace("\n# What is scored.", more + "\n# What is scored."))
    test = page(desk)
    assert not test.exception
    assert len(test.radio[0].options) == 20
    assert len(test.text_input) + len(test.text_area) + len(test.selectbox) < 20
    field(test, "Search questions").set_value("q77").run()
    assert test.radio[0].options == ["q77"]
    test.radio[0].set_value("q77").run()
    assert field(test, "Wording").value == "It is 77{?}"


def test_a_json_file_is_left_to_the_editor(desk: Desk, tmp_path: Path) -> None:
    file_of(desk).unlink()
    (tmp_path / "p.json").write_text('{\n"pack": "a/b",\n"scoring": {}\n}')
    assert "JSON" in page(desk).info[0].value


def test_numbers_of_another_wording_are_told_and_can_go(tmp_path: Path) -> None:
    desk = open_desk(tmp_path / "project")
    start_as(Started(desk.folder))
    (file,) = desk.pack_files()
    text = file.read_text()
    test = page(desk, question="money_back")
    assert not test.warning
    press(test, "Remove")
    assert not test.error
    assert any("do not fit any more" in one.value for one in test.warning)
    press(test, "Take the old numbers out")
    edited = drafts.draft_of(desk, file).text
    assert "fitted:" not in edited
    assert not test.warning
    assert set(comments(edited)) <= set(comments(text))
    with pytest.raises(InvalidPack):
        forms.form_of("a: &b c\n")
