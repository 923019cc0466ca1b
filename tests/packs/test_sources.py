import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Barrier

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.sources import (
    Access,
    FolderSource,
    GitHubSource,
    open_source,
    parse_source,
)
from tests.support.github_stand_in import (
    COMMIT,
    OTHER_COMMIT,
    Answer,
    Repository,
    archive,
    github_stand_in,
    tar_gz,
)
from tests.support.github_stand_in import file_member as member

FILES = {"packs/a.json": "one", "readme.md": "two"}


class Opening:
    """Opens a source; `said` holds the lines of the last one."""

    def __init__(self, settings):
        self.settings = settings
        self.said: list[str] = []

    def __call__(self, spec, **access):
        self.said = []
        return open_source(spec, Access(**{**self.settings, **access}), self.said.append)


@pytest.fixture(scope="module")
def server():
    with github_stand_in() as running:
        yield running


@pytest.fixture
def github(server):
    server.repositories.clear()
    server.asked.clear()
    server.repositories["owner/repo"] = Repository(
        {COMMIT: archive(FILES), OTHER_COMMIT: archive({**FILES, "new.json": "three"})},
        tags={"v1": COMMIT, "both": COMMIT},
        branches={"main": COMMIT, "feature/x": COMMIT, "both": OTHER_COMMIT},
    )
    return server


@pytest.fixture
def opening(github, tmp_path):
    return Opening({"cache": tmp_path / "cache", "api": github.url, "seconds": 5.0})


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        ("packs", FolderSource("packs")),
        ("owner/repo@v1", FolderSource("owner/repo@v1")),
        ("github:a/b", GitHubSource("a", "b", None, "")),
        ("github:a/b@v1.0", GitHubSource("a", "b", "v1.0", "")),
        ("github:a/b.c@feature/x#sub/packs/", GitHubSource("a", "b.c", "feature/x", "sub/packs")),
        ("github:a/b#packs", GitHubSource("a", "b", None, "packs")),
    ],
)
def test_what_a_source_means(spec, source):
    assert parse_source(spec) == source


@pytest.mark.parametrize(
    "spec",
    ["", " ", "github:", "github:a", "github:a/..", "github:a/b/c", "github:a/b@", "github:a/b#",
     "github:a/b@x..y", "github:a/b@-x", "github:a/b@x y", "github:a/b@/x", "github:a/b@x?y",
     "github:a/b#../c", "github:a/b#c/./d", "github:a/b#c//d", "github:../b", "github:a/b@x\n"],
)  # fmt: skip
def test_a_source_that_means_nothing_is_refused(spec):
    with pytest.raises(Unusable):
        parse_source(spec)


def test_a_folder_is_taken_as_it_is(tmp_path):
    opened = open_source(str(tmp_path), Access(tmp_path / "cache"), print)
    assert (opened.folder, opened.label) == (tmp_path.resolve(), f"local:{tmp_path}")
    assert opened.watched
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ("owner/repo@v1", "did you mean github:owner/repo@v1?"),
        ("no/such/folder/here", "there is no such folder"),
        (__file__, "give its folder"),
    ],
)
def test_a_folder_that_is_none(opening, spec, remedy):
    with pytest.raises(Unusable, match=remedy.replace("?", r"\?")):
        opening(spec)


def test_a_tag_is_fetched_once_and_works_without_a_network_afterwards(opening, github):
    opened = opening("github:owner/repo@v1")
    assert names(opened.folder) == set(FILES)
    assert (opened.label, opened.watched) == ("owner/repo@v1", False)
    assert not any("reproducible" in line for line in opening.said)
    github.asked.clear()
    assert opening("github:Owner/Repo@v1").folder == opened.folder
    assert opening("github:owner/repo@v1", offline=True).folder == opened.folder
    assert opening(f"github:owner/repo@{COMMIT}", offline=True).label == "owner/repo@c0ffee000000"
    assert github.asked == []


