"""Manifests are read strictly: what is missing, misspelt or impossible is named."""

import re
from dataclasses import asdict

import pytest

from spinf_serve.engine.loading.manifest import UNPINNED, names, parse_manifest, read_manifests
from spinf_serve.engine.models.families import FAMILIES
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable

EMBEDDED = """
id = "own-model"
name = "Own Model"
description = "A model of our own"
release_date = "2026-01-31"
aliases = ["own", "model"]
base_model = "somebody/base"
family = "llama"
license = "Apache-2.0"
capabilities = ["score"]
media = []
prompt_style = "cloze"
stand_in = false
note = "for tests"

[source]
kind = "embedded"
package = "own-package"
revision = "1.2.0"
file = "model.gguf"
sha256 = "{digest}"

[limits]
max_options = 20
""".replace("{digest}", "ab" * 32)
HUB = EMBEDDED.replace(
    EMBEDDED[EMBEDDED.index("[source]") : EMBEDDED.index("[limits]")],
    f"""[source]
kind = "hub"
repo = "somebody/own-model"
revision = "{"0f" * 20}"

""",
)


def test_an_embedded_model():
    manifest = parse_manifest(EMBEDDED, "own.toml")
    served, source = manifest.served, manifest.source
    assert names(manifest) == ("own-model", "Own Model", "own", "model")
    assert (served.family, served.release_date, served.revision) == ("llama", "2026-01-31", "1.2.0")
    assert (served.capabilities, served.media, served.stand_in) == (("score",), (), False)
    assert (source.kind, source.package, source.repo) == ("embedded", "own-package", None)
    assert (source.file, source.sha256) == ("model.gguf", "ab" * 32)
    assert manifest.limits == {"max_options": 20}


def test_where_lint_finds_fault_with_a_question_may_be_said():
    served = parse_manifest(EMBEDDED, "own.toml").served
    assert (served.lint_residual, served.lint_floor) == (None, None)
    served = parse_manifest(EMBEDDED + "[lint]\nresidual = 0.99\n", "own.toml").served
    assert (served.lint_residual, served.lint_floor) == (0.99, None)


def test_a_model_of_the_hub():
    source = parse_manifest(HUB, "own.toml").source
    assert (source.kind, source.repo, source.file) == ("hub", "somebody/own-model", None)
    assert source.revision == "0f" * 20
    with_file = HUB.replace('kind = "hub"', f'kind = "hub"\nfile = "a.gguf"\nsha256 = "{"1" * 64}"')
    assert parse_manifest(with_file, "own.toml").source.file == "a.gguf"


def test_a_commit_that_is_not_settled_is_said_in_the_note():
    open_end = HUB.replace("0f" * 20, UNPINNED).replace('"for tests"', '"the commit is unpinned"')
    manifest = parse_manifest(open_end, "own.toml")
    assert manifest.source.revision == manifest.served.revision == "unpinned"


def test_the_models_that_ship_are_held_at_a_commit():
    shipped = [manifest for manifest in read_manifests() if manifest.source.kind == "hub"]
    assert [manifest.served.id for manifest in shipped] == [
        "spinf/gemma-4-12b-fp8",
        "spinf/gemma-4-31b-fp8",
    ]
    for manifest in shipped:
        assert re.fullmatch("[0-9a-f]{40}", manifest.source.revision)


