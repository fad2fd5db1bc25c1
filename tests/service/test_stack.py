"""How a service's parts are put together from settings."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman import phrasebook
from dragoman.engine.spec import resolve
from dragoman.errors import ConfigError
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service import stack
from dragoman.settings import CacheSettings, EngineSettings, ModelSettings, PipelineSettings, RemoteSettings, Settings
from dragoman.text import confidence


def test_trust_remote_code_reaches_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    load = TextTokenizer.load

    def loading(folder: Path, *, name: str, trust_remote_code: bool) -> Any:
        given.append(trust_remote_code)
        return load(folder, name=name)

    stack.text_tokenizer.cache_clear()
    monkeypatch.setattr(TextTokenizer, "load", loading)
    stack.load_prompts(stack.choose_model(ModelSettings(), trust_remote_code=True))
    stack.load_prompts(stack.choose_model(ModelSettings()))
    assert given == [True, False]


@pytest.mark.parametrize("template", ["", "{{ messages[0].content }}"])
def test_a_model_that_no_profile_fits_is_one_for_chats_if_it_has_a_chat_template(tmp_path: Path, template: str) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    if template:
        (tmp_path / "chat_template.jinja").write_text(template)
        assert stack.choose_model(ModelSettings(path=str(tmp_path))).profile.name == "chat"
    else:
        with pytest.raises(ConfigError, match="has no chat template"):
            stack.choose_model(ModelSettings(path=str(tmp_path)))


def test_a_model_without_a_calibration_is_ranked_and_a_named_file_calibrates_it(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(phrasebook.model_dir(), folder, ignore=shutil.ignore_patterns("confidence.*", "*.safetensors"))
    file = phrasebook.model_dir() / confidence.FILE
    kinds = [
        stack.choose_model(settings).confidence.kind
        for settings in (
            ModelSettings(),
            ModelSettings(path=str(folder)),
            ModelSettings(path=str(folder), confidence_file=str(file)),
        )
    ]
    assert kinds == ["calibrated", "rank", "calibrated"]
    with pytest.raises(ConfigError, match="missing"):
        stack.choose_model(ModelSettings(confidence_file=str(tmp_path / "missing.json")))


def test_what_changes_translations_is_part_of_the_cache_file_s_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints: list[str] = []

    def opened(path: Path, max_bytes: int, fingerprint: str) -> None:
        fingerprints.append(fingerprint)

    monkeypatch.setattr(stack, "CacheFile", opened)
    settings = Settings(cache=CacheSettings(file=str(tmp_path / "cache.sqlite")))
    remote = replace(settings, pipeline=PipelineSettings("remote"), remote=RemoteSettings("http://gpu:8000"))
    model = stack.choose_model(ModelSettings())
    engines = (EngineSettings(), EngineSettings(quantization="fp8"), EngineSettings(kv_cache_dtype="fp8"))
    for engine in engines:
        stack.build_cache(settings, model, resolve(model.path, engine, "cuda"))
    for one in (remote, replace(remote, remote=RemoteSettings("http://gpu:8000", model="other"))):
        stack.build_cache(one, model, stack.engine_spec(one))
    assert len(set(fingerprints)) == len(engines) + 2
