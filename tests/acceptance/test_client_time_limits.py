"""DeepL's own clients with their default time limits, and a translation that takes 30 s: one request, one generation.

The clients are those of `make clients`, of the same versions.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.settings import CacheSettings, Settings
from tests.clients.__main__ import clients, command_of
from tests.serving import HeldPipeline, served, service_over
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

TEXT, ANSWER = "Where is the train station?", "駅はどこですか？"
TRANSLATION_S = 30.0
Command = Callable[[str], list[str]]
"""The client's command line for a server's address."""

PYTHON_CLIENT = f"""
import sys, deepl
print(deepl.DeepLClient("any-key", server_url=sys.argv[1]).translate_text({TEXT!r}, target_lang="JA").text)
"""
NODE_CLIENT = f"""
const deepl = require("deepl-node");
const client = new deepl.DeepLClient("any-key", {{ serverUrl: process.argv[2] }});
client.translateText({TEXT!r}, null, "ja").then((result) => console.log(result.text));
"""


@pytest.fixture(scope="module")
def commands() -> list[Command]:
    """Of deepl and deepl-node, where there is node."""
    found: list[Command] = []
    for pinned in (one for one in clients() if one.id in ("deepl", "deepl-node")):
        if pinned.runs == "node" and not (shutil.which("npm") and shutil.which("node")):
            continue
        program, cell = command_of(pinned)
        arguments = ["-c", PYTHON_CLIENT]
        if pinned.runs == "node":
            script = Path(cell).with_name("time_limits.cjs")  # Node looks for packages beside the script
            script.write_text(NODE_CLIENT)
            arguments = [str(script)]
        found.append(lambda url, line=(program, *arguments): [*line, url])
    return found


def slow_pipeline() -> HeldPipeline:
    return HeldPipeline(lambda _: ANSWER)


async def start(command: list[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def test_a_translation_of_30_s(commands: list[Command], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")

    async def translate(client: Command) -> None:
        pipeline = slow_pipeline()
        async with served(service_over(pipeline, Settings(cache=CacheSettings(max_bytes=2**20)))) as http:
            pipeline.hold()
            process = await start(client(str(http.base_url)))
            await until(lambda: pipeline.stats().running == 1, "a running sequence")
            asyncio.get_running_loop().call_later(TRANSLATION_S, pipeline.release.set)
            output, errors = await process.communicate()
        assert (process.returncode, output.decode().strip()) == (0, ANSWER), errors.decode()
        assert pipeline.generations == 1

    await asyncio.gather(*map(translate, commands))
    requests = [record for record in caplog.records if record.name == "dragoman.request"]
    assert len(requests) == len(commands) > 0
