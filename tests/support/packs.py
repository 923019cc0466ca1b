"""Packs for tests: the golden pack of the contract, random ones, and values made from plain JSON.

The making here is a second, unchecked way from a plain pack object to `Pack`, so that tests of the
evaluation do not rest on the loader; tests that compare both live with the loader.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import numpy as np

from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.ask import scored_question
from spinf_serve.packs.layer import decode_weights, encode_weights
from spinf_serve.packs.pack import (
    Bands,
    Category,
    CategoryFit,
    Constants,
    Context,
    Cuts,
    Decision,
    MicroLayer,
    Mode,
    Pack,
    Parameter,
    Quantiles,
    Read,
    ReadFit,
    Route,
)

GOLDEN: Mapping[str, Any] = json.loads(
    r"""
{"pack": "demo/support", "version": "0.1.0", "model": "demo/model", "media": ["text"],
 "answers": "logprob",
 "parameters": {"shop": {"label": "Shop name", "required": false, "default": "the shop"}},
 "contexts": {"email": "Email sent to {shop}:\n\"{X}\"\n", "chat": "Chat line:\n\"{X}\"\n"},
 "scoring": {"empty_floor": false, "case_insensitive": false, "queries": [
  {"id": "angry", "template": "\nThe writer is angry. True or false?{?}",
   "options": [" true", " false"]},
  {"id": "about", "template": "\nIt mentions {F}. True or false?{?}",
   "options": [" true", " false"], "combinations": [{"F": "a refund"}, {"F": "a bug"}]},
  {"id": "kind", "template": "\nDepartment:{?}",
   "options": [" billing", " technical", " other"]}]},
 "reads": [
  {"id": "angry", "query": "angry", "kind": "pair", "sign": 1, "category": "anger",
   "mean": -1.0, "sd": 2.0},
  {"id": "refund", "query": "about", "F": "a refund", "kind": "option", "option": 0, "mu": -1.5,
   "category": "money", "view": "q", "mean": 0.0, "sd": 1.0},
  {"id": "bill", "query": "kind", "kind": "set", "unsafe": [0], "mu": [-1.2, -1.1, -0.9],
   "category": "money", "view": "topic", "mean": 0.1, "sd": 1.3},
  {"id": "notbill", "query": "kind", "kind": "any", "mu": [-1.2, -1.1, -0.9],
   "category": "topic", "mean": 0.1, "sd": 1.3}],
 "categories": {
  "anger": {"label": "Anger", "platt": [1.2, -0.5], "threshold": 0.5,
   "normal_quantiles": {"levels": [0, 0.5, 1], "values": [0.01, 0.1, 0.9]}},
  "money": {"label": "Money", "platt": [1.0, -1.0], "threshold": 0.4, "aggregate": "views",
   "requires": ["anger"]},
  "topic": {"label": "Topic", "platt": [1.0, 0.0], "threshold": null}},
 "decision": {"mode": "micro_layer", "fallback": "per_category", "max": {"threshold": 0.6},
  "critical": ["anger"],
  "micro_layer": {"inputs": ["c:anger", "c:money", "r:refund"],
   "weights": "AAAAPwAAgD4AAAA+AACAvgAAAD8=", "dtype": "float32", "hidden": 0,
   "lock": "sha256:7b4f773ba87da79dadbf6ab023fb070aee5486fc7d428a1f9b15c87d3bc03d62"}}}
