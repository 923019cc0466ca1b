"""The file of keys: what a line may say, and what a changed or damaged file does."""

import logging
import os

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.keys import Key, KeyRing, digest_of, read_keys

ONE, TWO = "k" * 16, "q" * 40


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "keys"
    write(path, f"shop: {ONE}\n")
    return path


def write(path, text: str) -> None:
    """Replaces a file at once, as a tool that puts secrets in place does."""
    part = path.with_suffix(".part")
    part.write_bytes(text.encode())
    part.chmod(0o600)
    os.replace(part, path)


def test_a_line_is_a_name_a_right_and_a_key_or_its_digest():
    lines = ["# ours", "", f"shop: {ONE}", f"ops trusted:\t{TWO}  "]
    lines.append(f"old:sha256:{digest_of('gone').hex().upper()}")
    assert read_keys(lines, "x") == (
        Key("shop", digest_of(ONE)),
        Key("ops", digest_of(TWO), trusted=True),
        Key("old", digest_of("gone")),
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (ONE, "a line is `NAME: KEY`"),
        (f"shop {ONE}", "a line is `NAME: KEY`"),
        (f"shop root: {ONE}", "another word"),
        (f"shop trusted really: {ONE}", "a line is `NAME: KEY`"),
        (f"süß: {ONE}", "a name is 1 to 64 letters"),
        (f"{'n' * 65}: {ONE}", "a name is 1 to 64 letters"),
        (f"anonymous: {ONE}", "is taken"),
        (f"trusted_token: {ONE}", "is taken"),
        ("shop:", "has 0 characters and 16 are the least"),
        ("shop: 0123456789abcde", "has 15 characters and 16 are the least"),
        (f"shop: {ONE} {TWO}", "is not letters, digits"),
        (f"shop: {ONE}ä", "is not letters, digits"),
        ("shop: sha256:abc", "64 hexadecimal digits"),
        (f"a: {TWO}", "the name a occurs twice"),
        (f"b: {'z' * 16}", "b and a have the same key"),
    ],
)
def test_another_line_is_refused_without_telling_the_key(line, said):
    with pytest.raises(Unusable) as caught:
        read_keys([f"a: {'z' * 16}", line], "keys.txt, line")
    message = str(caught.value)
    assert message.startswith("keys.txt, line 2: ") and said in message
    assert not any(key in message for key in (ONE, TWO, "z" * 16, "abc"))


def test_a_file_that_changes_is_taken_up(file):
    ring = KeyRing([f"env: {TWO}"], file)
    assert [key.name for key in ring.current] == ["env", "shop"]
    write(file, f"shop trusted: {ONE}\nnew: {ONE}x\n")
    assert [key.name for key in ring.current] == ["env", "shop"]
    ring.refresh()
    assert [(key.name, key.trusted) for key in ring.current] == [
        ("env", False),
        ("shop", True),
        ("new", False),
    ]


@pytest.mark.parametrize("text", ["", "# all gone\n", "shop", f"shop: {ONE}\nshop: {TWO}\n"])
def test_a_damaged_file_leaves_the_keys_and_is_told_once_until_it_is_mended(file, text, caplog):
    ring = KeyRing([], file)
    write(file, text)
    for _ in range(3):
        ring.refresh()
    assert [key.name for key in ring.current] == ["shop"]
    assert ring.fault is not None and str(file) in ring.fault
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    # The same bytes as at the start are good again.
    write(file, f"shop: {ONE}\n")
    ring.refresh()
    assert ring.fault is None


def test_a_file_that_is_gone_leaves_the_keys(file):
    ring = KeyRing([], file)
    file.unlink()
    ring.refresh()
    assert [key.name for key in ring.current] == ["shop"]
    assert ring.fault is not None and ring.wanted


@pytest.mark.parametrize("text", ["", "shop", "\udcff"])
def test_a_server_does_not_start_on_a_damaged_file(file, text):
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Unusable, match=str(file)):
        KeyRing([], file)


def test_a_server_does_not_start_without_its_file(tmp_path):
    with pytest.raises(Unusable, match="the file of keys .*none: No such file"):
        KeyRing([], tmp_path / "none")


@pytest.mark.parametrize("line", [f"env: {ONE}", f"shop: {TWO}"])
def test_file_and_settings_share_no_name_and_no_key(file, line):
    with pytest.raises(Unusable, match="has the name or the key of"):
        KeyRing([line], file)


def test_a_file_that_everybody_can_read_is_warned_of(file, caplog):
    KeyRing([], file)
    assert not caplog.records
    file.chmod(0o644)
    KeyRing([], file)
    assert "chmod 600" in caplog.text


def test_no_keys_ask_for_none():
    ring = KeyRing([], None)
    ring.refresh()
    assert not ring.wanted and ring.current == ()
