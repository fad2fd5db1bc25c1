"""How long a server takes until it is ready, by phase, and after its engine is killed: several versions or ways side by side.

    python benchmarks/startup.py --way now=src --way "spawned=src --no-fork-server" --way before=../old/src --runs 3 --out FILE

A way is a name, the folder of the source to run, and flags of `dragoman serve`; with the folder `vllm` it is `vllm serve`, with
vLLM's flags. `--uncompiled NAME` runs a way as in an environment that has never written Python's compiled modules and may not
(PYTHONDONTWRITEBYTECODE). The ways run in turn, `--runs` times; with `--empty` each way's first run finds empty caches of
compiled models. Rates beside it: texts a second over `--clients` after each start, so that a quick start is not a slow engine.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import click
import httpx
import psutil

from dragoman.cli.console import error_console
from dragoman.gpu import find_gpus
from dragoman_bench.bench.results import describe_machine, git_commit, installed_packages

POLL_S = 0.02
START_S = 300.0


@dataclass(frozen=True, slots=True)
class Way:
    """What is started, and how."""

    name: str
    source: str  # a folder; or `vllm`
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Way:
        name, _, rest = text.partition("=")
        source, *flags = shlex.split(rest)
        source = source if source == "vllm" else str(Path(source).resolve())
        return cls(name, source, tuple(flags))


@dataclass(slots=True)
class Start:
    """One start of one way. Times in seconds; `killed`: from the engine's end until the server was ready again."""

    way: str
    caches: str  # of compiled models: `empty` or `kept`
    ready_s: float = 0.0
    phases: list[dict[str, Any]] = field(default_factory=list)
    killed_s: list[float] = field(default_factory=list)
    killed_phases: list[list[dict[str, Any]]] = field(default_factory=list)
    texts_per_s: float | None = None


class Server:
    """A server of a way, in a folder of its own."""

    def __init__(self, way: Way, model: str, folder: Path, environment: dict[str, str]) -> None:
        self._way = way
        self._folder = folder
        port = free_port()
        if way.source == "vllm":
            self._program = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model]
            self._ready = "/health"
        else:
            self._program = [sys.executable, "-m", "dragoman.cli.main", "serve", *(["--model", model] if model else [])]
            self._ready = "/readyz"
            environment = environment | {"PYTHONPATH": os.pathsep.join((way.source, os.environ.get("PYTHONPATH", "")))}
        self._program += [*way.flags, "--port", str(port)]
        self._environment = {**os.environ, **environment}
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START_S)

    def __enter__(self) -> Server:
        self._log = (self._folder / "log").open("w")
        self._process = subprocess.Popen(
            self._program, cwd=self._folder, env=self._environment, stdout=self._log, stderr=self._log
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._client.close()
        self._log.close()

    def until_ready(self, wanted: bool = True) -> None:
        """Return once it is, or is no longer. Raises `SystemExit` with its output where it ends."""
        while self._is_ready() != wanted:
            if self._process.poll() is not None:
                raise SystemExit(f"{self._way.name} ended: {(self._folder / 'log').read_text()[-2000:]}")
            sleep(POLL_S)

    def _is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return self._client.get(self._ready).status_code == 200
        return False

    def phases(self) -> list[dict[str, Any]]:
        """Those of the last start of its engine; empty for vLLM."""
        if self._way.source == "vllm":
            return []
        stats = self._client.get("/v1/stats").json()
        return stats["engine"]["startup"] if "engine" in stats else stats["startup"]  # as it was before

    def kill_engine(self) -> None:
        below = psutil.Process(self._process.pid).children(recursive=True)
        [core] = [one for one in below if one.cmdline() and "VLLM::EngineCore" in one.cmdline()[0]]
        core.kill()

    def rate(self, clients: int, duration_s: float) -> float:
        """Texts a second in a closed loop, each text a new one."""
        end_s = monotonic() + duration_s

        def client(number: int) -> int:
            done = 0
            while monotonic() < end_s:
                text = (
                    f"The train to platform {number} leaves at {done % 12} o'clock, {done} minutes later than planned."
                )
                self._client.post(
                    "/v1/translate", json={"text": text, "source": "en", "target": "ja"}
                ).raise_for_status()
                done += 1
            return done

        with ThreadPoolExecutor(clients) as pool:
            return sum(pool.map(client, range(clients))) / duration_s


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def seconds(work: Callable[[], object]) -> float:
    began_s = monotonic()
    work()
    return round(monotonic() - began_s, 2)


def import_s(environment: dict[str, str]) -> float:
    """What one process takes to import vLLM alone."""
    command = [sys.executable, "-c", "import vllm.v1.engine.async_llm"]
    return seconds(lambda: subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True))


