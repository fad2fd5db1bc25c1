"""A checkpoint's configuration, in a folder and on the hub, without any network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from dragoman import phrasebook
from dragoman.engine import checkpoint
from dragoman.engine.spec import resolve
from dragoman.errors import ConfigError
from dragoman.settings import EngineSettings

CONFIG = {
    "max_position_embeddings": 4096,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception | None], None]:
    """Sets what the hub answers: the config, or an error."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    answers: list[Exception | None] = [None]

    def download(model: str, name: str) -> str:
        assert (model, name) == ("org/model", "config.json")
        if answers[0] is not None:
            raise answers[0]
        return str(file)

    def answer(error: Exception | None) -> None:
        answers[0] = error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    checkpoint._hub_config.cache_clear()
    return answer


def test_a_hub_id_gets_its_own_window_and_kv_bytes(hub: Callable[[Exception | None], None]) -> None:
    spec = resolve("org/model", EngineSettings(dtype="bfloat16"), "cpu")
    assert spec.engine.max_model_len == 4096
    assert spec.kv_bytes_per_token == 2 * 2 * 2 * 8 * 2  # keys and values, layers, heads, head size, bytes
    assert spec.engine.kv_cache_memory_bytes is not None


RESPONSE = httpx.Response(404, request=httpx.Request("GET", "https://hub.example/org/model"))


@pytest.mark.parametrize(
    "error",
    [
        LocalEntryNotFoundError("offline"),
        EntryNotFoundError("no file"),
        RepositoryNotFoundError("no repository", response=RESPONSE),
        GatedRepoError("gated", response=RESPONSE),
        httpx.ConnectError("refused"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_hub_that_gives_no_config_is_a_config_error_in_one_line(
    hub: Callable[[Exception | None], None], error: Exception
) -> None:
    hub(error)
    with pytest.raises(ConfigError) as refusal:
        checkpoint.read_config("org/model")
    assert (refusal.value.param, "\n" in refusal.value.message) == ("model.path", False)
    assert "org/model" in refusal.value.message


@pytest.mark.parametrize("model", ["/no/such/folder", "./models/none", "a/b/c"])
def test_what_is_neither_a_folder_nor_a_hub_id_is_refused(model: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        checkpoint.read_config(model)
    assert refusal.value.param == "model.path"


def test_a_folder_is_read_and_a_broken_config_refused(tmp_path: Path) -> None:
    assert checkpoint.read_config(str(tmp_path)) == {}
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json"):
        checkpoint.read_config(str(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"config\.json"):
        checkpoint.read_config(str(tmp_path))


def test_windows_and_sizes() -> None:
    assert checkpoint.window({"max_position_embeddings": 131072}) == checkpoint.LONGEST_DEFAULT_WINDOW
    assert checkpoint.window({"text_config": {"max_position_embeddings": 2048}}) == 2048
    assert checkpoint.window({}) == checkpoint.LONGEST_DEFAULT_WINDOW
    assert checkpoint.kv_bytes_per_token({}, "float32") is None
    assert checkpoint.kv_bytes_per_token(CONFIG, "float32") == 2 * (checkpoint.kv_bytes_per_token(CONFIG, "auto") or 0)


def test_parameters_come_from_the_weight_files_or_the_config_s_shapes() -> None:
    model = str(phrasebook.model_dir())
    config = checkpoint.read_config(model)
    from_files, from_shapes = checkpoint.parameters(model, config), checkpoint.parameters("org/model", config)
    assert from_files is not None
    assert from_shapes is not None
    assert from_shapes == pytest.approx(from_files, rel=0.1)
    assert checkpoint.parameters("org/model", {}) is None
