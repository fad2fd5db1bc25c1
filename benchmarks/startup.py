"""How long a server takes until it is ready, by phase, and after its engine is killed: several versions or ways side by side.

    python benchmarks/startup.py --way now=src --way "spawned=src --no-fork-server" --way before=../old/src --runs 3 --out FILE

A way is a name, the folder of the source to run, and flags of `dragoman serve`; with the folder `vllm` it is `vllm serve`, with
vLLM's flags. `--uncompiled NAME` runs a way as in an environment that has never written Python's compiled modules and may not
(PYTHONDONTWRITEBYTECODE). The ways run in turn, `--runs` times; with `--empty` each way's first run finds empty caches of
compiled models. Rates beside it: texts a second over `--clients` after each start, so that a quick start is not a slow engine.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import click

from dragoman.cli.console import error_console
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.servers import RunningServer, ServerCommand, dragoman_serve, serving, vllm_serve

POLL_S = 0.02


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


class Client:
    """What is asked of a server that is ready."""

    def __init__(self, server: RunningServer, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def phases(self) -> list[dict[str, Any]]:
        """Those of the last start of its engine."""
        async with self._session.get(f"{self._server.url}/v1/stats") as answer:
            stats = await answer.json()
        return stats["engine"]["startup"] if "engine" in stats else stats["startup"]  # as it was before

    async def killed_s(self) -> float:
        """How long it takes until it is ready again, after its engine was killed."""
        [core] = [one for one in self._server.tree() if one.cmdline() and "VLLM::EngineCore" in one.cmdline()[0]]
        began_s = monotonic()
        core.kill()
        while await self._is_ready():  # noqa: ASYNC110 (the state is in another process)
            await asyncio.sleep(POLL_S)
        while not await self._is_ready():
            self._server.check_alive()
            await asyncio.sleep(POLL_S)
        return round(monotonic() - began_s, 2)

    async def _is_ready(self) -> bool:
        async with self._session.get(f"{self._server.url}{self._server.command.ready_path}") as answer:
            return answer.status == 200

    async def rate(self, clients: int, duration_s: float) -> float:
        """Texts a second in a closed loop, each text a new one."""
        end_s = monotonic() + duration_s

        async def client(number: int) -> int:
            done = 0
            while monotonic() < end_s:
                text = (
                    f"The train to platform {number} leaves at {done % 12} o'clock, {done} minutes later than planned."
                )
                body = {"text": text, "source": "en", "target": "ja"}
                async with self._session.post(f"{self._server.url}/v1/translate", json=body) as answer:
                    answer.raise_for_status()
                done += 1
            return done

        return sum(await asyncio.gather(*(client(number) for number in range(clients)))) / duration_s


def command_of(way: Way, model: str, folder: Path, environment: Mapping[str, str]) -> ServerCommand:
    if way.source == "vllm":
        command = vllm_serve(way.name, model, {})
    else:
        command = dragoman_serve(way.name, {"model": model} if model else {}, folder / "engine.log")
        path = os.pathsep.join((way.source, os.environ.get("PYTHONPATH", "")))
        environment = {**environment, "PYTHONPATH": path}
    return replace(command, argv=(*command.argv, *way.flags), environment={**command.environment, **environment})


def import_s(environment: Mapping[str, str]) -> float:
    """What one process takes to import vLLM alone."""
    began_s = monotonic()
    command = [sys.executable, "-c", "import vllm.v1.engine.async_llm"]
    subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    return round(monotonic() - began_s, 2)


async def measured(
    way: Way, model: str, environment: Mapping[str, str], caches: str, kills: int, rate: tuple[int, float]
) -> Start:
    """Of vLLM's server the readiness alone."""
    start = Start(way.name, caches)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = command_of(way, model, folder, environment)
        connector = aiohttp.TCPConnector(limit=rate[0])
        async with (
            serving(command, folder / "server.log", asyncio.Event()) as server,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            start.ready_s = server.start_s
            if way.source == "vllm":
                return start
            client = Client(server, session)
            start.phases = await client.phases()
            if rate[1]:
                await client.rate(rate[0], rate[1] / 4)
                start.texts_per_s = round(await client.rate(*rate), 1)
            for _ in range(kills):
                start.killed_s.append(await client.killed_s())
                start.killed_phases.append(await client.phases())
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
    flags = {one.name: [one.source if one.source == "vllm" else "source", *one.flags] for one in all_ways}
    found = Measurement.begin("startup", ways=flags, uncompiled=list(uncompiled))
    kept, nothing = tempfile.mkdtemp(), {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": tempfile.mkdtemp()}
    for run in range(runs + empty):
        for way in all_ways:
            environment = dict(nothing if way.name in uncompiled else {})
            if empty:
                root = f"{kept}/{way.name}"
                environment |= {"VLLM_CACHE_ROOT": f"{root}/vllm", "TRITON_CACHE_DIR": f"{root}/triton"}
                environment["TORCHINDUCTOR_CACHE_DIR"] = f"{root}/inductor"
            caches = "empty" if empty and not run else "kept"
            name = "uncompiled" if way.name in uncompiled else "compiled"
            if len(imports.setdefault(name, [])) <= run:
                imports[name].append(import_s(environment))
            kills_now = kills if caches == "kept" else 0
            starts.append(asyncio.run(measured(way, model, environment, caches, kills_now, (clients, duration_s))))
            error_console.print(f"{asdict(starts[-1])}", markup=False, highlight=False)
            found.data = {"import_s": imports, "starts": [asdict(one) for one in starts]}
            found.write(out)


if __name__ == "__main__":
    main()
