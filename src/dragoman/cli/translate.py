"""`dragoman translate`: translates an argument, a file or standard input, with a server or with an engine of its own."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import click

from dragoman.cli.client import Server
from dragoman.cli.console import error_console, steady_error_console
from dragoman.cli.options import settings_options
from dragoman.errors import ConfigError, EmptyText
from dragoman.settings import Loaded, Settings
from dragoman.telemetry.logs import configure_logging
from dragoman.types import TranslationRequest


def _source_text(text: str | None, file: Path | None) -> str:
    if text is not None and file is not None:
        raise ConfigError("give a text or --file, not both")
    if text is not None:
        return text
    try:
        found = file.read_text(encoding="utf-8") if file else sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file or 'standard input'} cannot be read as UTF-8 text: {error}") from None
    if not found:
        raise EmptyText(f"{file or 'standard input'} is empty")
    return found


def _through_server(url: str, text: str, target: str, source: str | None) -> tuple[str, list[str]]:
    """Return the translation and its warnings. Raises what `Server.call` raises."""
    body = {"text": text, "target": target} | ({"source": source} if source else {})
    answer = Server(url).json("POST", "/v1/translate", body)
    try:
        translation = answer["translations"][0]
        return translation["text"], [warning["message"] for warning in translation["warnings"]]
    except (LookupError, TypeError):
        raise ConfigError(f"{url} did not answer as a dragoman server") from None


def unrecorded(settings: Settings) -> Settings:
    """Settings of an engine for one command: a user's own text is no traffic, and needs no key."""
    return replace(
        settings,
        traffic=replace(settings.traffic, enabled=False),
        tracing=replace(settings.tracing, endpoint=""),
        storage=replace(settings.storage, url=""),
        auth=replace(settings.auth, mode="none"),
    )


async def _with_own_engine(settings: Settings, request: TranslationRequest) -> tuple[str, list[str]]:
    from dragoman.service.service import TranslationService  # half a second, which a server's client need not wait

    service = TranslationService.from_settings(unrecorded(settings))
    try:
        await service.start()
        translation = (await service.calls.translate(request))[0]
    finally:
        await service.stop()
    return translation.text, [warning.message for warning in translation.warnings]


@click.command("translate")
@click.argument("text", required=False)
@click.option("--to", "target", required=True, metavar="TAG", help="Language to translate into.")
@click.option("--from", "source", metavar="TAG", help="The text's language; detected when absent.")
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from a UTF-8 file instead.")
@click.option("--url", help="A running dragoman server; absent: start an engine for this one text.")
@settings_options("model", "engine")
def command(
    loaded: Loaded, text: str | None, target: str, source: str | None, file: Path | None, url: str | None
) -> None:
    """Translate TEXT, a file, or standard input, and print the translation."""
    source_text = _source_text(text, file)
    if not source_text:
        raise EmptyText("the text is empty")
    if url:
        translated, warnings = _through_server(url, source_text, target, source)
    else:
        console = steady_error_console()
        configure_logging("warning", "human", console)
        with console.status("starting an engine (a running server answers faster: see --url)"):
            translated, warnings = asyncio.run(
                _with_own_engine(loaded.settings, TranslationRequest((source_text,), target, source, request_id="cli"))
            )
    click.echo(translated, nl=not translated.endswith("\n"))
    for warning in warnings:
        error_console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
