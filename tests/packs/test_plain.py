"""The plain form says what the pack says, and loads to the same values."""

import json
from copy import deepcopy
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.packs.build_fitted import read_bands
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.notes import Notes
from spinf_serve.packs.pack import Category
from spinf_serve.packs.plain import bands_block, block_of, canonical, inlined, lock_of, plain, split
from tests.support.packs import GOLDEN


def golden(change=None):
    file = deepcopy(dict(GOLDEN))
    if change is not None:
        change(file)
    return read_pack(json.dumps(file).encode(), "golden.json")


def test_a_json_pack_comes_out_as_it_went_in():
    def change(file):
        file["homepage"] = "kept"
        file["reads"][0]["note"] = {"kept": True}
        file["decision"]["max"]["note"] = "kept"
        file["proof"] = {"model": "a", "constants": "b"}

    file = deepcopy(dict(GOLDEN))
    change(file)
    assert plain(golden(), "demo/model") == GOLDEN
    assert plain(golden(change), "demo/model") == file


def test_a_draft_s_plain_form_has_no_fitted_number():
    for model in (None, "another/model"):
        file = plain(golden(), model)
        assert "model" not in file
        assert all(not {"mean", "sd", "mu"} & read.keys() for read in file["reads"])
        assert all(
            not {"platt", "threshold", "normal_quantiles"} & category.keys()
            for category in file["categories"].values()
        )
        assert file["decision"]["max"] == {}
        assert not {"weights", "lock"} & file["decision"]["micro_layer"].keys()
        draft = read_pack(json.dumps(file).encode(), "p.json")
        assert draft.fitted == {} and draft.modes == golden().modes
        assert (draft.questions, draft.reads) == (golden().questions, golden().reads)


def test_what_is_given_out_is_the_caller_s_own():
    pack = golden()
    for model in ("demo/model", None):
        plain(pack, model)["reads"][0]["id"] = "changed"
        plain(pack, model)["scoring"]["queries"].clear()
    assert plain(pack, "demo/model") == GOLDEN


