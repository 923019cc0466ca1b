"""The workbench among hostile names, texts, addresses, files and users."""

import asyncio
import errno
import io
import json
import os
from typing import Any

import pandas as pd
import pytest

from spinf_serve.evals.sheets import Column, open_sheet, wanted_of
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions import drafts, publishing, saving, sheets, uploads, wizard
from spinf_serve.workbench.actions.ci import keep_rules, rules_of
from spinf_serve.workbench.parts.tables import as_csv
from spinf_serve.workbench.parts.words import code, message, plain
from spinf_serve.workbench.shield import Shield, policy
from tests.workbench.data_desks import example, pack_of
from tests.workbench.support import messages, name_users, page, read

PICTURE = "![x](http://elsewhere.invalid/x.png)"


@pytest.mark.parametrize(
    "text",
    [
        PICTURE,
        "[x](javascript:alert(1))",
        "<img src=x onerror=alert(1)>",
        "a *b* _c_ `d` ~e~ $f$ &lt; |",
        "1. no list",
        "12) no list",
        "# no heading",
        "- no list",
        ":red[x] :material/delete: :smile:",
        "a_b:c[d]",
    ],
)
def test_a_text_of_others_is_read_as_it_is_written(text):
    told = plain(text)
    assert read(told) == text
    # Nothing that begins a picture, a link, code, HTML or mathematics stands without its backslash.
    bare = told.replace("\\\\", "")
    for sign in "[]<`*_$~|":
        assert bare.count(sign) == bare.count("\\" + sign)
    assert not told.startswith(("#", "-", "1. ", "12) "))
    assert ":material/" not in told and ":smile:" not in told and "://" not in told


def test_what_is_not_seen_turns_nothing_around_and_breaks_no_line():
    assert plain("a\nb\u202ec\x00d") == "a b\ufffdc\ufffdd"
    assert plain("x" * 5_000, 10) == "x" * 10 + "…"


@pytest.mark.parametrize("text", ["a", "`", "a``b`", "", PICTURE])
def test_code_cannot_be_left(text):
    told = code(text)
    fence = told[: len(told) - len(told.lstrip("`"))]
    assert told.endswith(fence)
    assert fence not in told[len(fence) : -len(fence)]


def test_a_message_keeps_its_code_and_nothing_of_others():
    assert message("no 'urgen'; did you mean `urgent`?") == "no 'urgen'; did you mean `urgent`?"
    assert message(f"{PICTURE} `{PICTURE}`") == f"{plain(PICTURE)} {code(PICTURE)}"


def test_the_policy_lets_nothing_be_fetched_from_elsewhere():
    told = policy(b"<script>window.a = 1</script>")
    parts = dict(part.split(" ", 1) for part in told.split("; "))
    assert parts["default-src"] == "'self'"
    assert parts["img-src"] == "'self' data: blob:"
    assert "'unsafe-inline'" not in parts["script-src"]
    assert "'sha256-" in parts["script-src"]
    assert not any(
        word.startswith(("http", "*")) for part in parts.values() for word in part.split()
    )


async def _nothing():
    return {}


async def _answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
    await send({"type": "http.response.body", "body": b""})


def test_every_answer_carries_the_policy():
    sent = []

    async def send(answer):
        sent.append(answer)

    asyncio.run(Shield(_answer)({"type": "http"}, _nothing, send))
    names = {name for name, _ in sent[0]["headers"]}
    assert {b"x", b"content-security-policy", b"x-content-type-options"} <= names


@pytest.fixture
def team(tmp_path):
    desk = example(tmp_path / "p")
    return desk, desk.folder / "packs" / "triage" / "pack.yaml"


def _typed(desk, file, before, after):
    draft = drafts.draft_of(desk, file)
    assert before in draft.text
    return drafts.keep(desk, file, draft.text.replace(before, after, 1), draft.revision, user="bob")


