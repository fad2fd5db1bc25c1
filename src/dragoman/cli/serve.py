"""`dragoman serve`: runs the server or several replicas, and returns the exit code."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from dragoman.cli.console import steady_error_console
from dragoman.cli.options import SettingsCommand, settings_options
from dragoman.engine import forkserver
from dragoman.engine.checkpoint import read_config
from dragoman.engine.folders import check_folders
from dragoman.errors import ConfigError, DragomanError
from dragoman.extras import missing_packages
from dragoman.heap import limit_arenas
from dragoman.settings import Loaded, Settings
from dragoman.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from dragoman.service.service import TranslationService

log = logging.getLogger("dragoman.serve")


class _PhaseColumn(ProgressColumn):
    """A progress column with the phases of the engine's start so far, and the time of each."""

    def __init__(self, service: TranslationService) -> None:
        super().__init__()
        self._service = service

    def render(self, task: Task) -> Text:
        phases = self._service.pipeline.stats().startup
        usual_s = phases[-1].usual_s if phases else None
        rest = "" if usual_s is None else f" of about {usual_s:.0f} s"
        return Text(" > ".join(f"{phase.name} {phase.duration_s:.0f} s" for phase in phases) + rest)


class Messages:
    """The messages of the command itself: on the console for people, as log records with `--log-format json`."""

    def __init__(self, settings: Settings, console: Console) -> None:
        self._console = console
        self.as_json = settings.log.format == "json"

    def progress(self, service: TranslationService) -> Progress:
        """Return a progress display, above which the log has the same phases; without a terminal there is only the log."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _PhaseColumn(service),
            TimeElapsedColumn(),
        )
        is_shown = self._console.is_terminal and not self.as_json
        return Progress(*columns, console=self._console, transient=True, disable=not is_shown)

    def info(self, text: str) -> None:
        if self.as_json:
            log.info("%s", text)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def error(self, text: str) -> None:
        if self.as_json:
            log.error("%s", text)
        else:
            self._console.print(f"error: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


def _allow_files() -> None:
    """As many open files as the system lets this process have: each connection is one, and many systems begin with 1,024."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and allowed < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run(settings: Settings, console: Console) -> int:
    """Listen, start, serve, drain. Raises `ConfigError` before slow imports."""
    if settings.model.path:
        read_config(settings.model.path)  # what is no model is reported before anything is imported or started
    _allow_files()
    limit_arenas()
    forkserver.prepare(settings)  # what is imported below takes half a second

    import uvloop

    from dragoman.api.server import DragomanServer, listen, url_of
    from dragoman.service.service import TranslationService

    began_s = monotonic()
    network = settings.server
    listener = listen(network.host, network.port)
    operators = listen(network.operator_host, network.operator_port) if network.operator_port is not None else None
    service = TranslationService.from_settings(settings)
    messages = Messages(settings, console)
    spec = service.spec.engine
    for warning in service.spec.warnings:
        log.warning("%s", warning)
    with messages.progress(service) as progress:
        starting = f"starting {service.model.name} ({service.pipeline.name}, {service.spec.device})"
        progress.add_task(starting)
        if messages.as_json or not console.is_terminal:
            messages.info(f"{starting} ...")

        def on_ready(url: str) -> None:
            progress.stop()
            dtype = service.pipeline.stats().dtype or spec.dtype
            messages.info(
                f"dragoman listens on {url} after {monotonic() - began_s:.0f} s  (model {service.model.name}, "
                f"profile {service.model.profile.name}, {service.pipeline.name} on {service.spec.device} in {dtype}, "
                f"{spec.max_num_seqs} sequences, {spec.max_num_batched_tokens} batched tokens)"
            )

        server = DragomanServer(service, listener, on_ready, operators)
        if operators is not None:
            messages.info(f"operators' endpoints on {url_of(operators)}")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            exit_code = runner.run(server.run())
    if server.failure is not None:
        messages.error(server.failure.message)
    return 2 if isinstance(server.failure, ConfigError) else exit_code


def _run_replicas(settings: Settings, console: Console) -> int:
    """Run several replicas. Raises `ConfigError` if the extra `ray` is not installed."""
    if missing := missing_packages("ray"):
        raise ConfigError(
            f"--replicas needs the extra 'ray' ({', '.join(missing)} not installed): pip install 'dragoman[ray]'",
            param="server.replicas",
        )
    check_folders(settings)  # a replica reports it only after Ray has started
    from dragoman.deploy import local

    began_s = monotonic()
    messages = Messages(settings, console)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    is_shown = console.is_terminal and not messages.as_json
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task("")
        last = ""

        def status(text: str) -> None:
            nonlocal last
            progress.update(task, description=text)
            phases = re.sub(r" \d+ s\b", "", text)  # without times, which change each second
            if not is_shown and phases != last:
                messages.info(phases)
            last = phases

        def ready(url: str) -> None:
            progress.stop()
            messages.info(f"dragoman listens on {url} after {monotonic() - began_s:.0f} s  ({last})")

        def output(line: str) -> None:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

        try:
            return local.serve(settings, local.Progress(status=status, ready=ready, output=output))
        except DragomanError as error:
            messages.error(error.message)
            return 2 if isinstance(error, ConfigError) else 1


def _run_exit_functions() -> None:
    """Run what libraries registered for the interpreter's end, as it would."""
    run: Callable[[], None] = atexit._run_exitfuncs  # type: ignore[attr-defined] # pyright: ignore
    run()


@click.command("serve", cls=SettingsCommand)
@settings_options()
@click.option("-v", "--verbose", is_flag=True, help="vLLM's own log on the terminal instead of in a file.")
def command(loaded: Loaded, verbose: bool) -> None:
    """Serve a model over HTTP. Every setting has a flag, a DRAGOMAN_* variable and a place in dragoman.toml."""
    settings = loaded.settings
    if verbose:
        settings = replace(settings, log=replace(settings.log, engine_file=""))
    console = steady_error_console()
    configure_logging(settings.log.level, settings.log.format, console, timed=True)
    if settings.server.replicas is None:
        exit_code = _run(settings, console)
        _run_exit_functions()  # the guard's, which ends what is left of the engine's processes
    else:
        exit_code = _run_replicas(settings, console)  # Ray's functions may wait for processes that have ended
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's own end: it searches all objects of vLLM and torch for cycles several times, which takes seconds
    # of CPU, and was a minute on a busy machine.
    os._exit(exit_code)
