"""Secrets in files that variables name: settings, and keys of the commands that call a server."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dragoman.cli.client import KEY_VARIABLE
from dragoman.errors import ConfigError
from dragoman.secretfile import MAX_BYTES, read_secret
from dragoman.settings import Option, load, options
from dragoman_bench.cli.options import KEY_VARIABLE as BENCH_KEY_VARIABLE
from dragoman_bench.cli.options import api_key_option

DOCS = Path(__file__).parents[1] / "docs"
SECRETS = [option for option in options().values() if option.secret]
URL = "postgresql://u:ge heim@db/x"


def variable(option: Option) -> str:
    return f"DRAGOMAN_{option.section}_{option.key}".upper()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("option", SECRETS, ids=lambda option: option.path)
def test_a_secret_setting_is_read_from_a_file_without_its_last_end_of_line(
    tmp_path: Path, option: Option, end: str
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(f"{URL}{end}".encode())
    loaded = load(environment={f"{variable(option)}_FILE": str(file)})
    assert getattr(getattr(loaded.settings, option.section), option.key) == URL
    assert loaded.origins[option.path] == f"environment {variable(option)}_FILE"


def test_only_one_end_of_line_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" a \n\n")
    assert read_secret({"X_FILE": str(file)}, "X") == " a \n"


def test_settings_that_end_in_file_are_no_secrets_in_files(tmp_path: Path) -> None:
    files = {path: option for path, option in options().items() if option.key.endswith("_file")}
    assert {"model.profile_file", "log.engine_file"} <= files.keys()
    for path, option in files.items():
        loaded = load(environment={variable(option): "a.toml"})
        assert getattr(getattr(loaded.settings, option.section), option.key) == "a.toml", path
    assert not {f"{option.path}_file" for option in SECRETS} & options().keys()
    with pytest.raises(ConfigError, match="unknown setting DRAGOMAN_MODEL_PATH_FILE"):
        load(environment={"DRAGOMAN_MODEL_PATH_FILE": str(tmp_path)})


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"x" * (MAX_BYTES + 1)])
def test_a_file_that_has_no_secret_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        load(environment={"DRAGOMAN_STORAGE_URL_FILE": str(file)})
    assert "DRAGOMAN_STORAGE_URL_FILE" in refusal.value.message and str(file) in refusal.value.message
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize("path", ["", "\0", "/"])
def test_a_path_that_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="X_FILE"):
        read_secret({"X_FILE": path}, "X")


@pytest.mark.parametrize("direct", ["postgresql://geheim", ""])
def test_a_variable_beside_its_file_is_refused_without_the_secret(tmp_path: Path, direct: str) -> None:
    file = tmp_path / "secret"
    file.write_text(URL)
    with pytest.raises(ConfigError) as refusal:
        load(environment={"DRAGOMAN_STORAGE_URL": direct, "DRAGOMAN_STORAGE_URL_FILE": str(file)})
    assert "DRAGOMAN_STORAGE_URL and DRAGOMAN_STORAGE_URL_FILE" in refusal.value.message
    assert "geheim" not in refusal.value.message


def test_an_error_about_a_secret_does_not_show_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("postgresql://u:geheim@db/x\nmore")
    with pytest.raises(ConfigError) as refusal:
        load(environment={"DRAGOMAN_STORAGE_URL_FILE": str(file)})
    assert "storage.url" in refusal.value.message and "geheim" not in refusal.value.message


def test_a_flag_comes_before_the_file_of_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(URL)
    loaded = load(flags={"storage.url": ""}, environment={"DRAGOMAN_STORAGE_URL_FILE": str(file)})
    assert loaded.settings.storage.url == ""


@pytest.mark.parametrize("set_file", [False, True])
def test_commands_of_the_bench_read_their_key(tmp_path: Path, set_file: bool) -> None:
    @click.command()
    @api_key_option("A key.")
    def command(api_key: str | None) -> None:
        click.echo(api_key)

    file = tmp_path / "secret"
    file.write_text("from-file\n")
    environment = {f"{BENCH_KEY_VARIABLE}_FILE": str(file)} if set_file else {BENCH_KEY_VARIABLE: "direct"}
    assert CliRunner().invoke(command, env=environment).output == ("from-file\n" if set_file else "direct\n")
    assert CliRunner().invoke(command, ["--api-key", "flag"], env=environment).output == "flag\n"


def test_the_documentation_lists_every_secret() -> None:
    documented = set(
        re.findall(r"^\| `(DRAGOMAN_\w+_FILE)` \|", (DOCS / "operating.md").read_text(encoding="utf-8"), re.M)
    )
    assert documented == {f"{name}_FILE" for name in (*map(variable, SECRETS), KEY_VARIABLE, BENCH_KEY_VARIABLE)}