def test_a_folder_of_a_repository_is_a_source_of_its_own(opening):
    opened = opening("github:owner/repo@v1#packs")
    assert names(opened.folder) == {"a.json"}
    assert opened.label == "owner/repo@v1#packs"
    assert names(opening("github:owner/repo@v1").folder) == set(FILES)
    with pytest.raises(Unusable, match="owner/repo@v1 has no folder nothing"):
        opening("github:owner/repo@v1#nothing")


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        ("github:owner/repo", "owner/repo@c0ffee000000"),
        ("github:owner/repo@main", "owner/repo@main"),
        ("github:owner/repo@feature/x", "owner/repo@feature/x"),
    ],
)
def test_a_branch_is_asked_again_and_said_to_be_no_pin(opening, github, spec, label):
    branch = spec.partition("@")[2] or "main"
    first = opening(spec)
    assert first.label == label
    assert f"pin it with github:owner/repo@{COMMIT}" in " ".join(opening.said)
    github.repositories["owner/repo"].branches[branch] = OTHER_COMMIT
    second = opening(spec)
    assert "new.json" in names(second.folder) and "new.json" not in names(first.folder)


def test_a_tag_wins_over_a_branch_of_its_name(opening):
    assert "new.json" not in names(opening("github:owner/repo@both").folder)


def test_a_tag_that_was_moved_is_seen_on_refresh_only(opening, github):
    opening("github:owner/repo@v1")
    github.repositories["owner/repo"].tags["v1"] = OTHER_COMMIT
    assert "new.json" not in names(opening("github:owner/repo@v1").folder)
    assert "new.json" in names(opening("github:owner/repo@v1", refresh=True).folder)
    assert f"the tag was moved, from {COMMIT} to {OTHER_COMMIT}" in " ".join(opening.said)
    assert "new.json" in names(opening("github:owner/repo@v1", offline=True).folder)


@pytest.mark.parametrize("spec", ["github:owner/repo@main", "github:owner/repo"])
def test_a_branch_that_cannot_be_asked_is_what_it_was(opening, github, spec):
    folder = opening(spec).folder
    github.repositories["owner/repo"].answer = Answer(502)
    assert opening(spec).folder == folder
    assert "taken from the cache" in opening.said[0] and "502" in opening.said[0]
    assert opening(spec, offline=True).folder == folder
    assert opening(spec, api="http://127.0.0.1:9").folder == folder
    github.repositories["owner/repo"].answer = Answer(401)
    with pytest.raises(Unusable, match="refuses the token"):
        opening(spec)


@pytest.mark.parametrize("spec", ["github:owner/repo@v1", f"github:owner/repo@{COMMIT}"])
def test_what_is_not_kept_cannot_be_had_offline(opening, github, spec):
    with pytest.raises(Unusable, match="start once without --offline"):
        opening(spec, offline=True)
    assert github.asked == []


LIMITED = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000000"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401), ["refuses the token (401)", "renew GITHUB_TOKEN"]),
        (Answer(403, body=b'{"message": "SSO\\nneeded"}'), ["(403, 'SSO needed')", "the right to"]),
        (Answer(403, LIMITED), ["no more calls", "until 22:13:20 UTC", "set GITHUB_TOKEN"]),
        (Answer(403, {**LIMITED, "X-RateLimit-Reset": "x"}), ["for up to an hour"]),
        (Answer(403, {"Retry-After": "60"}), ["no more calls", "for 60 s"]),
        (Answer(429), ["no more calls", "for a while"]),
        (Answer(404), ["does not exist or is private (404)", "set GITHUB_TOKEN"]),
        (Answer(409), ["is empty (409)", "push a commit"]),
        (Answer(418, body=b"<html>"), ["answered 418:", "check"]),
        (Answer(503), ["answered 503", "try again later"]),
        (Answer(302, {"Location": "ftp://127.0.0.1/x"}), ["redirect (302)", "check"]),
        (Answer(302, {"Location": "file:///etc/passwd"}), ["redirect (302)", "check"]),
        (Answer(302, {"Location": "/repos/owner/repo"}), ["redirect (302)", "check"]),
        (Answer(200, body=b"<html>log in</html>"), ["did not answer with a commit", "proxy"]),
        (Answer(200, body=b"\xff" * 40), ["did not answer with a commit", "proxy"]),
    ],
)
def test_each_way_github_says_no_is_one_line_with_a_remedy(opening, github, answer, words):
    github.repositories["owner/repo"].answer = answer
    with pytest.raises(Unusable) as raised:
        opening("github:owner/repo@v1")
    message = str(raised.value)
    assert "\n" not in message and "owner/repo" in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("github:owner/nothing@v1", "owner/nothing does not exist or is private"),
        ("github:owner/nothing", "owner/nothing does not exist or is private"),
        ("github:owner/repo@v9", "has no tag or branch v9"),
        (f"github:owner/repo@{'0' * 40}", "has no commit 0000"),
    ],
)
def test_what_does_not_exist_is_named(opening, spec, words):
    with pytest.raises(Unusable, match=words):
        opening(spec)


