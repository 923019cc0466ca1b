import random

import pytest

from spinf_serve.packs.versions import bumped, newest_first

NEWEST_FIRST = [
    "10.0.0", "2.0.0", "1.10.0", "1.9.1", "1.9.0.1", "1.9.0", "1.9.0-rc2", "1.9.0-rc1",
    "1.9.0+build", "1.9", "1", "draft",
]  # fmt: skip


def test_numeric_parts_count_as_numbers_and_a_candidate_comes_before_its_release():
    shuffled = random.Random(5).sample(NEWEST_FIRST, len(NEWEST_FIRST))
    assert newest_first(shuffled) == NEWEST_FIRST


@pytest.mark.parametrize(
    ("version", "part", "next_one"),
    [
        ("1.2.3", "major", "2.0.0"),
        ("1.2.3", "minor", "1.3.0"),
        ("1.2.3", "patch", "1.2.4"),
        ("0.0.9", "patch", "0.0.10"),
        ("1.2", "patch", None),
        ("1.2.3-rc1", "patch", None),
        ("01.2.3", "patch", None),
        ("١.2.3", "patch", None),
    ],
)
def test_the_next_version(version, part, next_one):
    assert bumped(version, part) == next_one
