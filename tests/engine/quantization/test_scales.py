"""The table of activation scales: what was saved is loaded, bit for bit, and faults are named."""

import json
from dataclasses import replace

import pytest
import torch

from spinf_serve.engine.quantization.scales import (
    SITES,
    ActivationScales,
    check_scales,
    key,
    load_scales,
    save_scales,
)
from spinf_serve.packs.errors import Unusable

MODEL = "ab" * 32


def table(layers=3, **changes):
    drawn = torch.rand(layers * len(SITES), generator=torch.Generator().manual_seed(1)) / 7
    names = [key(layer, site) for layer in range(layers) for site in SITES]
    made = ActivationScales(
        MODEL, "a few texts", 2.0, dict(zip(names, drawn.tolist(), strict=True))
    )
    return replace(made, **changes)


def test_what_was_saved_is_loaded_bit_for_bit(tmp_path):
    path = tmp_path / "scales.json"
    save_scales(path, table())
    found = load_scales(path)
    assert found == table()
    assert found.scale(2, "mlp.down") == table().scales["model.layers.2.mlp.down"]
    check_scales(path, found, model=MODEL, layers=3)
    assert [file.name for file in tmp_path.iterdir()] == ["scales.json"]


def test_a_failed_save_leaves_the_old_table_and_nothing_else(tmp_path):
    path = tmp_path / "scales.json"
    save_scales(path, table())
    with pytest.raises(Unusable, match="mlp.up should be a number above zero, found 0.0"):
        save_scales(path, table(scales={"mlp.up": 0.0}))
    assert load_scales(path) == table()
    with pytest.raises(Unusable, match="cannot be written"):
        save_scales(tmp_path / "absent" / "scales.json", table())
    assert [file.name for file in tmp_path.iterdir()] == ["scales.json"]


def test_a_table_of_another_model_is_refused(tmp_path):
    path = tmp_path / "scales.json"
    with pytest.raises(Unusable, match=r"scales\.json: .* other weights .*calibrate again"):
        check_scales(path, table(), model="cd" * 32, layers=3)
    with pytest.raises(Unusable, match=r"model\.layers\.3\.mlp\.down is missing \(4 such"):
        check_scales(path, table(), model=MODEL, layers=4)
    with pytest.raises(Unusable, match=r"layers\.2\.mlp\.down is no input of a model with 2 la"):
        check_scales(path, table(), model=MODEL, layers=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "no table of activation scales"),
        ({"extra": 1}, "extra is not a known key"),
        ({"corpus": 7}, "corpus should be a text, found 7"),
        ({"headroom": "2"}, "headroom should be a number such as 2.0, found '2'"),
        ({"scales": []}, "scales should be an object"),
        ({"scales": {"a": 0.0}}, "the scale a should be a number above zero, found 0.0"),
        ({"scales": {"a": -1.0}}, "a number above zero"),
        ({"scales": {"a": float("nan")}}, "a number above zero, found nan"),
        ({"scales": {"a": float("inf")}}, "a number above zero, found inf"),
        ({"scales": {"a": "1"}}, "a number above zero, found '1'"),
        ({"scales": {"a": 0.1}}, "a is 0.1, which is no float32"),
        ({"scales": {"a": 1e300}}, "which is no float32"),
    ],
)
def test_each_fault_is_named(tmp_path, changes, message):
    path = tmp_path / "scales.json"
    save_scales(path, table())
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(Unusable, match=rf"scales\.json: .*{message}") as caught:
        load_scales(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "no table of activation scales"),
        ('{"a": 1, "a": 2}', "a stands there twice"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, text, message):
    path = tmp_path / "scales.json"
    path.write_text(text)
    with pytest.raises(Unusable, match=message):
        load_scales(path)
    with pytest.raises(Unusable, match="cannot be read"):
        load_scales(tmp_path / "absent.json")


def test_a_missing_key_is_named(tmp_path):
    path = tmp_path / "scales.json"
    save_scales(path, table())
    values = json.loads(path.read_text())
    del values["corpus"]
    path.write_text(json.dumps(values))
    with pytest.raises(Unusable, match="corpus is missing"):
        load_scales(path)
