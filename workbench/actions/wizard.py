"""Begins packs: a copy of an official one or of one in the project, or from plain sentences.

Nothing that is there is ever overwritten, and nothing is written that is no valid pack. Knows no screen.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.catalogue import official_folder
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.lint_rules import (
    Finding,
    context_braces,
    idle_requirements,
    options_alike,
    rest_option,
    template_space,
)
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.new import schema_text
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.yaml_edit import set_value
from spinf_serve.packs.yaml_lists import insert
from spinf_serve.packs.yaml_nodes import source_text
from spinf_serve.packs.yaml_text import Block
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions.forms import free_name
from spinf_serve.workbench.actions.saving import new_numbers
from spinf_serve.workbench.actions.sentences import Ask, Proposal
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk

VERSION: Final = "0.1.0"

KINDS: Final = {
    "message": "Message: {X}\n",
    "support ticket": "Support ticket: {X}\n",
    "email": "Email: {X}\n",
    "review": "Review: {X}\n",
    "post": "Post: {X}\n",
    "chat line": "Customer: {X}\n",
}
"""What contents are called -> the context that introduces them."""

_BEGIN: Final = """\
# yaml-language-server: $schema=pack.schema.json
# Begun from plain sentences; each stands above its questions. The first option of a question speaks
# for its category. Reword freely, then look at Lint and fit on labelled rows.
pack: begin/begin
version: 0.1.0
name: begin
contexts:
  default: "{X}"
scoring:
  queries: []
categories: {}
decision: {mode: per_category}
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """A pack that can be copied.

    Attributes:
        file: its YAML.
        name, description: for people.
        categories: names of what it scores.
        rows, auc, model: what it was measured on and how well it does; None without figures.
    """

    file: Path
    name: str
    description: str
    categories: tuple[str, ...] = ()
    rows: int | None = None
    auc: float | None = None
    model: str | None = None


def official() -> list[Offer]:
    """The packs that come with this package, with what was measured of them."""
    home = official_folder()
    listing = json.loads((home / "prompt-packs.json").read_text("utf-8"))
    found = []
    for listed in listing["packs"]:
        folder = home / listed["id"].split("/")[1]
        try:
            fit = json.loads((folder / "fit.json").read_text("utf-8"))
        except OSError:
            fit = {}
        found.append(
            Offer(
                folder / "pack.yaml",
                listed["name"],
                listed["description"],
                tuple(fit.get("categories", ())),
                fit.get("test_rows"),
                fit.get("macro_auc"),
                fit.get("model"),
            )
        )
    return found


def id_from(name: str, namespace: str = "my") -> str:
    """A pack's id from what people call it."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(one for one in plain if not unicodedata.combining(one))
    slug = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")
    return f"{namespace}/{slug[:60] or 'pack'}"


def copy_pack(desk: Desk, user: str, source: Path, name: str, *, approver: bool = True) -> Path:
    """Copy a pack's file under another name and id; comments and fitted numbers stay.

    Args:
        approver: whether numbers may come to be in force; else they are left out.

    Returns the new file. Raises `Unusable`, `InvalidPack`.
    """
    try:
        text = source_text(read_regular(source), source.name)
    except OSError as error:
        raise Unusable(f"{source.name} cannot be read: {error.strerror}") from None
    if source.suffix == ".json":
        raise Unusable("a JSON file is a pack's exported form; copy its YAML file")
    for field, value in (("pack", id_from(name)), ("version", VERSION), ("name", name.strip())):
        text = set_value(text, "pack.yaml", [field], value)
    if not approver and new_numbers(b"", text.encode(), "pack.yaml"):
        text = set_value(text, "pack.yaml", ["fitted"], {})
        if new_numbers(b"", text.encode(), "pack.yaml"):
            raise Unusable(
                f"{source.name} has numbers that cannot be left out; ask an approver to copy it"
            )
    return create(desk, user, name, text, what="copy pack", source=source.name)


def written(name: str, kind: str, given: Sequence[tuple[Proposal, Sequence[Ask]]]) -> str:
    """The text of a pack that asks the approved questions of each proposal.

    Args:
        kind: of `KINDS`.
        given: proposals with those of their questions that were approved, maybe reworded.

    Raises `Unusable` when no question was approved.
    """
    if not any(asks for _, asks in given):
        raise Unusable("no question is ticked; a pack asks at least one")
    text = _BEGIN
    name = "".join(one if one.isprintable() else " " for one in name).strip() or "pack"
    for field, value in (("pack", id_from(name)), ("name", name)):
        text = set_value(text, "pack.yaml", [field], value)
    text = set_value(text, "pack.yaml", ["contexts", "default"], KINDS[kind])
    queries, categories, comments = [], Block(), {}
    taken: set[str] = set()
    for proposal, asks in given:
        if not asks:
            continue
        category = free_name(proposal.category, {*categories})
        categories[category] = {"label": proposal.label}
        for ask in asks:
            query = free_name(category, taken)
            taken.add(query)
            if ask is asks[0]:
                comments[query] = proposal.sentence
            options: object = list(ask.options)
            if ask.options in (("true", "false"), ("yes", "no")):
                options = "/".join(ask.options)
            queries.append(
                Block(id=query, template=ask.template, options=options, category=category)
            )
    text = insert(text, "pack.yaml", ["scoring", "queries"], 0, queries)
    text = set_value(text, "pack.yaml", ["categories"], categories)
    lines = []
    for line in text.split("\n"):
        found = re.match(r"( *)- id: (.*)", line)
        sentence = comments.get(found[2].strip('"')) if found else None
        if found and sentence:
            lines.append(f"{found[1]}# {' '.join(sentence.split())}")
        lines.append(line)
    return "\n".join(lines)


def findings(text: str) -> list[Finding]:
    """What lint finds in a text without asking a model. Raises `InvalidPack`."""
    pack = read_pack(text.encode(), "pack.yaml")
    return [*_of_questions(pack), *context_braces(pack), *idle_requirements(pack)]


def _of_questions(pack: Pack) -> list[Finding]:
    return [
        finding
        for question in pack.questions
        for rule in (
            template_space(question),
            rest_option(question),
            options_alike(question, None),
        )
        for finding in rule
    ]


def create(
    desk: Desk, user: str, name: str, text: str, *, what: str = "new pack", **details: str
) -> Path:
    """Write a new pack's file into a folder of its own, with the schema for editors beside it.

    Raises:
        InvalidPack: the text is no pack.
        Unusable: there is a pack of that name, or the file cannot be written.
    """
    if not name.strip():
        raise Unusable("give the pack a name first")
    pack = read_pack(text.encode(), "pack.yaml", fitted=False)
    folder = desk.folder / "packs" / pack.id.split("/")[1]
    file = folder / "pack.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(file, LOCK_SECONDS):
            if file.exists():
                raise Unusable(
                    f"there is a pack in {desk.name_of(file)} already; take another name"
                )
            if not (folder / "pack.schema.json").exists():
                write_beside(folder / "pack.schema.json", schema_text().encode())
            write_beside(file, text.encode())
    except (OSError, TimeoutError) as error:
        raise Unusable(f"{desk.name_of(file)} cannot be written: {error}") from None
    audit.note(desk, user, what, desk.name_of(file), id=pack.id, digest=pack.digest, **details)
    return file
