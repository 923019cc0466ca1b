"""Beta maps: found in a skewed world, kept in the file, shown beside scores, and never decisive."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from spinf_serve.evals.baseline import evaluation_text, read_evaluation
from spinf_serve.evals.beta_maps import left_out, with_beta_maps
from spinf_serve.evals.calibration import BETA_ROWS
from spinf_serve.evals.cuts import Target
from spinf_serve.evals.data.rows import rows
from spinf_serve.evals.fitting import Fitted, fit_pack
from spinf_serve.evals.gate import verdict
from spinf_serve.evals.measuring import evaluate, known
from spinf_serve.evals.metrics.probability import brier, log_loss
from spinf_serve.evals.project import Project
from spinf_serve.evals.reports.terminal import lines
from spinf_serve.evals.scored import Answers, Numbers, Scored, arranged, outcomes, score
from spinf_serve.evals.store import matrix
from spinf_serve.evals.wishes import Rows, Wish
from spinf_serve.packs.categories import calibrated, sigmoid
from spinf_serve.packs.digests import constants_digest
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.save import save_constants
from spinf_serve.server.config import ServerConfig
from tests.support.evaluations import MADE
from tests.support.fitting_world import loaded, pack_file, world
from tests.support.served_packs import served_from
from tests.support.servers import running
from tests.support.stub_engine import SERVED, StubEngine

COUNT = 800
SKEW = (0.1, 6.0, -3.0)
"""Level below the middle and steep above: no straight line of log-odds comes near."""


def share(macro: float) -> float:
    """The chance that a content of this macro holds in the skewed world."""
    return calibrated(SKEW, sigmoid(2 * macro))


@dataclass(frozen=True)
class World:
    """A pack fitted in the skewed world, saved and read again."""

    draft: Path
    file: Path
    project: Project
    bits: str
    fitted: Fitted
    pack: Pack
    answers: Answers

    @property
    def constants(self) -> Constants:
        return self.pack.fitted[SERVED.id]

    @property
    def scored(self) -> Scored:
        return score(self.pack, self.constants, self.answers)


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("skewed")
    draft, file = pack_file(folder / "draft"), pack_file(folder / "served")
    project, bits = world(folder, loaded(draft), COUNT, labelled=["spam", "rude"], chance=share)
    fitted = fit_pack(project, "d", loaded(draft), bits, by="ada")
    save_constants(file, fitted.constants)
    pack = loaded(file)
    kept = matrix(project, "d", pack, bits)
    return World(
        draft, file, project, bits, fitted, pack, arranged(pack, kept.logprobs, kept.floors)[0]
    )


def without(constants: Constants) -> Constants:
    """The same constants as a reader has them that knows no beta map."""
    bare = {id: replace(fit, beta=None) for id, fit in constants.categories.items()}
    return replace(constants, categories=bare)


def off(p: Numbers, scored: Scored, name: str) -> float:
    """Mean distance from the chances that the labels were drawn with."""
    return float(np.abs(p - [share(one) for one in scored.macros[name].tolist()]).mean())


def test_a_skewed_world_is_recovered_through_fit_and_file(skewed: World):
    assert skewed.constants.categories == skewed.fitted.constants.categories
    scored = skewed.scored
    assert set(scored.calibrated) == {"spam", "rude"}
    for name, mapped in scored.calibrated.items():
        assert off(mapped, scored, name) < 0.035
        assert off(mapped, scored, name) < 0.6 * off(scored.scores[name], scored, name)
        assert any(
            note.startswith(f"categories.{name}: calibrated by a beta map: over {COUNT} labels")
            for note in skewed.fitted.notes
        )
    assert any(
        note == "categories.late: no beta map: 0 labels, fewer than the 100 that it takes"
        for note in skewed.fitted.notes
    )


def test_no_verdict_and_no_proof_looks_at_it(skewed: World):
    bare = without(skewed.constants)
    assert constants_digest(bare) == constants_digest(skewed.constants)
    assert bare != skewed.constants
    plain = score(skewed.pack, bare, skewed.answers)
    assert plain.calibrated == {}
    ours = outcomes(skewed.pack, skewed.constants, skewed.scored)
    theirs = outcomes(skewed.pack, bare, plain)
    assert len(ours) == COUNT and {one.verdict.unsafe for one in ours} == {True, False}
    for one, other in zip(ours, theirs, strict=True):
        assert (one.verdict, one.route) == (other.verdict, other.route)
        for id, found in one.categories.items():
            assert (found.calibrated is None) == (id == "late")
            assert replace(found, calibrated=None) == other.categories[id]


def test_a_later_fit_that_wants_none_takes_it_out_and_comments_stay(skewed: World, tmp_path: Path):
    file = tmp_path / "pack.yaml"
    text = skewed.file.read_text()
    assert "beta: [" in text and text.startswith(skewed.draft.read_text())
    file.write_text(text)
    save_constants(file, without(skewed.constants))
    expected = skewed.draft.with_name("bare.yaml")
    expected.write_text(skewed.draft.read_text())
    save_constants(expected, without(skewed.constants))
    assert file.read_text() == expected.read_text()
    save_constants(file, skewed.constants)
    assert loaded(file).fitted[SERVED.id] == skewed.constants


@pytest.fixture(scope="module")
def answers_over_http(skewed: World) -> Iterator[list[dict[str, dict[str, float]]]]:
    texts = [f"Mail number {number}: hello there." for number in range(50)]
    served = served_from(skewed.file.parent)
    with running(StubEngine().as_engine, ServerConfig(), packs=served) as server:
        found = []
        for text in texts:
            answer = server.score(
                {
                    "inputs": [{"id": "a", "messages": [{"role": "user", "content": text}]}],
                    "scoring": {"packs": [{"id": "demo/mail"}], "precision": "full"},
                }
            )
            assert answer.status_code == 200, answer.text
            found.append(answer.json()["results"][0]["packs"][0]["categories"])
        yield found


def test_a_server_answers_what_evals_compute(skewed: World, answers_over_http):
    for name, mapped in skewed.scored.calibrated.items():
        for index, categories in enumerate(answers_over_http):
            assert categories[name]["calibrated"] == pytest.approx(mapped[index], abs=1e-12, rel=0)
            assert categories[name]["score"] == skewed.scored.scores[name][index]
    assert list(answers_over_http[0]["spam"]) == ["score", "calibrated", "percentile", "flagged"]
    assert "calibrated" not in answers_over_http[0]["late"]


def test_an_evaluation_shows_its_figures_beside_those_of_the_score(skewed: World, tmp_path: Path):
    labelled = known(rows(skewed.project, "d"))
    kept = matrix(skewed.project, "d", skewed.pack, skewed.bits)
    found = evaluate(skewed.pack, skewed.constants, labelled, kept, MADE)
    spam, late = found.target("spam"), found.target("late")
    assert spam is not None and late is not None
    holds = [row.labels["spam"] for row in labelled]
    mean = brier(skewed.scored.calibrated["spam"], holds)
    assert mean is not None and spam.metrics["calibrated_brier"].value == mean.value
    for name in ("brier", "log_loss"):
        ours, theirs = spam.metrics[f"calibrated_{name}"].value, spam.metrics[name].value
        assert ours is not None and theirs is not None and ours < theirs
    assert "calibrated_ece" in spam.metrics and not any("calib" in name for name in late.metrics)
    told = "\n".join(lines(found, verdict([])))
    assert "calibrated_log_loss" in told and "is chance for them" in told
    path = tmp_path / "evaluation.json"
    path.write_text(evaluation_text(found))
    assert "calibrated" not in json.loads(path.read_text())["targets"][2]["scored"]
    again = read_evaluation(path).target("spam")
    assert again is not None and again.judged.calibrated is not None
    assert again.judged.calibrated.tolist() == skewed.scored.calibrated["spam"].tolist()


def test_under_a_stated_base_rate_it_gives_shares_of_that_traffic(skewed: World):
    rate = 0.1
    wish = Wish("spam", (Target("cost", 4.0),), base_rate=rate)
    moved = fit_pack(skewed.project, "d", loaded(skewed.draft), skewed.bits, [wish], by="ada")
    found = score(skewed.pack, moved.constants, skewed.answers)
    holds = np.array([row.labels["spam"] for row in rows(skewed.project, "d")])
    # The rows as the traffic has them.
    weights = np.where(holds, rate / holds.mean(), (1 - rate) / (1 - holds.mean()))
    mapped, plain = found.calibrated["spam"], found.scores["spam"]
    assert np.average(mapped, weights=weights) == pytest.approx(rate, abs=0.02)
    losses = [log_loss(p, holds, weights=weights) for p in (mapped, plain)]
    assert losses[0] is not None and losses[1] is not None
    assert losses[0].value < losses[1].value
    assert np.average(skewed.scored.calibrated["spam"], weights=weights) > 2 * rate
    assert moved.constants.categories["rude"] == skewed.constants.categories["rude"]


def made_of(count: int, holds: list[bool], groups: list[str | None] | None = None) -> Rows:
    return Rows(
        tuple(map(str, range(count))),
        tuple({"spam": one} for one in holds),
        tuple(groups or [None] * count),
        ("random",) * count,
        np.full(count, np.nan),
    )


@pytest.mark.parametrize(
    ("count", "holds", "slope", "groups", "told"),
    [
        (99, lambda n: n % 2 == 0, 1.0, None, "99 labels, fewer than the 100 that it takes"),
        (200, lambda n: True, 1.0, None, "its 200 labels are all of one kind"),
        (200, lambda n: n % 2 == 0, 0.0, None, "its score is the same everywhere"),
        (200, lambda n: n % 2 == 0, 1.0, lambda n: str(n % 2), "fewer than 5 independent rows"),
        (200, lambda n: n * 7919 % 100 < n / 2, 1.0, None, "over 200 labels, left-out rows lose"),
    ],
)
def test_where_it_does_not_pay_platts_map_stays_and_a_note_says_why(
    skewed: World, count, holds, slope, groups, told
):
    macro = np.linspace(-3, 3, count)
    scores = np.array([sigmoid(slope * one) for one in macro])
    held = [holds(number) for number in range(count)]
    own = [groups(number) for number in range(count)] if groups else None
    fits = {id: replace(fit, platt=(slope, 0.0)) for id, fit in skewed.constants.categories.items()}
    constants = replace(skewed.constants, categories=fits)
    columns = {id: macro for id in fits}
    scored = Scored(count, {}, columns, {id: scores for id in fits})
    found = with_beta_maps(skewed.pack, constants, scored, made_of(count, held, own), {})
    assert found.constants.categories["spam"].beta is None
    assert found.notes[0].startswith(f"categories.spam: no beta map: {told}")
    assert BETA_ROWS == 100


def test_both_figures_are_of_rows_that_were_left_out():
    rng = np.random.default_rng(3)
    macro = rng.normal(size=400)
    holds = rng.random(400) < [share(one) for one in macro]
    found = left_out(macro, holds, np.arange(400))
    assert found is not None and found.beta < found.platt
    # Labels that nothing tells: no map does better on new rows than the bare share of them.
    coin = rng.random(400) < 0.5
    blind = left_out(macro, coin, np.arange(400))
    assert blind is not None and min(blind.beta, blind.platt) > np.log(2) - 0.003
