"""`packs precision`: measures by hand-made numbers, what is kept, and the command from end to end."""

import io
import json
import math
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve import cli, precision_scores
from spinf_serve.engine.config import EngineConfig
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.new import starter
from spinf_serve.packs.recording import Header, Recording
from spinf_serve.packs.sample import SampleRow, read_sample
from spinf_serve.precision import (
    Flips,
    deviation,
    prompt_correlation,
    rank_correlation,
    summary,
)
from spinf_serve.precision_scores import (
    REFERENCE,
    SCHEMES,
    Opened,
    Subject,
    configured,
    parse_schemes,
    scores_of,
    spread,
)
from spinf_serve.precision_table import compared
from spinf_serve.scoring import presented
from tests.support import precision_page
from tests.support.pack_files import folder_of, json_pack
from tests.support.packs import answered, golden, made, random_logprobs
from tests.support.stub_engine import StubEngine

HEADER = Header("demo/model", "a" * 64, "b" * 64, "demo/support", "0.1.0")


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def row(number: int, **labels: bool | None) -> SampleRow:
    return SampleRow(f"r{number}", "fit", "en", labels, f"content {number}", None, {}, number + 2)


def recording_of(pack, plain, rows, logprobs) -> Recording:
    """A recording of given logprobs, one mapping for each row."""
    recording = Recording(HEADER)
    for one, given_logprobs in zip(rows, logprobs, strict=True):
        recording.add(presented(pack, one), pack.questions, answered(plain, given_logprobs))
    return recording


def test_rank_correlation_shares_ranks_of_equal_values():
    # Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: 4.5 / sqrt(4.5 x 5).
    found = rank_correlation(column(0.1, 0.2, 0.2, 0.9), column(1, 3, 2, 4))
    assert found == pytest.approx(4.5 / math.sqrt(22.5), abs=1e-15)
    assert rank_correlation(column(1, 2, 3), column(9, 5, 1)) == -1
    assert rank_correlation(column(1, 2, 3), column(7, 7, 7)) is None
    assert rank_correlation(column(1), column(2)) is None
    with pytest.raises(ValueError, match="2 values but 3"):
        rank_correlation(column(1, 2), column(1, 2, 3))


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1))
def test_rank_correlation_is_one_for_any_rising_map(values):
    a = column(*values)
    assert rank_correlation(a, np.exp(a / 5)) == pytest.approx(1, abs=1e-12)


def test_a_prompts_correlation_is_its_worst_options():
    before = np.array([[0.1, 0.2, 0.7], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]])
    after = before[:, [0, 1, 2]].copy()
    after[:, 0] = [0.3, 0.2, 0.1]
    assert prompt_correlation(before, before) == pytest.approx(1)
    assert prompt_correlation(before, after) == -1
    still = np.full((3, 2), 0.5)
    assert prompt_correlation(still, before[:, :2]) is None


def test_rows_are_spread_and_half_as_many_are_among_them():
    rows = [row(number) for number in range(11)]
    assert [one.id for one in spread(rows, 4)] == ["r0", "r2", "r5", "r8"]
    assert spread(rows, 99) == rows
    eight = {one.id for one in spread(rows, 8)}
    assert {one.id for one in spread(rows, 4)} <= eight


def test_differences_are_those_of_every_option():
    plain = golden()
    pack, constants = made(plain)
    rows = [row(number) for number in range(6)]
    before = [random_logprobs(plain, Random(number)) for number in range(6)]
    after = [dict(one) for one in before]
    first, second = after[2]["angry", None]
    after[2]["angry", None] = [first - 0.25, second]
    reference, other = (recording_of(pack, plain, rows, one) for one in (before, after))
    found = deviation(pack, constants, rows, reference, other)
    # Three prompts of two options and one of three, on six rows.
    assert (found.rows, found.prompts, len(found.logprob)) == (6, 4, 54)
    assert sorted(found.logprob)[-2:] == [0, pytest.approx(0.25, abs=1e-12)]

    def share(values):
        return math.exp(values[0]) / sum(map(math.exp, values))

    moved = share((first, second)) - share((first - 0.25, second))
    assert sorted(found.p)[-3:] == [0, *[pytest.approx(moved, abs=1e-12)] * 2]
    told = summary([found])
    assert told["questions"] == 24
    assert told["logprob"]["max"] == 0.25
    assert told["logprob"]["mean"] == pytest.approx(0.25 / 54, rel=1e-3)
    assert told["rank"]["median"] == 1


