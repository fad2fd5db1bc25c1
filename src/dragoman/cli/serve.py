"""`dragoman serve`: the server, from settings to exit code."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace

import click
import uvloop
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dragoman.api.server import DragomanServer, listen
from dragoman.cli.console import steady_error_console
from dragoman.cli.logs import configure_logging
from dragoman.cli.options import settings_options
from dragoman.service.service import TranslationService
from dragoman.settings import Loaded, Settings

log = logging.getLogger("dragoman.serve")


class _Speaker:
    """What the command itself says: to people on the console, to machines as records of the log."""

    def __init__(self, settings: Settings, console: Console) -> None:
        self._console = console
        self.plain = settings.log.format == "json"

    def progress(self) -> Progress:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        return Progress(
            *columns, console=self._console, transient=True, disable=self.plain or not self._console.is_terminal
        )

    def say(self, text: str) -> None:
        if self.plain:
            log.info("%s", text)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def fail(self, text: str) -> None:
        if self.plain:
            log.error("%s", text)
        else:
            self._console.print(f"error: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


def _run(settings: Settings, console: Console) -> int:
    """Listen, start, serve, drain. Raises `ConfigError` before anything heavy runs."""
    listener = listen(settings.server.host, settings.server.port)
    service = TranslationService.from_settings(settings)
    speaker = _Speaker(settings, console)
    spec = service.spec.engine
    with speaker.progress() as progress:
        starting = f"starting {service.model.name} ({service.pipeline.name}, {service.spec.device})"
        progress.add_task(starting)
        if speaker.plain or not console.is_terminal:
            speaker.say(f"{starting} ...")

        def on_ready(url: str) -> None:
            progress.stop()
            speaker.say(
                f"dragoman listens on {url}  (model {service.model.name}, profile {service.model.profile.name}, "
                f"{service.pipeline.name} on {service.spec.device}, {spec.max_num_seqs} sequences, "
                f"{spec.max_num_batched_tokens} batched tokens)"
            )

        server = DragomanServer(service, listener, on_ready)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            exit_code = runner.run(server.run())
    if server.failure is not None:
        speaker.fail(server.failure.message)
    return exit_code


@click.command("serve")
@settings_options("server", "model", "engine", "pipeline", "admission", "log", "traffic", "tracing")
@click.option("-v", "--verbose", is_flag=True, help="vLLM's own log on the terminal instead of in a file.")
def command(loaded: Loaded, verbose: bool) -> None:
    """Serve a model over HTTP. Every setting has a flag, a DRAGOMAN_* variable and a place in dragoman.toml."""
    settings = loaded.settings
    if verbose:
        settings = replace(settings, log=replace(settings.log, engine_file=""))
    console = steady_error_console()
    configure_logging(settings.log.level, settings.log.format, console, timed=True)
    sys.exit(_run(settings, console))
