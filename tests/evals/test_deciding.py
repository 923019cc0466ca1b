"""A sheet decided by a pack: cells, refusals, and runs that are broken off and go on."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from spinf_serve.engine.work import Limits, Work
from spinf_serve.evals import deciding
from spinf_serve.evals.decided import columns_of
from spinf_serve.evals.deciding import asking, decide_sheet, doubt, parameter_columns, summary
from spinf_serve.evals.scorer import in_process
from spinf_serve.evals.sheets import open_sheet, wanted_of
from spinf_serve.packs.atomic import locked
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.evaluate import evaluate
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.reads import vectors
from tests.support.pack_files import json_pack
from tests.support.stub_engine import NAN, SERVED, StubEngine


def pack_of(**more):
    return read_pack(json_pack(model=SERVED.id, **more).encode(), "pack.json")


class Counting(StubEngine):
    """Counts works, and breaks off when told."""

    def __init__(self, most: int = 1 << 30, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.left = most
        self.contents: list[str] = []

    def compile(self, work: Work):
        job = super().compile(work)
        self.contents.append(work.content)
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return job


def decide(path: Path, pack, engine, context=None, **parameters):
    sheet = open_sheet(path)
    wanted = wanted_of(sheet, None, parameter_columns(pack), columns_of(pack, "spinf_"))
    asked = asking(pack, in_process(engine.as_engine()), (SERVED.id,), context, parameters)
    out = path.with_name(f"out{path.suffix}")
    told: list[tuple[int, int]] = []
    done = decide_sheet(sheet, path, wanted, out, asked, lambda *counts: told.append(counts))
    return done, out, told


def rows_of(out: Path) -> list[dict[str, str]]:
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def csv_of(path: Path, texts, name: str = "text") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", name])
        writer.writerows(enumerate(texts))
    return path


def test_every_row_gets_what_the_one_evaluator_says(tmp_path):
    pack, engine = pack_of(), StubEngine()
    texts = [f"text {number}" for number in range(70)]
    done, out, told = decide(csv_of(tmp_path / "in.csv", texts), pack, engine)
    rows = rows_of(out)
    assert [row["text"] for row in rows] == texts
    constants = pack.constants((SERVED.id,))
    assert constants is not None
    for row in rows:
        (result,) = engine.run([Work(row["text"] + "\n", pack.questions)])
        found = evaluate(pack, constants, [vectors(pack, result.answers)], DecisionCall())
        score = found.categories["mood"].score
        assert float(row["spinf_score_mood"]) == score
        unsafe = score >= 0.5
        assert row["spinf_decision"] == ("unsafe" if unsafe else "safe")
        assert row["spinf_flagged"] == ("mood" if unsafe else "")
        side = "reaches" if unsafe else "stays below"
        assert row["spinf_reason"] == f"mood {score:.4g} {side} 0.5"
        assert row["spinf_error"] == row["spinf_band"] == ""
    unsafe_rows = sum(row["spinf_decision"] == "unsafe" for row in rows)
    assert 0 < unsafe_rows < 70
    assert done.verdicts == {"unsafe": unsafe_rows, "safe": 70 - unsafe_rows}
    assert (done.rows, done.reused, done.refused) == (70, 0, {})
    assert told[-1] == (70, 70)
    # Floors take no part, and rows share passes.
    assert engine.passes[:4] == [1, 2, 4, 8]
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["in.csv", "out.csv"]


def test_a_refused_row_has_its_code_and_the_others_their_answer(tmp_path):
    engine = StubEngine(Limits(max_content_tokens=7))
    texts = ["good", "", "word " * 9, f"a {NAN}", "good too"]
    done, out, _ = decide(csv_of(tmp_path / "in.csv", texts), pack_of(), engine)
    rows = rows_of(out)
    assert done.refused == {"missing_value": 1, "content_too_long": 1, "engine_error": 1}
    assert [row["spinf_error"].partition(":")[0] for row in rows] == [
        "",
        "missing_value",
        "content_too_long",
        "engine_error",
        "",
    ]
    for row in rows[1:4]:
        assert row["spinf_decision"] == row["spinf_score_mood"] == ""
    assert {row["spinf_decision"] for row in (rows[0], rows[4])} <= {"safe", "unsafe"}
    lines = list(summary(done, out))
    assert lines[1] == (
        "3 rows without an answer: 1 content_too_long, 1 engine_error, 1 missing_value"
    )


def test_a_run_that_is_broken_off_goes_on_and_asks_no_row_twice(tmp_path):
    path = csv_of(tmp_path / "in.csv", [f"text {number}" for number in range(100)])
    whole = Counting()
    decide(path, pack_of(), whole)
    expected = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()
    first = Counting(most=40)
    with pytest.raises(KeyboardInterrupt):
        decide(path, pack_of(), first)
    assert not (tmp_path / "out.csv").exists()
    kept = tmp_path / "out.csv.part.jsonl"
    # Batches of 1, 2, 4, 8 and 16 were finished, and the last line is cut as by a crash.
    assert len(kept.read_text().splitlines()) == 1 + 31
    kept.write_bytes(kept.read_bytes()[:-3])
    second = Counting()
    done, out, _ = decide(path, pack_of(), second)
    assert done.reused == 30
    assert sorted(second.contents) == sorted(f"text {number}\n" for number in range(30, 100))
    assert out.read_bytes() == expected
    assert not kept.exists()


def test_a_changed_row_and_all_behind_it_are_asked_again(tmp_path):
    texts = [f"text {number}" for number in range(20)]
    path = csv_of(tmp_path / "in.csv", texts)
    with pytest.raises(KeyboardInterrupt):
        decide(path, pack_of(), Counting(most=17))
    texts[9] = "another"
    csv_of(path, texts)
    engine = Counting()
    done, out, _ = decide(path, pack_of(), engine)
    assert (done.reused, len(engine.contents)) == (9, 11)
    assert rows_of(out)[9]["text"] == "another"


def test_rows_that_are_gone_are_no_longer_kept(tmp_path):
    texts = [f"text {number}" for number in range(20)]
    path = csv_of(tmp_path / "in.csv", texts)
    with pytest.raises(KeyboardInterrupt):
        decide(path, pack_of(), Counting(most=17))
    csv_of(path, texts[:5])
    engine = Counting()
    done, out, _ = decide(path, pack_of(), engine)
    assert (done.rows, done.reused, engine.contents) == (5, 5, [])
    assert sum(done.verdicts.values()) == 5
    assert [row["text"] for row in rows_of(out)] == texts[:5]


def test_what_another_pack_or_setting_left_is_not_used(tmp_path):
    path = csv_of(tmp_path / "in.csv", [f"text {number}" for number in range(20)])
    with pytest.raises(KeyboardInterrupt):
        decide(path, pack_of(), Counting(most=17))
    stays = (tmp_path / "out.csv.part.jsonl").read_bytes()
    other = pack_of(categories={"mood": {"platt": [1.0, 0.0], "threshold": 0.6}})
    with pytest.raises(Unusable, match="another pack, model or setting"):
        decide(path, other, Counting())
    assert (tmp_path / "out.csv.part.jsonl").read_bytes() == stays


def test_a_sheet_that_changes_meanwhile_is_not_written(tmp_path):
    path = csv_of(tmp_path / "in.csv", ["a", "b", "c"])

    class Changing(Counting):
        def compile(self, work: Work):
            if not self.contents:
                csv_of(path, ["a", "b", "c", "d"])
            return super().compile(work)

    with pytest.raises(Unusable, match="changed while it was read"):
        decide(path, pack_of(), Changing())
    assert not (tmp_path / "out.csv").exists()


def test_two_processes_do_not_make_one_sheet(tmp_path, monkeypatch):
    path = csv_of(tmp_path / "in.csv", ["a"])
    monkeypatch.setattr(deciding, "_LOCK_SECONDS", 0.1)
    with locked(tmp_path / "out.csv", 0), pytest.raises(Unusable, match="another process"):
        decide(path, pack_of(), Counting())


PARAMETERS = {
    "parameters": {"shop": {"required": True}},
    "contexts": {"default": "At {shop}: {X}\n", "bare": "{X}\n"},
}


def test_a_context_is_filled_by_columns_before_parameters(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text,parameters.shop\na,Alpha\nb,\n")
    engine = Counting()
    decide(path, pack_of(**PARAMETERS), engine, shop="Beta")
    assert sorted(engine.contents) == ["At Alpha: a\n", "At Beta: b\n"]
    (tmp_path / "out.csv").unlink()
    done, out, _ = decide(path, pack_of(**PARAMETERS), Counting())
    assert done.refused == {"invalid_field": 1}
    assert "needs the parameter 'shop'" in rows_of(out)[1]["spinf_error"]
    with pytest.raises(Unusable, match="no context 'x'; it has default, bare"):
        decide(path, pack_of(**PARAMETERS), Counting(), context="x")
    with pytest.raises(Unusable, match="no parameter 'shops'; it has shop"):
        decide(path, pack_of(**PARAMETERS), Counting(), shops="x")


def test_a_long_content_is_cut_where_the_pack_says_so(tmp_path):
    engine = Counting(limits=Limits(max_content_tokens=20))
    text = " ".join(f"word{number}" for number in range(60))
    path = csv_of(tmp_path / "in.csv", [text, "short"])
    done, out, _ = decide(path, pack_of(on_long={"chunk": "max"}), engine)
    assert done.refused == {}
    parts = [content[:-1] for content in engine.contents if "word" in content]
    assert len(parts) > 2
    assert "".join(parts) == text
    scores = [evaluate_alone(engine, part) for part in parts]
    assert float(rows_of(out)[0]["spinf_score_mood"]) == max(scores)


def evaluate_alone(engine, part: str) -> float:
    pack = pack_of()
    (result,) = engine.run([Work(part + "\n", pack.questions)])
    constants = pack.constants((SERVED.id,))
    assert constants is not None
    found = evaluate(pack, constants, [vectors(pack, result.answers)], DecisionCall())
    return found.categories["mood"].score


def test_a_question_that_the_model_refuses_stops_the_run(tmp_path):
    query = {"id": "happy", "template": "\nHappy?{?}", "options": [" yes", " a b c d e f g"]}
    path = csv_of(tmp_path / "in.csv", ["a"])
    with pytest.raises(Unusable, match="cannot be asked the pack demo/mood"):
        decide(path, pack_of(scoring={"queries": [query]}), StubEngine())


def test_a_draft_decides_nothing(tmp_path):
    path = csv_of(tmp_path / "in.csv", ["a"])
    draft = read_pack(json_pack().encode(), "pack.json")
    with pytest.raises(Unusable, match="no numbers for stub/words-1.*fitted on demo/model"):
        decide(path, draft, StubEngine())


def test_thresholds_without_a_proof_are_told_to_be_provisional():
    engine = StubEngine()
    asked = asking(pack_of(), in_process(engine.as_engine()), (SERVED.id,), None, {})
    assert "provisional on stub/words-1: no proof of them" in str(doubt(asked))
    proof = {"model": asked.scorer.identity.model, "open": ["mood"], "promises": {}}
    asked = replace(asked, constants=replace(asked.constants, proof=proof))
    assert str(doubt(asked)).endswith("provisional on stub/words-1: nothing is promised of mood")


def test_jsonl_holds_numbers_and_nulls(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n{"text": "\\ud800"}\n')
    _, out, _ = decide(path, pack_of(), StubEngine())
    first, second = map(json.loads, out.read_text().splitlines())
    assert isinstance(first["spinf_score_mood"], float)
    assert first["spinf_error"] is None
    assert second["spinf_decision"] is None
    assert second["spinf_error"].startswith("invalid_field: the text is not valid Unicode")