"""
)

GOLDEN_LOGPROBS: Mapping[tuple[str, str | None], Sequence[float]] = {
    ("angry", None): (-0.5, -1.2),
    ("about", "a refund"): (-0.3, -1.6),
    ("about", "a bug"): (-2.5, -0.2),
    ("kind", None): (-0.4, -1.9, -2.2),
}


def golden(**changes: Any) -> dict[str, Any]:
    """A copy of the golden object; `changes` are paths with `__` for a dot: `reads__0__sd=2.5`."""
    made: dict[str, Any] = deepcopy(dict(GOLDEN))
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = made
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value
    return made


def lock(plain: Mapping[str, Any], inputs: Sequence[str]) -> str:
    """The micro layer's lock, as the contract words it."""
    locked = {
        "queries": plain["scoring"]["queries"],
        "reads": plain["reads"],
        "platt": {id: category["platt"] for id, category in plain["categories"].items()},
        "inputs": list(inputs),
    }
    text = json.dumps(locked, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def made(plain: Mapping[str, Any]) -> tuple[Pack, Constants]:
    """Pack and constants from a plain object that has all its numbers."""
    scoring = plain["scoring"]
    floor, case = scoring.get("empty_floor", True), scoring.get("case_insensitive", False)
    group = f"{plain['pack']}@{plain['version']}"
    questions = tuple(
        scored_question(
            query["id"],
            query["template"],
            query["options"],
            query.get("combinations"),
            case_insensitive=case,
            empty_floor=query.get("empty_floor", floor),
            group=group,
        )
        for query in scoring["queries"]
    )
    contexts = {
        name: Context(name, template, *template.split("{X}"))
        for name, template in plain["contexts"].items()
    }
    parameters = {
        name: Parameter(
            name,
            given.get("label"),
            given.get("description"),
            given.get("required", True),
            given.get("default"),
        )
        for name, given in plain.get("parameters", {}).items()
    }
    decision = plain["decision"]
    modes: list[Mode] = ["per_category"]
    if "max" in decision or "max" in (decision["mode"], decision.get("fallback")):
        modes.append("max")
    if "micro_layer" in decision:
        modes.append("micro_layer")
    constants = _constants(plain)
    pack = Pack(
        id=plain["pack"],
        version=plain["version"],
        name="",
        description="",
        tags=(),
        license="",
        media=tuple(plain.get("media", ["text"])),
        answers=plain.get("answers", "p"),
        parameters=parameters,
        contexts=contexts,
        questions=questions,
        empty_floor=floor,
        case_insensitive=case,
        reads=tuple(map(_read, plain["reads"])),
        categories={
            id: Category(
                id,
                given.get("label"),
                given.get("aggregate") == "views",
                tuple(given.get("requires", ())),
                given.get("decides", True),
            )
            for id, given in plain["categories"].items()
        },
        decision=Decision(
            decision["mode"],
            decision.get("fallback", "per_category"),
            tuple(decision.get("critical", ())),
        ),
        modes=tuple(modes),
        route=_route(plain.get("route")),
        on_long="refuse",
        fitted={plain["model"]: constants},
        body=plain,
        digest="0" * 64,
    )
    return pack, constants


def _read(given: Mapping[str, Any]) -> Read:
    return Read(
        given["id"],
        given["query"],
        given.get("F"),
        given["kind"],
        given["category"],
        given.get("sign", 1),
        given.get("option"),
        tuple(given.get("unsafe", ())),
        given.get("view"),
    )


def _route(given: Mapping[str, Any] | None) -> Route | None:
    if given is None:
        return None
    return Route(**{**given, "categories": tuple(given["categories"])})


def _constants(plain: Mapping[str, Any]) -> Constants:
    reads = {}
    for given in plain["reads"]:
        mu = given.get("mu", ())
        mu = tuple(mu) if isinstance(mu, (list, tuple)) else (mu,)
        reads[given["id"]] = ReadFit(given["mean"], given["sd"], mu)
    categories = {}
    for id, given in plain["categories"].items():
        quantiles = given.get("normal_quantiles")
        categories[id] = CategoryFit(
            tuple(given["platt"]),
            given["threshold"],
            quantiles and Quantiles(tuple(quantiles["levels"]), tuple(quantiles["values"])),
        )
    decision = plain["decision"]
    layer = decision.get("micro_layer")
    bands = plain.get("bands")
    return Constants(
        plain["model"],
        reads,
        categories,
        decision.get("max", {}).get("threshold"),
        layer
        and MicroLayer(
            tuple(layer["inputs"]),
            decode_weights(layer["weights"]),
            layer.get("hidden", 0),
            layer["lock"],
            layer["lock"] == lock(plain, layer["inputs"]),
        ),
        bands
        and Bands(
            Cuts(**bands["decision"]) if "decision" in bands else None,
            {id: Cuts(**cuts) for id, cuts in bands.get("categories", {}).items()},
        ),
        plain.get("proof"),
    )


def answered(
    plain: Mapping[str, Any], logprobs: Mapping[tuple[str, str | None], Sequence[float]]
) -> tuple[QuestionAnswer, ...]:
    """Engine answers with these logprobs for a plain object's questions, without floors."""
    answers = []
    for query in plain["scoring"]["queries"]:
        prompts = []
        for values in query.get("combinations", [{}]):
            given = np.array(logprobs[query["id"], values.get("F")], dtype=np.float64)
            p = np.exp(given - given.max())
            p /= p.sum()
            options = tuple(
                OptionAnswer(text, float(one), float(share), None, None)
                for text, one, share in zip(query["options"], given, p, strict=True)
            )
            prompts.append(
                PromptAnswer(values, options, max(0.0, 1 - float(np.exp(given).sum())), None)
            )
        answers.append(QuestionAnswer(query["id"], tuple(prompts), True))
    return tuple(answers)


def api_result(answers: Sequence[QuestionAnswer]) -> dict[str, Any]:
    """The same as a result of `/v1/score`, unrounded logprobs and p of 6 decimals."""
    return {
        "queries": [
            {
                "id": answer.id,
                "combinations": [
                    {
                        "values": dict(prompt.values),
                        "options": [
                            {"text": o.text, "logprob": o.logprob, "p": round(o.p, 6)}
                            for o in prompt.options
                        ],
                    }
                    for prompt in answer.prompts
                ],
            }
            for answer in answers
        ]
    }


def random_logprobs(plain: Mapping[str, Any], rng: Random) -> dict[tuple[str, str | None], Any]:
    """Log-probabilities of each question's options, some of them far out."""
    made = {}
    for query in plain["scoring"]["queries"]:
        for values in query.get("combinations", [{}]):
            spread = rng.choice((0.5, 2.0, 12.0))
            raw = np.array([rng.gauss(0, spread) for _ in query["options"]])
            mass = np.log(np.exp(raw - raw.max()).sum()) + raw.max() + rng.uniform(0.01, 1)
            made[query["id"], values.get("F")] = (raw - mass).tolist()
    return made


def random_plain(rng: Random) -> dict[str, Any]:
    """A plain pack with all its numbers: every kind of read, views, requirements, every mode."""
    queries: list[dict[str, Any]] = []
    reads: list[dict[str, Any]] = []
    categories = [f"cat{index}" for index in range(rng.randint(1, 6))]
    for index in range(rng.randint(len(categories), 12)):
        options = [f" option{k}" for k in range(rng.choice((2, 2, 3, 5)))]
        query: dict[str, Any] = {"id": f"q{index}", "template": "\nSo?{?}", "options": options}
        read: dict[str, Any] = {"id": f"r{index}", "query": query["id"]}
        if rng.random() < 0.3:
            query["template"] = "\nIs it {F}?{?}"
            query["combinations"] = [{"F": "one thing"}, {"F": "another"}]
            read["F"] = rng.choice(query["combinations"])["F"]
        read |= _random_kind(len(options), rng)
        read["category"] = categories[index % len(categories)]
        if index < len(categories) or rng.random() < 0.8:
            read["view"] = rng.choice("ab")
        read |= {"mean": rng.gauss(0, 1), "sd": rng.uniform(0.3, 3)}
        queries.append(query)
        reads.append(read)
    plain: dict[str, Any] = {
        "pack": "tests/random",
        "version": "1.0.0",
        "model": "tests/model",
        "answers": rng.choice(("p", "logprob")),
        "contexts": {"default": "{X}\n"},
        "scoring": {"queries": queries},
        "reads": reads,
        "categories": {id: _random_category(id, categories, rng) for id in categories},
        "decision": {
            "mode": rng.choice(("max", "per_category", "micro_layer")),
            "fallback": rng.choice(("max", "per_category")),
            "max": {"threshold": rng.random()},
            "critical": rng.sample(categories, rng.randint(0, len(categories))),
        },
    }
    inputs = [f"c:{id}" for id in categories] + [f"r:{reads[0]['id']}"]
    hidden = rng.choice((0, 0, 1, 3))
    count = len(inputs) * hidden + 2 * hidden + 2 if hidden else len(inputs) + 2
    weights = [float(np.float32(rng.gauss(0, 0.5))) for _ in range(count)]
    plain["decision"]["micro_layer"] = {
        "inputs": inputs,
        "weights": encode_weights(weights),
        "dtype": "float32",
        "hidden": hidden,
        "lock": lock(plain, inputs) if rng.random() < 0.7 else "sha256:" + "0" * 64,
    }
    return plain


def _random_kind(options: int, rng: Random) -> dict[str, Any]:
    kind = rng.choice(
        ("pair", "option", "any", "set") if options == 2 else ("option", "any", "set")
    )
    usual = [rng.gauss(-1, 1) for _ in range(options)]
    if kind == "pair":
        return {"kind": kind, "sign": rng.choice((1, -1))}
    if kind == "option":
        index = rng.randrange(options)
        return {"kind": kind, "option": index, "mu": usual[index]}
    if kind == "any":
        return {"kind": kind, "mu": usual}
    unsafe = sorted(rng.sample(range(options), rng.randint(1, options - 1)))
    return {"kind": kind, "mu": usual, "unsafe": unsafe}


def _random_category(id: str, all_: Sequence[str], rng: Random) -> dict[str, Any]:
    made: dict[str, Any] = {
        "platt": [rng.uniform(0, 2), rng.gauss(0, 1)],
        "threshold": rng.choice((None, rng.random(), rng.random())),
        "decides": rng.random() < 0.8,
    }
    others = [other for other in all_ if other != id]
    if others and rng.random() < 0.4:
        made["requires"] = rng.sample(others, rng.randint(1, min(2, len(others))))
    if rng.random() < 0.4:
        made["aggregate"] = "views"
    if rng.random() < 0.5:
        values = sorted(rng.choice((rng.random(), 0.5)) for _ in range(5))
        made["normal_quantiles"] = {"levels": [0, 0.1, 0.5, 0.9, 1], "values": values}
    return made
