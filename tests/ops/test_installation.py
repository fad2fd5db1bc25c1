"""The image, compose.yaml and the systemd unit name settings that exist, and fit what the server does when it stops."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dragoman.settings import Settings, load
from tests.ops.tools import OPS

ROOT = OPS.parent
UNIT = OPS / "systemd" / "dragoman.service"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
DRAIN_S = Settings().server.drain_timeout_s


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def test_variables_of_all_ways_to_install_are_settings() -> None:
    image = dict(re.findall(r"(DRAGOMAN_\w+)=(\S+)", (ROOT / "Containerfile").read_text(encoding="utf-8")))
    example = (OPS / "systemd" / "environment.example").read_text(encoding="utf-8")
    service = dict(re.findall(r"^(?:# )?(DRAGOMAN_\w+)=(.*)$", example, re.MULTILINE))
    assert service.pop("DRAGOMAN_STORAGE_URL_FILE")  # of this machine there is none
    compose = {name: "" if value.startswith("${") else value for name, value in environment().items()}
    for variables in (image, service, compose):
        loaded = load(environment=variables, file=None)
        assert any(origin.startswith("environment") for origin in loaded.origins.values())
    assert load(environment=image).settings.server.host == "0.0.0.0"


def environment() -> dict[str, str]:
    variables: dict[str, str] = COMPOSE["services"]["dragoman"]["environment"]
    return {name: value for name, value in variables.items() if name.startswith("DRAGOMAN_")}


def test_compose_with_postgresql_reads_its_address_from_a_secret(tmp_path: Path) -> None:
    override = yaml.safe_load((OPS / "compose" / "postgres.yaml").read_text(encoding="utf-8"))
    service = override["services"]["dragoman"]
    (secret,) = service["secrets"]
    assert secret in override["secrets"]
    file = tmp_path / secret
    file.write_text("postgresql://u:p@db/x\n")
    variables = {name: value.replace("/run/secrets", str(tmp_path)) for name, value in service["environment"].items()}
    assert load(environment=variables, file=None).settings.storage.url == "postgresql://u:p@db/x"


def test_supervisors_wait_longer_than_the_server_drains_and_do_not_restart_a_wrong_configuration() -> None:
    assert float(unit("TimeoutStopSec")[0]) > DRAIN_S
    assert float(COMPOSE["services"]["dragoman"]["stop_grace_period"].removesuffix("s")) > DRAIN_S
    assert unit("KillMode") == ["mixed"]
    assert unit("RestartPreventExitStatus") == ["2"]
    assert "-HUP" in unit("ExecReload")[0]


def test_files_that_compose_mounts_exist() -> None:
    mounted = {
        mount.split(":")[0]
        for service in COMPOSE["services"].values()
        for mount in service["volumes"]
        if mount.startswith("./")
    }
    assert len(mounted) == 5
    assert all((ROOT / path).exists() for path in mounted)
    (scrape,) = yaml.safe_load((OPS / "compose" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert scrape["job_name"] == "dragoman"
    port = environment()["DRAGOMAN_SERVER_OPERATOR_PORT"]
    assert scrape["static_configs"] == [{"targets": [f"dragoman:{port}"]}]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/opt/dragoman/bin/dragoman", "/bin/true")
    (tmp_path / "dragoman.service").write_text(text)
    command = ["systemd-analyze", "verify", str(tmp_path / "dragoman.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
