"""Reads the source tree as data: who imports whom, what a package list lacks, what an import loads.

Everything takes the root of a checkout, so that tests/test_layout.py can show on a small bad tree
that each check is able to fail.
"""

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TOP = "spinf_serve"
FOLDERS = ("engine", "evals", "packs", "server", "workbench")

_VOCABULARY = (
    "packs.question",
    "packs.template",
    "packs.grid",
    "packs.answer",
    "packs.errors",
)
# Folder or file -> what it may import besides itself, as dotted names below the top; a name covers
# what is below it. The longest name that covers a module holds for it.
ARROWS: Mapping[str, tuple[str, ...]] = {
    "packs": (),
    "engine": _VOCABULARY,
    "engine.config": (),
    "engine.fingerprint": ("engine.steady",),
    "engine.steady": (),
    "engine.work": ("engine.extraction.answers", *_VOCABULARY),
    "engine.extraction": _VOCABULARY,
    "engine.text": ("engine.work", *_VOCABULARY),
    "engine.tree": _VOCABULARY,
    "engine.kernels": ("engine.tree", *_VOCABULARY),
    "engine.models": (
        "engine.kernels",
        "engine.quantization",
        "engine.tree",
        "engine.work",
        *_VOCABULARY,
    ),
    "engine.quantization": _VOCABULARY,
    "engine.loading": (
        "engine.models",
        "engine.quantization",
        "engine.text",
        "engine.work",
        *_VOCABULARY,
    ),
    "engine.scoring": (
        "engine.extraction",
        "engine.text",
        "engine.tree",
        "engine.work",
        *_VOCABULARY,
    ),
    "server": (
        "engine.api",
        "engine.config",
        "engine.extraction.answers",
        "engine.work",
        "packs",
    ),
    "evals": ("packs",),
    "workbench": ("evals", "packs"),
}
# File -> what it may import on top of its folder's arrows, inside functions only.
ON_USE: Mapping[str, tuple[str, ...]] = {
    "evals.scorer": ("engine.api",),
    # Who answers is opened in one place, as the command line opens it.
    "workbench.answering": (
        "engine.api",
        "engine.config",
        "engine.loading.locate",
        "server.config",
    ),
}


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target, as a dotted name.

    `at_load` is False inside functions and under `if TYPE_CHECKING`.
    """

    source: str
    target: str
    line: int
    at_load: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def modules(root: Path) -> dict[str, Path]:
    """Dotted name -> file, for every Python file of the five folders and of `spinf_serve/` itself."""
    found = {}
    for folder in (TOP, *FOLDERS):
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            # The links in spinf_serve/ lead to the same files again.
            if folder == TOP and len(parts) > 2:
                continue
            name = ".".join(parts if folder == TOP else (TOP, *parts))
            found[name.removesuffix(".__init__")] = path
    return found


def imports(root: Path) -> list[Import]:
    """Every import in the tree; `from a import b` counts as `a.b` where that is a module."""
    known = modules(root)
    found = []
    for name, path in known.items():
        for node, at_load in _statements(ast.parse(path.read_text(encoding="utf-8")), True):
            for target in _targets(node, known):
                found.append(Import(name, target, node.lineno, at_load))
    return found


def _statements(tree: ast.AST, at_load: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_load
        else:
            yield from _statements(child, at_load and not _runs_later(child))


def _runs_later(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _targets(node: ast.Import | ast.ImportFrom, known: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    prefix = "." * node.level + (node.module or "")
    for alias in node.names:
        inner = f"{prefix}.{alias.name}"
        yield inner if inner in known else prefix


def relative_or_bare(found: list[Import]) -> list[str]:
    """Imports that are relative, or name one of the folders without `spinf_serve.` in front."""
    return [
        str(entry)
        for entry in found
        if entry.target.startswith(".") or entry.target.split(".")[0] in FOLDERS
    ]


def forbidden(found: list[Import]) -> list[str]:
    """Imports against the arrows."""
    return [str(entry) for entry in found if not _allowed(entry)]


def _allowed(entry: Import) -> bool:
    source = entry.source.removeprefix(f"{TOP}.")
    target = entry.target.removeprefix(f"{TOP}.")
    if entry.target == TOP or not entry.target.startswith(f"{TOP}."):
        return True
    owner = max((name for name in ARROWS if _covers(name, source)), key=len, default=None)
    if owner is None:
        # spinf_serve/cli.py and what it needs see everything.
        return True
    allowed = (owner, *ARROWS[owner])
    if not entry.at_load:
        allowed += ON_USE.get(source, ())
    return any(_covers(name, target) for name in allowed)


def _covers(name: str, module: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def cycles(found: list[Import]) -> list[list[str]]:
    """Groups of modules that import each other while they load, each in import order."""
    graph: dict[str, set[str]] = {}
    for entry in found:
        if entry.at_load and entry.target != entry.source:
            graph.setdefault(entry.source, set()).add(entry.target)
    closed: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            closed.append(path[path.index(name) :])
            return
        if name in done:
            return
        for target in sorted(graph.get(name, ())):
            visit(target, [*path, name])
        done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return closed


def environment_reads(root: Path) -> list[str]:
    """Modules that read the process's environment."""
    return [
        name
        for name, path in modules(root).items()
        if any(
            getattr(node, "attr", getattr(node, "name", "")) in ("environ", "getenv")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute | ast.alias)
        )
    ]


