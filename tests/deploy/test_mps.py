"""The life of MPS's daemon and of the engines under it, over a stand-in of NVIDIA's program, on machines without a GPU."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dragoman.deploy import mps
from dragoman.deploy.mps import MpsDaemon, MpsRefused
from dragoman.sharedgpu import CONTROL, SharedGpu
from tests.outliving import started
from tests.processes import ROOT
from tests.waiting import until

STAND_IN = Path(__file__).with_name("mps_stand_in.py")
Engine = subprocess.Popen[bytes]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in as the program on the path."""
    program = tmp_path / "bin" / CONTROL
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return program


@pytest.fixture
def gpu(tmp_path: Path) -> SharedGpu:
    return SharedGpu(tmp_path / "0")


@pytest.fixture
def daemon(installed: Path, gpu: SharedGpu) -> Iterator[MpsDaemon]:
    daemon = MpsDaemon(gpu, "0", try_client=lambda *_: "")
    daemon.start()
    yield daemon
    daemon.end()


@pytest.fixture
def engine(gpu: SharedGpu) -> Iterator[Callable[[], Engine]]:
    """Starts processes that the GPU's engines are taken to be."""
    running: list[Engine] = []

    def start() -> Engine:
        running.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        gpu.enter([psutil.Process(running[-1].pid)])
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.wait()


