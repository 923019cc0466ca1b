import json

import pytest

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.manifest import listing_faults, read_manifest
from tests.support.pack_files import json_pack, yaml_pack


def listing(**changes):
    version = {"version": "1.0.0", "file": "a/1.json", "model": "demo/model"}
    pack = {"id": "demo/mood", "name": "Mood", "versions": [version]}
    return {"format": 1, "namespace": "demo", "packs": [pack], **changes}


def faults(body) -> list[str]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(InvalidPack) as raised:
        read_manifest(text, "prompt-packs.json")
    return [str(fault) for fault in raised.value.faults]


def test_a_listing_is_read_with_its_defaults():
    manifest = read_manifest(b"\xef\xbb\xbf" + json.dumps(listing(more=1)).encode(), "m")
    pack = manifest.packs[0]
    version = pack.versions[0]
    assert (manifest.namespace, pack.id, pack.media, pack.description) == (
        "demo", "demo/mood", ("text",), ""
    )  # fmt: skip
    assert (version.status, version.models, version.media) == (
        "available", ("demo/model",), ("text",)
    )  # fmt: skip
    assert version.parameters is None and version.digest is None
    assert manifest.files == {"a/1.json"}


def test_a_version_may_have_media_and_parameters_of_its_own():
    body = listing()
    body["packs"][0].update(media=["text", "image"], parameters=["brand"])
    body["packs"][0]["versions"].append(
        {
            "version": "0.9",
            "file": "b.yml",
            "model": ["x", "y"],
            "media": ["text"],
            "parameters": [],
        }
    )
    new, old = read_manifest(json.dumps(body).encode(), "m").packs[0].versions
    assert (new.media, new.parameters) == (("text", "image"), ("brand",))
    assert (old.media, old.parameters, old.models) == (("text",), (), ("x", "y"))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("format",), 2, "format: should be 1"),
        (("format",), True, "format: should be 1"),
        (("namespace",), None, "namespace: should be a text, found nothing"),
        (("namespace",), "De mo", "lower-case"),
        (("packs",), {}, "packs: should be a list, found an object"),
        (("packs", 0), "x", "packs.0: should be an object, found a text"),
        (("packs", 0, "id"), "other/mood", "not inside the namespace 'demo'"),
        (("packs", 0, "id"), "mood", "should be namespace/name, such as demo/name"),
        (("packs", 0, "id"), "demo/Mood", "should be namespace/name"),
        (("packs", 0, "name"), "", "packs.0.name: should be a text, found an empty text"),
        (("packs", 0, "tags"), "x", "packs.0.tags: should be a list of texts, found a text"),
        (("packs", 0, "media"), ["smell"], "'smell' should be one of text, image, audio, video"),
        (("packs", 0, "versions"), [], "needs at least one version"),
        (("packs", 0, "versions", 0, "version"), "-1", "should be such as 1.0.0"),
        (("packs", 0, "versions", 0, "status"), "gone", "should be one of available"),
        (("packs", 0, "versions", 0, "status"), ["gone"], "should be one of available"),
        (("packs", 0, "versions", 0, "digest"), "sha256:12", "64 hex digits"),
        (("packs", 0, "versions", 0, "model"), 5, "model: should be a text, found a number"),
        (("packs", 0, "versions", 0, "file"), "../a.json", "inside the manifest's folder"),
        (
            ("packs", 0, "versions", 0, "file"),
            "a.txt",
            "'a.txt' is no pack's file, whose name ends in",
        ),
        (
            ("packs", 0, "versions", 0, "file"),
            "b/prompt-packs.json",
            "and is not prompt-packs.json",
        ),
        (("format",), {"a": 1}, "format: should be 1, found an object"),
        (("packs", 0, "versions", 0, "status"), None, "status: nothing should be one of available"),
        (("namespace",), "N" * 99, f"'{'N' * 64}…' should be lower-case"),
        (("packs", 0, "versions", 0, "file"), "/a.json", "inside the manifest's folder"),
        (("packs", 0, "versions", 0, "file"), "a\\b.json", "inside the manifest's folder"),
        (("packs", 0, "versions", 0, "file"), "C:/a.json", "inside the manifest's folder"),
    ],
)
def test_each_fault_is_named_with_its_place(path, value, words):
    body = listing()
    *above, last = path
    holder = body
    for step in above:
        holder = holder[step]
    holder[last] = value
    found = faults(body)
    assert len(found) == 1 and words in found[0] and found[0].startswith("prompt-packs.json: ")


def test_ids_and_versions_are_unique_and_all_faults_come_at_once():
    body = listing()
    body["packs"] += [body["packs"][0], {"id": "x/y"}]
    body["packs"][0]["versions"] *= 2
    found = "\n".join(faults(body))
    for words in (
        "'demo/mood' is listed twice",
        "'1.0.0' is listed twice",
        "not inside",
        "packs.2.name",
    ):
        assert words in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "not JSON: "),
        (b"[]", "should be an object, found a list"),
        (b'{"format": 1, "format": 1}', "the key `format` stands twice"),
        (b'{"format": NaN}', "NaN is no number of JSON"),
        (b"\xff\xfe", "byte 1 is not UTF-8; save the file as UTF-8"),
        (b"[" * 100_000, "nested deeper than 32 levels"),
        (b'{"namespace": "\\ud800"}', "the escape \\ud800 is half of a surrogate pair"),
        (b" " * (1 + (16 << 20)), "has more than 16,777,216 bytes"),
    ],
)
def test_what_is_no_json_is_refused(text, words):
    assert words in faults(text)[0]


def test_of_very_many_faults_the_first_are_told():
    found = faults(listing(packs=["x"] * 300))
    assert len(found) == 101 and found[-1] == "prompt-packs.json: and 200 more faults"


def compared(pack_text: str, name: str, **changes) -> list[str]:
    body = listing()
    body["packs"][0]["versions"][0].update(changes)
    manifest = read_manifest(json.dumps(body).encode(), "m")
    pack = read_pack(pack_text.encode(), name)
    listed = manifest.packs[0]
    return [str(fault) for fault in listing_faults(listed, listed.versions[0], pack, name)]


def test_a_file_that_is_what_the_listing_says_has_no_fault():
    assert compared(json_pack(), "a.json") == []
    assert compared(json_pack(), "a.json", model="Demo/Model", parameters=[]) == []
    # A draft names no model, a listing of it need not either.
    assert compared(yaml_pack(), "a.yaml", model=None) == []


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (json_pack("demo/other"), {}, "pack: is demo/other, but prompt-packs.json lists demo/mood"),
        (json_pack(version="2"), {}, "version: is 2, but prompt-packs.json lists 1.0.0"),
        (
            json_pack(),
            {"model": "other"},
            "model: is demo/model, but prompt-packs.json lists other",
        ),
        (json_pack(), {"media": ["text", "image"]}, "media: is text, but"),
        (json_pack(), {"parameters": ["shop"]}, "parameters: is none, but"),
        (json_pack(), {"digest": "0" * 64}, "not the file that was published as demo/mood 1.0.0"),
    ],
)
def test_a_file_that_differs_from_its_listing_is_a_fault(text, changes, words):
    found = compared(text, "a.json", **changes)
    assert len(found) == 1 and words in found[0]
