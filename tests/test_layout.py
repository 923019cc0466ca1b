"""The rules of the tree: arrows, cycles, package list, one identity, light imports.

Each rule is checked on this checkout, and on a small tree that breaks it.
"""

from pathlib import Path

import pytest

from tests.support import layout

ROOT = Path(__file__).resolve().parent.parent
LIGHT = ("packs", "evals")
LIGHT_FILES = ("server.config", "engine.config", "engine.work", "cli", "__main__")


@pytest.fixture
def tree(tmp_path: Path):
    """A sound small checkout; the function it gives adds a file."""

    def add(path: str, text: str = "") -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return tmp_path

    add("spinf_serve/__init__.py", '"""Top."""\n__version__ = "0"\n')
    for folder in layout.FOLDERS:
        add(f"{folder}/__init__.py", f'"""The {folder}."""\n')
        (tmp_path / "spinf_serve" / folder).symlink_to(Path("..", folder))
    packages = ["spinf_serve", *(f"spinf_serve.{folder}" for folder in layout.FOLDERS)]
    add("pyproject.toml", f"[tool.setuptools]\npackages = {packages}\n")
    return add


def test_imports_follow_the_arrows():
    found = layout.imports(ROOT)
    assert len(found) > 50
    assert layout.forbidden(found) == []


@pytest.mark.parametrize(
    ("path", "line", "allowed"),
    [
        ("packs/a.py", "import spinf_serve.engine.api", False),
        ("packs/a.py", "from spinf_serve.packs import b", True),
        ("packs/a.py", "from spinf_serve import __version__", True),
        ("engine/a.py", "from spinf_serve.packs.errors import Refused", True),
        ("engine/a.py", "from spinf_serve.packs import errors", True),
        ("engine/a.py", "from spinf_serve.packs import loader", False),
        ("engine/a.py", "from spinf_serve.packs.errors_more import x", False),
        ("engine/a.py", "import spinf_serve.server.config", False),
        ("engine/sub/a.py", "import spinf_serve.server.config", False),
        ("engine/api.py", "import spinf_serve.engine.loading.open", True),
        ("engine/text/a.py", "import spinf_serve.engine.tree.plan", False),
        ("engine/kernels/linear/a.py", "import spinf_serve.engine.models.spec", False),
        ("engine/models/a.py", "import spinf_serve.engine.kernels.ops", True),
        ("engine/scoring/a.py", "def f():\n    import spinf_serve.engine.loading", False),
        ("server/a.py", "from spinf_serve.engine.api import Engine", True),
        ("server/a.py", "from spinf_serve.engine.tree.plan import Pass", False),
        ("server/a.py", "import spinf_serve.cli", False),
        ("evals/a.py", "def f():\n    import spinf_serve.engine.api", False),
        ("evals/scorer.py", "def f():\n    import spinf_serve.engine.api", True),
        ("evals/scorer.py", "import spinf_serve.engine.api", False),
        ("workbench/pages/a.py", "import spinf_serve.evals.b", True),
        ("workbench/pages/a.py", "import spinf_serve.engine.api", False),
        ("workbench/a.py", "if TYPE_CHECKING:\n    import spinf_serve.server.app", False),
        ("spinf_serve/cli.py", "import spinf_serve.engine.api", True),
    ],
)  # fmt: skip
def test_an_import_against_the_arrows_is_seen(tree, path, line, allowed):
    for module in ("packs/b.py", "packs/errors.py", "packs/loader.py"):
        tree(module)
    root = tree(path, line)
    assert (layout.forbidden(layout.imports(root)) == []) is allowed


def test_no_import_is_relative_or_bare():
    assert layout.relative_or_bare(layout.imports(ROOT)) == []


@pytest.mark.parametrize("line", ["from . import b", "from ..packs import b", "import engine.api"])
def test_a_relative_or_bare_import_is_seen(tree, line):
    assert layout.relative_or_bare(layout.imports(tree("server/a.py", line)))


def test_no_modules_import_each_other_at_load():
    assert layout.cycles(layout.imports(ROOT)) == []


