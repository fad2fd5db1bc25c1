"""`dragoman serve` and `dragoman deploy` say what to install where Ray is missing."""

from __future__ import annotations

from types import ModuleType

import pytest
from click.testing import CliRunner

from dragoman.cli import deploy, serve
from dragoman.errors import ConfigError


@pytest.mark.parametrize(("module", "arguments"), [(serve, ["--pipeline", "fake"]), (deploy, ["config"])])
def test_the_extra_that_is_missing_is_named(
    module: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "missing_packages", lambda _: ["ray"])
    with pytest.raises(ConfigError, match=r"dragoman\[ray\]"):
        CliRunner().invoke(module.command, [*arguments, "--replicas", "2"], catch_exceptions=False)
