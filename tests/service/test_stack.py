"""How a service's parts are put together from settings."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import phrasebook
from dragoman.errors import ConfigError
from dragoman.prompts import catalog
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.service import stack
from dragoman.settings import ModelSettings


def test_trust_remote_code_reaches_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    load = TextTokenizer.load

    def loading(path: str, *, trust_remote_code: bool = False) -> Any:
        given.append(trust_remote_code)
        return load(path)

    monkeypatch.setattr(TextTokenizer, "load", loading)
    stack.load_prompts(stack.choose_model(ModelSettings(), trust_remote_code=True))
    stack.load_prompts(stack.choose_model(ModelSettings()))
    config = {"architectures": ["LlamaForCausalLM"]}
    with pytest.raises(ConfigError):  # the packaged tokenizer has no chat template
        catalog.select(str(phrasebook.model_dir()), config, trust_remote_code=True)
    assert given == [True, False, True]
