from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.errors import ConfigError
from dragoman.settings import REMOVED, flag_of, load, options


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "dragoman.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_later_sources_win_and_are_remembered(tmp_path: Path) -> None:
    file = written(tmp_path, "[engine]\nmax_num_seqs = 8\nmax_num_batched_tokens = 512\n[server]\nport = 1\n")
    environment = {"DRAGOMAN_ENGINE_MAX_NUM_SEQS": "16", "DRAGOMAN_SERVER_PORT": "2", "HOME": "/"}
    loaded = load(file, {"server.port": "3"}, environment)
    assert loaded.settings.engine.max_num_batched_tokens == 512
    assert loaded.settings.engine.max_num_seqs == 16
    assert loaded.settings.server.port == 3
    assert loaded.origins["engine.max_num_batched_tokens"] == str(file)
    assert loaded.origins["engine.max_num_seqs"] == "environment DRAGOMAN_ENGINE_MAX_NUM_SEQS"
    assert loaded.origins["server.port"] == "--port"
    assert loaded.origins["server.host"] == "default"


def test_errors_name_the_flags_that_the_commands_have() -> None:
    for path, name in (
        ("auth.refresh_s", "--auth-refresh-s"),
        ("model.name", "--model-name"),
        ("cache.file", "--cache-file"),
    ):
        assert load(None, {path: "1"}, {}).origins[path] == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[engine]\nmax_num_seq = 8\n", "did you mean engine.max_num_seqs?"),
        ("[engin]\nseed = 8\n", "did you mean engine?"),
        ("engine = 3\n", "must be a table"),
        ("[engine]\nmax_num_seqs = 0\n", "engine.max_num_seqs = 0"),
        ('[engine]\ndtype = "int3"\n', "engine.dtype = 'int3'"),
        ("[engine\n", "cannot be read"),
        ('[server]\nhost = "a\\u0000b"\n', "server.host"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(written(tmp_path, text), environment={})
    assert message in refusal.value.message
    assert "\n" not in refusal.value.message


def test_a_missing_file_and_an_unknown_variable_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "none.toml", environment={})
    with pytest.raises(ConfigError, match="did you mean DRAGOMAN_SERVER_PORT"):
        load(environment={"DRAGOMAN_SERVER_PROT": "1"})


def test_an_error_names_the_flag_that_was_given() -> None:
    for path, flag in (("auth.refresh_s", "--auth-refresh-s"), ("engine.max_num_seqs", "--max-num-seqs")):
        with pytest.raises(ConfigError) as refusal:
            load(flags={path: "0"}, environment={})
        assert f"({flag})" in refusal.value.message


@pytest.mark.parametrize("path", REMOVED)
@pytest.mark.parametrize("source", ["flag", "variable", "file"])
def test_a_removed_setting_is_named_as_removed_wherever_it_is_set(
    path: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section, key = path.split(".")
    file = written(tmp_path, f"[{section}]\n{key} = 1\n")
    arguments = {"flag": [flag_of(path), "1"], "file": ["--config", str(file)], "variable": []}
    if source == "variable":
        monkeypatch.setenv(f"DRAGOMAN_{section}_{key}".upper(), "1")
    monkeypatch.setattr(sys, "argv", ["dragoman", "config", "show", *arguments[source]])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err
    assert end.value.code == 2
    assert error.count("\n") == 1
    assert f"{path} " in error and "removed" in error
    assert path not in options()


def test_variables_of_the_bench_and_of_the_tests_are_not_settings() -> None:
    environment = {
        "DRAGOMAN_BENCH_API_KEY": "secret",
        "DRAGOMAN_TEST_MODEL": "/models/m",
        "DRAGOMAN_TEST_LOAD_FORMAT": "dummy",
    }
    assert set(load(environment=environment).origins.values()) == {"default"}


def test_every_setting_says_what_it_is_for() -> None:
    assert all(option.help for option in options().values())


def test_none_is_the_default_or_a_value_of_the_setting() -> None:
    known = options()
    assert known["auth.mode"].parse("none", "flag") == "none"
    assert known["engine.max_num_seqs"].parse("none", "flag") is None
    assert known["engine.quantization"].parse("none", "flag") is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 MiB", 64 * 2**20),
        ("64MiB", 64 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("1_000 kB", 1_000_000),
        ("2 GB", 2_000_000_000),
        ("1 TB", 10**12),
        (" 4096 B ", 4096),
        ("4096", 4096),
        (4096, 4096),
    ],
)
def test_sizes_may_have_a_unit(tmp_path: Path, text: str | int, size: int) -> None:
    sized = [option for option in options().values() if option.key.endswith("_bytes")]
    assert sized
    for option in sized:
        if size >= 2**28 or option.path == "cache.max_bytes":  # above every lower bound
            assert option.parse(text, "flag") == size, option.path
    file = written(tmp_path, f"[cache]\nmax_bytes = {text!r}\n")
    assert load(file, environment={}).settings.cache.max_bytes == size


@pytest.mark.parametrize(
    "text", ["64 MiBs", "MiB", "-1 MiB", "1 MiB 2", "1e3 MiB", "0.3 B", "1..5 GB", "64 Mb", "64 m", "1 XB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"cache\.max_bytes"):
        load(flags={"cache.max_bytes": text}, environment={})


def test_units_are_of_sizes_alone() -> None:
    with pytest.raises(ConfigError, match=r"engine\.max_num_seqs"):
        load(flags={"engine.max_num_seqs": "64 kB"}, environment={})


def test_all_mistakes_are_reported_at_once_in_one_line(tmp_path: Path) -> None:
    file = written(tmp_path, "[engine]\nmax_num_seq = 8\ndtype = 'int3'\n[engin]\nx = 1\n")
    environment = {"DRAGOMAN_SERVER_PROT": "1", "DRAGOMAN_STORAGE_URL_FILE": "/nowhere/at/all"}
    with pytest.raises(ConfigError) as refusal:
        load(file, {"server.port": "x", "engine.seed": "1"}, environment)
    message = refusal.value.message
    wrong = (
        "engine.max_num_seq ",
        "engine.dtype",
        "engin ",
        "DRAGOMAN_SERVER_PROT",
        "/nowhere/at/all",
        "server.port",
        "engine.seed",
    )
    assert message.startswith(f"{len(wrong)} settings are wrong")
    assert all(one in message for one in wrong), message
    assert "\n" not in message
