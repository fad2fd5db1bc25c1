"""Imports run downward only and name declared dependencies; vllm and ray are imported in one package of the server each.
Packages say what they are, and names mean one thing."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import structure

from dragoman import errors
from wholetext import errors as of_files

SOURCE = Path(__file__).parent.parent / "src"
PACKAGES = {"dragoman", "dragoman_bench", "wholetext"}
SHARED = {
    "settings",
    "errors",
    "languages",
    "types",
    "wire",
    "gpu",
    "guard",
    "heap",
    "extras",
    "threads",
    "telemetry",
    "phrasebook",
    "secretfile",
    "sharedgpu",
    "version",
    "__version__",
}
"""Modules of the server below all its packages."""
MAY_IMPORT = {
    "cli": {"deploy", "api", "service", "pipelines", "engine", "prompts", "text", "storage"},
    "deploy": {"api", "service"},
    "api": {"service", "storage"},
    "service": {"pipelines", "engine", "text", "prompts", "storage"},
    "pipelines": {"engine"},
    "engine": set[str](),
    "prompts": set[str](),
    "text": set[str](),
    "storage": set[str](),
}
FILES_ORDER = ["files", "markup", "languages", "errors"]
"""Packages and modules of `wholetext`, which is below all others; each imports those after it."""
BENCH_MAY_IMPORT = {"wire", "gpu", "guard", "errors", "languages", "secretfile", "__version__"}
"""What the load tests know of the server, besides its HTTP API."""
STORY_MAY_IMPORT = BENCH_MAY_IMPORT | {"engine", "settings", "telemetry", "types"}
PIPELINES_CONTRACT = "dragoman.pipelines.base"
"""The story's pipelines run within the server: `dragoman_bench.story` alone knows the engine and this contract. It imports no
other package of the load tests, and none imports it."""
BENCH_ORDER = ["cli", "tune", "journey", "report", "eval", "chaos", "bench"]
"""Packages of `dragoman_bench`; each imports those after it."""
IMPORTED_ONLY_IN = {
    "vllm": {"engine"},
    "ray": {"deploy"},
    "fastapi": {"api", "deploy"},
    "mcp": {"api"},
    "click": {"cli"},
    "sqlalchemy": {"storage"},
    "alembic": {"storage"},
}
OPTIONAL = {
    "dragoman": ["cpu", "cuda", "mcp", "ray", "tracing"],
    "dragoman_bench": ["bench", "cpu", "cuda"],
    "wholetext": ["pdf"],
}
"""Extras whose packages each import package may import, besides the core dependencies."""
BROUGHT_ALONG = {
    "starlette": "fastapi",
    "anyio": "fastapi",
    "mcp_types": "mcp",
    "pydantic_core": "pydantic",
    "markupsafe": "jinja2",
    "pynvml": "nvidia-ml-py",
    "vllm": "vllm",
    "torch": "vllm",
    "transformers": "vllm",
    "setproctitle": "vllm",
    "cloudpickle": "vllm",
}
"""Modules that a declared dependency brings as a part of its own interface, or that are not installed on every machine."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package(file: Path) -> tuple[str, str]:
    """The distribution's import package, and the package or module below it."""
    root, *rest = file.relative_to(SOURCE).with_suffix("").parts
    return root, rest[0]


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: relative import"
            if node.module in PACKAGES:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def may_import(file: Path, name: str) -> bool:
    root, here = package(file)
    top, _, rest = name.partition(".")
    there = rest.partition(".")[0]
    if (top, there) == (root, here):
        return True
    match root, top:
        case "wholetext", "wholetext":
            return here in FILES_ORDER and there in FILES_ORDER[FILES_ORDER.index(here) :]
        case "dragoman_bench", "dragoman":
            if here == "story":
                return there in STORY_MAY_IMPORT or name == PIPELINES_CONTRACT
            return there in BENCH_MAY_IMPORT
        case "dragoman_bench", "dragoman_bench":
            return here in BENCH_ORDER and there in BENCH_ORDER[BENCH_ORDER.index(here) :]
        case "dragoman_bench", "vllm":
            return here == "story"
        case "dragoman", "dragoman":
            return there in SHARED or there in MAY_IMPORT.get(here, set())
        case (("wholetext" | "dragoman"), ("dragoman" | "dragoman_bench")):
            return False
        case "dragoman", _:
            return here in IMPORTED_ONLY_IN.get(top, {here})
        case _:
            return True


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_run_downward(file: Path) -> None:
    refused = [name for name in imports(file) if not may_import(file, name)]
    assert not refused, f"{file.relative_to(SOURCE)} imports {', '.join(refused)}"


