"""Fitted constants written into pack files: only their lines change, and they read back."""

import codecs
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import load_pack, read_pack
from spinf_serve.packs.pack import (
    Bands,
    CategoryFit,
    Constants,
    Cuts,
    MicroLayer,
    Pack,
    Quantiles,
    ReadFit,
)
from spinf_serve.packs.plain import inlined, lock_of, plain
from spinf_serve.packs.save import save_constants

DRAFT = """\
# Reviews, read by a small model.
pack: spinf/reviews   # never change this

version:  1.0.0

contexts:
    default: "Review: {X}\\n"     # exactly one {X}

scoring:
    queries:
        # What the writer feels.
        - id: sentiment
          template: |
              Sentiment:{?}
          options: [ positive,  negative ]   # spaces kept
          category: positive

        - {id: about, template: "\\nIt is about {F}. True or false?{?}", options: true/false,
           for: {F: [the price, 'the delivery: late']}, category: topic}
        - id: kind
          template: "\\nKind:{?}"
          options: [payment, error, login]
          categories: {payment: billing}

decision: {mode: per_category}
"""
MODEL = "spinf/tiny"


def constants(numbers: Sequence[float], **more: object) -> Constants:
    """Ten numbers to constants of the draft."""
    a, b, c, d, e, f, g, h, i, j = numbers
    made = Constants(
        model=MODEL,
        reads={
            "sentiment": ReadFit(a, abs(b) + 1),
            "about/the price": ReadFit(c, 1.25),
            "about/the delivery: late": ReadFit(d, 0.5),
            "kind/payment": ReadFit(e, 2.0, (f, g, h)),
        },
        categories={
            "positive": CategoryFit((i, j), 0.5),
            "topic": CategoryFit((1.5, -0.25), None, Quantiles((0.0, 0.5, 1.0), (0.1, 0.2, 0.3))),
            "billing": CategoryFit((1.0, 0.0), 0.25),
        },
    )
    return replace(made, **more)  # type: ignore[arg-type]