def test_a_cycle_is_seen_and_an_import_on_use_is_none(tree):
    tree("packs/a.py", "from spinf_serve.packs.b import x")
    tree("packs/b.py", "try:\n    from spinf_serve.packs import c\nexcept ImportError: ...")
    root = tree("packs/c.py", "def f():\n    import spinf_serve.packs.a")
    assert layout.cycles(layout.imports(root)) == []
    tree("packs/c.py", "class C:\n    import spinf_serve.packs.a")
    names = [f"spinf_serve.packs.{name}" for name in "abc"]
    assert layout.cycles(layout.imports(root)) == [names]


def test_settings_are_read_from_the_environment_in_one_file():
    # The other one hands a variable to a library that reads it before anything could set it later.
    assert layout.environment_reads(ROOT) == [
        "spinf_serve.engine.steady",
        "spinf_serve.server.config",
    ]


@pytest.mark.parametrize("line", ["from os import environ", "import os; os.getenv('A')"])
def test_a_read_of_the_environment_is_seen(tree, line):
    assert layout.environment_reads(tree("packs/a.py", line)) == ["spinf_serve.packs.a"]


def test_package_inits_hold_a_docstring_only():
    # The engine's asks the maths library for steady sums before any module of it imports torch.
    assert layout.busy_inits(ROOT) == ["spinf_serve.engine"]


def test_an_init_with_code_is_seen(tree):
    root = tree("evals/__init__.py", '"""Evals."""\nimport json\n')
    assert layout.busy_inits(root) == ["spinf_serve.evals"]


def test_the_package_list_is_the_tree():
    assert layout.package_list_faults(ROOT) == []


def test_a_package_or_data_file_that_a_wheel_would_lack_is_seen(tree):
    assert layout.package_list_faults(tree("docs/a.md")) == []
    tree("engine/new/__init__.py", '"""New."""')
    tree("engine/bare/a.py")
    root = tree("packs/spinf/moderation.yaml")
    assert layout.package_list_faults(root) == [
        "packs/spinf/moderation.yaml is in no package-data",
        "spinf_serve.engine.bare has no __init__.py",
        "spinf_serve.engine.new is not in pyproject.toml",
    ]
    pyproject = root / "pyproject.toml"
    pyproject.write_text(
        '[tool.setuptools]\npackages = ["spinf_serve.gone"]\n'
        '[tool.setuptools.package-data]\n"spinf_serve.packs" = ["**/*.yaml"]\n'
    )
    faults = layout.package_list_faults(root)
    assert "spinf_serve.gone is in pyproject.toml and not in the tree" in faults
    assert not [fault for fault in faults if "moderation" in fault]


def test_folders_are_linked_below_the_top():
    for folder in layout.FOLDERS:
        assert (ROOT / "spinf_serve" / folder).resolve() == ROOT / folder


def test_light_folders_load_without_the_extras():
    names = [
        name
        for name in layout.modules(ROOT)
        if name.removeprefix("spinf_serve.").split(".")[0] in LIGHT
    ]
    names += [f"spinf_serve.{name}" for name in LIGHT_FILES]
    assert layout.heavy(layout.loaded(ROOT, names)) == set()


def test_screens_load_without_an_engine_or_a_server():
    names = [name for name in layout.modules(ROOT) if name.startswith("spinf_serve.workbench")]
    # Streamlit serves itself with these.
    brought = {"httpx", "starlette", "uvicorn"}
    names.remove("spinf_serve.workbench.entry.app")
    assert layout.heavy(layout.loaded(ROOT, names)) <= brought


def test_a_heavy_import_is_seen(tree):
    tree("packs/a.py", "import spinf_serve.packs.b")
    root = tree("packs/b.py", "import tokenizers")
    assert layout.heavy(layout.loaded(root, ["spinf_serve.packs.a"])) == {"tokenizers"}


def test_every_module_loads_once_and_from_this_checkout():
    names = [name for name in layout.modules(ROOT) if not name.endswith(".__main__")]
    held = layout.loaded(ROOT, names)
    assert set(names) <= set(held)
    assert layout.strangers(ROOT, held) == []


def test_a_second_identity_is_seen(tree):
    root = tree("server/a.py", "import packs")
    held = layout.loaded(root, ["spinf_serve.server.a"])
    assert layout.strangers(root, held) == ["packs"]
    assert layout.strangers(ROOT, held)[1:] != []


def test_an_import_that_fails_fails_the_test(tree):
    root = tree("server/a.py", "import no_such_module_anywhere")
    with pytest.raises(AssertionError, match="no_such_module_anywhere"):
        layout.loaded(root, ["spinf_serve.server.a"])