def test_the_longest_sequence_and_the_rows_of_a_pass_may_be_set():
    manifest = parse_manifest(EMBEDDED, "own.toml")
    assert (manifest.max_tokens, manifest.token_budget) == (None, None)
    manifest = parse_manifest(EMBEDDED + "max_tokens = 7\ntoken_budget = 9\n", "own.toml")
    assert (manifest.max_tokens, manifest.token_budget) == (7, 9)
    assert manifest.limits == {"max_options": 20}
    with pytest.raises(Unusable, match=r"limits\.max_tokens should be at least 1, found 0"):
        parse_manifest(EMBEDDED + "max_tokens = 0\n", "own.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("aliases =", "aliasses =", r"aliases is missing \(is aliasses a misspelling of it\?\)"),
        ("stand_in", "notes = 1\nstand_in", r"notes is not a known key \(did you mean note\?\)"),
        ("note =", "xyzzy = 1\nnote =", r"xyzzy is not a known key$"),
        (
            "sha256",
            "sha257 = 1\nsha256",
            r"source\.sha257 is not a known key \(did you mean sha256",
        ),
        ("max_options", "max_option", r"limits\.max_option is not a known key \(did you mean max_"),
        ("max_options = 20", "max_options = 0", r"limits\.max_options should be at least 1"),
        ("max_options = 20", "max_options = true", r"limits\.max_options should be a whole number"),
        ('id = "own-model"', 'id = "Own Model"', "id should be lower-case letters"),
        ('name = "Own Model"', "name = 7", "name should be a text, found 7"),
        ('name = "Own Model"', 'name = " "', "name should be one line of text"),
        ('"2026-01-31"', '"31.1.2026"', "release_date should be YYYY-MM-DD"),
        ('"2026-01-31"', '"2026-02-31"', "release_date should be YYYY-MM-DD"),
        (
            'family = "llama"',
            'family = "lama"',
            "family should be one of llama, gemma3, gemma4, found 'lama'",
        ),
        (
            '["score"]',
            '["scores"]',
            "capabilities may list score, extract, generate, found 'scores'",
        ),
        ("media = []", 'media = ["smell"]', "media may list image, audio, video, found 'smell'"),
        ("media = []", "media = [1]", "media should be a list of texts"),
        ('["own", "model"]', '["own", "own"]', "aliases lists something twice"),
        ('"cloze"', '"plain"', "prompt_style should be one of cloze, chat, found 'plain'"),
        ("stand_in = false", "stand_in = 0", "stand_in should be true or false, found 0"),
        ('kind = "embedded"', 'kind = "ftp"', r"source\.kind should be one of embedded, hub"),
        ("ab" * 32, "ab", r"source\.sha256 should be 64 hex digits, found 'ab'"),
        ('package = "own-package"', "", r"source\.package is missing"),
        ('revision = "1.2.0"', 'revision = "newest"', r"source\.revision should be a version"),
        ("[limits]", "[limits", "not valid TOML"),
        ("[limits]", "[lint]\nfloor = 1\n[limits]", r"lint\.floor should be a number such as 0\.9"),
        ("[limits]", "[lint]\nfloor = 1.0\n[limits]", r"lint\.floor should be above 0 and below 1"),
        (
            "[limits]",
            "[lint]\nflor = 0.5\n[limits]",
            r"lint\.flor is not a known key \(did you mean",
        ),
    ],
)
def test_each_fault_is_named(old, new, message):
    broken = EMBEDDED.replace(old, new, 1)
    assert broken != EMBEDDED
    with pytest.raises(Unusable, match=rf"^own\.toml: {message}"):
        parse_manifest(broken, "own.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "0f" * 20,
            "main",
            r"source\.revision should be a commit of 40 hex digits, or unpinned, found 'main'",
        ),
        ("0f" * 20, "unpinned", "^own.toml: note should say that the revision is unpinned"),
        ("somebody/own-model", "own-model", r"source\.repo should be owner/name"),
        ('kind = "hub"', 'kind = "hub"\nfile = "a.gguf"', r"source\.sha256 is missing"),
        ('kind = "hub"', 'kind = "hub"\npackage = "x"', r"source\.package is not a known key"),
    ],
)
def test_each_fault_of_a_hub_source_is_named(old, new, message):
    with pytest.raises(Unusable, match=message):
        parse_manifest(HUB.replace(old, new, 1), "own.toml")


def test_the_manifests_that_come_along_are_sound():
    manifests = read_manifests()
    default = next(one for one in manifests if "embedded" in names(one))
    assert default.served.id == "smollm2-135m-instruct"
    assert default.served.stand_in and "trying things out" in default.served.note
    owner = {name: manifest.served.id for manifest in manifests for name in names(manifest)}
    assert owner["embedded"] == owner["jev-latest"] == "smollm2-135m-instruct"
    for size, tokens in (("12", 65_536), ("31", 32_768)):
        manifest = next(one for one in manifests if one.served.id == f"spinf/gemma-4-{size}b-fp8")
        for name in (f"spinf-{size}b", f"google/gemma-4-{size}B", f"gemma-4-{size}b"):
            assert owner[name] == manifest.served.id
        assert (manifest.max_tokens, manifest.token_budget) == (tokens, 16_384)
        assert dict(manifest.limits) == asdict(Limits())
        assert manifest.served.capabilities == ("score", "extract", "generate")
        assert manifest.served.media == ()
        assert manifest.source.repo == manifest.served.base_model == f"google/gemma-4-{size}B"
    claimed = [name for manifest in manifests for name in names(manifest)]
    assert len(claimed) == len(set(claimed))
    assert {manifest.served.family for manifest in manifests} <= FAMILIES.keys()
