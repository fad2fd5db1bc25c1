"""`dragoman serve`: the server, from settings to exit code."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import click
import uvloop
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dragoman.api.server import DragomanServer, listen
from dragoman.cli.console import configure_logging, steady_error_console
from dragoman.cli.options import settings_options
from dragoman.service.service import TranslationService
from dragoman.settings import Loaded, Settings


def _run(settings: Settings, console: Console) -> int:
    """Listen, start, serve, drain. Raises `ConfigError` before anything heavy runs."""
    listener = listen(settings.server.host, settings.server.port)
    service = TranslationService.from_settings(settings)
    spec = service.spec.engine
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(f"starting {service.model.name} ({service.pipeline.name}, {service.spec.device})")
        if not console.is_terminal:
            console.print(f"starting {service.model.name} ({service.pipeline.name}, {service.spec.device}) ...")

        def on_ready(url: str) -> None:
            progress.stop()
            console.print(
                f"dragoman listens on {url}  (model {service.model.name}, profile {service.model.profile.name}, "
                f"{service.pipeline.name} on {service.spec.device}, {spec.max_num_seqs} sequences, "
                f"{spec.max_num_batched_tokens} batched tokens)",
                highlight=False,
                soft_wrap=True,
            )

        server = DragomanServer(service, listener, on_ready)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            exit_code = runner.run(server.run())
    if server.failure is not None:
        console.print(f"error: {server.failure.message}", style="red", markup=False, highlight=False, soft_wrap=True)
    return exit_code


@click.command("serve")
@settings_options("server", "model", "engine", "pipeline", "admission", "log")
@click.option("-v", "--verbose", is_flag=True, help="vLLM's own log on the terminal instead of in a file.")
def command(loaded: Loaded, verbose: bool) -> None:
    """Serve a model over HTTP. Every setting has a flag, a DRAGOMAN_* variable and a place in dragoman.toml."""
    settings = loaded.settings
    if verbose:
        settings = replace(settings, log=replace(settings.log, engine_file=""))
    console = steady_error_console()
    configure_logging(settings.log.level, settings.log.format, console)
    sys.exit(_run(settings, console))