def test_a_shift_of_all_logprobs_changes_no_share_no_rank_and_no_verdict():
    plain = golden()
    pack, constants = made(plain)
    rows = [row(number) for number in range(9)]
    before = [random_logprobs(plain, Random(number)) for number in range(9)]
    after = [{key: [one - 1 for one in values] for key, values in each.items()} for each in before]
    sides = (recording_of(pack, plain, rows, one) for one in (before, after))
    found = deviation(pack, constants, rows, *sides)
    assert found.logprob == pytest.approx(np.ones(81), abs=1e-12)
    assert found.p.max() < 1e-15
    assert list(found.ranks.values()) == pytest.approx([1, 1, 1, 1])
    assert found.verdicts == Flips(0, 9)
    # `topic` has no threshold.
    assert found.categories == Flips(0, 18)


def test_flips_are_counted_at_the_packs_cuts():
    plain = json.loads(
        json_pack(
            route={"categories": ["mood", "other"], "margin": 0.1},
            bands={
                "categories": {
                    "mood": {"act": 0.85, "review": 0.5},
                    "other": {"act": 0.9, "review": 0.6},
                }
            },
        )
    )
    plain["reads"].append(
        {**plain["reads"][0], "id": "not", "sign": -1, "category": "other"},
    )
    plain["categories"]["other"] = {"platt": [1.0, 0.0], "threshold": None}
    pack, constants = made(plain)
    rows = [row(0, mood=True), row(1, mood=False), row(2, mood=False)]

    def recorded(*yes: float) -> Recording:
        logprobs = [{("happy", None): [math.log(p), math.log(1 - p)]} for p in yes]
        return recording_of(pack, plain, rows, logprobs)

    # `mood` is p, `other` 1 - p, flagged from 0.5; a row goes to one of them when it leads by 0.1.
    found = deviation(pack, constants, rows, recorded(0.9, 0.52, 0.3), recorded(0.8, 0.48, 0.47))
    # Row 0 falls from act to review, row 1 is unsafe no more, row 2's `other` passes now.
    assert found.verdicts == Flips(2, 3)
    assert found.categories == Flips(3, 6)
    # Row 2 was `other`'s and is nobody's.
    assert found.routes == Flips(1, 3)
    assert found.auc == (1.0, 1.0)
    assert summary([found])["verdicts"] == {"flipped": 2, "of": 3, "share": 0.6667}
    turned = deviation(pack, constants, rows, recorded(0.9, 0.52, 0.3), recorded(0.1, 0.2, 0.3))
    assert turned.auc == (1.0, 0.0)
    assert turned.ranks == {"demo/mood happy": -1}


def test_packs_are_pooled_by_their_values():
    plain = json.loads(json_pack())
    pack, constants = made(plain)

    def found(*differences: float):
        rows = [row(number) for number in range(len(differences))]
        before = [{("happy", None): [-1.0 - 0.1 * number, -2.0]} for number in range(len(rows))]
        after = [
            {("happy", None): [one["happy", None][0] - by, -2.0 - by]}
            for one, by in zip(before, differences, strict=True)
        ]
        sides = (recording_of(pack, plain, rows, one) for one in (before, after))
        return deviation(pack, constants, rows, *sides)

    told = summary([found(0.5), found(0.1, 0.1, 0.1)])
    assert told["rows"] == 4
    assert told["logprob"] == {"mean": 0.2, "p99": 0.5, "max": 0.5}
    # A single row has no rank.
    assert (told["rank"]["prompts"], told["rank"]["still"]) == (1, 1)


def test_schemes_are_devices_and_formats():
    config = EngineConfig(model="demo", token_budget=512)
    found = {name: configured(config, name) for name in SCHEMES}
    assert {(one.model, one.token_budget) for one in found.values()} == {("demo", 512)}
    assert {name: (one.device, one.dtype, one.quant) for name, one in found.items()} == {
        "cpu-float32": ("cpu", "float32", "auto"),
        "cpu-bfloat16": ("cpu", "bfloat16", "auto"),
        "cuda-bf16": ("cuda", "float32", "bf16"),
        "cuda-fp8": ("cuda", "float32", "fp8"),
        "cuda-int8": ("cuda", "float32", "int8"),
    }
    assert parse_schemes("cuda-fp8, cpu-bfloat16,cuda-fp8") == ["cuda-fp8", "cpu-bfloat16"]
    for text in ("fp8", "", REFERENCE):
        with pytest.raises(Unusable, match=r"--schemes: .* is none; give some of cpu-bfloat16"):
            parse_schemes(text)


