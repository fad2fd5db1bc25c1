"""The manifests of ops/kubernetes: the API's own schemas, and that they fit each other, the image and the server.

The kinds of KEDA and KubeRay have no schema in a package; their pod templates do, and what the server reads of them is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from dragoman.deploy import config
from dragoman.settings import Settings, load
from tests.ops.dashboard import metrics_of
from tests.ops.tools import OPS
from tests.telemetry.metered import documented

FOLDER = OPS / "kubernetes"
CONTAINERFILE = (OPS.parent / "Containerfile").read_text(encoding="utf-8")
VERSIONS = ("1.30", "1.37")
"""Of Kubernetes: the oldest that the manifests are for, and the newest."""
OTHERS = {"ScaledObject", "RayService", "Kustomization"}
"""Kinds that are not Kubernetes' own."""
LABELS = {"app.kubernetes.io/name": "dragoman"}


def manifests() -> dict[str, dict[str, Any]]:
    """By kind and name; claims are several of one kind."""
    files = sorted(FOLDER.glob("*.yaml"))
    found = [one for file in files for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return {f"{one['kind']} {one.get('metadata', {}).get('name', '')}".strip(): one for one in found}


MANIFESTS = manifests()
DEPLOYMENT = MANIFESTS["Deployment dragoman"]
RAY = MANIFESTS["RayService dragoman"]["spec"]


def pod_specs() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Deployment", DEPLOYMENT["spec"]["template"]["spec"]
    cluster = RAY["rayClusterConfig"]
    yield "head", cluster["headGroupSpec"]["template"]["spec"]
    for group in cluster["workerGroupSpecs"]:
        yield group["groupName"], group["template"]["spec"]


PODS = dict(pod_specs())


def environment(pod: Mapping[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}


def mounted(pod: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the settings of a pod, with the files of its secrets in a folder instead of where they are mounted."""
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    found = {name: value for name, value in environment(pod).items() if name.startswith("DRAGOMAN_")}
    for mount in pod["containers"][0]["volumeMounts"]:
        if mount["name"] not in secrets:
            continue
        for key, text in MANIFESTS[f"Secret {secrets[mount['name']]}"]["stringData"].items():
            (folder / key).write_text(text)
        found = {name: value.replace(mount["mountPath"], str(folder)) for name, value in found.items()}
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [name for name in MANIFESTS if name.split()[0] not in OTHERS])
def test_the_api_s_schemas_accept_every_manifest(name: str, version: str) -> None:
    kubernetes_validate.validate(MANIFESTS[name], version, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_the_api_s_schemas_accept_every_pod(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dragoman"}, "spec": PODS[name]}
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pods_run_as_the_image_s_user_without_privileges_on_claims_that_exist(name: str) -> None:
    pod = PODS[name]
    (container,) = pod["containers"]
    user = re.search(r"USER (\d+):(\d+)", CONTAINERFILE)
    assert user is not None
    assert [pod["securityContext"][key] for key in ("runAsUser", "runAsGroup")] == [int(user[1]), int(user[2])]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert {"/models", "/var/lib/dragoman", "/var/cache/dragoman", "/dev/shm"} <= set(mounts)
    assert set(re.findall(r'"(/var/[^"]+)"', CONTAINERFILE)) <= set(mounts)
    for volume in volumes.values():
        if claim := volume.get("persistentVolumeClaim"):
            found = MANIFESTS[f"PersistentVolumeClaim {claim['claimName']}"]
            assert found["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_pod_has_one_gpu_and_settings_that_exist(tmp_path: Path) -> None:
    (container,) = PODS["Deployment"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    settings = load(environment=mounted(PODS["Deployment"], tmp_path), file=None).settings
    assert settings.storage.url.startswith("postgresql://")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": Settings().server.port, "operator": settings.server.operator_port}
    assert container["volumeMounts"][2]["mountPath"] == settings.traffic.folder


def test_a_pod_s_grace_period_is_longer_than_its_drain() -> None:
    pod = PODS["Deployment"]
    (container,) = pod["containers"]
    pause_s = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain_s = load(environment={"DRAGOMAN_SERVER_DRAIN_TIMEOUT_S": environment(pod)["DRAGOMAN_SERVER_DRAIN_TIMEOUT_S"]})
    assert pod["terminationGracePeriodSeconds"] >= pause_s + drain_s.settings.server.drain_timeout_s + config.STOP_S
    readiness = container["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < pause_s


def test_probes_let_the_server_load_its_model_and_restart_its_engine() -> None:
    (container,) = PODS["Deployment"]["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 20 * 60


def test_selectors_select_the_deployment_s_pods() -> None:
    assert DEPLOYMENT["spec"]["template"]["metadata"]["labels"] == LABELS
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == LABELS
    assert MANIFESTS["Service dragoman"]["spec"]["selector"] == LABELS
    assert MANIFESTS["PodDisruptionBudget dragoman"]["spec"]["selector"]["matchLabels"] == LABELS
    assert MANIFESTS["NetworkPolicy dragoman"]["spec"]["podSelector"]["matchLabels"] == LABELS
    operators = MANIFESTS["NetworkPolicy dragoman"]["spec"]["ingress"][1]
    assert operators["ports"] == [{"port": "operator"}]
    assert operators["from"]


def test_autoscaling_reads_a_metric_that_exists_and_bounds_what_one_pod_counts() -> None:
    scaled = MANIFESTS["ScaledObject dragoman"]["spec"]
    assert scaled["scaleTargetRef"] == {"name": DEPLOYMENT["metadata"]["name"]}
    assert "replicas" not in DEPLOYMENT["spec"]  # applying the manifest again must not undo the scaling
    assert 2 <= scaled["minReplicaCount"] < scaled["maxReplicaCount"]
    (trigger,) = scaled["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert metrics_of(trigger["metadata"]["query"]) <= documented().keys()
    most = re.search(r"clamp_max\(.*, (\d+)\)", trigger["metadata"]["query"])
    assert most is not None
    assert float(most[1]) == 2 * float(trigger["metadata"]["threshold"])


def test_the_kustomization_has_every_file_that_is_no_example_and_no_alternative() -> None:
    files = {file.name for file in FOLDER.glob("*.yaml")}
    listed = set(MANIFESTS["Kustomization"]["resources"])
    assert listed == files - {"kustomization.yaml", "secret.example.yaml", "rayservice.yaml"}


def test_ray_is_configured_as_dragoman_deploy_config_prints_it(tmp_path: Path) -> None:
    written = yaml.safe_load(RAY["serveConfigV2"])
    variables = {
        "DRAGOMAN_SERVER_REPLICAS": "2",
        "DRAGOMAN_MODEL_PATH": "/models/Hy-MT2-7B",
        "DRAGOMAN_LOG_FORMAT": "json",
    }
    variables |= mounted(PODS["gpu"], tmp_path)
    assert mounted(PODS["head"], tmp_path) == mounted(PODS["gpu"], tmp_path)
    settings = load(environment=variables, file=None).settings
    assert settings.storage.url.startswith("postgresql://")
    deployment = config.Deployment(
        replicas=2,
        num_cpus=2,
        num_gpus=1,
        several_hosts=True,
        autoscaling=config.autoscaling(2, 4, 90.0),
    )
    assert written == yaml.safe_load(config.serve_yaml(settings, deployment))
    for name in ("head", "gpu"):
        given = environment(PODS[name])
        for variable, value in config.ray_environment(settings).items():
            if variable not in {"RAY_AUTH_MODE", "RAY_SERVE_HAPROXY_MAXCONN"}:  # KubeRay's; the machine's
                assert given[variable] == value, variable
        assert given["RAY_SERVE_HAPROXY_BINARY_PATH"].endswith("/dragoman-haproxy")
    cluster = RAY["rayClusterConfig"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "0"
    (group,) = cluster["workerGroupSpecs"]
    scaling = written["applications"][0]["args"]["deployment"]["autoscaling"]
    assert (group["minReplicas"], group["maxReplicas"]) == (scaling["min_replicas"], scaling["max_replicas"])
    assert PODS["gpu"]["terminationGracePeriodSeconds"] >= config.graceful_shutdown_s(settings)
