"""The walls: imports run downward only, vllm is imported in one room, files stay readable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "dragoman"
GROUND = {
    "settings",
    "errors",
    "languages",
    "translation",
    "sequence",
    "sampling",
    "heap",
    "telemetry",
    "phrasebook",
    "dragoman",
}
MAY_IMPORT = {
    "cli": {"deploy", "tune", "bench", "api", "service", "pipelines", "engine", "prompts", "text"},
    "deploy": {"api", "service"},
    "tune": {"bench"},
    "bench": set[str](),
    "api": {"service"},
    "service": {"pipelines", "engine", "text", "prompts"},
    "pipelines": {"engine"},
    "engine": set[str](),
    "prompts": set[str](),
    "text": set[str](),
}
IMPORTED_ONLY_IN = {"vllm": {"engine"}, "ray": {"deploy"}, "fastapi": {"api", "deploy"}, "click": {"cli", "phrasebook"}}
LONGEST_FILE = 300


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: relative import"
            if node.module == "dragoman":
                yield from (f"dragoman.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_run_downward(file: Path) -> None:
    here = room(file)
    for name in imports(file):
        top, _, rest = name.partition(".")
        if top == "dragoman":
            there = rest.partition(".")[0] or "dragoman"
            if there == "__version__" or there == here or there in GROUND:
                continue
            assert here not in GROUND, f"{here} is at the ground and imports {name}"
            assert there in MAY_IMPORT[here], f"{here} imports {name}"
        else:
            assert here in IMPORTED_ONLY_IN.get(top, {here}), f"{here} imports {name}"


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for_and_stays_short(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_FILE
    if file.name != "__init__.py" or text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{file}: no docstring"