class Shifted(StubEngine):
    """Answers whose first option is a little likelier the longer the content is."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by
        digest = f"{round(1000 * by):064x}"
        self.fingerprint = replace(self.fingerprint, model=digest, bits=digest, facts={"by": "x"})

    def run(self, works):
        results = super().run(works)
        for work, result in zip(works, results, strict=True):
            amount = self.by * len(work.content) / 100
            yield replace(
                result,
                answers=tuple(
                    answer._replace(prompts=tuple(_moved(one, amount) for one in answer.prompts))
                    for answer in result.answers
                ),
            )


def _moved(prompt, amount):
    first, *rest = prompt.options
    return prompt._replace(
        options=(first._replace(logprob=min(0.0, first.logprob + amount)), *rest)
    )


@pytest.fixture
def folder(tmp_path):
    """The folder of a new pack with its sample of 16 rows."""
    return folder_of(tmp_path / "mood", dict(starter("demo/mood")))


@pytest.fixture
def subject(folder):
    pack = read_pack((folder / "pack.yaml").read_bytes(), "pack.yaml")
    return Subject(pack, read_sample(folder / "sample.csv", pack), None)


class Openers:
    """Opens shifted stubs and keeps count."""

    def __init__(self, by: float = 0.1) -> None:
        self.by = by
        self.opened: list[str] = []

    def __call__(self, config: EngineConfig) -> Opened:
        self.opened.append(f"{config.device} {config.dtype}")
        engine = Shifted(self.by if config.dtype == "bfloat16" else 0.0)
        return Opened(
            engine,
            engine.served.id,
            engine.fingerprint,
            {"card": "none", "commit": "c0", "versions": {"torch": "2"}},
        )


def test_what_is_kept_is_not_scored_again(subject, tmp_path):
    kept = tmp_path / "kept"
    openers = Openers()
    few = replace(subject, rows=subject.rows[:5])
    said: list[str] = []
    first = scores_of("cpu-bfloat16", [few], EngineConfig(), kept, openers, said.append)
    assert len(first.packs["demo/mood"].scores) == 5
    assert first.about["model"] == "stub/words-1"
    assert first.about["card"] == "none"
    assert said[-1].startswith("cpu-bfloat16: scored demo/mood in ")
    again = scores_of("cpu-bfloat16", [few], EngineConfig(), kept, openers, pytest.fail)
    assert (again.packs, again.about) == (first.packs, first.about)
    assert openers.opened == ["cpu bfloat16"]
    more = scores_of("cpu-bfloat16", [subject], EngineConfig(), kept, openers, said.append)
    assert len(more.packs["demo/mood"].scores) == 16
    assert openers.opened == ["cpu bfloat16"] * 2
    assert more.about["seconds"] >= first.about["seconds"]


def test_scores_of_another_machine_are_not_mixed_with(subject, tmp_path):
    kept = tmp_path / "kept"
    few = replace(subject, rows=subject.rows[:5])
    scores_of("cpu-bfloat16", [few], EngineConfig(), kept, Openers(), print)
    with pytest.raises(Unusable, match="another model, format or machine: give another --rec"):
        scores_of("cpu-bfloat16", [subject], EngineConfig(), kept, Openers(0.2), print)
    about = kept / "cpu-bfloat16" / "about.json"
    for damaged in ("", "[]", '{"model": "x"}'):
        about.write_text(damaged)
        with pytest.raises(Unusable, match="does not say what the scores beside it"):
            scores_of("cpu-bfloat16", [few], EngineConfig(), kept, Openers(), print)
    about.write_text(json.dumps({"model": "x", "model_digest": "9" * 64, "bits": "9" * 64}))
    with pytest.raises(Unusable, match="does not belong to"):
        scores_of("cpu-bfloat16", [few], EngineConfig(), kept, Openers(), print)


def test_a_fit_of_cuts_needs_rows(subject):
    few = replace(subject, rows=subject.rows[:9])
    reference, other = (
        scores_of(name, [few], EngineConfig(), None, Openers(), print)
        for name in (REFERENCE, "cpu-bfloat16")
    )
    with pytest.raises(Unusable, match="at least 10 rows, not 9: give a larger --rows"):
        compared([few], reference, [other])


def test_only_scores_of_one_model_are_compared(subject):
    reference, other = (
        scores_of(name, [subject], EngineConfig(), None, Openers(), print)
        for name in (REFERENCE, "cpu-bfloat16")
    )
    found = other.packs["demo/mood"]
    found.header = replace(found.header, model="another")
    with pytest.raises(Unusable, match="of the model another, those of cpu-float32 of stub/"):
        compared([subject], reference, [other])


@pytest.fixture
def run(monkeypatch, capfdbinary, tmp_path):
    """Runs `spinf-serve packs precision …` on shifted stubs; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINF_PACKS_CACHE", str(tmp_path / "cache"))
    openers = Openers()
    monkeypatch.setattr(precision_scores, "open_scheme", lambda config, limits: openers(config))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spinf-serve", "packs", "precision", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return int(ended.value.code or 0), out.decode(), err.decode()

    return call


