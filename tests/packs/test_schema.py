"""One definition of every field: schema, tables and loading agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from spinf_serve.packs import schema
from spinf_serve.packs.schema import AuthorPack, Part, PlainPack, json_schema
from tests.support import pack_documents

FILE = Path(__file__).resolve().parent.parent.parent / "packs" / "pack.schema.json"


def parts() -> list[type[BaseModel]]:
    return [
        one
        for one in vars(schema).values()
        if isinstance(one, type) and issubclass(one, Part) and one is not Part
    ]


def test_the_schema_that_is_shipped_is_fresh():
    assert FILE.read_text("utf-8") == pack_documents.schema(), "run `make fix`"


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.__name__)
def test_every_field_says_what_it_is(part):
    for name, field in part.model_fields.items():
        assert field.description, name
        assert field.description.rstrip()[-1] in ".`", name


def test_every_field_of_the_author_s_form_is_in_the_tables():
    page = pack_documents.PAGE.read_text("utf-8")
    whole = json_schema()
    for definition in (whole, *whole["$defs"].values()):
        assert definition["additionalProperties"] is False
        for name in definition["properties"]:
            assert f"| `{name}`" in page


def test_the_author_s_form_has_every_field_of_the_plain_one():
    assert PlainPack.model_fields.keys() <= AuthorPack.model_fields.keys()
    assert schema.Query.model_fields.keys() <= schema.AuthorQuery.model_fields.keys()


def test_editors_are_told_what_authors_may_write():
    query = json_schema()["$defs"]["AuthorQuery"]
    assert query["required"] == ["id", "template", "options"]
    listed, named = query["properties"]["options"]["oneOf"]
    assert listed["items"]["type"] == ["string", "number", "boolean", "null"]
    assert named["enum"] == ["true/false", "yes/no"]
    assert "for" in query["properties"] and "for_" not in query["properties"]
    assert json_schema()["required"] == ["pack", "version", "contexts", "scoring"]


def test_the_loader_s_name_costs_neither_pydantic_nor_yaml():
    code = (
        "import sys\n"
        "import spinf_serve.packs.loader, spinf_serve.packs.plain, spinf_serve.packs.build\n"
        "print([n for n in ('pydantic', 'ruamel.yaml', 'numpy', 'torch') if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.replace("'", '"')) == []
