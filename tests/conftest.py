"""Shared fixtures, and which files' tests `pytest -n` runs one after the other.

One real engine serves the whole run: it takes most of a minute to start.

`DRAGOMAN_TEST_MODEL` names another model folder (on a GPU: a shape with `DRAGOMAN_TEST_LOAD_FORMAT=dummy`), so that the
same tests of the adapter run on any machine.
"""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from dragoman import phrasebook
from dragoman.engine import process
from dragoman.engine.spec import EngineSpec, device, resolve
from dragoman.pipelines.base import Pipeline
from dragoman.settings import EngineSettings
from tests.kept_workers import kept_workers
from tests.pipelines.building import Started

if TYPE_CHECKING:
    from dragoman.engine.async_engine import AsyncEngine

gc.disable()
"""Until all tests are collected. They and their modules are a million objects that stay: to look for garbage among them, again
and again, was half of the work of collecting tests and a part of running them."""

hypothesis.settings.register_profile("untimed", deadline=None)  # no test depends on the machine's speed
hypothesis.settings.load_profile("untimed")

LOAD_FORMAT = os.environ.get("DRAGOMAN_TEST_LOAD_FORMAT", "auto")

TOGETHER = (
    tuple(f"tests/{name}" for name in ("e2e/", "engine/", "pipelines/test_contract.py")),  # on the one engine
    tuple(
        f"tests/acceptance/test_{name}.py"  # which start Ray
        for name in (
            "documents",
            "nothing_outlives",
            "replicas",
            "replicas_of_two_nodes",
            "replicas_on_vllm",
            "serve_deploy",
        )
    ),
)
"""Files, and folders of such, that `pytest -n` gives to one process: they share the engine, or start a Ray each."""


LONGEST = (TOGETHER[1][0], "tests/acceptance/test_bounded_work.py", "tests/hostile_files/test_hostile.py")
"""These begin first: files of few tests that take minutes would come last, and be waited for by one process alone."""
APART = LONGEST[1:]
"""Of these files each test may be run by another process."""


class Scheduling(LoadScopeScheduling):
    """A file's tests are run by one process, and so are those of all files that belong together; the longest come first."""

    def _assign_work_unit(self, node: Any) -> None:
        for file in reversed(LONGEST):
            for scope in [one for one in self.workqueue if one.startswith(file)]:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        alone = nodeid if file in APART else file
        return next((files[0] for files in TOGETHER if file.startswith(files)), alone)


ENGINE_START_S = 900
"""pytest's limit for a test of the engine: the first waits for its start, which compiles for minutes on a loaded machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("engine") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(ENGINE_START_S))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def workers_of_documents() -> Iterator[None]:
    """Of all servers of this process, which each would start some."""
    with kept_workers():
        yield


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The model that the real engine runs."""
    return Path(os.environ.get("DRAGOMAN_TEST_MODEL") or phrasebook.model_dir())


@pytest.fixture(scope="session")
def engine_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where vLLM's own log goes."""
    return tmp_path_factory.mktemp("engine") / "engine.log"


@pytest.fixture(scope="session")
def engine_spec(model_dir: Path) -> EngineSpec:
    """The one engine's settings: few slots, so that tests can make sequences wait."""
    settings = EngineSettings(
        max_num_seqs=32,
        max_num_batched_tokens=2048,
        max_model_len=1024,
        gpu_memory_utilization=0.3,
        token_logprobs=True,
        enforce_eager=True,  # compiling takes longer than these tests; servers of `make acceptance` do it
        load_format=LOAD_FORMAT,  # pyright: ignore[reportArgumentType]
    )
    return resolve(str(model_dir), settings, device())


@pytest.fixture(scope="session")
async def engine(engine_spec: EngineSpec, engine_log: Path) -> AsyncIterator[AsyncEngine]:
    """The real engine, for the whole run. Tests must leave it running and empty."""
    process.log_to_file(engine_log)
    if engine_spec.device == "cpu":
        process.keep_compiled_code()
    from dragoman.engine.async_engine import AsyncEngine

    engine = AsyncEngine(engine_spec, engine_log)
    await engine.start()
    yield engine
    await engine.shutdown()


@pytest.fixture(scope="session")
async def engine_pipeline(engine: AsyncEngine) -> AsyncIterator[Pipeline]:
    """The real engine behind the pipeline contract."""
    from dragoman.pipelines.continuous import ContinuousPipeline

    pipeline = ContinuousPipeline(Started(engine))  # type: ignore[arg-type]
    await pipeline.start()
    yield pipeline
    await pipeline.shutdown()
