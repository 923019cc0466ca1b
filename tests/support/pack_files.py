"""Texts of small packs and folders of them."""

import json
from pathlib import Path
from typing import Any


def yaml_pack(pack_id: str = "demo/mood", version: str = "1.0.0", question: str = "Happy?") -> str:
    """A draft in the author's form."""
    return (
        f"# A pack for tests\npack: {pack_id}\nversion: {version}\nname: Mood\n"
        'contexts:\n  default: "{X}\\n"\n'
        "scoring:\n  queries:\n    - id: happy\n"
        f'      template: "\\n{question}{{?}}"\n'
        "      options: yes/no\n      category: mood\n"
    )


def json_pack(pack_id: str = "demo/mood", version: str = "1.0.0", **more: Any) -> str:
    """A pack in the plain form, fitted on the model `demo/model`."""
    read = {"id": "happy", "query": "happy", "kind": "pair", "category": "mood"}
    file = {
        "pack": pack_id,
        "version": version,
        "model": "demo/model",
        "contexts": {"default": "{X}\n"},
        "scoring": {
            "queries": [{"id": "happy", "template": "\nHappy?{?}", "options": [" yes", " no"]}]
        },
        "reads": [{**read, "mean": 0.0, "sd": 1.0}],
        "categories": {"mood": {"platt": [1.0, 0.0], "threshold": 0.5}},
        "decision": {"mode": "per_category"},
        **more,
    }
    return json.dumps(file)


def folder_of(root: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root
