"""Nothing that a command starts outlives it, whatever ends it: commands are ended while what they start is starting."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.outliving import started
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(900)]

START_S = 600.0
"""An engine compiles for minutes on a loaded machine."""
END_S = 90.0
"""A terminal's Ctrl-C has a load test and a server end in order."""
QUICK = ("--max-model-len", "1024", "--enforce-eager=true")
SERVER = "dragoman.cli.main serve"
FORK_SERVER = "multiprocessing.forkserver"
ENGINE = "VLLM::Worker"
COMMANDS = {
    "tune": (("tune", "--clients", "6", "--out", "out"), SERVER),
    "journey": (("journey", "--quick", "--out", "out"), SERVER),
    "check-model": (("check-model",), SERVER),
    "check-model with its engine": (("check-model", "--", *QUICK), FORK_SERVER),
    "translate": (("translate", "--to", "ja", *QUICK, "Good morning."), ENGINE),
    "serve": (("serve", "--port", "0", *QUICK), ENGINE),
    "serve with workers": (("serve", "--port", "0", "--pipeline", "workers", *QUICK), "dragoman_bench.story.worker"),
    "serve --replicas": (("serve", "--port", "0", "--pipeline", "fake", "--replicas", "2"), "ray::"),
}
"""Each with a word in the command line of what has to run before it is ended."""
SAME_SERVERS = ("journey", "check-model")
"""They start servers with the code that `tune` starts them with, so that SIGKILL needs no case of theirs."""
ENDED_BY = {name: [signal.SIGTERM, *([] if name in SAME_SERVERS else [signal.SIGKILL])] for name in COMMANDS}
ENDED_BY["tune"].append(signal.SIGHUP)  # a closed terminal ends a command as SIGKILL does
ENDED_BY["translate"] = [signal.SIGINT]  # it handles Ctrl-C alone: other signals end it as they end `serve`


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, id=f"{name}-{number.name}")
        for name, numbers in ENDED_BY.items()
        for number in numbers
    ],
)
async def test_a_command_that_is_ended_leaves_no_process(tmp_path: Path, name: str, number: signal.Signals) -> None:
    arguments, awaited = COMMANDS[name]
    with (tmp_path / "output").open("w") as output:
        with started([sys.executable, "-m", "dragoman.cli.main", *arguments], tmp_path, output.fileno()) as command:
            await until(
                lambda: any(awaited in line for line in command.running()) or command.process.poll() is not None,
                awaited,
                deadline_s=START_S,
            )
            assert command.process.poll() is None, (tmp_path / "output").read_text()
            command.process.send_signal(number)
            await asyncio.wait_for(asyncio.to_thread(command.process.wait), END_S)
            await until(lambda: not command.running(), "the end of all that it started")
