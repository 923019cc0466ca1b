"""The examples of docs/templates.md are what the code does."""

import json
import re
from typing import Any

import pytest

from spinf_serve.packs.ask import scored_question
from spinf_serve.packs.errors import Refused


def examples(root) -> list[dict[str, Any]]:
    text = (root / "docs" / "templates.md").read_text()
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]


def test_every_example_gives_what_the_document_says(root):
    found = examples(root)
    assert len(found) > 10
    for example in found:
        gives, refused = example.pop("gives", None), example.pop("refused", None)
        assert (gives is None) != (refused is None), example
        arguments = {"options": None, **example}
        if gives is None:
            with pytest.raises(Refused) as caught:
                scored_question("", **arguments)
            assert [caught.value.code, caught.value.param] == refused, example
        else:
            question = scored_question("", **arguments)
            assert [prompt.text for prompt in question.prompts] == gives, example