def test_no_files_import_each_other_in_a_circle() -> None:
    """Nor for their types alone."""
    names = {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file for file in modules()
    }
    graph = TopologicalSorter(
        {name: {one for one in imported_modules(file) if one in names and one != name} for name, file in names.items()}
    )
    graph.prepare()  # raises CycleError, which names them


def imported_modules(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                is_module = (SOURCE / f"{node.module}.{alias.name}".replace(".", "/")).with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_every_module_has_a_docstring(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if file.name != "__init__.py" or text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{file}: no docstring"


@pytest.mark.parametrize(
    "file", sorted(SOURCE.rglob("__init__.py")), ids=lambda file: str(file.parent.relative_to(SOURCE))
)
def test_a_package_says_in_a_sentence_what_it_is(file: Path) -> None:
    first = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    assert first.endswith("."), first
    assert 5 <= len(first.split()) <= 30, first


def test_the_architecture_page_shows_which_package_imports_which() -> None:
    page = structure.PAGE.read_text(encoding="utf-8")
    assert structure.with_diagram(page) == page, "run python scripts/structure.py --arrows"


def test_no_class_name_means_two_things() -> None:
    """Errors of `wholetext` aside, which the server raises as its own of the same name."""
    files: dict[str, list[str]] = defaultdict(list)
    for file in modules():
        names = {
            node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
        }
        for name in names:
            files[name].append(str(file.relative_to(SOURCE)))
    twice = {name: found for name, found in files.items() if len(found) > 1 and not name.startswith("_")}
    raised = [name for name in twice if twice[name] == ["dragoman/errors.py", "wholetext/errors.py"]]
    assert twice.keys() == set(raised), twice
    assert all(getattr(errors, name).code == getattr(of_files, name).code for name in raised)


def project_of(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def declared(root: str) -> set[str]:
    """Distributions that a `pyproject.toml` names for an import package."""
    project = project_of(SOURCE / "wholetext" if root == "wholetext" else SOURCE.parent)
    lines = [*project["dependencies"]]
    for extra in OPTIONAL[root]:
        lines += project["optional-dependencies"][extra]
    return {Requirement(line).name for line in lines}


@pytest.mark.parametrize("root", sorted(OPTIONAL))
def test_third_party_imports_are_declared_dependencies(root: str) -> None:
    names = {name.partition(".")[0] for file in modules() if package(file)[0] == root for name in imports(file)}
    names -= {*sys.stdlib_module_names, *PACKAGES}
    installed = packages_distributions()
    undeclared = {
        name
        for name in names
        if not {BROUGHT_ALONG.get(name, ""), *(canonicalize_name(d) for d in installed.get(name, []))} & declared(root)
    }
    assert not undeclared


def test_the_server_declares_what_wholetext_needs() -> None:
    """The wheel of the server carries it, and its own metadata are not installed then."""
    own, whole = project_of(SOURCE / "wholetext"), project_of(SOURCE.parent)
    assert {*own["dependencies"]} <= {*whole["dependencies"]}
    assert own["optional-dependencies"]["pdf"] == whole["optional-dependencies"]["pdf"]
    assert own["requires-python"] == whole["requires-python"]
    assert (SOURCE / "wholetext" / "LICENSE").read_bytes() == (SOURCE.parent / "LICENSE").read_bytes()
