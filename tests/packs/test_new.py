"""The starter pack: valid as it is written, with a sample that fits it."""

import pytest

from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.new import starter
from spinf_serve.packs.sample import read_sample


@pytest.mark.parametrize("pack_id", ["demo/mood", "my.team/a_b-c", "1/2", "x/null", "x/true"])
def test_a_starter_is_valid_with_its_sample(pack_id, tmp_path):
    files = starter(pack_id)
    assert set(files) == {"pack.yaml", "sample.csv", "pack.schema.json"}
    pack = read_pack(files["pack.yaml"].encode(), "pack.yaml")
    assert pack.id == pack_id
    assert not pack.fitted
    sample = tmp_path / "sample.csv"
    sample.write_text(files["sample.csv"])
    rows = read_sample(sample, pack)
    assert {row.split for row in rows} == {"fit", "test"}
    for category in pack.categories:
        assert {row.split for row in rows if row.labels[category]} == {"fit", "test"}


def test_it_shows_every_short_form():
    text = starter("demo/mood")["pack.yaml"]
    for field in ("category:", "categories:", "for:", "sign:", "options: yes/no", "decides:"):
        assert field in text
    assert all(len(line) <= 100 for line in text.splitlines())
