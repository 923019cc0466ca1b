"""`spinf-serve doctor`: checks on this machine that a score is what it should be, and says so."""

import importlib.util
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

import torch

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.checks import invariance_checks
from spinf_serve.engine.bench.workload import closed_questions
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Limits, Work

Say = Callable[[str], None]

_LENGTHS = (0, 1, 2, 3, 5, 9, 11, 40, 130, 300)
_WORD = " box"


def run(config: EngineConfig, *, say: Say = print) -> bool:
    """Opens the model, compares scores bit for bit, prints what it finds; True when all is well."""
    for line in _machine():
        say(line)
    start = time.perf_counter()
    engine = open_engine(config, Limits())
    say(f"model         {engine.served.id} ({config.dtype}), {time.perf_counter() - start:.2f} s")
    say(f"model digest  {engine.fingerprint.model}")
    say(f"bits digest   {engine.fingerprint.bits}")
    say("checks        every answer compared bit for bit")
    good = check(engine, say)
    say("all checks passed" if good else "CHECKS FAILED: scores on this machine are not pure")
    return good


def check(engine: Engine, say: Say) -> bool:
    """The invariance checks on contents of many lengths, said line by line."""
    good = True
    for one in invariance_checks(engine, works_of_many_lengths(engine.tokenizer)):
        verdict = "same bits" if one.passed else f"{one.different} of {one.compared} DIFFER"
        say(f"  {one.name:36} {one.compared:5d} answers  {verdict}")
        good = good and one.passed
    return good


def works_of_many_lengths(
    tokenizer: Tokenizer, lengths: Sequence[int] = _LENGTHS, questions: int = 8
) -> list[Work]:
    """Works whose contents have about the given numbers of tokens, with the same questions."""
    asked = closed_questions(tokenizer, 1, questions, content_tokens=1.0)[0].questions
    texts = [
        closed_questions(tokenizer, 1, 1, content_tokens=float(n), seed=n)[0].content
        if n > 16
        else (_WORD * n).strip()
        for n in lengths
    ]
    return [Work(text, asked) for text in texts]


def _machine() -> list[str]:
    """Versions and processor, a line each."""
    optional = [name for name in ("triton", "transformers") if importlib.util.find_spec(name)]
    libraries = ("torch", "numpy", "tokenizers", *optional)
    capability = torch.backends.cpu.get_cpu_capability()
    return [
        f"processor     {capability}, {torch.get_num_threads()} threads",
        "libraries     " + ", ".join(f"{name} {version(name)}" for name in libraries),
    ]