def test_canonical_json_is_that_of_the_contract():
    value = {"b": [1, 1.0, -0.5, 1e-7, True, None], "a": 'é\n"😀'}
    assert canonical(value) == (
        '{"a":"\\u00e9\\n\\"\\ud83d\\ude00","b":[1,1.0,-0.5,1e-07,true,null]}'
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


def test_the_lock_is_that_of_the_contract():
    layer = GOLDEN["decision"]["micro_layer"]
    assert lock_of(GOLDEN, layer["inputs"]) == layer["lock"]
    assert lock_of(GOLDEN, layer["inputs"][::-1]) != layer["lock"]


AUTHORED = dedent(
    """\
    pack: demo/small
    version: 1.0.0
    contexts: {default: "{X}\\n"}
    scoring:
      queries:
        - {id: q, template: "\\nt{?}", options: [a, b], category: x}
        - {id: k, template: "\\ns{?}", options: [a, b, c], categories: {a: x, b: y}}
    decision: {mode: MODE, fallback: max, max: {}, micro_layer: {inputs: [c:x, r:k/b]}}
    bands: {decision: {act: 0.9, review: 0.5}}
    """
)


def authored(mode: str, models: dict[str, Any] | None = None):
    text = AUTHORED.replace("MODE", mode)
    if models is not None:
        text += f"fitted: {json.dumps(models)}\n"
    return read_pack(text.encode(), "p.yaml")


def block() -> dict[str, Any]:
    return {
        "reads": {
            "q": {"mean": 0.5, "sd": 1.5},
            "k/a": {"mean": 0.0, "sd": 2, "mu": [-1.0, -2.0, -3]},
            "k/b": {"mean": 0.25, "sd": 1.0, "mu": [-1.0, -2.0, -3]},
        },
        "categories": {
            "x": {
                "platt": [1.0, -0.5],
                "threshold": 0.4,
                "normal_quantiles": {"levels": [0, 1], "values": [0.1, 0.9]},
            },
            "y": {"platt": [2.0, -0.5], "threshold": None},
        },
        "decision": {"max": {"threshold": 0.6}},
    }


def test_each_model_s_numbers_stand_in_its_own_plain_form():
    two = block()
    two["reads"]["q"]["mean"] = -3
    two["bands"] = {"decision": {"act": 0.8, "review": 0.1}, "categories": {}}
    two["proof"] = {"model": "aa", "constants": "bb", "n": 3}
    pack = authored("max", {"one": block(), "two": two})
    one_file, two_file = plain(pack, "one"), plain(pack, "TWO")
    assert (one_file["model"], two_file["model"]) == ("one", "two")
    assert [file["reads"][0]["mean"] for file in (one_file, two_file)] == [0.5, -3]
    assert one_file["bands"] == {"decision": {"act": 0.9, "review": 0.5}}
    assert two_file["bands"] == {"decision": {"act": 0.8, "review": 0.1}}
    assert "proof" not in one_file and two_file["proof"]["n"] == 3
    assert "fitted" not in one_file
    for model, file in (("one", one_file), ("two", two_file)):
        again = read_pack(json.dumps(file).encode(), "p.json")
        assert again.fitted == {model: pack.fitted[model]}


def test_a_block_is_written_as_it_was_read():
    two = block()
    two["bands"] = {"decision": {"act": 0.8, "review": 0.1}}
    pack = authored("max", {"one": block(), "two": two})
    assert block_of(pack.fitted["one"], pack.body) == block()
    assert block_of(pack.fitted["two"], pack.body) == two
    bands = {"decision": {"act": 0.8, "review": 0.1}, "categories": {"x": {"act": 1, "review": 0}}}
    read = read_bands(bands, (), {"x": Category("x")}, Notes())
    assert read is not None and bands_block(read) == bands


def test_a_layer_s_lock_in_yaml_holds_in_the_plain_form_too():
    draft = authored("micro_layer")
    assert draft.fitted == {} and draft.body["decision"]["micro_layer"]["inputs"] == [
        "c:x",
        "r:k/b",
    ]
    unlocked = authored("micro_layer", {"one": block()})
    inputs = ["c:x", "r:k/b"]
    layer = {
        "inputs": inputs,
        "weights": "AAAAPwAAgD4AAAA+AACAvg==",
        "lock": lock_of(inlined(unlocked.body, unlocked.fitted["one"]), inputs),
    }
    fitted = block()
    fitted["decision"]["micro_layer"] = layer
    pack = authored("micro_layer", {"one": fitted})
    assert pack.fitted["one"].layer.holds
    again = read_pack(json.dumps(plain(pack, "one")).encode(), "p.json")
    assert again.fitted["one"].layer == pack.fitted["one"].layer


def test_a_model_without_a_layer_exports_what_decides_there():
    pack = authored("micro_layer", {"one": block()})
    assert pack.fitted["one"].layer is None and pack.decision.mode == "micro_layer"
    file = plain(pack, "one")
    assert file["decision"] == {"mode": "max", "fallback": "max", "max": {"threshold": 0.6}}
    assert read_pack(json.dumps(file).encode(), "p.json").modes == ("per_category", "max")


def test_split_leaves_the_file_alone():
    before = deepcopy(dict(GOLDEN))
    split(before)
    assert before == GOLDEN


WORDS = st.sampled_from(["yes", "no", "1.10", "010", "A", "a", "b c", "é", "null", "x:y", "12:30"])
NUMBERS = st.one_of(
    st.integers(-5, 5), st.floats(-5, 5, allow_nan=False).map(lambda one: float(f"{one:.6g}"))
)


@st.composite
def author_packs(draw) -> dict[str, Any]:
    """A pack in the author's form, with its numbers for zero to two models."""
    queries: list[dict[str, Any]] = []
    reads: dict[str, int] = {}
    for number in range(draw(st.integers(1, 4))):
        options = draw(st.lists(WORDS, min_size=2, max_size=4, unique_by=str.casefold))
        query = {"id": f"q{number}", "template": "\nIt is{?}", "options": options}
        names = [query["id"]]
        form = draw(st.sampled_from(["plain", "grid", "options"]))
        if form == "options":
            query["categories"] = {options[0]: "x", options[1]: draw(st.sampled_from("xy"))}
            names = [f"q{number}/{option}" for option in options[:2]]
        else:
            query["category"] = draw(st.sampled_from("xy"))
            if len(options) > 2:
                query["unsafe"] = options[: draw(st.integers(1, len(options) - 1))]
        if form == "grid":
            values = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
            query |= {"template": "\n{F} is{?}", "for": {"F": values}}
            names = [f"q{number}/{value}" for value in values]
        queries.append(query)
        has_mu = form == "options" or len(options) > 2
        reads |= dict.fromkeys(names, len(options) if has_mu else 0)
    queries[0]["category"] = "x" if "category" in queries[0] else None
    queries.append({"id": "last", "template": "\nt{?}", "options": ["s", "t"], "category": "y"})
    reads["last"] = 0
    if queries[0]["category"] is None:
        del queries[0]["category"]
    pack = {
        "pack": "demo/random",
        "version": draw(st.sampled_from(["1.0", "2", "1.10-rc"])),
        "contexts": {"default": "{X}\n", "with": "{shop}: {X}"},
        "parameters": {"shop": {"default": draw(WORDS)}},
        "scoring": {"queries": queries},
        "categories": {"x": {"label": draw(WORDS)}, "y": {"requires": ["x"], "decides": False}},
        "decision": {"mode": draw(st.sampled_from(["per_category", "max"])), "max": {}},
        "bands": {"decision": {"act": 0.75, "review": draw(st.sampled_from([0.5, 0.75]))}},
        "on_long": draw(st.sampled_from(["refuse", {"chunk": "max"}, {"chunk": "mean"}])),
    }
    fitted = {}
    for model in draw(st.sampled_from([[], ["m"], ["m", "n/o"]])):
        fitted[model] = {
            "reads": {
                name: {"mean": draw(NUMBERS), "sd": abs(draw(NUMBERS)) + 1}
                | ({"mu": [draw(NUMBERS) for _ in range(options)]} if options else {})
                for name, options in reads.items()
            },
            "categories": {
                name: {"platt": [draw(NUMBERS), draw(NUMBERS)], "threshold": threshold}
                for name, threshold in (("x", 0.5), ("y", draw(st.sampled_from([None, 0.25]))))
            },
            "decision": {"max": {"threshold": 0.5}},
        }
    if fitted:
        pack["fitted"] = fitted
    return pack


@settings(max_examples=60, deadline=None)
@given(author_packs())
def test_the_plain_form_loads_to_the_same_pack(written):
    # JSON is YAML, and its quoted texts are texts there as well.
    pack = read_pack(json.dumps(written).encode(), "p.yaml")
    assert list(pack.fitted) == list(written.get("fitted", {}))
    for model in (*pack.fitted, None):
        file = plain(pack, model)
        again = read_pack(json.dumps(file).encode(), "p.json")
        fitted = {} if model is None else {model: pack.fitted[model]}
        assert again == replace(pack, fitted=fitted, digest=again.digest)
        assert plain(again, model) == file
        assert canonical(plain(again, model)) == canonical(file)
