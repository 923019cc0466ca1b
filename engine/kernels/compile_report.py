"""Compiles kernels ahead of time for cards that are not here, and reads the compiler's report.

    python -m spinf_serve.engine.kernels.compile_report REPORT.json [WORD ...]

compiles every case of `compile_cases` for every capability of `tiles.CAPABILITIES` (only cases whose
name has one of the words, if any) and writes one object a case: shared memory, registers, spills.
Needs no card and no driver: the assembler comes with Triton, whose interpreter must be off.
"""

import contextlib
import hashlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from spinf_serve.engine.kernels.compile_cases import Case, cases
from spinf_serve.engine.kernels.tiles import CAPABILITIES, SHARED_MEMORY_BYTES, Capability

_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_INSTRUCTIONS = ("wgmma.mma_async", "mma.sync", "cp.async.bulk.tensor", "cp.async.cg")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler says of one case on one card.

    Attributes:
        kernel: the case's name.
        capability: of the card, as "9.0".
        digest: of the case, with the text of its kernel.
        warps, stages: of the launch.
        shared_bytes, shared_limit_bytes: what a block takes and what it may take.
        registers: of a thread.
        spill_bytes: a thread's registers that go to memory, stores and loads together.
        instructions: kinds of matrix and copy instructions in the assembly.
    """

    kernel: str
    capability: str
    digest: str
    warps: int
    stages: int
    shared_bytes: int
    shared_limit_bytes: int
    registers: int
    spill_bytes: int
    instructions: list[str]


@dataclass(frozen=True, slots=True)
class Report:
    """Every case as one version of Triton compiles it."""

    triton: str
    kernels: list[Compiled]


def named(capability: Capability) -> str:
    """A compute capability as it is written, such as "9.0"."""
    return ".".join(map(str, capability))


def digest(case: Case) -> str:
    """Changes when the case, its kernel or a function that the kernel calls changes."""
    functions = [case.kernel]
    for function in functions:
        known = function.fn.__globals__
        called = [known.get(name) for name in sorted(function.fn.__code__.co_names)]
        functions += [
            each
            for each in called
            if isinstance(each, triton.JITFunction) and each not in functions
        ]
    texts = [function.src for function in functions]
    launch = (case.warps, case.stages, case.fp_fusion)
    shape = (case.types, case.constants, sorted(case.unaligned), *launch)
    return hashlib.sha256("\n".join([*texts, repr(shape)]).encode()).hexdigest()[:16]


def compiled(case: Case, capability: Capability) -> Compiled:
    """Compiles one case for one card; raises what Triton or its assembler raises."""
    names = list(case.kernel.arg_names)
    aligned = [
        name
        for name, kind in case.types.items()
        if name not in case.unaligned and (kind.startswith("*") or kind == "i32")
    ]
    source = ASTSource(
        fn=case.kernel,
        signature={name: case.types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in case.constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    major, minor = capability
    options = {
        "num_warps": case.warps,
        "num_stages": case.stages,
        "enable_fp_fusion": case.fp_fusion,
    }
    with _assembler_log() as log:
        target = GPUTarget("cuda", 10 * major + minor, 32)
        binary = triton.compile(source, target=target, options=options)
    spills, registers = _SPILLS.search(log.getvalue()), _REGISTERS.search(log.getvalue())
    if spills is None or registers is None:
        raise AssertionError(f"the assembler's log is not understood: {log.getvalue()!r}")
    return Compiled(
        kernel=case.name,
        capability=named(capability),
        digest=digest(case),
        warps=case.warps,
        stages=case.stages,
        shared_bytes=int(binary.metadata.shared),
        shared_limit_bytes=SHARED_MEMORY_BYTES[capability],
        registers=int(registers.group(1)),
        spill_bytes=int(spills.group(1)) + int(spills.group(2)),
        instructions=[kind for kind in _INSTRUCTIONS if f"{kind}." in binary.asm["ptx"]],
    )


@contextlib.contextmanager
def _assembler_log() -> Iterator[io.StringIO]:
    """What the assembler prints. A cached kernel would print nothing, so the cache is a fresh one."""
    log = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        knobs.cache.scope(),
        knobs.nvidia.scope(),
        contextlib.redirect_stdout(log),
    ):
        knobs.cache.dir = folder
        knobs.nvidia.dump_ptxas_log = True
        yield log


def digests() -> list[tuple[str, str, str]]:
    """(capability, case, digest) of every case, in the report's order; compiles nothing."""
    return [
        (named(capability), case.name, digest(case))
        for capability in CAPABILITIES
        for case in cases(capability)
    ]


def table(words: list[str]) -> Report:
    """The report: Triton's version and one object a case, in the cases' order."""
    wanted = [
        (number, capability)
        for capability in CAPABILITIES
        for number, case in enumerate(cases(capability))
        if not words or any(word in case.name for word in words)
    ]
    with ProcessPoolExecutor() as pool:
        return Report(triton.__version__, list(pool.map(_numbered, wanted)))


def _numbered(wanted: tuple[int, Capability]) -> Compiled:
    number, capability = wanted
    case = cases(capability)[number]
    try:
        return compiled(case, capability)
    except Exception as error:
        error.add_note(f"compiling {case.name} for {named(capability)}")
        raise


def written(report: Report) -> str:
    """The report as JSON, a case a line."""
    rows = ",\n".join(json.dumps(asdict(row)) for row in report.kernels)
    return f'{{"triton": {json.dumps(report.triton)}, "kernels": [\n{rows}\n]}}\n'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(written(table(sys.argv[2:])))
