"""Models of the hub, against a stand-in on loopback: what is fetched, what is cached, what is said."""

import errno
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants, file_download

from spinf_serve.engine.loading import locate as locate_module
from spinf_serve.engine.loading import resume
from spinf_serve.engine.loading.locate import locate, obtainable
from spinf_serve.engine.loading.manifest import parse_manifest
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.packs.errors import Unusable
from tests.engine.loading.test_manifest import HUB
from tests.support.hub_stand_in import HubStandIn, Repository, hub_stand_in
from tests.support.model_folders import save_tiny

COMMIT = Repository({}).commit
NEEDED = ["config.json", "generation_config.json", "tokenizer.json"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """Files of a tiny model, whole and in shards, with much around them that is not needed."""
    made = {}
    for kind, shard in (("whole", "5GB"), ("sharded", "200KB")):
        folder = tmp_path_factory.mktemp(kind)
        save_tiny(folder, "llama_tied", shard=shard)
        extra = ("README.md", "modeling_own.py", "pytorch_model.bin", "consolidated.safetensors")
        for name in extra:
            (folder / name).write_bytes(b"not needed")
        made[kind] = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return made


@pytest.fixture
def hub(files, tmp_path, monkeypatch) -> Iterator[HubStandIn]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    # The client waits a second before each of its own attempts to resume.
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 256)
    with hub_stand_in() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            server.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        server.repositories["own/tiny"] = Repository(files["whole"])
        server.repositories["own/shards"] = Repository(files["sharded"])
        yield server


def refused(name: str, *, offline: bool = False) -> str:
    with pytest.raises(Unusable) as caught:
        locate(name, offline=offline)
    message = str(caught.value)
    assert "\n" not in message
    return message


