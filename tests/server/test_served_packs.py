"""What is served: constants and state on the model, what the log tells, reloads."""

import json
import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.server import app
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import open_packs
from tests.support.pack_files import yaml_pack
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import Running, running
from tests.support.stub_engine import SERVED, StubEngine
from tests.support.waiting import until


def test_a_pack_s_constants_are_those_of_the_model_by_any_of_its_own_names(tmp_path):
    for model, found in (
        ("Stub/Words-1", "provisional"),
        ("stub", "provisional"),
        ("stub/base", "provisional"),
        ("spinf-12b", "draft"),
        ("other/model", "draft"),
    ):
        served = served_from(write_packs(tmp_path / found / model, fitted(model=model))[0].parent)
        fit = served.fit(served.catalogue.get("demo/support"), StubEngine().as_engine())
        assert (fit.state, fit.constants is None) == (found, found == "draft")


def test_a_name_that_clients_send_finds_constants_only_where_it_is_the_models_own():
    assert "spinf-12b" in SERVED.aliases and "spinf-12b" not in SERVED.own_names
    assert SERVED.own_names == ("stub/words-1", "stub/base", "stub")
    assert "spinf-12b" in replace(SERVED, borrowed=("jev-latest",)).own_names


def test_query_tokens_are_those_of_one_content(tmp_path):
    served = served_from(write_packs(tmp_path / "p", fitted())[0].parent)
    engine = StubEngine()
    pack = served.catalogue.get("demo/support")
    fit = served.fit(pack, engine.as_engine())
    wanted = sum(
        len(engine.tokenizer.encode(prompt.text))
        + sum(len(engine.tokenizer.encode(option)) - 1 for option in question.options)
        for question in pack.questions
        for prompt in question.prompts
    )
    assert fit.query_tokens == wanted > 0
    assert served.fit(pack, engine.as_engine()) is fit


def test_what_the_model_cannot_be_asked_is_told_and_not_a_fault(tmp_path, caplog):
    clumsy = fitted(pack="demo/clumsy")
    clumsy["scoring"]["queries"][2]["options"][1] = " a b c d e f g"
    served = served_from(write_packs(tmp_path / "p", fitted(), clumsy)[0].parent)
    with caplog.at_level(logging.INFO):
        served.tell(StubEngine().as_engine())
    told = caplog.text
    assert "cannot be asked the pack demo/clumsy 0.1.0: options.1 of its question 'kind'" in told
    assert "packs served as provisional: demo/support 0.1.0" in told
    fit = served.fit(served.catalogue.get("demo/clumsy"), StubEngine().as_engine())
    assert fit.refusal is not None and fit.refusal.code == "option_too_long"


def test_the_log_says_which_packs_decide_nothing(tmp_path, caplog):
    folder = write_packs(tmp_path / "p", fitted(), fitted(pack="demo/d", model="x"))[0].parent
    with caplog.at_level(logging.INFO):
        served_from(folder).tell(StubEngine().as_engine())
    assert "packs served as draft: demo/d 0.1.0" in caplog.text
    assert "nothing was fitted on stub/words-1 for the drafts" in caplog.text


def proven(model: str | None) -> dict[str, Any]:
    """The golden pack with a proof that names a model's digest; None for the stub's."""
    digest = StubEngine().fingerprint.model if model is None else model
    return fitted(proof={"model": digest, "constants": "b" * 64, "asked": "c" * 64})


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("model", [None, "a" * 64])
def test_a_proof_of_another_model_is_told_and_under_strict_refused(tmp_path, caplog, model, strict):
    write_packs(tmp_path / "packs", proven(model))
    served = served_from(tmp_path / "packs")
    served.strict = strict
    with caplog.at_level(logging.WARNING):
        served.tell(StubEngine().as_engine())
    with running(StubEngine().as_engine, ServerConfig(), packs=served) as it:
        answer = it.score(body())
        [listed] = it.http.get("/v1/packs").json()["packs"]
    words = "demo/support 0.1.0 were proven on a model with the digest aaaaaaaaaaaa, and stub"
    assert (words in caplog.text) == (model is not None)
    if model is not None and strict:
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "pack_of_other_model")
        assert error["param"] == "scoring.packs.0" and words in error["message"]
        assert words in listed["unusable"]
        return
    assert answer.status_code == 200 and "unusable" not in listed
    told = [one for one in answer.json().get("warnings", []) if one["code"] == "pack_other_model"]
    assert [(one["param"], words in one["message"]) for one in told] == (
        [] if model is None else [("scoring.packs.0", True)]
    )


def test_strictness_is_a_setting(tmp_path):
    lax = ServerConfig(official_packs=False, packs_cache=str(tmp_path))
    assert not open_packs(lax).strict
    assert open_packs(replace(lax, strict_packs=True)).strict


