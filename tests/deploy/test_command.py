"""`dragoman serve` and `dragoman deploy` say what to install where Ray is missing."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dragoman.cli import deploy, serve
from dragoman.errors import ConfigError


def test_serve_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "missing_packages", lambda _: ["ray"])
    with pytest.raises(ConfigError, match=r"dragoman\[ray\]"):
        CliRunner().invoke(serve.command, ["--replicas", "2", "--pipeline", "fake"], catch_exceptions=False)


def test_deploy_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "missing_packages", lambda _: ["ray"])
    with pytest.raises(ConfigError, match=r"dragoman\[ray\]"):
        CliRunner().invoke(deploy.command, ["config", "--replicas", "2"], catch_exceptions=False)
