"""Where a model's chat template stands, and which counts."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from spinf_serve.engine.loading.chat_form import chat_form_from_folder, chat_form_from_gguf
from spinf_serve.engine.models.served import ChatForm
from spinf_serve.packs.errors import Unusable

CONTROLS = {"<s>": 1}


def write(folder, **files):
    for name, content in files.items():
        name = name.replace("_json", ".json").replace("_jinja", ".jinja")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return chat_form_from_folder(folder, CONTROLS)


def test_a_folder_without_one_has_none(tmp_path):
    assert write(tmp_path) is None
    assert write(tmp_path, tokenizer_config_json={"bos_token": "<s>"}) is None


def test_it_stands_in_the_tokenizer_s_configuration_with_names_of_tokens(tmp_path):
    config = {"chat_template": "T", "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    assert write(tmp_path, tokenizer_config_json=config) == ChatForm("T", CONTROLS, "<s>", "</s>")


def test_of_several_the_default_counts(tmp_path):
    several = [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]
    form = write(tmp_path, tokenizer_config_json={"chat_template": several})
    assert form is not None and form.template == "D"
    assert write(tmp_path, tokenizer_config_json={"chat_template": several[:1]}) is None


def test_files_of_its_own_count_before_it(tmp_path):
    config = {"chat_template": "T", "bos_token": "<s>"}
    older = write(tmp_path, tokenizer_config_json=config, chat_template_json={"chat_template": "O"})
    assert older == ChatForm("O", CONTROLS, "<s>", "")
    newer = write(tmp_path, chat_template_jinja="{{ messages }}é")
    assert newer == ChatForm("{{ messages }}é", CONTROLS, "<s>", "")


def test_a_file_that_is_no_text_is_told(tmp_path):
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(Unusable, match=r"chat_template\.jinja: cannot be read"):
        chat_form_from_folder(tmp_path, CONTROLS)


def file(**values: Any) -> Any:
    """The part of a GGUF file that is read."""
    named = {f"tokenizer.{name}": value for name, value in values.items()}
    return SimpleNamespace(values=named, texts=named.__getitem__)


def test_metadata_has_it_with_ids_of_tokens():
    given = {"ggml.tokens": ["<pad>", "<s>"], "ggml.bos_token_id": 1, "ggml.eos_token_id": 9}
    form = chat_form_from_gguf(file(chat_template="T", **given), CONTROLS)
    assert form == ChatForm("T", CONTROLS, "<s>", "")
    assert chat_form_from_gguf(file(**given), CONTROLS) is None