def test_settings_say_which_packs_are_opened(tmp_path):
    folder = write_packs(tmp_path / "p", fitted())[0].parent
    cache = tmp_path / "cache"
    without = ServerConfig(packs=(str(folder),), official_packs=False, packs_cache=cache)
    assert [entry.id for entry in open_packs(without).catalogue.entries] == ["demo/support"]
    every = open_packs(ServerConfig(packs=(str(folder),), packs_cache=cache)).catalogue
    assert {"demo/support", "spinf/moderation"} <= {entry.id for entry in every.entries}


@pytest.fixture
def folder(tmp_path):
    write_packs(tmp_path / "packs", fitted())
    return tmp_path / "packs"


@pytest.fixture
def stub() -> StubEngine:
    return StubEngine()


@pytest.fixture
def server(folder, stub, monkeypatch):
    """A server that looks for changes all the time."""
    monkeypatch.setattr(app, "_LOOK_SECONDS", 0.01)
    with running(stub.as_engine, ServerConfig(), packs=served_from(folder)) as it:
        yield it
        stub.gate.set()


def wait_for(server: Running, found: Any) -> None:
    until(lambda: found(server.http.get("/v1/packs").json()))


def rewrite(file: Path, text: str) -> None:
    """Replaces a file at once, since the server looks all the time and may meet half of one."""
    beside = file.with_suffix(".new")
    beside.write_text(text)
    beside.replace(file)


def body() -> dict[str, Any]:
    entry = {"id": "a", "messages": [{"role": "user", "content": "Hi"}]}
    return {"inputs": [entry], "scoring": {"packs": [{"id": "demo/support"}]}}


def test_a_file_that_changes_is_served_without_a_restart(server, folder):
    [file] = folder.iterdir()
    rewrite(file, json.dumps(fitted(version="0.2.0", contexts={"new": "{X}"})))
    wait_for(server, lambda found: found["packs"][0]["version"] == "0.2.0")
    [pack] = server.score(body()).json()["results"][0]["packs"]
    assert (pack["version"], pack["context"]) == ("0.2.0", "new")


def test_an_invalid_file_leaves_the_old_one_and_is_told_until_it_is_mended(server, folder, caplog):
    caplog.set_level("INFO")
    [file] = folder.iterdir()
    assert "packs" not in server.http.get("/readyz").json()
    rewrite(file, json.dumps(fitted(version="0.2.0"))[:-1])
    wait_for(server, lambda found: found["faults"])
    [fault] = server.http.get("/v1/packs").json()["faults"]
    assert file.name in fault
    ready = server.http.get("/readyz")
    assert (ready.status_code, ready.json()["packs"]) == (200, {"faults": [fault]})
    assert server.score(body()).json()["results"][0]["packs"][0]["version"] == "0.1.0"
    assert f"{fault}; the last valid packs stay served" in caplog.text
    rewrite(file, json.dumps(fitted(version="0.3.0")))
    wait_for(server, lambda found: not found["faults"])
    assert "packs" not in server.http.get("/readyz").json()
    assert server.score(body()).json()["results"][0]["packs"][0]["version"] == "0.3.0"
    levels = {record.message: record.levelname for record in caplog.records}
    assert levels[f"{fault}; the last valid packs stay served"] == "WARNING"
    assert levels["pack demo/support@0.3.0: now served"] == "INFO"
    assert any("has no fault any more" in message for message in levels)


def test_a_file_that_comes_is_served_and_one_that_goes_is_not(server, folder):
    (folder / "mood.yaml").write_text(yaml_pack())
    wait_for(server, lambda found: len(found["packs"]) == 2)
    next(folder.glob("*.json")).unlink()
    wait_for(server, lambda found: [pack["id"] for pack in found["packs"]] == ["demo/mood"])
    refused = server.score(body())
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unknown_pack")


def test_a_request_in_flight_keeps_its_pack(server, folder, stub):
    stub.gate.clear()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(server.score(body())))
    asking.start()
    until(lambda: stub.pending)
    [file] = folder.iterdir()
    rewrite(file, json.dumps(fitted(version="0.2.0", contexts={"new": "{X}"})))
    wait_for(server, lambda found: found["packs"][0]["version"] == "0.2.0")
    stub.gate.set()
    asking.join(20)
    [pack] = answers[0].json()["results"][0]["packs"]
    assert (pack["version"], pack["context"]) == ("0.1.0", "email")
    assert pack["decision"]["mode"] == "micro_layer"


def test_a_look_that_fails_is_logged_and_leaves_what_is_served(server, monkeypatch, caplog):
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(type(server.service.packs.catalogue), "refreshed", broken)
    until(lambda: "could not be looked at" in caplog.text)
    assert server.score(body()).status_code == 200


def test_a_look_that_does_not_end_keeps_no_server_from_stopping(folder, stub, monkeypatch):
    monkeypatch.setattr(app, "_LOOK_SECONDS", 0.01)
    begun, gate = threading.Event(), threading.Event()
    packs = served_from(folder)

    def look() -> None:
        begun.set()
        gate.wait(15)

    monkeypatch.setattr(packs, "refresh", look)
    with running(stub.as_engine, ServerConfig(), packs=packs):
        assert begun.wait(10)
        stub.gate.set()
        since = time.monotonic()
    assert time.monotonic() - since < 10
    gate.set()
