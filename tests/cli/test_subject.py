from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman import phrasebook
from dragoman.bench.targets import make_target
from dragoman.bench.targets.openai import filled
from dragoman.bench.workload import Item
from dragoman.cli.subject import asked_of_vllm, make_subject
from dragoman.errors import ConfigError
from dragoman.phrasebook import tokenizer
from dragoman.prompts import catalog

ITEM = Item("Where is the {station}?", "en", "ja", 8)


def test_the_packaged_model_is_asked_of_vllm_token_for_token_as_dragoman_asks_it() -> None:
    asked = asked_of_vllm(catalog.profiles()["phrasebook"], 1024)
    assert asked.kind == "openai-completions"
    prompt = filled(asked.user, ITEM)
    assert prompt == "<|bos|><|en|><|ja|>Where is the {station}?<|sep|>"
    from transformers import AutoTokenizer

    as_vllm_reads_it = AutoTokenizer.from_pretrained(str(phrasebook.model_dir()))(prompt).input_ids
    ours = tokenizer.load(phrasebook.model_dir())
    assert as_vllm_reads_it == tokenizer.prompt_ids(ours, "en", "ja", ITEM.text)


def test_an_instruct_model_is_asked_through_its_chat_template_with_our_wording() -> None:
    asked = asked_of_vllm(catalog.profiles()["qwen3"], 2048)
    assert asked.kind == "openai-chat"
    assert "from {source_name} into {target_name}" in (asked.system or "")
    assert asked.user == "{text}"


@pytest.mark.parametrize("name", sorted(catalog.profiles()))
def test_every_profile_that_serves_english_to_japanese_makes_a_prompt_with_the_text(name: str) -> None:
    profile = catalog.profiles()[name]
    if not profile.serves("en", "ja"):
        pytest.skip(f"{name} does not serve en-ja")
    asked = asked_of_vllm(profile, 2048)
    body = make_target(type(asked)(**{**_fields(asked), "model": "m"})).body(ITEM)
    assert ITEM.text in json.dumps(body)


def _fields(asked: object) -> dict[str, object]:
    return {name: getattr(asked, name) for name in ("kind", "stream", "api_key", "model", "system", "user", "sampling")}


def test_without_a_model_the_phrasebook_is_measured_within_its_own_limits() -> None:
    subject = make_subject("", "", "auto", None)
    assert subject.name == "phrasebook"
    assert subject.path == str(phrasebook.model_dir())
    assert "model" not in subject.dragoman
    assert subject.dragoman["max-model-len"] == subject.limits["max-model-len"] == 1024
    longest = catalog.profiles()["phrasebook"].max_source_tokens
    assert longest is not None
    assert subject.lengths["variable"][1] < longest
    assert subject.forced is None


def test_results_name_the_model_and_not_its_folder(tmp_path: Path) -> None:
    model = tmp_path / "Some-Qwen3-4B"
    model.mkdir()
    config = {"architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "max_position_embeddings": 4096}
    (model / "config.json").write_text(json.dumps(config))
    subject = make_subject(str(model), "qwen3", "dummy", None)
    assert subject.dragoman["model"] == subject.path == str(model)
    assert str(tmp_path) not in json.dumps(subject.telling)
    assert subject.telling["model"] == "Some-Qwen3-4B"
    assert subject.lengths == {"uniform": (50, 50), "variable": (10, 200)}


def test_random_weights_have_forced_lengths_and_no_thinking_to_turn_off(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    dummy = make_subject(str(tmp_path), "qwen3", "dummy", None)
    assert dummy.forced == (0.8, 1.3)
    assert "default-chat-template-kwargs" not in dummy.vllm
    real = make_subject(str(tmp_path), "qwen3", "auto", None)
    assert real.forced is None
    assert json.loads(str(real.vllm["default-chat-template-kwargs"])) == {"enable_thinking": False}


def test_a_folder_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="not a folder"):
        make_subject("./absent", "", "auto", None)