ONE = constants([0.12, 0.3, -1.5, 1e-05, 2.0, -1.0, -2.0, -0.5, 1.1, -0.7])
BLOCK = """\
fitted:
    spinf/tiny:
        reads:
            sentiment: {mean: 0.12, sd: 1.3}
            about/the price: {mean: -1.5, sd: 1.25}
            "about/the delivery: late": {mean: 1.0e-05, sd: 0.5}
            kind/payment: {mean: 2.0, sd: 2.0, mu: [-1.0, -2.0, -0.5]}
        categories:
            positive: {platt: [1.1, -0.7], threshold: 0.5}
            topic: {platt: [1.5, -0.25], normal_quantiles: {levels: [0.0, 0.5, 1.0], values: [0.1, 0.2, 0.3]}}
            billing: {platt: [1.0, 0.0], threshold: 0.25}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pack.yaml"


def saved(path: Path, data: str | bytes, fitted: Constants, **more: object) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    save_constants(path, fitted, **more)  # type: ignore[arg-type]
    return path.read_bytes().decode()


def test_a_draft_gains_a_block_and_nothing_else_changes(path: Path) -> None:
    assert saved(path, DRAFT, ONE) == DRAFT + BLOCK
    assert load_pack(path).fitted == {MODEL: ONE}


def test_line_ends_and_byte_order_mark_stay(path: Path) -> None:
    data = codecs.BOM_UTF8 + DRAFT.replace("\n", "\r\n").encode()
    text = saved(path, data, ONE)
    assert text == "\ufeff" + (DRAFT + BLOCK).replace("\n", "\r\n")
    assert load_pack(path).fitted == {MODEL: ONE}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_only_lines_whose_numbers_change_are_written_anew(path: Path, ending: str) -> None:
    commented = (
        (DRAFT + "\n# Fitted by hand.\n" + BLOCK + "# The end.\n")
        .replace("sd: 1.3}", "sd: 1.30 }   # wide")
        .replace("1.0e-05", ".00001")
        .replace("threshold: 0.25}", "threshold: 0.25}  # low")
        .replace("        categories:\n", "        # Three categories.\n        categories:\n\n")
        .replace("\n", ending)
    )
    two = replace(
        ONE,
        reads={**ONE.reads, "sentiment": ReadFit(0.12, 1.4)},
        categories={**ONE.categories, "billing": CategoryFit((1.0, 0.125), 0.25)},
    )
    before = commented.split(ending)
    after = saved(path, commented, two).split(ending)
    differing = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert differing == [
        (
            "            sentiment: {mean: 0.12, sd: 1.30 }   # wide",
            "            sentiment: {mean: 0.12, sd: 1.4 }   # wide",
        ),
        (
            "            billing: {platt: [1.0, 0.0], threshold: 0.25}  # low",
            "            billing: {platt: [1.0, 0.125], threshold: 0.25}  # low",
        ),
    ]
    assert load_pack(path).fitted == {MODEL: two}


def test_saving_the_same_again_does_not_touch_the_file(path: Path) -> None:
    saved(path, DRAFT, ONE)
    before = path.stat()
    save_constants(path, ONE)
    save_constants(path, load_pack(path).fitted[MODEL])
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_thresholds_that_the_pack_itself_has_are_not_repeated(path: Path) -> None:
    text = DRAFT + "categories: {positive: {threshold: 0.5}, topic: {}, billing: {}}\n"
    fitted = text + BLOCK.replace("-0.7], threshold: 0.5}", "-0.7]}")
    assert saved(path, fitted, ONE) == fitted
    none = replace(ONE, categories={**ONE.categories, "positive": CategoryFit((1.1, -0.7), None)})
    assert saved(path, fitted, none) == fitted.replace("-0.7]}", "-0.7], threshold: null}")


def test_a_second_model_stands_beside_the_first(path: Path) -> None:
    other = replace(ONE, model="Other/Model: b")
    text = saved(path, DRAFT + BLOCK, other)
    below = BLOCK.replace("fitted:\n", "").replace("spinf/tiny", '"Other/Model: b"')
    assert text == DRAFT + BLOCK + below
    assert load_pack(path).fitted == {MODEL: ONE, other.model: other}
    # A model is found by its name in any case, and keeps the spelling of the file.
    lower = replace(other, model=other.model.lower())
    save_constants(path, lower)
    assert path.read_text() == text


def test_constants_of_an_earlier_wording_are_replaced(path: Path) -> None:
    old = (
        BLOCK.replace("kind/payment:", "kind/gone:   ")
        .replace("            billing: {", "            gone: {threshold: 0.5, ")
        .replace("threshold: 0.25", "platt: [1, 1]")
        .replace(", platt: [1.0, 0.0]", "")
    )
    with pytest.raises(InvalidPack):
        read_pack((DRAFT + old).encode(), "p.yaml")
    saved(path, DRAFT + old, ONE)
    assert load_pack(path).fitted == {MODEL: ONE}
    assert "gone" not in path.read_text()


PROMISE = {
    "target": "precision",
    "value": 0.9,
    "rows": 46,
    "base_rate": None,
    "interval": [0.8, 1.0],
}
PROOF = {
    "model": "a" * 64,
    "constants": "b" * 64,
    "rows": 120,
    "note": "held out: yes",
    "promises": {"positive": PROMISE},
}


def test_a_proof_is_written_kept_and_dropped_with_its_numbers(path: Path) -> None:
    text = saved(path, DRAFT, ONE, proof=PROOF)
    assert text == DRAFT + BLOCK + (
        f"        proof:\n            model: {'a' * 64}\n            constants: {'b' * 64}\n"
        '            rows: 120\n            note: "held out: yes"\n            promises:\n'
        "                positive: {target: precision, value: 0.9, rows: 46, base_rate: null, "
        "interval: [0.8, 1.0]}\n"
    )
    assert load_pack(path).fitted[MODEL].proof == PROOF
    save_constants(path, ONE)
    assert path.read_text() == text
    two = constants([0.13, *[1.0] * 9])
    save_constants(path, two)
    assert load_pack(path).fitted == {MODEL: two}
    assert "proof" not in path.read_text()


def test_bands_and_the_modes_of_the_decision_are_written(path: Path) -> None:
    draft = DRAFT.replace(
        "{mode: per_category}",
        "\n    mode: micro_layer\n    max: {threshold: 0.5}\n    micro_layer: {inputs: ['c:topic']}",
    )
    path.write_text(draft)
    body = load_pack(path).body
    bands = Bands(Cuts(0.9, 0.6), {"topic": Cuts(0.75, 0.5)})
    full = replace(ONE, max_threshold=0.625, bands=bands)
    inputs = ("c:topic", "r:sentiment")
    lock = lock_of(inlined(body, full), inputs)
    full = replace(full, layer=MicroLayer(inputs, (0.5, -0.25, 0.125, 0.5), 0, lock, True))
    text = saved(path, draft, full)
    assert load_pack(path).fitted == {MODEL: full}
    assert text.startswith(draft + BLOCK)
    layer = (
        '{inputs: ["c:topic", "r:sentiment"], weights: "AAAAPwAAgL4AAAA+AAAAPw==", '
        f'dtype: float32, hidden: 0, lock: "{lock}"}}'
    )
    assert text[len(draft + BLOCK) :].split("\n")[:3] == [
        "        decision:",
        "            max: {threshold: 0.625}",
        f"            micro_layer: {layer}",
    ]


def test_a_layer_has_its_numbers_as_its_lock_means_them(path: Path) -> None:
    draft = DRAFT.replace(
        "{mode: per_category}", "{mode: micro_layer, micro_layer: {inputs: ['c:topic']}}"
    )
    path.write_text(draft)
    body = load_pack(path).body
    lock = lock_of(inlined(body, ONE), ["c:topic"])
    full = replace(ONE, layer=MicroLayer(("c:topic",), (0.5, -0.25, 0.5), 0, lock, True))
    # The author wrote 2 where 2.0 was fitted: equal, but not to the lock.
    saved(path, draft + BLOCK.replace("mean: 2.0, sd: 2.0", "mean: 2, sd: 2"), full)
    held = load_pack(path).fitted[MODEL]
    assert held.layer is not None and held.layer.holds


PLAIN = """\
{"pack": "demo/plain", "version": "0.1.0", "model": "spinf/tiny", "x-note": [1.50, true],
 "contexts": {"default": "{X}"},
 "scoring": {"queries": [
  {"id": "q", "template": "\\nTrue?{?}", "options": [" true", " false"]},
  {"id": "k", "template": "\\nKind:{?}", "options": [" a", " b"]}]},
 "reads": [
  {"id": "one", "query": "q", "kind": "pair", "category": "c", "mean": -1, "sd": 2.50},
  {"id": "two", "query": "k", "kind": "option", "option": 0, "mu": -1.5, "category": "c", "mean": 0.0, "sd": 1.0}],
 "categories": {"c": {"label": "C", "platt": [1.2, -0.5], "threshold": 0.5, "normal_quantiles": {"levels": [0, 1], "values": [0.1, 0.9]}}},
 "decision": {"mode": "max", "max": {"threshold": 0.6}}, "proof": {"of": "old numbers"}}
