"""`scoring.packs` of a request: every rule and every refusal, with its code and path."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from spinf_serve.engine.work import Limits
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import Caller
from spinf_serve.server.compiling import compile_call
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.spinf import ScoreRequest, read_request
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import question
from tests.support.stub_engine import StubEngine

SHOP = {"shop": {"required": False, "default": "the shop"}}
TRUSTED = Caller(trusted=True, sees_counters=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> ServedPacks:
    folder = tmp_path_factory.mktemp("packs")
    long = fitted(pack="demo/long")
    long["scoring"]["queries"][0]["template"] = "\nword" * 400 + "{?}"
    clumsy = fitted(pack="demo/clumsy")
    clumsy["scoring"]["queries"][2]["options"][1] = " a b c d e f g"
    one_mode = fitted(pack="demo/one-mode", decision={"mode": "per_category"})
    write_packs(
        folder / "given",
        fitted(),
        fitted(version="0.0.9"),
        fitted(
            pack="demo/twin",
            parameters=SHOP | {"day": {"required": False}},
            contexts={"email": fitted()["contexts"]["email"], "chat": "{day}{X}"},
        ),
        fitted(pack="demo/loud", scoring__case_insensitive=True),
        fitted(pack="demo/other", contexts={"email": "Mail:\n{X}\n"}),
        fitted(pack="demo/needs", parameters={"shop": {"label": "Shop name"}}),
        fitted(pack="demo/pictures", media=["text", "image"]),
        fitted(pack="demo/draft", model="other/model"),
        one_mode,
        long,
        clumsy,
    )
    listing = {
        "format": 1,
        "namespace": "soon",
        "packs": [
            {
                "id": "soon/one",
                "name": "One",
                "versions": [
                    {
                        "version": "1.0.0",
                        "file": "one.json",
                        "model": "stub/words-1",
                        "status": "coming_soon",
                    }
                ],
            }
        ],
    }
    (folder / "listed").mkdir()
    (folder / "listed" / "prompt-packs.json").write_text(json.dumps(listing))
    return served_from(folder / "given", folder / "listed")


def body(*packs: Any, parameters: Any = None, **scoring: Any) -> dict[str, Any]:
    entry = {"id": "m1", "messages": [{"role": "user", "content": "Where is my money?"}]}
    if parameters is not None:
        entry["parameters"] = parameters
    return {"inputs": [entry], "scoring": {"packs": list(packs), **scoring}}


def ref(name: str = "support", **fields: Any) -> dict[str, Any]:
    return {"id": f"demo/{name}", **fields}


@pytest.fixture
def read(served) -> Callable[..., ScoreRequest]:
    def reading(value: Any, engine: StubEngine | None = None) -> ScoreRequest:
        engine = engine or StubEngine()
        return read_request(Document(value), engine.as_engine(), TRUSTED, False, served)

    return reading


@pytest.fixture
def refusal(read) -> Callable[[Any], Refused]:
    def refusing(value: Any) -> Refused:
        with pytest.raises(Refused) as caught:
            read(value)
        return caught.value

    return refusing


@pytest.mark.parametrize(
    ("packs", "code", "param", "says"),
    [
        (["demo/support"], "invalid_field", "scoring.packs.0", "an object is needed"),
        ([{}], "invalid_field", "scoring.packs.0.id", "is missing"),
        ([{"id": 3}], "invalid_field", "scoring.packs.0.id", "a text is needed"),
        ([ref("suport")], "unknown_pack", "scoring.packs.0.id", "did you mean demo/support"),
        ([{"id": "x"}], "unknown_pack", "scoring.packs.0.id", "demo/support"),
        (
            [ref(), ref("twin", version="7")],
            "unknown_pack_version",
            "scoring.packs.1.version",
            "it has 0.1.0",
        ),
        ([ref(version=1)], "invalid_field", "scoring.packs.0.version", "a text is needed"),
        ([{"id": "soon/one"}], "pack_not_available", "scoring.packs.0.id", "announced"),
        (
            [{"id": "soon/one", "version": "1.0.0"}],
            "pack_not_available",
            "scoring.packs.0.version",
            "coming soon",
        ),
        (
            [ref(), ref("twin"), ref(version="0.0.9")],
            "duplicate_id",
            "scoring.packs.2.id",
            "scoring.packs.0",
        ),
        ([ref(context="fax")], "invalid_field", "scoring.packs.0.context", "has email, chat"),
        ([ref(context=1)], "invalid_field", "scoring.packs.0.context", "a text is needed"),
        (
            [ref(include_queries="yes")],
            "invalid_field",
            "scoring.packs.0.include_queries",
            "true or false",
        ),
        ([ref(contexts="email")], "invalid_field", "scoring.packs.0.contexts", "`context`"),
        (
            [ref(parameters={})],
            "invalid_field",
            "scoring.packs.0.parameters",
            "stand in inputs[].parameters",
        ),
        ([ref(decision=[])], "invalid_field", "scoring.packs.0.decision", "an object"),
        (
            [ref("loud"), ref("twin")],
            "pack_conflict",
            "scoring.packs.1",
            "differ in case_insensitive",
        ),
        (
            [ref(), ref("other")],
            "pack_conflict",
            "scoring.packs.1",
            "present the content in different words",
        ),
        (
            [ref(), ref("twin", context="chat")],
            "pack_conflict",
            "scoring.packs.1",
            "demo/twin (context chat)",
        ),
        (
            [ref("clumsy")],
            "option_too_long",
            "scoring.packs.0",
            "options.1 of its question 'kind'",
        ),
    ],
)
def test_a_wrong_reference_is_refused(refusal, packs, code, param, says):
    refused = refusal(body(*packs))
    assert (refused.code, refused.param) == (code, param)
    assert says in refused.message


@pytest.mark.parametrize(
    ("pack", "decision", "code", "field", "says"),
    [
        ("support", {"mode": "any"}, "invalid_field", "mode", "per_category, max, micro_layer"),
        ("support", {"mode": 1}, "invalid_field", "mode", "a text is needed"),
        ("one-mode", {"mode": "max"}, "invalid_field", "mode", "has per_category"),
        ("one-mode", {"mode": "micro_layer"}, "invalid_field", "mode", "has per_category"),
        (
            "support",
            {"mode": "per_category", "threshold": 0.5},
            "invalid_field",
            "threshold",
            "does nothing",
        ),
        ("support", {"mode": "max", "threshold": 1.5}, "invalid_field", "threshold", "from 0 to 1"),
        ("support", {"threshold": "0.5"}, "invalid_field", "threshold", "a number is needed"),
        ("support", {"threshold": True}, "invalid_field", "threshold", "a number is needed"),
        ("support", {"threshold": 10**400}, "invalid_field", "threshold", "not finite"),
        ("support", {"thresholds": [0.5]}, "invalid_field", "thresholds", "an object"),
        (
            "support",
            {"thresholds": {"angr": 0.5}},
            "unknown_category",
            "thresholds.angr",
            "did you mean 'anger'",
        ),
        (
            "support",
            {"thresholds": {"anger": -0.1}},
            "invalid_field",
            "thresholds.anger",
            "from 0 to 1",
        ),
        (
            "support",
            {"thresholds": {"anger": "x"}},
            "invalid_field",
            "thresholds.anger",
            "a number",
        ),
        ("support", {"critical": "anger"}, "invalid_field", "critical", "a list"),
        ("support", {"critical": ["anger", 1]}, "invalid_field", "critical.1", "a text"),
        (
            "support",
            {"critical": ["anger", "xyz"]},
            "unknown_category",
            "critical.1",
            "anger, money, topic",
        ),
        ("support", {"treshold": 0.5}, "invalid_field", "treshold", "did you mean `threshold`"),
        ("draft", {"mode": "any"}, "invalid_field", "mode", "demo/draft"),
    ],
)
def test_a_wrong_decision_is_refused(refusal, pack, decision, code, field, says):
    refused = refusal(body(ref(pack, decision=decision)))
    assert (refused.code, refused.param) == (code, f"scoring.packs.0.decision.{field}")
    assert says in refused.message


def test_everything_that_a_call_may_say_arrives(read):
    decision = {
        "mode": "max",
        "threshold": 1,
        "thresholds": {"topic": None, "anger": 0},
        "critical": [],
    }
    given = ref(version="0.0.9", context="chat", include_queries=True, decision=decision)
    [used] = read(body(given)).call.packs
    assert (used.pack.version, used.context.name, used.include_queries) == ("0.0.9", "chat", True)
    assert used.decision == DecisionCall("max", 1.0, {"topic": None, "anger": 0.0}, ())
    [used] = read(
        body(ref(version=None, context=None, include_queries=None, decision=None))
    ).call.packs
    assert (used.pack.version, used.context.name, used.include_queries) == ("0.1.0", "email", False)
    assert used.decision == DecisionCall()


@pytest.mark.parametrize("packs", [None, []])
def test_no_pack_is_none_and_parameters_are_then_not_read(read, packs):
    value = body(parameters="not read", queries=[question()])
    value["scoring"]["packs"] = packs
    call = read(value).call
    assert call.packs == () and call.inputs[0].content == "Where is my money?"


@pytest.mark.parametrize("given", [True, "different"])
def test_a_call_that_contradicts_the_pack_about_spellings_is_refused(read, refusal, given):
    packs, flag = ((ref(),), True) if given is True else ((ref("loud"),), False)
    refused = refusal(body(*packs, case_insensitive=flag))
    assert (refused.code, refused.param) == ("pack_conflict", "scoring.case_insensitive")
    for agreeing in (not flag, None):
        call = read(body(*packs, case_insensitive=agreeing, queries=[question()])).call
        assert {q.case_insensitive for q in call.inputs[0].questions} == {not flag}


def test_own_questions_may_not_take_the_id_of_a_pack_s(refusal):
    refused = refusal(body(ref(), queries=[question(), question("about")]))
    assert (refused.code, refused.param) == ("duplicate_id", "scoring.queries.1.id")
    assert "demo/support" in refused.message
    value = body(ref())
    value["inputs"][0]["queries"] = [question("kind")]
    refused = refusal(value)
    assert (refused.code, refused.param) == ("duplicate_id", "inputs.0.queries.0.id")


def test_own_questions_may_not_take_the_group_of_a_used_pack(read, refusal):
    refused = refusal(body(ref(), queries=[question(group="demo/support@0.1.0")]))
    assert (refused.code, refused.param) == ("reserved_group", "scoring.queries.0.group")
    value = body(ref(version="0.0.9"))
    value["inputs"][0]["queries"] = [question(group="demo/support@0.0.9")]
    refused = refusal(value)
    assert (refused.code, refused.param) == ("reserved_group", "inputs.0.queries.0.group")
    # That of a version that the call does not use is anybody's.
    assert read(body(ref(), queries=[question(group="demo/support@0.0.9")]))
    assert read(body(queries=[question(group="demo/support@0.1.0")]))


@pytest.mark.parametrize(
    ("packs", "parameters", "says"),
    [
        ([ref()], {"shpo": "x"}, "has shop; did you mean `shop`"),
        ([ref("needs")], None, "needs the parameter 'shop' (Shop name)"),
        ([ref("needs")], {}, "needs the parameter 'shop'"),
        ([ref("twin"), ref()], {"day": "Monday"}, "demo/support has no parameter 'day'"),
        ([ref("twin"), ref()], {"day": "Monday"}, "which demo/twin has: every parameter must be"),
        ([ref("needs")], {"shop": ""}, "the parameter 'shop' is empty"),
        ([ref()], [], "an object"),
        ([ref()], {"shop": None}, "null"),
        ([ref()], {"shop": ["x"]}, "a list"),
        ([ref()], {"shop": "x" * 16_385}, "16385 characters"),
    ],
)
def test_wrong_parameters_are_refused(refusal, packs, parameters, says):
    refused = refusal(body(*packs, parameters=parameters))
    assert (refused.code, refused.param) == ("invalid_field", "inputs.0.parameters")
    assert says in refused.message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Alder {X} {shop}", "Alder {X} {shop}"),
        (7, "7"),
        (1.0, "1.0"),
        (True, "True"),
        ("", ""),
    ],
)
def test_values_become_text_as_the_client_writes_it(read, value, text):
    from spinf_client import packs as client  # type: ignore[import-untyped]

    [entry] = read(body(ref(), parameters={"shop": value})).call.inputs
    assert entry.content == f'Email sent to {text}:\n"Where is my money?"\n'
    assert entry.wrapping == (f'Email sent to {text}:\n"', '"\n')
    parts = client.wrap(fitted(), "Where is my money?", None, {"shop": value})
    assert "".join(part["text"] for part in parts) == entry.content


def test_a_body_of_messages_takes_the_defaults_and_misses_what_is_required(read, refusal):
    value = {"messages": [{"role": "user", "content": "Hi"}], "scoring": {"packs": [ref()]}}
    assert read(value).call.inputs[0].content == 'Email sent to the shop:\n"Hi"\n'
    value["scoring"] = {"packs": [ref("needs")]}
    refused = refusal(value)
    assert (refused.code, refused.param) == ("invalid_field", "inputs.0.parameters")
    assert "stand in inputs[].parameters: give inputs in place of messages" in refused.message


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("packs", [ref()], "scoring.packs"),
        ("queries", [question()], "scoring.queries"),
        ("parameters", {"shop": "x"}, "inputs[].parameters"),
    ],
)
def test_a_field_at_the_wrong_place_is_told_where_it_belongs(read, refusal, name, value, place):
    misplaced = body(queries=[question()]) | {name: value}
    [note] = read(misplaced).warnings
    assert (note.code, note.param) == ("ignored_field", name)
    assert f"it belongs into {place}" in note.message
    if name != "parameters":
        misplaced["scoring"] = {}
        refused = refusal(misplaced)
        assert refused.code == "empty_queries"
        assert "give scoring.queries, scoring.packs or" in refused.message
        assert f"it belongs into {place}" in refused.message


def test_the_context_goes_around_all_messages(read):
    value = body(ref(context="chat"))
    value["inputs"][0]["messages"] = [{"role": "user", "content": text} for text in ("a", "b")]
    assert read(value).call.inputs[0].content == 'Chat line:\n"a\n\nb"\n'


def test_the_pack_s_questions_follow_own_ones_and_are_chosen_by_every_input(read):
    value = body(ref(), ref("twin"), queries=[question("x"), question("y")])
    entry = value["inputs"][0]
    value["inputs"] = [
        entry | {"id": "some", "query_ids": ["y"]},
        entry | {"id": "none", "query_ids": []},
        entry | {"id": "own", "queries": [question("z")]},
    ]
    some, none, own = read(value).call.inputs
    pack = ["angry", "about", "kind"] * 2
    assert [q.id for q in some.questions] == ["y", *pack]
    assert [q.id for q in none.questions] == pack
    assert [q.id for q in own.questions] == ["x", "y", "z", *pack]
    assert [some.own, none.own, own.own] == [1, 0, 3]
    groups = [q.group for q in none.questions]
    assert groups == ["demo/support@0.1.0"] * 3 + ["demo/twin@0.1.0"] * 3
    assert none.question_paths == ("scoring.packs.0",) * 3 + ("scoring.packs.1",) * 3
    assert {q.empty_floor for q in none.questions} == {False}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
VIDEO = {"type": "video", "video": {"frames": []}}


@pytest.mark.parametrize(
    ("pack", "part", "medium"),
    [
        ("support", IMAGE, "image"),
        ("support", AUDIO, "audio"),
        ("support", VIDEO, "video"),
        ("pictures", AUDIO, "audio"),
    ],
)
def test_a_medium_that_the_pack_was_not_made_for_is_refused_where_it_stands(
    refusal, pack, part, medium
):
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, part]},
    ]
    refused = refusal({"messages": messages, "scoring": {"packs": [ref(pack)]}})
    assert (refused.code, refused.param) == (
        "pack_media_not_supported",
        "messages.1.content.1.type",
    )
    assert medium in refused.message and f"demo/{pack}" in refused.message
    value = body(ref(pack))
    value["inputs"].append({"id": "m2", "messages": messages})
    refused = refusal(value)
    assert (refused.code, refused.param) == (
        "pack_media_not_supported",
        "inputs.1.messages.1.content.1.type",
    )


def test_a_medium_that_only_the_model_cannot_read_is_the_model_s_refusal(refusal):
    png = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = [{"role": "user", "content": [png]}]
    refused = refusal({"messages": messages, "scoring": {"packs": [ref("pictures")]}})
    assert refused.code in ("media_not_supported", "invalid_media")


def test_the_limit_on_templates_does_not_hold_for_a_pack_s_but_for_own_ones(read):
    engine = StubEngine().as_engine()
    value = body(ref("long")) | {"limits": {"max_query_tokens": 3}}
    assert len(compile_call(engine, read(value).call)) == 1
    value["scoring"]["queries"] = [question()]
    with pytest.raises(Refused) as caught:
        compile_call(engine, read(value).call)
    assert (caught.value.code, caught.value.param) == (
        "template_too_long",
        "scoring.queries.0.template",
    )
    with pytest.raises(Refused) as caught:
        own = question(template="\nword" * 400 + "{?}")
        compile_call(engine, read(body(queries=[own])).call)
    assert caught.value.code == "template_too_long"


def test_a_pack_s_templates_count_among_those_of_an_input(read):
    limits = Limits(max_prompts_per_input=4)
    value = body(ref(), queries=[question()])
    engine = StubEngine(limits)
    with pytest.raises(Refused) as caught:
        read(value, engine)
    assert (caught.value.code, caught.value.param) == ("too_many_prompts", "inputs.0")
    value["scoring"]["queries"] = []
    assert read(value, engine)


def test_a_parameter_that_is_too_large_a_number_is_refused(refusal):
    refused = refusal(body(ref(), parameters={"shop": float("inf")}))
    assert (refused.code, refused.param) == ("invalid_field", "inputs.0.parameters.shop")
