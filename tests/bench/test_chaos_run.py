"""`make chaos`: which faults are counted, how a results file is continued, the page that shows it, and its PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.pipelines.fake import FakePipeline, circling
from dragoman.settings import AuthSettings, DocumentSettings, Settings
from dragoman.storage.database import Database
from dragoman.storage.keys import Keys
from dragoman.types import Account
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.chaos import faults, stage
from dragoman_bench.chaos import run as runs
from dragoman_bench.chaos.clients import Http, MixedLoad, session
from dragoman_bench.chaos.faults import FaultKind, NotInjected, Scene
from dragoman_bench.chaos.ledger import FAULTY, VERDICTS, Ledger, Outages, Verdict
from dragoman_bench.chaos.run import ChaosRun, RunPlan, has_failed, next_seed, shown_in, table
from dragoman_bench.chaos.stage import ChaosServer, Postgres, Stage, StageFault
from dragoman_bench.cli.chaos import command
from tests.pipelines.conftest import TOKENIZER
from tests.processes import ROOT
from tests.serving import served, service_over
from tests.waiting import HANG_S, until

PUBLISHED = Measurement.read(ROOT / "results" / "chaos.json")
PUBLISHED_REAL = [Measurement.read(ROOT / "results" / f"{name}.json") for name in ("chaos-real", "chaos-real-cpu")]


def results_of(**counts: int) -> Measurement:
    counts = {**dict.fromkeys(VERDICTS, 0), "right": 12, **counts}
    run = {"stage": "one", "seed": 1, "clients": 9, "seconds": 60.0, "interrupted": False, **counts}
    faults: dict[str, dict[str, Any]] = {"one: engine killed": {"recovered_s": [2.0, 5.0, 3.0], "codes": {}, **counts}}
    return Measurement("chaos", PUBLISHED.conditions, {"runs": [run], "faults": faults, "findings": []})


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_run_has_failed_if_anything_is_lost_doubled_or_wrong(verdict: Verdict) -> None:
    assert has_failed(results_of(**{verdict: 1})) == (verdict in FAULTY)


def test_a_row_has_the_counts_and_the_median_and_the_worst_recovery() -> None:
    [row] = table(results_of(refused=3, lost=1, wrong=1, mixed_up=1)).rows
    assert [cell.text for cell in row.cells][1:] == [
        *("engine killed", "3", "18", "12", "3", "0", "0", "1", "0", "2"),
        *("3.0", "5.0"),
    ]


def test_a_file_is_continued_with_another_seed() -> None:
    assert next_seed(Measurement("chaos", {}), 7) == 7
    assert next_seed(results_of(), 7) == 8


def test_a_file_that_is_continued_elsewhere_names_both_machines() -> None:
    results = results_of()
    assert runs.conditions(results).count(" cores") == 1
    machine = {**PUBLISHED.conditions["machine"], "cpu": "Another CPU", "cores": 64}
    elsewhere = {"started_at": "2030-01-02T03:04:05+00:00", "machine": machine}
    results.data["runs"] += [{**results.data["runs"][0], "conditions": elsewhere}] * 2
    shown = runs.conditions(results)
    assert shown.count(" cores") == 2
    assert f"on {PUBLISHED.conditions['machine']['cpu']} with " in shown
    assert "2030-01-02 on Another CPU with 64 cores" in shown


def test_the_page_shows_the_published_results() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    for results in (PUBLISHED, *PUBLISHED_REAL):
        assert shown_in(page, results) == page, "run make results"
        ours = [one for one in results.data["runs"] if one["stage"] != "vllm"]
        assert results is PUBLISHED or not has_failed(Measurement("chaos", {}, {"runs": ours}))
    assert has_failed(PUBLISHED) == ("The one wrong answer" in page), (
        "a page with faults says what they were, and no other"
    )


# ---- a fault that is not injected


def started(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)


@asynccontextmanager
async def scene_of(tmp_path: Path, program: str) -> AsyncGenerator[Scene]:
    """A scene with a program in Python as its server."""
    outages = Outages()
    with started(program) as process:
        assert process.stdout is not None
        server = ChaosServer(tmp_path, (), outages, process=process)
        try:
            await asyncio.to_thread(process.stdout.readline)  # it runs
            async with session() as http:
                load = MixedLoad(Http(http), Ledger(outages), [server.url], {}, seed=1)
                yield Scene(Stage("one", [server], "", {}), load, Random(1))
        finally:
            server.kill()


ALONE = "import time; print(flush=True); time.sleep(1000)"
WITH_ENGINE = (
    "import subprocess, sys;"
    f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', '{faults.FAKE_ENGINE}']);"
    "print(flush=True); sys.exit(child.wait())"
)


@pytest.mark.parametrize(
    "inject", [faults.engine_killed, faults.engine_killed_twice, faults.worker_killed, faults.replica_killed]
)
async def test_a_fault_without_its_process_says_so_and_excuses_nothing(
    inject: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "APPEARS_S", 0.1)
    async with scene_of(tmp_path, ALONE) as scene:
        with pytest.raises(NotInjected, match=r"no process .* appeared within 0\.1 s"):
            await inject(scene)
        [url] = scene.load.urls
        assert not scene.load.ledger.outages.excuse(url, 0.0, float("inf"))


async def test_a_process_that_is_there_gets_its_signal(tmp_path: Path) -> None:
    async with scene_of(tmp_path, WITH_ENGINE) as scene:
        process = scene.stage.servers[0].process
        assert process is not None
        await faults.engine_killed(scene)
        await asyncio.to_thread(process.wait, HANG_S)
        assert process.returncode == 256 - signal.SIGKILL  # what it waited for was killed


WITH_ENGINE_AGAIN = (
    "import subprocess, sys;"
    "start = lambda: subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', sys.argv[1]]);"
    "first = start(); print(flush=True); first.wait(); second = start(); sys.exit(second.wait())"
).replace("sys.argv[1]", repr(faults.FAKE_ENGINE))


async def test_an_engine_s_successor_is_killed_too(tmp_path: Path) -> None:
    async with scene_of(tmp_path, WITH_ENGINE_AGAIN) as scene:
        process = scene.stage.servers[0].process
        assert process is not None
        await faults.engine_killed_twice(scene)
        await asyncio.to_thread(process.wait, HANG_S)
        assert process.returncode == 256 - signal.SIGKILL  # the second one was killed


async def test_a_server_has_ended_once_its_processes_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that outlives its server answers for it that it is ready."""
    monkeypatch.setattr(stage, "END_S", 1.0)
    async with scene_of(tmp_path, WITH_ENGINE) as scene:
        [server] = scene.stage.servers
        await until(lambda: bool(server.below(faults.FAKE_ENGINE)), "an engine")
        [engine] = server.below(faults.FAKE_ENGINE)
        try:
            with pytest.raises(StageFault):
                await server.end(signal.SIGKILL)
        finally:
            engine.kill()