"""


def test_inline_numbers_of_a_json_pack_change_in_place(path: Path) -> None:
    path = path.with_suffix(".json")
    path.write_text(PLAIN)
    held = load_pack(path).fitted[MODEL]
    save_constants(path, held)
    assert path.read_text() == PLAIN
    two = replace(
        held,
        reads={"one": ReadFit(-1.0, 2.25), "two": ReadFit(0.0, 1.0, (-1.75,))},
        categories={"c": CategoryFit((1.2, -0.5), 0.5)},
        max_threshold=0.7,
        proof=None,
    )
    save_constants(path, two)
    expected = PLAIN.replace("2.50}", "2.25}").replace("-1.5,", "-1.75,").replace("0.6}", "0.7}")
    expected = expected.replace(
        ', "normal_quantiles": {"levels": [0, 1], "values": [0.1, 0.9]}', ""
    )
    expected = expected.replace(', "proof": {"of": "old numbers"}', "")
    assert path.read_text() == expected
    assert load_pack(path).fitted == {MODEL: two}


def test_a_beta_map_stands_inline_too_comes_back_and_goes(path: Path) -> None:
    path = path.with_suffix(".json")
    path.write_text(PLAIN.replace(', "proof": {"of": "old numbers"}', ""))
    held = load_pack(path).fitted[MODEL]
    fit = replace(held.categories["c"], beta=(0.5, 2.25, -1.0))
    mapped = replace(held, categories={"c": fit})
    before = path.read_text()
    save_constants(path, mapped)
    assert json.loads(path.read_text())["categories"]["c"]["beta"] == [0.5, 2.25, -1.0]
    pack = load_pack(path)
    assert pack.fitted == {MODEL: mapped}
    assert plain(pack, MODEL)["categories"]["c"]["beta"] == [0.5, 2.25, -1.0]
    assert plain(pack, None)["categories"]["c"] == {"label": "C"}
    save_constants(path, held)
    assert path.read_text() == before


def test_a_json_pack_takes_another_model_under_fitted(path: Path) -> None:
    path = path.with_suffix(".json")
    indented = json.dumps(json.loads(PLAIN), indent=4)
    path.write_text(indented)
    first = load_pack(path).fitted[MODEL]
    other = replace(first, model="other", max_threshold=0.25, proof=None)
    save_constants(path, other)
    text = path.read_text()
    assert text.startswith(indented.removesuffix("\n}") + ',\n    "fitted": {\n        "other": {')
    assert '                "one": {"mean": -1.0, "sd": 2.5},\n' in text.replace("-1,", "-1.0,")
    assert load_pack(path).fitted == {MODEL: first, "other": other}


def test_a_file_that_changed_is_left_alone(path: Path) -> None:
    path.write_text(DRAFT)
    pack = load_pack(path)
    path.write_text(DRAFT + "# edited meanwhile\n")
    with pytest.raises(Unusable, match="changed since it was read"):
        save_constants(path, ONE, digest=pack.digest)
    assert path.read_text() == DRAFT + "# edited meanwhile\n"
    save_constants(path, ONE, digest=sha256(path.read_bytes()).hexdigest())
    assert path.read_text() == DRAFT + "# edited meanwhile\n" + BLOCK


def test_mode_and_link_stay_and_no_other_file_is_left(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text(DRAFT)
    real.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(real.name)
    save_constants(link, ONE)
    assert link.is_symlink()
    assert real.read_text() == DRAFT + BLOCK
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "real.yaml"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (replace(ONE, reads={**ONE.reads, "sentiment": ReadFit(0.1, -1.0)}), "sd"),
        (replace(ONE, reads={**ONE.reads, "gone": ReadFit(0.1, 1.0)}), "gone"),
        (replace(ONE, categories={"topic": ONE.categories["topic"]}), "positive"),
        (replace(ONE, reads={**ONE.reads, "sentiment": ReadFit(float("nan"), 1.0)}), "nan"),
    ],
)
def test_constants_that_do_not_fit_the_pack_leave_no_file(
    path: Path, wrong: Constants, words: str
) -> None:
    path.write_text(DRAFT)
    with pytest.raises(InvalidPack, match=words):
        save_constants(path, wrong)
    assert path.read_text() == DRAFT


def test_a_missing_file_is_said_in_a_line(path: Path) -> None:
    with pytest.raises(Unusable, match="cannot be read"):
        save_constants(path, ONE)


FLOATS = st.floats(-1e5, 1e5)


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, min_size=10, max_size=10), st.lists(FLOATS, min_size=10, max_size=10))
def test_any_constants_read_back_and_leave_the_rest(
    tmp_path_factory: pytest.TempPathFactory, first: list[float], second: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.yaml"
    path.write_text(DRAFT)
    for numbers in (first, second):
        fitted = constants(numbers)
        save_constants(path, fitted)
        text = path.read_text()
        assert text.startswith(DRAFT)
        assert len(text.split("\n")) == len((DRAFT + BLOCK).split("\n"))
        held: Pack = load_pack(path)
        assert held.fitted == {MODEL: fitted}
