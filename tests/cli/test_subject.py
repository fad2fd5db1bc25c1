from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman import phrasebook
from dragoman.cli.models import describe
from dragoman.errors import ConfigError
from dragoman.prompts import catalog
from dragoman.prompts.encoder import language_values
from dragoman.service.stack import Model
from dragoman.wire import ModelDescription
from dragoman_bench.bench.client import filled, make_target
from dragoman_bench.bench.workload import Item, Pair
from dragoman_bench.cli.subject import asked_of_vllm, make_subject, served_pairs
from tools.phrasebook import tokenizer

EN_JA = Pair("en", "ja")
ITEM = Item("Where is the {station}?", "en", "ja", 8)


def of_profile(name: str) -> ModelDescription:
    return describe(Model("path", name, catalog.profiles()[name]))


def test_vllm_gets_the_packaged_models_prompt_token_for_token() -> None:
    asked = asked_of_vllm(of_profile("phrasebook"), EN_JA, 1024)
    assert asked.kind == "openai-completions"
    prompt = filled(asked.user, ITEM)
    assert prompt == "<|bos|><|en|><|ja|>Where is the {station}?<|sep|>"
    from transformers import AutoTokenizer

    as_vllm_reads_it = AutoTokenizer.from_pretrained(str(phrasebook.model_dir()))(prompt).input_ids
    ours = tokenizer.load(phrasebook.model_dir())
    assert as_vllm_reads_it == tokenizer.prompt_ids(ours, "en", "ja", ITEM.text)


def test_an_instruct_model_is_asked_through_its_chat_template_with_our_wording() -> None:
    asked = asked_of_vllm(of_profile("qwen3"), EN_JA, 2048)
    assert asked.kind == "openai-chat"
    profile = catalog.profiles()["qwen3"]
    ours = profile.template("en", "ja")
    names = language_values(profile, ours, "en", "ja")
    sent = [filled(one or "", ITEM) for one in (asked.system, asked.user)]
    assert sent == [one.format(text=ITEM.text, **names) for one in (ours.system, ours.text)]
    assert all("Japanese" in one for one in sent)


@pytest.mark.parametrize("name", sorted(catalog.profiles()))
def test_every_profile_makes_a_prompt_of_a_text(name: str) -> None:
    profile = of_profile(name)
    pair = served_pairs(profile)[0]
    assert pair.source in phrasebook.LANGUAGES
    asked = asked_of_vllm(profile, pair, 2048)
    body = make_target(replace(asked, model="m")).body(replace(ITEM, source=pair.source, target=pair.target))
    assert ITEM.text in json.dumps(body)


def test_directions_that_a_model_does_not_serve_are_not_sent() -> None:
    profile = catalog.profiles()["tower-instruct"]
    assert not profile.serves("en", "ja")
    assert all(profile.serves(pair.source, pair.target) for pair in served_pairs(of_profile("tower-instruct")))


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
    for kind in ("dragoman", "vllm"):
        assert str(tmp_path) not in json.dumps(subject.describe(kind))
        assert subject.describe(kind)["model"] == "Some-Qwen3-4B"
    assert subject.lengths == {"uniform": (50, 50), "variable": (10, 200)}


def test_random_weights_have_forced_lengths_and_no_thinking_to_turn_off(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    dummy = make_subject(str(tmp_path), "qwen3", "dummy", None)
    assert dummy.forced == (0.8, 1.3)
    assert "default-chat-template-kwargs" not in dummy.vllm
    real = make_subject(str(tmp_path), "qwen3", "auto", None)
    assert real.forced is None
    assert json.loads(str(real.vllm["default-chat-template-kwargs"])) == {"enable_thinking": False}


def test_a_missing_folder_and_an_unknown_profile_are_config_errors() -> None:
    for model, profile in (("./absent", ""), ("", "absent")):
        with pytest.raises(ConfigError) as error:
            make_subject(model, profile, "auto", None)
        assert error.value.param == "model"