def measured(
    way: Way, model: str, environment: dict[str, str], caches: str, kills: int, rate: tuple[int, float]
) -> Start:
    start = Start(way.name, caches)
    with tempfile.TemporaryDirectory() as folder:
        began_s = monotonic()
        with Server(way, model, Path(folder), environment) as server:
            server.until_ready()
            start.ready_s = round(monotonic() - began_s, 2)
            start.phases = server.phases()
            if rate[1] and way.source != "vllm":
                server.rate(rate[0], rate[1] / 4)
                start.texts_per_s = round(server.rate(*rate), 1)
            for _ in range(kills):

                def killed(server: Server = server) -> None:
                    server.kill_engine()
                    server.until_ready(False)
                    server.until_ready()

                start.killed_s.append(seconds(killed))
                start.killed_phases.append(server.phases())
    return start


@click.command()
@click.option("--way", "ways", multiple=True, required=True, help="NAME=FOLDER [FLAGS]; FOLDER vllm: vllm serve.")
@click.option("--uncompiled", multiple=True, help="Ways that find no compiled modules of Python's, and write none.")
@click.option("--model", default="", help="Default: the packaged one.")
@click.option("--runs", default=3)
@click.option("--empty", is_flag=True, help="A first run with empty caches of compiled models for each way.")
@click.option("--kills", default=1, help="How often the engine is killed after each start.")
@click.option("--clients", default=25)
@click.option("--duration", "duration_s", default=0.0, help="Seconds of load after each start; 0: none.")
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(
    ways: tuple[str, ...], uncompiled: tuple[str, ...], model: str, runs: int, empty: bool, kills: int, clients: int,
    duration_s: float, out: Path,
) -> None:  # fmt: skip
    """Start servers in turn, and write what each took."""
    all_ways, starts, imports = [Way.of(text) for text in ways], list[Start](), dict[str, list[float]]()
    kept, nothing = tempfile.mkdtemp(), {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": tempfile.mkdtemp()}
    for run in range(runs + empty):
        for way in all_ways:
            environment = nothing if way.name in uncompiled else {}
            if empty:
                root = f"{kept}/{way.name}"
                environment |= {"VLLM_CACHE_ROOT": f"{root}/vllm", "TRITON_CACHE_DIR": f"{root}/triton"}
                environment["TORCHINDUCTOR_CACHE_DIR"] = f"{root}/inductor"
            caches = "empty" if empty and not run else "kept"
            name = "uncompiled" if way.name in uncompiled else "compiled"
            if len(imports.setdefault(name, [])) <= run:
                imports[name].append(import_s(environment))
            kills_now = kills if way.source != "vllm" and caches == "kept" else 0
            starts.append(measured(way, model, environment, caches, kills_now, (clients, duration_s)))
            error_console.print(f"{asdict(starts[-1])}", markup=False, highlight=False)
            document = {
                "made": datetime.now(UTC).isoformat(timespec="seconds"),
                "commit": git_commit(),
                "machine": asdict(describe_machine(gpus.describe() if (gpus := find_gpus()) else ())),
                "packages": installed_packages(),
                "ways": {one.name: [one.source if one.source == "vllm" else "source", *one.flags] for one in all_ways},
                "uncompiled": list(uncompiled),
                "import_s": imports,
                "starts": [asdict(one) for one in starts],
            }
            out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
