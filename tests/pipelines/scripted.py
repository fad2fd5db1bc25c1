"""A small engine without vllm, for real worker processes: it answers by rule, and single tokens are commands to it.

It works in the folder that its spec names as the model, and writes there what it did; gates are named pipes in it, so that a
batch stays in the engine until the test opens one.
"""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineFailed, EngineRejected
from dragoman.settings import EngineSettings
from dragoman.types import Completion, EngineSequence
from dragoman_bench.story.worker import Result
from tests.waiting import until

WINDOW = 1024
PROMPT = (1, 4, 5, 56, 772, 709, 29, 3)
KILL, KILL_ONCE, BREAK, REJECT, FAIL = 900, 901, 902, 903, 904
FIRST_GATE = 1000
START_GATE = 1099


def sequence(*tokens: int, max_tokens: int = 64, forced: bool = False, name: str = "") -> EngineSequence:
    """A sequence of its own; `tokens` are added to a prompt that every model here accepts."""
    return EngineSequence(name or uuid4().hex, (*PROMPT, *tokens), max_tokens, forced=forced)


def answer(sequence: EngineSequence) -> str:
    """The prompt's ids as words; when forced, more words than `max_tokens` allows."""
    if sequence.forced:
        return " ".join(f"w{number}" for number in range(sequence.max_tokens + 1))
    return " ".join(map(str, sequence.prompt_token_ids))


class ScriptFolder:
    """The test's side of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = EngineSettings(
            max_num_seqs=64, max_num_batched_tokens=2048, max_model_len=WINDOW, kv_cache_memory_bytes=1 << 30
        )
        self.spec = EngineSpec(str(folder), "cpu", settings)
        self.log_file = folder / "engine.log"
        self.engine = f"{ScriptedEngine.__module__}:{ScriptedEngine.__qualname__}"

    def configure(self, **settings: Any) -> None:
        """Change engine settings of `spec`."""
        self.spec = replace(self.spec, engine=replace(self.spec.engine, **settings))

    def gate(self, number: int = 0) -> int:
        """The token that holds a batch until `open`."""
        os.mkfifo(self.folder / f"gate-{FIRST_GATE + number}")
        return FIRST_GATE + number

    async def open(self, gate: int) -> None:
        """End the wait of one batch at the gate."""
        await until(lambda: self._opened(gate), f"a batch at gate {gate}")

    def _opened(self, gate: int) -> bool:
        try:
            os.close(os.open(self.folder / f"gate-{gate}", os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:  # no reader
                raise
            return False
        return True

    def batches(self) -> list[list[str]]:
        """Names of the sequences of each batch that began, in order."""
        return [json.loads(line) for line in self._lines("batches")]

    def started(self) -> list[int]:
        """Process ids of the engines that came up, in order."""
        return [int(line) for line in self._lines("started")]

    def closed(self) -> list[int]:
        """Process ids of the engines that were closed, in order."""
        return [int(line) for line in self._lines("closed")]

    def _lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.is_file() else []

    def set(self, flag: str) -> None:
        """For engines that start from now on: `broken`, they fail; `slow`, they never end starting."""
        if flag == "slow":
            self.gate(START_GATE - FIRST_GATE)
        (self.folder / flag).touch()


class ScriptedEngine:
    def __init__(self, spec: EngineSpec) -> None:
        self._folder = Path(spec.model)
        self.max_model_len = spec.engine.max_model_len or WINDOW
        if (self._folder / "broken").exists():
            raise RuntimeError("this engine is broken")
        self._note("started", str(os.getpid()))
        if (self._folder / "slow").exists():
            (self._folder / f"gate-{START_GATE}").read_bytes()

    def _note(self, name: str, line: str) -> None:
        with (self._folder / name).open("a") as file:
            file.write(line + "\n")

    def generate(self, sequences: list[EngineSequence]) -> list[Result]:
        self._note("batches", json.dumps([sequence.id for sequence in sequences]))
        return [self._one(sequence) for sequence in sequences]

    def _one(self, sequence: EngineSequence) -> Result:
        if len(sequence.prompt_token_ids) >= self.max_model_len:
            return EngineRejected("too long")
        for token in sequence.prompt_token_ids:
            self._obey(token)
        if REJECT in sequence.prompt_token_ids:
            return EngineRejected("rejected by its token")
        if FAIL in sequence.prompt_token_ids:
            return EngineFailed("failed by its token")
        words = answer(sequence).split(" ")
        kept = words[: sequence.max_tokens]
        reason = "stop" if len(kept) == len(words) else "length"
        return Completion(" ".join(kept), reason, len(sequence.prompt_token_ids), len(kept))

    def _obey(self, token: int) -> None:
        if token >= FIRST_GATE:
            (self._folder / f"gate-{token}").read_bytes()
        if token == BREAK:
            raise RuntimeError("broken by a token")
        once = self._folder / "killed"
        if token == KILL or (token == KILL_ONCE and not once.exists()):
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        self._note("closed", str(os.getpid()))