@asynccontextmanager
async def staged_in_process(
    _: Any, folder: Path, outages: Outages, *_flags: str, model: str = ""
) -> AsyncGenerator[Stage]:
    """A server in the test's own event loop."""
    storage_url = f"sqlite:///{folder}/dragoman.db"
    database = Database(storage_url)
    await database.open()
    made = Keys(database)
    keys = {name: (await made.create(Account("", name)))[1] for name in stage.KEYS}
    documents = DocumentSettings(folder=str(folder / "documents"))
    settings = Settings(auth=AuthSettings(mode="keys", refresh_s=0.2), documents=documents)
    async with served(service_over(FakePipeline(circling(TOKENIZER)), settings, database=database)) as client:
        assert client.base_url.port is not None
        yield Stage("one", [ChaosServer(folder, (), outages, client.base_url.port)], storage_url, keys)
    await database.close()


async def test_only_faults_that_were_injected_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted, tried = asyncio.Event(), list[str]()

    async def absent(_: Scene) -> None:
        tried.append("absent")
        raise NotInjected("nothing is there")

    async def present(_: Scene) -> None:
        tried.append("present")
        if "absent" in tried:
            interrupted.set()

    kinds = [FaultKind("absent", absent), FaultKind("present", present)]
    monkeypatch.setattr(runs, "FOLDER", tmp_path / "chaos")
    monkeypatch.setattr(runs, "PAUSE_S", (0.0, 0.1))
    monkeypatch.setattr(runs, "staged", staged_in_process)
    results = Measurement("chaos", PUBLISHED.conditions)
    await ChaosRun(RunPlan("one", HANG_S, 1, kinds), results, NoProgress()).run(interrupted)
    times = {name: len(row["recovered_s"]) for name, row in results.data["faults"].items()}
    assert "absent" in tried
    assert times.get("one: absent", 0) == 0
    assert times["one: present"] == tried.count("present")
    assert results.data["findings"] == []
    assert f" and {tried.count('present')} faults in " in runs.conditions(results)


def test_a_run_has_the_faults_of_its_servers_or_those_of_them_that_are_named() -> None:
    killed = "replica killed"
    assert {one.name for one in faults.kinds_of("replicas")} > {killed, "engine killed"}
    assert [one.name for one in faults.kinds_of("replicas", [killed])] == [killed]
    assert killed not in {one.name for one in faults.kinds_of("one")}
    with pytest.raises(ConfigError):
        faults.kinds_of("one", [killed])


def test_a_fault_that_a_later_stage_lacks_is_refused_before_the_first_runs(tmp_path: Path) -> None:
    out = tmp_path / "chaos.json"
    stages = ("--servers", "one", "--servers", "pair", "--fault", "database locked")
    with pytest.raises(ConfigError, match="pair"):
        command.main([*stages, "--seconds", "1", "--out", str(out)], standalone_mode=False)
    assert not out.exists()


# ---- PostgreSQL that does not start


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder for programs in the place of PostgreSQL's, which any user may read; temporary folders are made in it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setattr(stage, "postgres_programs", lambda: Path(name))
        yield Path(name)


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def fault_of_postgres(programs: Path) -> str:
    """What its fault says; nothing is left of it."""
    with pytest.raises(StageFault) as raised, Postgres.running():
        pytest.fail("it runs")
    assert not list(programs.glob("dragoman-chaos-*"))
    return raised.value.message


def test_a_failing_initdb_is_a_clear_fault_and_leaves_nothing(programs: Path) -> None:
    write_program(programs / "initdb", "echo 'initdb: error: no space is left' >&2; exit 7")
    message = fault_of_postgres(programs)
    assert "/initdb" in message
    assert message.endswith(" non-zero exit status 7. initdb: error: no space is left")


def test_a_start_that_fails_says_what_the_server_said(programs: Path) -> None:
    write_program(programs / "initdb", "mkdir data")
    write_program(programs / "pg_ctl", "echo 'FATAL: no port is free' >log; echo 'Examine the log.'; exit 1")
    message = fault_of_postgres(programs)
    assert "'start'" in message
    assert message.endswith(" Examine the log. / FATAL: no port is free")


def test_a_program_that_is_not_there_is_a_clear_fault(programs: Path) -> None:
    assert "initdb" in fault_of_postgres(programs)
