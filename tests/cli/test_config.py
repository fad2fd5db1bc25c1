"""`dragoman config show` and `dragoman serve --help`: which settings they list, and where values came from."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from dragoman.cli import config, serve
from dragoman.settings import flag_of, options

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"
LISTED = {path for path, option in options().items() if option.group}


def shown(*arguments: str, **environment: str) -> str:
    """The output, in a wide terminal."""
    return CliRunner().invoke(config.command, ["show", *arguments], env={"COLUMNS": "200", **environment}).output


def paths(output: str) -> set[str]:
    return set(re.findall(r"^[a-z]+\.\w+", output, re.MULTILINE))


def test_what_differs_from_the_defaults_is_shown_without_a_password() -> None:
    url = "postgresql://u:s@ec:ret@h/x"
    output = shown("--changed", DRAGOMAN_STORAGE_URL=url, DRAGOMAN_SERVER_PORT="1")
    assert "postgresql://u:***@h/x" in output
    assert "ec:ret" not in output
    assert paths(output) == {"storage.url", "server.port"}


def test_settings_that_few_change_are_shown_where_they_differ_and_with_all() -> None:
    assert "pipeline.batch_size" not in LISTED
    assert paths(shown("--batch-size", "3")) == LISTED | {"pipeline.batch_size"}
    assert paths(shown("--all")) == set(options())


def test_help_lists_what_people_change_and_the_documentation_has_the_rest() -> None:
    output = CliRunner().invoke(serve.command, ["--help"]).output
    flags = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", output, re.MULTILINE))
    assert flags == {flag_of(path) for path in LISTED} | {"--config", "--verbose", "--help"}
    documented = set(re.findall(r"`([a-z]+\.\w+)`", OPERATING.read_text(encoding="utf-8")))
    assert options().keys() - LISTED <= documented
