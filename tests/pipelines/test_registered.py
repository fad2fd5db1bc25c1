"""Pipelines by name: packages register them by entry points, and a name that is missing is a mistake of one line."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dragoman.cli.main import main
from dragoman.errors import ConfigError
from dragoman.pipelines.base import Pipeline
from dragoman.service import stack
from dragoman.settings import BUILT_IN_PIPELINES, PIPELINES, Settings, load
from tests.processes import ROOT

Install = Callable[..., None]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
STRANGER = """
from dragoman.pipelines.fake import FakePipeline

def build(settings, spec, log_file):
    pipeline = FakePipeline(max_model_len=spec.engine.max_model_len)
    pipeline.built_of = (settings.pipeline.workers, log_file)
    return pipeline
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package: its name, its pipelines, and what its extra `bench` requires. It comes before others of its name."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)

    def install(name: str, pipelines: Mapping[str, str], *bench: str) -> None:
        info = folder / f"{name}-1.dist-info"
        info.mkdir()
        required = "".join(f'Requires-Dist: {one} ; extra == "bench"\n' for one in bench)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{required}")
        lines = [f"{pipeline} = {factory}" for pipeline, factory in pipelines.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{PIPELINES}]", *lines]))
        (folder / "stranger.py").write_text(STRANGER)

    return install


def chosen(name: str, **flags: str) -> Settings:
    return load(flags={"pipeline.name": name, **flags}, environment={}).settings


def built(settings: Settings) -> Pipeline:
    with patch.dict(os.environ):  # the preparations for an engine change it
        return stack.build_pipeline(settings, stack.engine_spec(settings))


def test_the_settings_take_the_pipelines_that_are_built_in() -> None:
    assert stack.BUILT_IN.keys() == set(BUILT_IN_PIPELINES)
    assert [chosen(name).pipeline.name for name in stack.BUILT_IN] == list(stack.BUILT_IN)


def test_a_package_registers_a_pipeline(install: Install) -> None:
    install("stranger", {"strange": "stranger:build"})
    pipeline = built(chosen("strange", **{"pipeline.workers": "3", "engine.max_model_len": "77"}))
    assert pipeline.max_model_len == 77
    assert vars(pipeline)["built_of"] == (3, Path(".dragoman/engine.log"))


@pytest.mark.parametrize("name", PROJECT["entry-points"][PIPELINES])
def test_the_story_s_pipelines_are_registered(install: Install, name: str) -> None:
    install("dragoman", PROJECT["entry-points"][PIPELINES], *PROJECT["optional-dependencies"]["bench"])
    assert built(chosen(name)).name == name


@pytest.mark.parametrize(
    ("registered", "bench"), [((), ()), (("workers", "static_batch"), ("a-package-that-nobody-has",))]
)
@pytest.mark.parametrize("name", PROJECT["entry-points"][PIPELINES])
def test_a_pipeline_of_an_extra_that_is_missing_names_the_extra(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    registered: tuple[str, ...],
    bench: tuple[str, ...],
    name: str,
) -> None:
    install("dragoman", dict.fromkeys(registered, "stranger:build"), *bench)
    monkeypatch.setattr(sys, "argv", ["dragoman", "config", "show", "--pipeline", name])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err
    assert (end.value.code, error.count("\n")) == (2, 1)
    assert f"'{name}' (--pipeline)" in error and "pip install 'dragoman[bench]'" in error


def test_an_unknown_pipeline_is_refused_with_those_that_are_installed(install: Install) -> None:
    install("stranger", {"strange": "stranger:build"})
    with pytest.raises(ConfigError, match=r"'static' .*installed: continuous, fake,.* strange") as refusal:
        chosen("static")
    assert refusal.value.param == "pipeline.name"
    assert "\n" not in refusal.value.message


def test_a_registered_pipeline_that_cannot_be_imported_is_an_error_of_the_settings(install: Install) -> None:
    install("stranger", {"strange": "no_such_module:build"})
    settings = chosen("strange")
    with pytest.raises(ConfigError, match="no_such_module"):
        stack.build_pipeline(settings, stack.engine_spec(settings))
