"""The packs that come with this package: complete, fitted by what lies beside them, telling things apart.

Their numbers are made again here from the recorded scores, so that no test waits for a model.
"""

import csv
import json
from collections import Counter
from functools import cache

import numpy as np
import pytest

from spinf_serve.engine.loading.manifest import read_manifests
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.digests import constants_digest
from spinf_serve.packs.fit import fit
from spinf_serve.packs.lint import Instructions, asked, instructions, lint
from spinf_serve.packs.lint_rules import Limits
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.metrics import judge
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import filled
from spinf_serve.packs.question import Question
from spinf_serve.packs.reads import Vectors, log_shares, read_value, shares
from spinf_serve.packs.recording import Recording, read_recording
from spinf_serve.packs.sample import SampleRow, read_sample
from tests.support.pack_figures import OFFICIAL, folders, reports

NAMES = [folder.name for folder in folders()]
MODEL = "smollm2-135m-instruct"
LANGUAGES = ("es", "ko", "vi", "fr")


@cache
def pack_of(name: str) -> Pack:
    return load_pack(OFFICIAL / name / "pack.yaml")


@cache
def rows_of(name: str) -> list[SampleRow]:
    return read_sample(OFFICIAL / name / "sample.csv", pack_of(name))


@cache
def recording_of(name: str) -> Recording:
    digest = reports()[name]["model_digest"]
    recording = read_recording(OFFICIAL / name / "scores.jsonl.gz", digest, pytest.fail)
    assert recording is not None
    return recording


def presented(name: str, row: SampleRow) -> str:
    pack = pack_of(name)
    context = pack.contexts[row.context or next(iter(pack.contexts))]
    before, after = filled(pack, context, row.parameters)
    return before + row.text + after


@cache
def vectors_of(name: str) -> list[Vectors]:
    """Recorded answers to each row of the sample."""
    found = []
    for row in rows_of(name):
        vectors = recording_of(name).vectors(presented(name, row), pack_of(name))
        assert vectors is not None, f"{row.id} is not recorded"
        found.append(vectors)
    return found


def recorded_answer(name: str, row: SampleRow, question: Question) -> QuestionAnswer:
    recording = recording_of(name)
    prompts = []
    for index, prompt in enumerate(question.prompts):
        logprobs = recording.logprobs(presented(name, row), question, index)
        floors = recording.floor(question, index)
        assert logprobs is not None and floors is not None
        parts = zip(
            question.options,
            logprobs,
            shares(logprobs, question.id),
            shares(floors, question.id),
            floors,
            strict=True,
        )
        options = tuple(OptionAnswer(*part) for part in parts)
        rest, floor_rest = (max(0.0, 1 - float(np.exp(logs).sum())) for logs in (logprobs, floors))
        prompts.append(PromptAnswer(prompt.values, options, rest, floor_rest))
    return QuestionAnswer(question.id, tuple(prompts), True)


def parts(name: str, split: str) -> tuple[list[Vectors], list[dict[str, bool | None]]]:
    pairs = zip(rows_of(name), vectors_of(name), strict=True)
    chosen = [(vectors, dict(row.labels)) for row, vectors in pairs if row.split == split]
    return [vectors for vectors, _ in chosen], [labels for _, labels in chosen]


def test_these_are_the_official_packs():
    assert NAMES == [
        "brand",
        "entertainment",
        "listings",
        "moderation",
        "news",
        "reviews",
        "triage",
    ]


def test_moderation_asks_106_questions_for_22_categories_in_two_contexts_and_three_modes():
    pack = pack_of("moderation")
    assert len(pack.questions) == 106
    assert len(pack.categories) == 22
    assert {"hate", "harassment", "violence", "selfharm", "sexual"} <= pack.categories.keys()
    assert {"child", "spam", "fraud", "general"} <= pack.categories.keys()
    assert list(pack.contexts) == ["ai", "forum"]
    assert set(pack.modes) == {"max", "per_category", "micro_layer"}


def test_news_asks_74_questions():
    assert len(pack_of("news").questions) == 74


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_has_enough_rows_and_every_category_in_both_parts(name):
    rows = rows_of(name)
    assert len(rows) >= (600 if name == "triage" else 120)
    for split in ("fit", "test"):
        for category in pack_of(name).categories:
            held = [row.labels[category] for row in rows if row.split == split]
            assert held.count(True) >= 3 and held.count(False) >= 3, (split, category)


def test_each_of_four_languages_has_ten_rows_in_some_sample():
    most: Counter[str] = Counter()
    for name in NAMES:
        most |= Counter(row.language for row in rows_of(name))
    assert all(most[language] >= 10 for language in LANGUAGES), most