def test_an_author_saves_words_and_no_numbers(team):
    desk, file = team
    pack = pack_of(desk)
    constants = next(iter(pack.fitted.values()))
    cut = next(one.threshold for one in constants.categories.values() if one.threshold is not None)
    line = next(one for one in file.read_text().splitlines() if f"threshold: {cut!r}" in one)
    draft = _typed(desk, file, line, line.replace(f"threshold: {cut!r}", "threshold: 0.0123"))
    before = file.read_bytes()
    with pytest.raises(Unusable, match="only an approver"):
        saving.save(desk, "bob", file, draft, approver=False)
    assert file.read_bytes() == before
    assert drafts.draft_of(desk, file).unsaved
    saving.save(desk, "anna", file, draft, approver=True)
    assert b"0.0123" in file.read_bytes()
    # What stood there before is another cut now: putting it back is an approver's as well.
    back = _typed(desk, file, "threshold: 0.0123", f"threshold: {cut!r}")
    with pytest.raises(Unusable, match="only an approver"):
        saving.save(desk, "bob", file, back, approver=False)


def test_an_author_saves_other_words_and_takes_numbers_out(team):
    desk, file = team
    draft = _typed(desk, file, "name: Support triage (example)", "name: Another")
    saving.save(desk, "bob", file, draft, approver=False)
    assert "name: Another" in file.read_text()
    draft = _typed(desk, file, "[payment, refund,", "[payments, refund,")
    assert saving.new_numbers(file.read_bytes(), draft.text.encode(), file.name) == []


def test_numbers_do_not_come_in_by_a_copy(team):
    desk, file = team
    made = wizard.copy_pack(desk, "bob", file, "Mine", approver=False)
    assert saving.new_numbers(b"", made.read_bytes(), made.name) == []
    kept = wizard.copy_pack(desk, "anna", file, "Hers", approver=True)
    assert saving.new_numbers(b"", kept.read_bytes(), kept.name) == ["smollm2-135m-instruct"]


def test_only_an_approver_publishes(team):
    desk, file = team
    with pytest.raises(Unusable, match="Only an approver"):
        publishing.published(desk, "bob", file, None, "", approver=False)
    assert not (file.parent / "versions").exists()


@pytest.mark.parametrize(
    "name", ["audit.jsonl", ".workbench/settings.json", "packs/triage/versions/1.0.0.yaml"]
)
def test_a_message_by_hand_writes_into_packs_only(team, name):
    from spinf_serve.workbench.pages import pack_bar
    from spinf_serve.workbench.parts.editor.component import Sent

    desk, file = team
    place = desk.folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine\n")
    sent = Sent(name, "client", 1, 0, "client", file.read_text(), "save")
    with pytest.raises(Unusable, match="no pack of this project"):
        pack_bar._keep(desk, "bob", sent, {"mine": {}})
    assert place.read_text() == "mine\n"


@pytest.mark.parametrize(
    "params",
    [
        {"pack": "../../etc/passwd"},
        {"pack": "\x00", "data": "\x00", "bits": "x" * 5_000},
        {"row": PICTURE},
        {"row": "../" * 50},
        {"question": "nothing#99", "target": PICTURE, "chart": "no"},
        {"at": "1e999", "cut": "none", "part": "none"},
        {"upload": "../../x", "part": "import"},
        {"queue": "../../x", "part": "label"},
        {"sheet": "..", "mode": "sheet"},
        {"tab": "none", "form": "none", "with": "../../x", "before": "official:../x"},
    ],
    ids=lambda params: "-".join(params),
)
@pytest.mark.parametrize("path", ["pack", "data", "run", "scores", "thresholds", "compare"])
def test_addresses_that_mean_nothing_break_no_page(tmp_path, path, params):
    example(tmp_path)
    test = page(path, tmp_path, **params)
    assert not test.exception
    assert "![" not in "".join(
        str(one.value) for one in (*test.markdown, *test.caption, *test.info)
    )


def test_a_downloaded_table_holds_no_formula():
    data = pd.DataFrame({"text": ["=1+1", "@x", "-1", "fine", None], "p": [-0.5, 1, 2, 3, 4]})
    lines = as_csv(data).decode().splitlines()
    assert lines == ["text,p", "'=1+1,-0.5", "'@x,1.0", "'-1,2.0", "fine,3.0", ",4.0"]


def test_an_added_cell_of_a_worksheet_is_no_formula(tmp_path):
    from openpyxl import Workbook, load_workbook

    book = Workbook()
    book.active.append(["text"])
    book.active.append(["hello"])
    book.save(tmp_path / "in.xlsx")
    sheet = open_sheet(tmp_path / "in.xlsx")
    added = [Column("spinf_reason", is_number=False)]
    sheet.write(tmp_path / "out.xlsx", wanted_of(sheet, "text", (), added), [["=HYPERLINK(1)"]])
    cell = load_workbook(tmp_path / "out.xlsx").active.cell(2, 2)
    assert (cell.value, cell.data_type) == ("=HYPERLINK(1)", "s")