def test_the_command_compares_and_writes_what_it_shows(run, folder, tmp_path):
    assert run("mood/pack.yaml", "--record-only", "--recordings", "kept")[:2] == (0, "")
    code, out, err = run("mood/pack.yaml", "--recordings", "kept", "--out", "figures.json")
    assert code == 0
    # What was recorded before is not scored again.
    assert "cpu-bfloat16: scored" not in err
    assert "cpu-float32: scored demo/mood" in err
    told = json.loads((tmp_path / "figures.json").read_text())
    assert (told["job"], told["model"]) == ("precision", "stub/words-1")
    assert told["packs"] == {
        "demo/mood": {"version": "0.1.0", "rows": 16, "cuts": "fitted on these rows"}
    }
    (scheme,) = told["schemes"]
    assert scheme["scheme"] == "cpu-bfloat16"
    assert scheme["all"] == scheme["packs"]["demo/mood"]
    questions = sum(len(one.prompts) for one in read_pack_of(folder).questions)
    assert scheme["all"]["questions"] == 16 * questions
    # The stub moves the first option by a thousandth for each character.
    longest = max(
        len(presented(read_pack_of(folder), one))
        for one in read_sample(folder / "sample.csv", read_pack_of(folder))
    )
    assert scheme["all"]["logprob"]["max"] == pytest.approx(longest / 1000, rel=1e-3)
    lines = out.splitlines()
    assert lines[0] == "stub/words-1 against cpu-float32, absolute differences"
    assert lines[2].split()[:4] == ["cpu-bfloat16", "demo/mood", "16", str(16 * questions)]
    assert lines[-1] == "cuts fitted here, on the compared rows: demo/mood"


def read_pack_of(folder):
    return read_pack((folder / "pack.yaml").read_bytes(), "pack.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--schemes", "cuda-fp4"], "--schemes: 'cuda-fp4' is none; give some of"),
        (["--record-only"], "--record-only needs --recordings"),
        (["--record-only", "--recordings", "k", "--out", "f"], "has no figures for --out"),
        (["mood/pack.yaml"], "demo/mood is given twice"),
        (["bare/pack.yaml"], "no sample.csv lies beside bare/pack.yaml"),
        (["--out", "nowhere/f"], "--out nowhere/f cannot be written"),
    ],
)
def test_the_command_refuses(run, folder, tmp_path, arguments, message):
    folder_of(tmp_path / "bare", {"pack.yaml": starter("demo/bare")["pack.yaml"]})
    code, out, err = run("mood/pack.yaml", *arguments)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.weights
def test_the_embedded_model_in_bfloat16_is_close_to_its_recording(
    monkeypatch, capfd, tmp_path, root
):
    file = str(root / "packs" / "spinf" / "brand" / "pack.yaml")
    out = tmp_path / "figures.json"
    arguments = ["packs", "precision", file, "--rows", "3", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["spinf-serve", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code, capfd.readouterr().err
    told = json.loads(out.read_text())
    assert told["packs"]["spinf/brand"]["cuts"] == "pack"
    found = told["schemes"][0]["all"]
    # 8 bits of a number through 30 layers: measured 0.04 in the mean and 0.19 at most.
    assert 0.001 < found["logprob"]["mean"] < 0.1
    assert found["logprob"]["max"] < 0.6
    assert found["rank"]["median"] == 1


def test_the_section_of_the_figures_shows_every_scheme_and_pack(run, folder, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    assert precision_page.section(results) == ""
    assert run("mood/pack.yaml", "--out", "results/precision-stub.json")[0] == 0
    text = precision_page.section(results)
    told = json.loads((results / "precision-stub.json").read_text())["schemes"][0]["all"]
    (overall, by_pack) = [line for line in text.splitlines() if "bfloat16 (CPU)" in line][1:]
    cells = [cell.strip() for cell in overall.strip("|").split("|")]
    assert cells[:4] == ["bfloat16 (CPU)", "16", "80", f"{told['logprob']['mean']:.2g}"]
    assert by_pack.split("|")[1].strip() == "demo/mood, bfloat16 (CPU)"
    assert by_pack.split("|")[2:] == overall.split("|")[2:]
    assert "Cuts of all packs were fitted" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {16}