def test_no_text_stands_in_two_samples_or_twice_in_one():
    texts = Counter(row.text for name in NAMES for row in rows_of(name))
    assert [text for text, count in texts.items() if count > 1] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_constants_are_what_the_recorded_scores_give(name):
    pack = pack_of(name)
    vectors, labels = parts(name, "fit")
    fitted = fit(pack, [[one] for one in vectors], labels, MODEL).constants
    assert constants_digest(fitted) == constants_digest(pack.fitted[MODEL])
    assert constants_digest(fitted) == reports()[name]["constants_digest"]


@pytest.mark.parametrize("name", NAMES)
def test_the_report_is_what_the_held_out_rows_give(name):
    pack = pack_of(name)
    vectors, labels = parts(name, "test")
    found = judge(pack, pack.fitted[MODEL], [[one] for one in vectors], labels)
    report = reports()[name]
    assert found.macro_auc == pytest.approx(report["macro_auc"], abs=1e-9)
    for category, told in report["categories"].items():
        auc = found.categories[category].auc
        assert auc is not None and auc.value == pytest.approx(told["auc"], abs=1e-4)
    assert found.verdict is not None
    assert found.verdict.hit == pytest.approx(report["decision"]["hit"], abs=1e-4)


def test_at_least_three_packs_tell_held_out_rows_apart():
    good = [name for name, report in reports().items() if report["macro_auc"] >= 0.80]
    assert len(good) >= 3, good
    decided = [name for name in good if pack_of(name).fitted[MODEL].categories]
    assert len(decided) >= 3 and "moderation" in decided


@pytest.mark.parametrize("name", NAMES)
def test_no_two_questions_say_the_same(name):
    """Pearson's correlation over the sample, of every read of one with every read of the other."""
    pack, constants = pack_of(name), pack_of(name).fitted[MODEL]
    values = np.array(
        [
            [
                read_value(read, constants.reads[read.id].mu, row[read.query, read.value])
                for row in vectors_of(name)
            ]
            for read in pack.reads
        ]
    )
    found = np.abs(np.corrcoef(values))
    queries = np.array([read.query for read in pack.reads])
    found[queries[:, None] == queries[None, :]] = 0.0
    worst = np.unravel_index(found.argmax(), found.shape)
    pair = [pack.reads[index].id for index in worst]
    assert found.max() <= 0.95, pair


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_read_and_says_something(name):
    pack = pack_of(name)
    assert {question.id for question in pack.questions} == {read.query for read in pack.reads}
    for read in pack.reads:
        logs = np.array([log_shares(row[read.query, read.value]) for row in vectors_of(name)])
        assert logs.std(axis=0).max() > 0.05, read.id


def test_at_most_five_findings_of_lint_are_waived():
    every = [waiver for name in NAMES for waiver in said_of(name).waivers]
    assert len(every) <= 5
    assert all(len(waiver.reason) > 20 for waiver in every)


def said_of(name: str) -> Instructions:
    return instructions((OFFICIAL / name / "pack.yaml").read_bytes(), "pack.yaml")


@pytest.mark.parametrize("name", NAMES)
def test_lint_finds_nothing_on_the_embedded_model(name):
    """With the recorded answers to the whole sample; what tokens alone tell is left to `packs lint`."""
    served = next(one.served for one in read_manifests() if one.served.id == MODEL)
    assert served.lint_residual is not None and served.lint_floor is not None
    limits = Limits(residual=served.lint_residual, floor=served.lint_floor)
    pack = pack_of(name)
    # No official template lists its options, so there is nothing to ask that was not recorded.
    assert len(asked(pack)) == len(pack.questions)
    rows = [
        [recorded_answer(name, row, question) for question in pack.questions]
        for row in rows_of(name)
    ]
    found = lint(pack, said_of(name), limits, rows, None)
    assert [(one.rule, one.on, one.message) for one in found.findings] == []
    assert list(found.skipped) == ["option_tokens"]


def test_the_samples_are_our_own_plain_csv():
    for name in NAMES:
        with (OFFICIAL / name / "sample.csv").open(newline="", encoding="utf-8") as file:
            head = next(csv.reader(file))
        assert {"id", "split", "language", "labels", "text"} <= set(head)
        report = json.loads((OFFICIAL / name / "fit.json").read_text())
        assert report["pack_id"] == pack_of(name).id and report["model"] == MODEL


@pytest.mark.parametrize("name", NAMES)
def test_what_is_published_is_what_lies_in_the_working_file(name):
    version = pack_of(name).version
    published = (OFFICIAL / name / "versions" / f"{version}.yaml").read_bytes()
    assert published == (OFFICIAL / name / "pack.yaml").read_bytes()
