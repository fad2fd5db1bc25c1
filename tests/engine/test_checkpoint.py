"""A checkpoint's configuration, in a folder and on the hub, without any network."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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
from tests.waiting import HANG_S

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

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *_, **__: None)
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


@pytest.fixture
def connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """A hub that closes each connection; the list has one entry for each."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[object] = []

    def close_each() -> None:
        with suppress(OSError):
            while True:
                connection, peer = listener.accept()
                accepted.append(peer)
                connection.close()

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    thread = Thread(target=close_each)
    thread.start()
    checkpoint._hub_config.cache_clear()
    yield accepted
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_hub_that_does_not_answer_is_asked_once(connections: list[object]) -> None:
    with pytest.raises(ConfigError, match="cannot be reached"):
        checkpoint.read_config("org/model")
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ((), "config.json"),
        (("adapter_config.json", "adapter_model.safetensors"), "LoRA"),
        (("model-Q4.gguf",), "GGUF"),
        (("main/config.json",), "main"),
    ],
)
def test_a_folder_without_a_model_is_named_as_what_it_is(tmp_path: Path, files: Sequence[str], named: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError) as refusal:
        checkpoint.read_config(str(tmp_path))
    assert named in refusal.value.message and refusal.value.param == "model.path"


@pytest.mark.parametrize("name", ["model.gguf", "model.safetensors"])
def test_a_file_is_not_said_to_be_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ConfigError) as refusal:
        checkpoint.read_config(str(tmp_path / name))
    assert "no such" not in refusal.value.message and "file" in refusal.value.message


def test_what_is_no_model_is_reported_before_libraries_are_imported(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['transformers'] = sys.modules['vllm'] = None\n"  # importing them fails
        "from dragoman.cli.main import main\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "serve", "--pipeline", "fake", "--model", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "config.json" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / ".dragoman").exists()


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def small_hub() -> Iterator[tuple[str, list[str]]]:
    """The address of a hub of one model, `org/model`: the packaged one, whose weights nobody gets; and what it was asked."""
    files = {file.name: file.read_bytes() for file in phrasebook.model_dir().iterdir() if file.suffix == ".json"}
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            name = self.path.rpartition("/")[2]
            tree = [{"type": "file", "path": one, "size": 1, "oid": one} for one in (*files, "model.safetensors")]
            siblings = [{"rfilename": one["path"]} for one in tree]
            found = tree if "/tree/" in self.path else {"id": "org/model", "sha": COMMIT, "siblings": siblings}
            body = json.dumps(found).encode() if self.path.startswith("/api/") else files.get(name)
            self.send_response(404 if body is None else 200)
            for header, value in (
                ("Content-Length", len(body or b"")),
                ("X-Repo-Commit", COMMIT),
                ("ETag", f'"{name}"'),
            ):
                self.send_header(header, str(value))
            self.end_headers()
            if self.command == "GET" and body is not None:
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_of_a_hub_id_the_files_of_its_prompts_are_downloaded_once(
    small_hub: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, asked = small_hub
    program = "from dragoman.engine.checkpoint import prompt_files; print(prompt_files('org/model'))"

    def prompt_files(**variables: str) -> Path:
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        environment = kept | {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path)} | variables
        command = [sys.executable, "-c", program]
        return Path(subprocess.check_output(command, env=environment, text=True, timeout=HANG_S).strip())

    folder = prompt_files(HF_HUB_OFFLINE="0")
    own = phrasebook.model_dir() / "tokenizer.json"
    assert folder.name == COMMIT
    assert (folder / "tokenizer.json").read_bytes() == own.read_bytes()
    assert asked and not any("safetensors" in path for path in asked)
    asked.clear()
    assert prompt_files(HF_HUB_OFFLINE="1") == folder
    assert asked == []