def test_no_network_is_one_line(opening):
    with pytest.raises(Unusable, match="cannot read from http://127.0.0.1:9 .*check the network"):
        opening("github:owner/repo@v1", api="http://127.0.0.1:9")


def test_the_token_is_sent_to_the_api_only(opening, github):
    github.repositories["owner/repo"].token = "secret"
    with pytest.raises(Unusable, match="is private"):
        opening("github:owner/repo@v1")
    github.asked.clear()
    opening("github:owner/repo@v1", token="secret")
    sent = {one.host.split(":")[0]: one.authorization for one in github.asked}
    assert sent == {"127.0.0.1": "Bearer secret", "localhost": None}
    assert "secret" not in repr(Access(Path("x"), token="secret"))


def test_a_download_that_breaks_off_leaves_nothing(opening, github, tmp_path):
    repository = github.repositories["owner/repo"]
    repository.cut = 100
    with pytest.raises(Unusable, match="the download broke off.*start again"):
        opening("github:owner/repo@v1")
    place = tmp_path / "cache" / "owner" / "repo"
    assert [path.name for path in place.iterdir()] == ["refs.json"]
    repository.cut = None
    assert names(opening("github:owner/repo@v1").folder) == set(FILES)


def test_a_bad_archive_is_refused_with_its_reason(opening, github):
    github.repositories["owner/repo"] = Repository(
        {COMMIT: tar_gz([(member("top/../../../x"), b"1")])}, tags={"v1": COMMIT}
    )
    with pytest.raises(Unusable, match="archive is refused.*leads out of it.*name the folder"):
        opening("github:owner/repo@v1")


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "no space left.*free some"), (errno.EROFS, "cannot be written.*make it")],
)
def test_a_disk_that_takes_no_more_is_one_line(opening, tmp_path, monkeypatch, number, words):
    def full(handle):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("spinf_serve.packs.archive.os.fsync", full)
        with pytest.raises(Unusable, match=words):
            opening(f"github:owner/repo@{COMMIT}")
    assert list((tmp_path / "cache" / "owner" / "repo").iterdir()) == []
    assert names(opening(f"github:owner/repo@{COMMIT}").folder) == set(FILES)


def test_a_cache_that_is_a_file_is_one_line(opening, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="set SPINF_PACKS_CACHE to a folder that is"):
        opening("github:owner/repo@v1", cache=tmp_path / "file")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v1": 5}', '{"v1": {"kind": "tag", "commit": "x"}}']
)
def test_a_damaged_memory_of_tags_is_asked_for_anew(opening, tmp_path, text):
    opening("github:owner/repo@v1")
    refs = tmp_path / "cache" / "owner" / "repo" / "refs.json"
    refs.write_text(text)
    assert opening("github:owner/repo@v1").label == "owner/repo@v1"
    assert "not usable" in opening.said[0]
    assert COMMIT in refs.read_text()


def test_what_a_killed_process_left_is_swept_when_old(opening, tmp_path):
    place = tmp_path / "cache" / "owner" / "repo"
    for name, age in ((".partial-old", 100_000), (".partial-new", 10)):
        (place / name / "files").mkdir(parents=True)
        os.utime(place / name, times=(time.time() - age,) * 2)
    opening("github:owner/repo@v1")
    assert {path.name for path in place.iterdir()} == {COMMIT, "refs.json", ".partial-new"}


def test_two_processes_that_fetch_one_commit_get_the_same_folder(github, tmp_path, root):
    github.repositories["owner/repo"].together = Barrier(2)
    code = (
        "import sys, pathlib\n"
        "from spinf_serve.packs.sources import Access, open_source\n"
        "access = Access(pathlib.Path(sys.argv[1]), api=sys.argv[2])\n"
        f"print(open_source('github:owner/repo@{COMMIT}', access, lambda line: None).folder)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path), github.url]
    both = [
        subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    found = [process.communicate(timeout=60) for process in both]
    assert [errors for _, errors in found] == ["", ""]
    place = tmp_path / "owner" / "repo"
    assert {folder.strip() for folder, _ in found} == {str(place / COMMIT)}
    assert [path.name for path in place.iterdir()] == [COMMIT]
    assert names(place / COMMIT) == set(FILES)
    assert sum("/archive/" in path for path in github.paths()) == 2
