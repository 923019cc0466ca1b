import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.packs.archive import ArchiveLimits, BadArchive, CutArchive, unpack
from tests.support.github_stand_in import archive, file_member, folder_member, tar_gz


def unpacked(data: bytes, target: Path, folder: str = "", **limits: int) -> dict[str, bytes]:
    target.mkdir(exist_ok=True)
    count = unpack(io.BytesIO(data), target, folder, ArchiveLimits(**limits))
    found = {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file()
    }
    assert len(found) == count
    return found


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member, b""


def test_files_come_out_below_the_first_folder(tmp_path):
    long_name = "/".join(["folder" * 8] * 4) + "/long.yaml"
    files = {"a.json": b"1", "sub/b.yaml": b"two", "empty.md": b"", long_name: b"x" * 100_000}
    assert unpacked(archive(files), tmp_path) == files


def test_only_the_wanted_folder_comes_out(tmp_path):
    files = {"packs/a.json": b"1", "packs-old/b.json": b"2", "c.json": b"3"}
    assert unpacked(archive(files), tmp_path, "packs") == {"packs/a.json": b"1"}


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "top/../../a", "..", "top/a/../b", "top//a", "top/./a", "top/a\\b", "top/a\nb",
     "top/C:/a"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(tmp_path, name):
    target = tmp_path / "target"
    with pytest.raises(BadArchive, match="path"):
        unpacked(tar_gz([(file_member(name), b"x")]), target)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "neither"),
        (tarfile.BLKTYPE, "neither"),
        (tarfile.FIFOTYPE, "neither"),
        (b"Z", "neither"),
    ],
)
def test_only_files_and_folders_are_taken(tmp_path, kind, word):
    data = tar_gz([special("top/packs/a", kind, "../../../etc/passwd")])
    with pytest.raises(BadArchive, match=word):
        unpacked(data, tmp_path / "a")


def test_a_link_outside_the_wanted_folder_does_not_matter(tmp_path):
    members = [special("top/link", tarfile.SYMTYPE, "packs"), (file_member("top/packs/a"), b"1")]
    assert unpacked(tar_gz(members), tmp_path, "packs") == {"packs/a": b"1"}


@pytest.mark.parametrize(
    "names",
    [
        ("packs/A.json", "packs/a.json"),
        ("Packs/a.json", "packs/b.json"),
        ("stra\u00dfe.json", "STRASSE.json"),
        ("caf\u00e9.json", "cafe\u0301.json"),
    ],
)
def test_names_that_some_disks_hold_for_one_are_refused(tmp_path, names):
    with pytest.raises(BadArchive, match="differ by case only"):
        unpacked(archive(dict.fromkeys(names, b"1")), tmp_path)


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_a_name_twice_is_refused(tmp_path, names):
    members = [(file_member(f"top/{name}"), b"1") for name in names]
    with pytest.raises(BadArchive, match="twice"):
        unpacked(tar_gz(members), tmp_path)


def test_a_folder_may_be_named_before_and_after_its_files(tmp_path):
    members = [
        (folder_member("top/a"), b""),
        (file_member("top/a/b"), b"1"),
        (folder_member("top/a"), b""),
    ]
    assert unpacked(tar_gz(members), tmp_path) == {"a/b": b"1"}


def test_an_archive_that_swells_is_stopped(tmp_path):
    data = archive({"a": b"\0" * 3_000_000})
    assert len(data) < 10_000
    with pytest.raises(BadArchive, match="more than 1000000 bytes"):
        unpacked(data, tmp_path / "a", total_bytes=1_000_000)
    with pytest.raises(BadArchive, match="3000000 bytes, 2000000 are allowed"):
        unpacked(data, tmp_path / "b", file_bytes=2_000_000)
    # What is not wanted swells as well.
    with pytest.raises(BadArchive, match="more than 1000000 bytes"):
        unpacked(data, tmp_path / "c", "packs", total_bytes=1_000_000)


def test_too_many_members_and_too_deep_folders_are_refused(tmp_path):
    data = archive({f"{number}.txt": b"" for number in range(30)})
    with pytest.raises(BadArchive, match="more than 20 files"):
        unpacked(data, tmp_path / "a", "packs", members=20)
    with pytest.raises(BadArchive, match="more than 8 deep"):
        unpacked(archive({"d/" * 10 + "a": b""}), tmp_path / "b", depth=8)


def test_a_header_that_claims_to_be_huge_is_not_read(tmp_path):
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 10**9
    data = gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + b"a" * 100_000)
    with pytest.raises(BadArchive, match="header of 1000000000 bytes"):
        unpacked(data, tmp_path)


def test_headers_that_announce_one_another_are_refused(tmp_path):
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 2
    one = member.tobuf(tarfile.GNU_FORMAT) + b"a\0" + b"\0" * 510
    with pytest.raises(BadArchive, match="without end"):
        unpacked(gzip.compress(one * 5000), tmp_path)


def test_an_archive_that_ends_early_is_told_from_a_bad_one(tmp_path):
    data = archive({"a": bytes(range(256)) * 400, "b": b"end"})
    for place, end in enumerate((0, 5, 40, len(data) // 2, len(data) - 12, len(data) - 1)):
        with pytest.raises(CutArchive, match="cut off or damaged"):
            unpacked(data[:end], tmp_path / str(place))
    flipped = data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]
    with pytest.raises(CutArchive, match="cut off or damaged"):
        unpacked(flipped, tmp_path / "flipped")
    with pytest.raises(CutArchive, match="cut off or damaged"):
        unpacked(b"<html>login</html>", tmp_path / "html")


@given(st.binary(max_size=3000), st.integers(0, 2000))
@settings(max_examples=60)
def test_no_bytes_lead_outside_or_to_another_error(tmp_path_factory, noise, place):
    root = tmp_path_factory.mktemp("fuzz")
    plain = gzip.decompress(archive({"a": b"1", "b/c": b"2"}))
    damaged = plain[:place] + noise + plain[place + len(noise) :]
    try:
        unpacked(gzip.compress(damaged), root / "target")
    except (BadArchive, CutArchive):
        pass
    assert [path.name for path in root.iterdir()] == ["target"]
