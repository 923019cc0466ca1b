"""Starts a server on the embedded model, asks it about a support message, shows the answers.

`make demo` runs it; it needs nothing but an installed spinf-serve. The server stops with it.
"""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MESSAGE = (
    "Customer: My headphones arrived with a broken hinge. I sent them back on Monday and the "
    "parcel was delivered, but the money is still not on my card. I have now written three times "
    "and nobody answers. Please give me my $59 back."
)

# Small models answer sentences that go on with a word. Large ones can be asked yes or no.
REQUEST = {
    "messages": [{"role": "user", "content": MESSAGE}],
    "scoring": {
        "queries": [
            {
                "id": "wants",
                "template": "\nIn short, the customer wants{?}",
                "options": [" a refund", " a discount", " to buy"],
            },
            {
                "id": "mood",
                "template": "\nThe customer sounds{?}",
                "options": [" angry", " happy", " calm"],
            },
            {
                "id": "topic",
                "template": "\nTopic:{?}",
                "options": [" refund", " login", " delivery"],
            },
            {
                "id": "reply",
                "template": "\nAgent: I am very{?}",
                "options": [" sorry", " happy", " glad"],
            },
            {
                "id": "product",
                "template": "\nThe customer bought a pair of{?}",
                "options": [" headphones", " shoes", " jeans"],
            },
            {
                "id": "state",
                "template": "\nThe {thing} is{?}",
                "options": [" broken", " missing", " fine"],
                "combinations": [{"thing": "hinge"}, {"thing": "money"}, {"thing": "card"}],
            },
        ]
    },
}

START_SECONDS = 120
# Requests to this machine must not go to a proxy that the environment names.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server() -> Iterator[str]:
    """Address of a server that is ready; it is stopped on the way out, whatever happened."""
    port = free_port()
    command = [sys.executable, "-m", "spinf_serve", "serve", "embedded", "--port", str(port)]
    # The same answers on every machine, whatever card it has.
    command += ["--device", "cpu"]
    with tempfile.TemporaryFile("w+") as log:
        process: subprocess.Popen[bytes] | None = None
        try:
            with signals_held():
                process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            wait_until_ready(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        except RuntimeError as fault:
            log.seek(0)
            sys.exit(f"{log.read().strip()}\nerror: {fault}")
        finally:
            if process is not None:
                stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, by force if it does not end in time."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def signals_held() -> Iterator[None]:
    """Has signals that ask for the end act behind the block: a process half started is lost."""
    held: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, lambda number, _: held.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for came in held:
            signal.raise_signal(came)


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    begun = time.monotonic()
    said = begun
    while time.monotonic() - begun < START_SECONDS:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with exit code {process.returncode}")
        try:
            with DIRECT.open(f"{url}/readyz", timeout=5):
                print(f"ready after {time.monotonic() - begun:.1f} s")
                return
        except OSError:
            time.sleep(0.1)
        if time.monotonic() - said > 2:
            said = time.monotonic()
            print(f"loading the model: {said - begun:.0f} s", flush=True)
    raise RuntimeError(f"the server was not ready after {START_SECONDS} s")


def score(url: str, request: dict[str, Any]) -> dict[str, Any]:
    asked = urllib.request.Request(
        f"{url}/v1/score",
        data=json.dumps(request).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with DIRECT.open(asked) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
    except urllib.error.HTTPError as refusal:
        raise RuntimeError(refusal.read().decode()) from refusal
    except OSError as fault:
        raise RuntimeError(f"the server does not answer: {fault}") from fault


def table(answer: dict[str, Any]) -> Iterator[str]:
    """Lines of the table: an option each, the one with the largest lift marked."""
    yield f"{'question':<14}{'option':<13}{'p':>7}{'floor_p':>10}{'lift':>9}{'residual':>12}"
    for query in answer["results"][0]["queries"]:
        for combination in query["combinations"]:
            options = combination["options"]
            lifts = [option["p"] - option["floor_p"] for option in options]
            # What holds for the whole question stands in its first row only.
            name = " ".join([query["id"], *combination["values"].values()])
            residual = f"{combination['residual']:.3f}"
            for option, lift in zip(options, lifts, strict=True):
                mark = "<" if lift == max(lifts) else ""
                yield (
                    f"{name:<14}{option['text'].strip():<13}{option['p']:>7.3f}"
                    f"{option['floor_p']:>10.3f}{lift:>+9.3f} {mark:<2}{residual:>9}"
                ).rstrip()
                name = residual = ""


def main() -> None:
    # A plain `kill` must stop the server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("starting spinf-serve on its embedded model, a 135M stand-in for trying things out")
    with server() as url:
        begun = time.monotonic()
        answer = score(url, REQUEST)
        spent = time.monotonic() - begun
    print(f"\n{textwrap.fill(MESSAGE, 90)}\n")
    print("\n".join(table(answer)))
    prompts = answer["usage"]["scoring"]["prompts"]
    print(
        f"\n{prompts} prompts in {spent:.2f} s. p: probability among the options; floor_p: the "
        "same without the message;\nlift: what the message adds (< the largest); residual: "
        "probability of all other words."
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