def test_limits_of_another_tab_are_not_undone(team):
    desk, _ = team
    keep_rules(desk, "anna", "a.yaml", ["refused <= 0.1"], seen=[])
    keep_rules(desk, "lee", "b.yaml", ["refused <= 0.2"], seen=[])
    with pytest.raises(Unusable, match="somebody else"):
        keep_rules(desk, "bob", "a.yaml", ["refused <= 0.9"], seen=[])
    assert rules_of(desk, "a.yaml") == ["refused <= 0.1"]
    assert rules_of(desk, "b.yaml") == ["refused <= 0.2"]


def test_damaged_files_break_no_page(team):
    desk, _ = team
    settings = {
        "per_day": "x",
        "rules": [],
        "tour": [1],
        "wizard": 7,
        "hour_price": "z",
        "user": {},
    }
    (desk.private / "settings.json").write_text(json.dumps(settings))
    assert desk.settings() == {}
    job: dict[str, Any] = {
        "kind": "run",
        "title": None,
        "user": 1,
        "subject": "",
        "started": "x",
        "arguments": {},
    }
    for name, text in (
        ("jobs/a/job.json", "{"),
        ("jobs/b/job.json", json.dumps(job)),
        ("uploads/aaaaaaaa/about.json", '{"name": 1}'),
        ("queues/x.json", '{"a": ['),
        ("tried.json", "[]"),
    ):
        place = desk.private / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (desk.private / "queues" / "x.parquet").write_bytes(b"x")
    (desk.folder / "audit.jsonl").write_bytes(b'\xff\xfe{"at":1}\nnull\n')
    pages: list[tuple[str, dict[str, Any]]] = [
        ("run", {}), ("history", {}), ("report", {}), ("try_it", {}), ("pack", {"new": "1"}),
        ("data", {"part": "import"}), ("data", {"part": "label"}),
    ]  # fmt: skip
    for path, params in pages:
        assert not page(path, desk.folder, **params).exception


def test_a_file_whose_name_is_no_text_breaks_no_page(team):
    desk, _ = team
    for place in (b"packs/\xff.yaml", b"sheets/\xff.csv"):
        whole = os.path.join(os.fsencode(desk.folder), place)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w") as file:
            file.write("pack: a/b\n")
    assert not page("pack", desk.folder).exception
    assert not page("run", desk.folder, mode="sheet").exception


def test_what_the_system_refuses_is_told(team, monkeypatch):
    desk, _ = team

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(desk.private / "x"))

    monkeypatch.setattr("spinf_serve.workbench.pages.history._changes", full)
    test = page("history", desk.folder)
    assert not test.exception
    assert "No space left" in messages(test)


@pytest.mark.parametrize("given", [["eva", "anna"], ["x" * 100], ["a\x07"], [" "], []])
def test_a_header_that_names_nobody_lets_nobody_in(team, monkeypatch, given):
    desk, _ = team
    name_users(monkeypatch, *given)
    test = page("history", desk.folder, how={"user_header": "X-User", "approvers": {"anna"}})
    assert "names nobody" in messages(test)
    assert not test.tabs


def test_texts_about_harm_are_in_no_first_look(team):
    desk, file = team
    file.write_text(file.read_text().replace("tags: [support,", "tags: [moderation,", 1))
    kept = uploads.keep_file(desk, "eva", "new.csv", io.BytesIO(b"id,text\n1,terrible words\n"))
    test = page("data", desk.folder, part="import", upload=kept.id)
    assert not test.exception
    assert "terrible" not in "".join(str(one.value) for one in test.dataframe)
    laid = sheets.lay(desk, "new.csv", io.BytesIO(b"text\nterrible words\n"))
    test = page("run", desk.folder, mode="sheet", sheet=laid.id)
    assert "terrible" not in messages(test)
    next(one for one in test.toggle if one.key == f"sheet-first-{laid.id}").set_value(True).run()
    assert "terrible" in messages(test)
