"""`dragoman models`: every profile is listed, and one is shown with its values."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dragoman.cli.models import command
from dragoman.errors import ConfigError
from dragoman.prompts.catalog import profiles


def output(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_every_profile_is_listed() -> None:
    first_words = {line.split(" ")[0] for line in output().splitlines()}
    assert set(profiles()) <= first_words


def test_a_profile_is_shown_with_what_differs_from_the_defaults() -> None:
    shown = output("hy-mt2-7b")
    profile = profiles()["hy-mt2-7b"]
    assert all(model.id in shown for model in profile.models)
    assert f"temperature={profile.sampling.temperature}" in shown
    assert "min_p" not in shown
    assert "greedy" in output("phrasebook")
    assert "terms, marks, context, formality, instructions" in shown


def test_an_unknown_profile_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        output("none")
