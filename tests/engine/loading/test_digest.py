"""A folder's digest: its value for ever, whatever the order of files, and a file that is gone."""

import hashlib

import pytest

from spinf_serve.engine.loading.digest import file_digest, folder_digest
from spinf_serve.packs.errors import Unusable


def test_a_folders_digest_is_over_sorted_lines_of_name_and_digest(tmp_path):
    for number in range(20):
        (tmp_path / f"part-{number}").write_bytes(bytes([number]) * 1000 * number)
    files = sorted(tmp_path.iterdir(), key=lambda file: file.name[::-1])
    lines = sorted(
        f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n" for file in files
    )
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert folder_digest(files) == folder_digest(reversed(files)) == expected
    # Packs' proofs hold such digests, so this one stays as it is.
    assert expected == "dc81c009a3b367961059ce0a03f3d742f34e8ea47ba9d786f76205a748a6deb0"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    there = tmp_path / "there"
    there.touch()
    with pytest.raises(Unusable, match="absent: cannot be read"):
        folder_digest([there, tmp_path / "absent"])
    assert file_digest(there) == hashlib.sha256(b"").hexdigest()
