"""The checkpoint that opening is measured with is the model it is made from, and the result is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spinf_serve.engine.bench.synthetic import SyntheticCheckpoint
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.packs.errors import Unusable
from tests.support import gpu_documents, gpu_load
from tests.support.gguf_files import learned_sentence_pieces
from tests.support.gpu_load import main, open_folder, write_checkpoint
from tests.support.model_folders import tokenizer_json, write_json

TINY = "gemma-4-tiny"
CPU = torch.device("cpu")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """One of 320 tokens, where no model lies."""
    vocabulary = learned_sentence_pieces([chr(0x41 + number) for number in range(60)])
    path = tmp_path / "tokenizer.json"
    write_json(path, tokenizer_json(vocabulary, "pieces", bos="<bos>"))
    return path


def opened(folder: Path) -> dict[str, object]:
    return open_folder(folder, TINY, "cpu", command="a command", named="abc", write_seconds=1.5)


def test_what_is_written_is_read_as_the_model_it_was_made_from(tmp_path: Path, tokenizer: Path):
    folder = tmp_path / "model"
    assert write_checkpoint(folder, TINY, 3, tokenizer, CPU) > 0
    assert not list(folder.glob("*.part"))
    assert len(list(folder.glob("model-*-of-00003.safetensors"))) == 3
    model = open_checkpoint(str(folder), offline=True)
    spec = gpu_load.spec_of(TINY, folder)
    assert spec.vocab == 320
    # The tokenizer's, which the sizes do not know.
    assert model.spec == replace(spec, bos_id=model.tokenizer.bos_id)
    made = SyntheticCheckpoint(spec, "bf16", CPU)
    assert model.checkpoint.names() == made.names()
    for name in made.names():
        wanted, found = (torch.empty(made.shape(name), dtype=torch.bfloat16) for _ in range(2))
        made.read_into(name, wanted)
        model.checkpoint.read_into(name, found)
        assert torch.equal(wanted, found), name


def test_the_result_tells_what_opening_took_and_no_place_of_the_machine(
    tmp_path: Path, tokenizer: Path
):
    folder = tmp_path / "model"
    write_checkpoint(folder, TINY, 2, tokenizer, CPU)
    found = json.loads(json.dumps(opened(folder)))
    files = [path.stat().st_size for path in folder.glob("*.safetensors")]
    assert found["checkpoint_bytes"] == sum(files) and found["largest_shard_bytes"] == max(files)
    assert (found["job"], found["model"], found["scheme"]) == (
        "load",
        f"synthetic/{TINY}",
        "float32",
    )
    assert (found["commit"], found["shards"], found["write_seconds"]) == ("abc", 2, 1.5)
    assert found["host_peak_bytes"] >= found["host_peak_bytes_before"] > 50 << 20
    assert found["device_peak_gib"] is None
    times = [seconds for seconds, _ in found["steps"]]
    assert times == sorted(times) and 0 <= times[0] and times[-1] < found["load_seconds"]
    assert "opening model model" in [line for _, line in found["steps"]]
    assert str(tmp_path) not in json.dumps(found)


def test_another_model_in_the_folder_is_refused(tmp_path: Path, tokenizer: Path):
    write_checkpoint(tmp_path / "model", TINY, 1, tokenizer, CPU)
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace("30.0", "20.0"))
    with pytest.raises(Unusable, match=f"holds another model than {TINY}"):
        opened(tmp_path / "model")


def test_the_command_writes_opens_and_opens_again(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
):
    processes = []

    def here(function, *args, **kwargs):
        processes.append(function)
        return function(*args, **kwargs)

    # Two processes more would each import torch; what they run is what is looked at.
    monkeypatch.setattr(gpu_load, "fresh", here)
    out = tmp_path / "results" / "load-cpu.json"
    arguments = [str(tmp_path / "model"), str(out), "--model", TINY, "--device", "cpu"]
    main([*arguments, "--tokenizer", str(tokenizer), "--shards", "2"])
    first = json.loads(out.read_text())
    main(arguments)
    again = json.loads(out.read_text())
    assert processes == [write_checkpoint, open_folder, open_folder]
    assert first["write_seconds"] > 0 and again["write_seconds"] is None
    assert first["fingerprint"] == again["fingerprint"]
    assert first["command"].startswith(
        "python -m tests.support.gpu_load model load-cpu.json --model"
    )
    assert "### `load-cpu.json`" in gpu_documents.figures(out.parent)


def test_a_process_of_its_own_gives_the_result():
    assert gpu_load.fresh(sum, [1, 2], 3) == 6


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", TINY, "--shards", "0"], "at least one file is needed"),
        (["--model", "gemma-4-12b"], "gemma-4-12b needs an NVIDIA GPU"),
        (["--model", TINY, "--tokenizer", "nowhere.json"], "nowhere.json is no file"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        main([str(tmp_path), str(tmp_path / "out.json"), "--device", "cpu", *more])
    assert message in capsys.readouterr().err
