"""A model's own chat template, from the files of its folder or the metadata of its GGUF file.

Reads it and runs nothing: whoever writes chats renders it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spinf_serve.engine.loading.gguf import GgufFile
from spinf_serve.engine.loading.json_files import read_json_if_there
from spinf_serve.engine.loading.json_tokenizer import TOKENIZER_CONFIG
from spinf_serve.engine.models.served import ChatForm
from spinf_serve.packs.errors import Unusable

TEMPLATE_FILE: Final = "chat_template.jinja"
_OLDER_FILE: Final = "chat_template.json"
_GGUF_KEY: Final = "tokenizer.chat_template"


def chat_form_from_folder(folder: Path, controls: Mapping[str, int]) -> ChatForm | None:
    """The form in a model folder; None where no file has a template.

    A file of its own counts before the one in tokenizer_config.json. Raises `Unusable` for files
    that cannot be read.
    """
    config = read_json_if_there(folder / TOKENIZER_CONFIG)
    template = _own_file(folder)
    if template is None:
        template = _default(read_json_if_there(folder / _OLDER_FILE).get("chat_template"))
    if template is None:
        template = _default(config.get("chat_template"))
    if template is None:
        return None
    return ChatForm(template, controls, _token(config, "bos_token"), _token(config, "eos_token"))


def chat_form_from_gguf(file: GgufFile, controls: Mapping[str, int]) -> ChatForm | None:
    """The form in a GGUF file; None where it has no template."""
    template = file.values.get(_GGUF_KEY)
    if not isinstance(template, str):
        return None
    texts = file.texts("tokenizer.ggml.tokens")

    def text_of(name: str) -> str:
        number = file.values.get(f"tokenizer.ggml.{name}_token_id")
        known = isinstance(number, int) and 0 <= number < len(texts)
        return texts[number] if isinstance(number, int) and known else ""

    return ChatForm(template, controls, text_of("bos"), text_of("eos"))


def _own_file(folder: Path) -> str | None:
    path = folder / TEMPLATE_FILE
    if not path.is_file():
        return None
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: cannot be read ({error})") from error


def _default(value: object) -> str | None:
    """A template, or the one named default of several."""
    if isinstance(value, list):
        named = [one for one in value if isinstance(one, dict) and one.get("name") == "default"]
        value = named[0].get("template") if named else None
    return value if isinstance(value, str) else None


def _token(config: Mapping[str, Any], name: str) -> str:
    value = config.get(name)
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""
