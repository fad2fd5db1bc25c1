"""`dragoman config show` and `dragoman serve --help`: which settings they list, and where values came from."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from dragoman.cli import config, serve
from dragoman.settings import flag_of, options

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"
LISTED = {path for path, option in options().items() if option.group}


def shown(*arguments: str) -> str:
    environment = {"DRAGOMAN_STORAGE_URL": "postgresql://u:s@ec:ret@h/x"}
    with patch.object(config.console, "_width", 200):  # it may have read another environment
        return CliRunner().invoke(config.command, ["show", "--batch-size=3", *arguments], env=environment).output


def test_what_is_listed_and_what_differs_is_shown_without_a_password() -> None:
    def paths(output: str) -> set[str]:
        return set(re.findall(r"^[a-z]+\.\w+", output, re.MULTILINE))

    assert "pipeline.batch_size" not in LISTED
    assert paths(shown()) == LISTED | {"pipeline.batch_size"}
    assert paths(shown("--all")) == set(options())
    assert "postgresql://u:***@h/x" in shown()
    assert "ec:ret" not in shown()


def test_help_lists_what_people_change_and_the_documentation_has_the_rest() -> None:
    output = CliRunner().invoke(serve.command, ["--help"]).output
    flags = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", output, re.MULTILINE))
    assert flags == {flag_of(path) for path in LISTED} | {"--config", "--verbose", "--help"}
    documented = set(re.findall(r"`([a-z]+\.\w+)`", OPERATING.read_text(encoding="utf-8")))
    assert options().keys() - LISTED <= documented