def nobody() -> str:
    """An address on loopback where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_repository_is_fetched_and_opened_at_its_commit(hub, files):
    opened = open_checkpoint("own/tiny", offline=False)
    assert (opened.served.id, opened.served.revision) == ("own/tiny", COMMIT)
    assert sorted(hub.fetched()) == sorted([*NEEDED, "model.safetensors"])
    assert opened.spec.hidden == 60 and "model.norm.weight" in opened.checkpoint.names()
    assert re.fullmatch("[0-9a-f]{64}", opened.digest())


def test_of_shards_the_index_says_which_are_needed(hub, files):
    located = locate("own/shards@main", offline=False)
    shards = [name for name in files["sharded"] if name.startswith("model-")]
    assert len(shards) > 1
    assert sorted(hub.fetched()) == sorted([*NEEDED, "model.safetensors.index.json", *shards])
    assert (located.revision, located.path.name) == (COMMIT, COMMIT)


def test_a_commit_that_is_cached_costs_no_request(hub):
    first = locate(f"own/tiny@{COMMIT}", offline=False)
    asked = len(hub.asked)
    assert asked > 0
    assert locate(f"own/tiny@{COMMIT}", offline=False) == first
    assert len(hub.asked) == asked


@pytest.mark.parametrize("name", ["own/tiny", "own/tiny@main", f"own/tiny@{COMMIT}", "own/shards"])
def test_offline_takes_what_the_cache_holds_and_asks_nothing(hub, name):
    repo = name.split("@")[0]
    assert "run once without --offline" in refused(name, offline=True)
    assert hub.asked == []
    online = locate(repo, offline=False)
    asked = len(hub.asked)
    found = locate(name, offline=True)
    assert (found.path, found.revision) == (online.path, COMMIT)
    assert len(hub.asked) == asked


def test_offline_does_not_take_half_a_model(hub):
    hub.repositories["own/shards"].cut["model-00002-of-00003.safetensors"] = 100
    refused("own/shards")
    assert "not, or not completely, in the cache" in refused("own/shards", offline=True)


def test_a_branch_is_asked_for_again_and_moves(hub, files):
    locate("own/tiny", offline=False)
    moved = "d" * 40
    hub.repositories["own/tiny"] = Repository(files["whole"], commit=moved)
    assert locate("own/tiny", offline=False).revision == moved
    assert locate("own/tiny", offline=True).revision == moved
    assert locate(f"own/tiny@{COMMIT}", offline=True).revision == COMMIT


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((401, "RepoNotFound"), r"does not exist or is private \(401\).*HF_TOKEN"),
        ((401, ""), r"does not exist or is private \(401\).*HF_TOKEN"),
        ((403, "GatedRepo"), r"is gated \(403\): accept its terms at http.*own/tiny and log in"),
        ((401, "GatedRepo"), r"is gated \(401\): accept its terms"),
        ((403, ""), r"the hub refuses own/tiny \(403\): log in"),
        ((404, "RepoNotFound"), r"there is no repository own/tiny \(404\)"),
        ((500, ""), r"the hub answered 500 for own/tiny: try again later"),
    ],
)
@pytest.mark.parametrize("name", ["own/tiny", f"own/tiny@{COMMIT}"])
def test_each_way_the_hub_says_no_is_one_line(hub, name, answers, message):
    hub.repositories["own/tiny"].answers = answers
    assert re.search(message, refused(name))


@pytest.mark.parametrize("revision", ["v9", "e" * 40])
def test_a_wrong_revision_is_named(hub, revision):
    assert refused(f"own/tiny@{revision}") == f"own/tiny has no revision {revision} (404)"


def test_an_unknown_repository_is_named(hub):
    assert "there is no repository own/absent (404)" in refused("own/absent")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (("tokenizer.json",), "own/tiny@main has no tokenizer.json"),
        (("config.json",), "own/tiny@main has no config.json"),
        (("model.safetensors",), "own/tiny has no safetensors but 1 GGUF file(s): download one"),
        (("model.safetensors", "a.gguf"), "own/tiny has no safetensors"),
    ],
)
def test_a_repository_that_lacks_something_says_what(hub, files, gone, message):
    kept = {
        name: data for name, data in {**files["whole"], "a.gguf": b""}.items() if name not in gone
    }
    hub.repositories["own/tiny"] = Repository(kept)
    assert refused("own/tiny").startswith(message)
    assert hub.fetched() == []


def test_without_network_and_without_cache_it_says_so(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", nobody())
    message = refused("own/tiny")
    assert message.startswith(f"cannot reach the hub at {constants.ENDPOINT} (")
    assert "--offline" in message


def test_without_network_a_cached_branch_is_not_taken_unasked(hub, monkeypatch):
    locate("own/tiny", offline=False)
    monkeypatch.setattr(constants, "ENDPOINT", nobody())
    assert "use --offline if the model is in the cache" in refused("own/tiny")
    assert locate("own/tiny", offline=True).revision == COMMIT
    assert locate(f"own/tiny@{COMMIT}", offline=False).revision == COMMIT


def test_a_transfer_that_breaks_off_is_resumed_at_once(hub, files):
    repository = hub.repositories["own/tiny"]
    repository.cut["model.safetensors"] = 5000
    repository.mends["model.safetensors"] = 2
    located = locate("own/tiny", offline=False)
    assert hub.ranges("model.safetensors") == [None, "bytes=4864-", "bytes=4864-"]
    assert (located.path / "model.safetensors").read_bytes() == files["whole"]["model.safetensors"]


def test_an_interrupted_download_goes_on_where_it_stopped(hub, files):
    repository = hub.repositories["own/tiny"]
    repository.cut["model.safetensors"] = 5000
    message = refused("own/tiny")
    assert "the download of model.safetensors was interrupted (" in message
    assert "run the same command again, it goes on where it stopped" in message
    hub.asked.clear()
    del repository.cut["model.safetensors"]
    located = locate("own/tiny", offline=False)
    assert hub.ranges("model.safetensors") == ["bytes=4864-"]
    assert (located.path / "model.safetensors").read_bytes() == files["whole"]["model.safetensors"]
    assert not list(Path(constants.HF_HUB_CACHE).rglob("*.partial"))


def test_what_arrived_damaged_is_not_kept(hub, files):
    repository = hub.repositories["own/tiny"]
    repository.cut["model.safetensors"] = 5000
    refused("own/tiny")
    (partial,) = Path(constants.HF_HUB_CACHE).rglob("*.partial")
    partial.write_bytes(bytes(partial.stat().st_size))
    del repository.cut["model.safetensors"]
    assert "model.safetensors arrived damaged; run the same command again" in refused("own/tiny")
    assert locate("own/tiny", offline=False).revision == COMMIT


@pytest.mark.parametrize("target", [file_download, resume])
def test_a_full_disk_is_called_that(hub, monkeypatch, target):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(target, "http_get", full)
    message = refused("own/tiny")
    assert message.startswith("the disk is full (")
    assert "set HF_HOME" in message and "goes on where it stopped" in message


def test_the_clients_own_offline_switch_is_heeded(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "without HF_HUB_OFFLINE" in refused("own/tiny")
    assert hub.asked == []


def test_whether_a_model_can_be_had_is_told_without_asking_the_hub(hub, monkeypatch):
    text = HUB.replace("0f" * 20, "unpinned").replace('"for tests"', '"the revision is unpinned"')
    text = text.replace("somebody/own-model", "own/tiny")
    monkeypatch.setattr(
        locate_module, "read_manifests", lambda: (parse_manifest(text, "own.toml"),)
    )
    assert not obtainable("another", offline=False)
    assert obtainable("own", offline=False)
    assert not obtainable("own", offline=True)
    with monkeypatch.context() as switched:
        switched.setattr(constants, "HF_HUB_OFFLINE", True)
        assert not obtainable("own", offline=False)
    assert hub.asked == []
    locate("own", offline=False)
    assert obtainable("own", offline=True)


def test_the_endpoint_and_the_cache_are_those_of_the_environment(hub, tmp_path):
    code = (
        "from spinf_serve.engine.loading.open import open_checkpoint\n"
        "print(open_checkpoint('own/tiny', offline=False).served.revision)"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "home"),
        "NO_PROXY": "127.0.0.1",
    }
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == COMMIT
    assert list((tmp_path / "home" / "hub").glob("models--own--tiny/snapshots/*/config.json"))


def test_no_code_of_a_repository_is_fetched(hub):
    locate("own/tiny", offline=False)
    assert not [name for name in hub.fetched() if Path(name).suffix in (".py", ".bin")]
    assert huggingface_hub.try_to_load_from_cache("own/tiny", "modeling_own.py") is None
