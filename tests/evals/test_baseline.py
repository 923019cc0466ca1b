import json
import re

import numpy as np
import pytest

from spinf_serve.evals.baseline import evaluation_text, read_evaluation
from spinf_serve.evals.compare import compare
from spinf_serve.evals.gate import not_worse, verdict
from spinf_serve.evals.judged import Refusal
from spinf_serve.packs.errors import Unusable
from tests.support.evaluations import drawn, evaluation


def test_what_is_written_comes_back_bit_for_bit(tmp_path):
    one = evaluation(drawn(50, 4), refused=[Refusal("<é😀>\x07", "content_too_long")])
    file = tmp_path / "baseline.json"
    file.write_text(evaluation_text(one), encoding="utf-8")
    back = read_evaluation(file)
    assert back.made == one.made
    assert back.refused == one.refused
    assert back.rows == one.rows
    before, now = one.targets[0].judged, back.targets[0].judged
    assert now.scores is not None and before.scores is not None
    assert np.array_equal(now.scores, before.scores)
    assert (now.rows, now.labels, now.flagged) == (before.rows, before.labels, before.flagged)
    assert compare(before, now).pairing.both == before.rows
    assert back.targets[0].metrics == one.targets[0].metrics


def test_it_tells_the_verdict_with_its_exit_code():
    one = evaluation(drawn(50, 4))
    pair = compare(one.targets[0].judged, one.targets[0].judged)
    told = json.loads(evaluation_text(one, verdict(not_worse([pair])), (pair,)))
    assert told["verdict"]["word"] == "pass"
    assert told["verdict"]["exit_code"] == 0
    assert told["comparisons"][0]["target"] == "angry"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "no evaluation"),
        ('{"format": 9}', "format 9"),
        ('{"format": 1}', "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(Unusable, match=message):
        read_evaluation(file)


@pytest.mark.parametrize("value", ["true", 1, 0.5])
def test_a_label_that_is_none_is_refused(tmp_path, value):
    told = json.loads(evaluation_text(evaluation(drawn(5, 4))))
    told["targets"][0]["scored"]["label"][2] = value
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps(told))
    with pytest.raises(Unusable, match="damaged: angry: label is not true, false or null"):
        read_evaluation(file)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"made": 3}, "damaged: a part of it is not what an evaluation has there"),
        ({"refused": [{"who": 1}]}, "damaged: a part of it is not"),
        ({"targets": ["angry"]}, "damaged: a part of it is not"),
        ({"rows": "many"}, "damaged: a part of it is not"),
    ],
)
def test_damage_is_told_without_a_word_about_our_code(tmp_path, part, message):
    told = json.loads(evaluation_text(evaluation(drawn(5, 4)))) | part
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps(told))
    with pytest.raises(Unusable, match=message) as raised:
        read_evaluation(file)
    assert not re.search("Python|object|argument|__init__|literal|indices", str(raised.value))


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(Unusable, match="cannot be read"):
        read_evaluation(tmp_path / "none.json")