def busy_inits(root: Path) -> list[str]:
    """Package `__init__` files that hold more than a docstring, the top one's version aside."""
    return [
        name
        for name, path in modules(root).items()
        if path.name == "__init__.py" and name != TOP and len(_body(path)) != 1
    ]


def _body(path: Path) -> list[ast.stmt]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{path} has no docstring"
    return tree.body


def package_list_faults(root: Path) -> list[str]:
    """Packages, and data files inside them, that a wheel would lack or that do not exist."""
    setuptools = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = set(setuptools["packages"])
    files = modules(root)
    packages = {name for name, path in files.items() if path.name == "__init__.py"}
    homes = {name if name in packages else name.rpartition(".")[0] for name in files}
    faults = [f"{name} has no __init__.py" for name in homes - packages]
    faults += [f"{name} is not in pyproject.toml" for name in packages - listed]
    faults += [f"{name} is in pyproject.toml and not in the tree" for name in listed - packages]
    faults += _unpacked_data(root, setuptools.get("package-data", {}), packages)
    return sorted(faults)


def _unpacked_data(root: Path, globs: Mapping[str, list[str]], packages: set[str]) -> Iterator[str]:
    shipped: set[Path] = set()
    for package, patterns in globs.items():
        place = root.joinpath(*package.split(".")[1:]) if package != TOP else root / TOP
        for pattern in patterns:
            shipped |= set(place.glob(pattern))
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            home = ".".join((TOP, *path.relative_to(root).parent.parts))
            shown = path.suffix in (".py", ".pyc", ".md") or path in shipped
            built = "node_modules" in path.parts
            if path.is_file() and not shown and not built and _inside(home, packages):
                yield f"{path.relative_to(root)} is in no package-data"


def _inside(home: str, packages: set[str]) -> bool:
    return any(_covers(name, home) for name in packages)


def loaded(root: Path, names: list[str]) -> dict[str, str]:
    """What a fresh Python holds after importing some modules of a checkout.

    Returns:
        Module name -> file ("" for built-in ones), for all of `sys.modules`.

    Raises:
        AssertionError: with the traceback, when an import fails.
    """
    code = (
        "import importlib, json, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(json.dumps({n: getattr(m, '__file__', None) or '' for n, m in sys.modules.items()}))"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    held: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    return held


def heavy(held: Mapping[str, str]) -> set[str]:
    """Names of packages of the extras that were loaded: a base install lacks them."""
    extras = (
        "torch safetensors tokenizers huggingface_hub transformers fastapi starlette uvicorn httpx"
    )
    return set(extras.split()) & set(held)


def strangers(root: Path, held: Mapping[str, str]) -> list[str]:
    """Second identities: bare folder names, and modules of ours that lie outside this checkout."""
    bare = [name for name in FOLDERS if name in held]
    ours = [name for name in held if name == TOP or name.startswith(f"{TOP}.")]
    outside = [
        f"{name} is {held[name]}"
        for name in ours
        if held[name] and not Path(held[name]).resolve().is_relative_to(root.resolve())
    ]
    return bare + outside
