"""The GGUF container: what a reference writer wrote is read back, and broken files are named."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.packs.errors import Unusable


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(3)
    writer.add_rope_freq_base(10000.0)
    writer.add_add_bos_token(False)
    writer.add_token_list(["a", "", "Ġwörd", "x" * 300])
    writer.add_token_scores([0.5, -1.0, 0.0, 2.0])
    writer.add_array("nested", [[1, 2], [3]])
    writer.add_tensor("first", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("second", np.ones((1, 2, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_values_of_every_kind_are_read_back(written):
    file = read_gguf(written)
    assert file.text("general.architecture") == "llama"
    assert file.integer("llama.block_count") == 3
    assert file.integer("llama.absent", 7) == 7
    assert file.number("llama.rope.freq_base") == 10000.0
    assert file.number("llama.block_count") == 3.0
    assert file.flag("tokenizer.ggml.add_bos_token", True) is False
    assert file.texts("tokenizer.ggml.tokens") == ["a", "", "Ġwörd", "x" * 300]
    assert file.numbers("tokenizer.ggml.scores").tolist() == [0.5, -1.0, 0.0, 2.0]
    nested = file.values["nested"]
    assert isinstance(nested, list)
    assert [np.asarray(part).tolist() for part in nested] == [[1, 2], [3]]


def test_tensors_have_the_torch_order_of_dimensions_and_their_bytes(written):
    file = read_gguf(written)
    first, second = file.tensors["first"], file.tensors["second"]
    assert (first.shape, first.type.name, first.size) == ((2, 3), "F32", 24)
    assert (second.shape, second.type.name, second.size) == ((1, 2, 32), "F16", 128)
    data = written.read_bytes()
    assert data[first.start : first.start + 24] == np.arange(6, dtype="<f4").tobytes()
    assert data[second.start : second.start + 128] == np.ones(64, "<f2").tobytes()


@pytest.mark.parametrize(
    ("key", "read", "what"),
    [
        ("llama.absent", "integer", "is missing"),
        ("general.architecture", "integer", "should be a whole number, found str"),
        ("llama.block_count", "text", "should be a text, found int"),
        ("llama.rope.freq_base", "integer", "should be a whole number, found float"),
        ("general.architecture", "number", "should be a number"),
        ("tokenizer.ggml.scores", "texts", "should be an array of texts"),
        ("nested", "texts", "should be an array of texts"),
        ("tokenizer.ggml.tokens", "numbers", "should be an array of numbers"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_key(written, key, read, what):
    file = read_gguf(written)
    with pytest.raises(Unusable, match=f"{key} {what}"):
        getattr(file, read)(key)


def test_a_flag_that_is_no_flag_names_the_key(written):
    with pytest.raises(Unusable, match=r"llama\.block_count should be true or false"):
        read_gguf(written).flag("llama.block_count", True)


def test_a_file_cut_anywhere_is_called_cut_short(written):
    whole = written.read_bytes()
    read_gguf(written)
    for length in range(4, len(whole), 7):
        written.write_bytes(whole[:length])
        with pytest.raises(Unusable, match="cut short"):
            read_gguf(written)


def test_lengths_beyond_every_file_are_called_cut_short(written):
    whole = bytearray(written.read_bytes())
    for at in (8, 16, 24):
        broken = whole.copy()
        broken[at : at + 8] = struct.pack("<Q", 2**63 + 5)
        written.write_bytes(broken)
        with pytest.raises(Unusable, match="cut short"):
            read_gguf(written)


def test_other_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "model.gguf"
    cases = {
        b"PK\x03\x04 zip": "not a GGUF file",
        b"": "the file is empty",
        b"GGUF" + struct.pack("<IQQ", 1, 0, 0): "version 1 is not supported",
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0): "is not supported",
    }
    for data, message in cases.items():
        path.write_bytes(data)
        with pytest.raises(Unusable, match=message) as caught:
            read_gguf(path)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    with pytest.raises(Unusable, match="cannot be read"):
        read_gguf(tmp_path / "absent.gguf")


def test_an_unknown_tensor_type_is_named_with_its_tensor(tmp_path):
    path = tmp_path / "model.gguf"
    name = b"blk.0.ffn_up.weight"
    row = struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 32, 77, 0)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + row + bytes(64))
    with pytest.raises(Unusable, match=r"blk\.0\.ffn_up\.weight has the unknown type 77"):
        read_gguf(path)


def test_an_unknown_kind_of_value_is_named_with_its_key(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 99)
    )
    with pytest.raises(Unusable, match="metadata key k has the unknown type 99"):
        read_gguf(path)