def test_mps_is_used_where_it_is_installed_unless_it_is_off(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mps.why_not("auto") == ""
    assert mps.why_not("off") == "server.mps is off"
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "not installed" in mps.why_not("auto")


def test_engines_without_a_daemon_share_the_gpu_and_nothing_else(gpu: SharedGpu) -> None:
    assert gpu.environment() == {"SHARED_GPU_FOLDER": str(gpu.folder)}
    gpu.report_broken(gpu.daemon())
    assert not gpu.is_broken()
    assert gpu.servers() == []


def test_a_daemon_ends_with_its_server(daemon: MpsDaemon, gpu: SharedGpu) -> None:
    assert gpu.environment()["CUDA_MPS_PIPE_DIRECTORY"] == str(gpu.pipe)
    control, server = pids(gpu)
    assert gpu.servers() == [server]
    daemon.end()
    assert not psutil.pid_exists(control)
    assert not psutil.pid_exists(server)
    assert (gpu.pipe / "quit").exists()  # it was asked before


@pytest.mark.parametrize("reason", ["does not answer", "no client"])
def test_what_refuses_clients_is_not_used(installed: Path, gpu: SharedGpu, reason: str) -> None:
    if reason == "does not answer":
        installed.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(MpsRefused, match=reason):
        MpsDaemon(gpu, "0", try_client=lambda *_: "no client").start()
    assert gpu.daemon() is None


def test_a_client_is_one_of_cuda(installed: Path, gpu: SharedGpu) -> None:
    """On a machine without NVIDIA's driver the real check says so."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    assert "libcuda" in mps.try_client(gpu, "0")


REFUSED = """
import sys
from dragoman.deploy import config, local
from dragoman.settings import ServerSettings, Settings
from tests.deploy.test_mps import stand_ins

run = local.Run(Settings(server=ServerSettings(port=0, replicas=sys.argv[1])), config.shared_deployment(1, 2))
run.start_mps()
print(run.deployment.replicas, run.deployment.num_gpus, len(stand_ins()))
run.end()
print(run.folder.exists())
"""


def stand_ins() -> list[psutil.Process]:
    """Those that this process has started and that run."""
    running = [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    return [one for one in running if "mps_stand_in.py" in one.cmdline()]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("wanted", "replicas", "of_a_gpu"), [("auto", 1, 1), ("2/gpu", 2, 0.5)])
def test_where_mps_is_refused_auto_has_one_engine_and_others_compute_in_turn(
    wanted: str, replicas: int, of_a_gpu: float
) -> None:
    """In a process of its own, as a run's end is the end of all processes below the one that began it."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    command = subprocess.run(
        [sys.executable, "-c", REFUSED, wanted], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert command.stdout == f"{replicas} {of_a_gpu} 0\nFalse\n"
    assert "without CUDA MPS: it cannot be used here" in command.stderr


@pytest.mark.parametrize("dies", ["an engine", "the daemon"])
async def test_after_a_foreign_kill_the_daemon_and_all_engines_are_replaced(
    daemon: MpsDaemon, gpu: SharedGpu, engine: Callable[[], Engine], dies: str
) -> None:
    killed, neighbour = engine(), engine()
    before = pids(gpu)
    psutil.Process(killed.pid if dies == "an engine" else before[0]).send_signal(signal.SIGKILL)
    await until(lambda: gpu.daemon() == 2, "another daemon")
    assert neighbour.poll() is not None
    assert (killed.poll() is not None) and not any(map(psutil.pid_exists, before))
    async with gpu.turn() as number:
        assert number == 2
    engine()
    assert len(gpu.engines()[0]) == 1
    assert gpu.engines()[1] == []


async def test_an_engine_that_leaves_is_terminated_and_harms_no_neighbour(
    daemon: MpsDaemon, gpu: SharedGpu, engine: Callable[[], Engine]
) -> None:
    leaving, neighbour = engine(), engine()
    (gpu.pipe / "clients").write_text(f"{leaving.pid}\n{neighbour.pid}\n")
    await asyncio.to_thread(gpu.leave, [psutil.Process(leaving.pid)])
    assert (gpu.pipe / "terminated").read_text().split() == [str(leaving.pid)]
    leaving.kill()
    leaving.wait()
    gpu.report_broken(0)  # of a daemon before this one: late, and nothing to do
    assert [one.pid for one in gpu.engines()[0]] == [neighbour.pid]
    assert gpu.engines()[1] == []
    assert not gpu.is_broken()
    assert gpu.daemon() == 1


async def test_an_engine_that_starts_waits_for_its_turn_and_for_a_daemon_that_is_not_broken(gpu: SharedGpu) -> None:
    gpu.begin_daemon(1)
    second = asyncio.Event()

    async def start() -> int | None:
        async with SharedGpu(gpu.folder).turn() as number:
            second.set()
            return number

    async with gpu.turn():
        waiting = asyncio.create_task(start())
        gpu.report_broken(1)
    async with asyncio.timeout(30):
        await until(lambda: _is_locked(gpu), "the second turn")
        assert not second.is_set()
        gpu.begin_daemon(2)
        assert await waiting == 2


async def test_without_another_daemon_the_engines_run_without(
    installed: Path, daemon: MpsDaemon, gpu: SharedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mps, "QUIT_S", 0.05)
    installed.write_text("#!/bin/sh\nexit 1\n")
    psutil.Process(pids(gpu)[0]).kill()
    async with asyncio.timeout(60):
        await until(lambda: gpu.daemon() != 1, "that it gives up")
    assert not gpu.is_broken()


async def test_a_daemon_ends_with_its_command_however_that_ends(
    installed: Path, gpu: SharedGpu, tmp_path: Path
) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom dragoman.deploy.mps import MpsDaemon\n"
        "from dragoman.guard import Guard\nfrom dragoman.sharedgpu import SharedGpu\n"
        "guard = Guard()\nMpsDaemon(SharedGpu(Path(sys.argv[1])), '0', lambda *_: '').start()\ntime.sleep(600)\n"
    )
    with started([sys.executable, "-c", program, str(gpu.folder)], tmp_path) as command:
        await until(lambda: gpu.daemon() == 1, "a daemon")
        control, server = pids(gpu)
        command.process.send_signal(signal.SIGKILL)
        await until(lambda: not psutil.pid_exists(control) and not psutil.pid_exists(server), "their end")


def pids(gpu: SharedGpu) -> tuple[int, int]:
    """The daemon and its server."""
    control, server = map(int, (gpu.pipe / "pids").read_text().split())
    return control, server


def _is_locked(gpu: SharedGpu) -> bool:
    done = subprocess.run(["flock", "--nonblock", str(gpu.folder / "turn"), "true"], check=False)
    return done.returncode != 0
