"""How log records are written. Through real handlers, onto a console that keeps what is written."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from rich.console import Console

from dragoman.telemetry import requests
from dragoman.telemetry.logs import configure_logging
from dragoman.telemetry.requests import RequestTrace

LOGGERS = ("dragoman", "uvicorn", "asyncio", "opentelemetry", "py.warnings")


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    logging.captureWarnings(False)  # which other tests may have left on, with the warnings of their own
    before = [(log := logging.getLogger(name), log.handlers, log.propagate, log.level) for name in LOGGERS]
    yield
    logging.captureWarnings(False)
    for log, handlers, propagate, level in before:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def configured(
    style: Literal["human", "json"], level: str = "info", *, terminal: bool = False, timed: bool = False
) -> Any:
    """A function that gives the lines written so far."""
    file = io.StringIO()
    configure_logging(level, style, Console(file=file, force_terminal=terminal, width=40), timed=timed)
    return lambda: file.getvalue().splitlines()


def test_json_is_one_object_a_line_for_every_logger_and_message() -> None:
    lines = configured("json")
    log = logging.getLogger("dragoman.service")
    log.info("zwei\nZeilen, %d Wörter, 日本", 4)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("asyncio").error("Task exception was never retrieved")
    log.debug("too low")
    logging.getLogger("uvicorn.error").info("Started server process")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("something is old", stacklevel=1)
    entries = [json.loads(line) for line in lines()]
    assert [one["logger"] for one in entries] == ["dragoman.service", "uvicorn.error", "asyncio", "py.warnings"]
    assert [one["level"] for one in entries] == ["info", "warning", "error", "warning"]
    assert entries[0]["message"] == "zwei\nZeilen, 4 Wörter, 日本"
    assert datetime.fromisoformat(entries[0]["time"]).utcoffset() == timedelta(0)


def test_json_carries_fields_the_event_and_the_traceback() -> None:
    lines = configured("json")
    log = logging.getLogger("dragoman.request")
    log.info("POST 200 ...", extra={"event": "request", "fields": {"status": 200, "request_id": "mine"}})
    try:
        raise ValueError("wrong")
    except ValueError:
        log.exception("failed")
    request, failed = map(json.loads, lines())
    assert (request["message"], request["status"], request["request_id"]) == ("request", 200, "mine")
    assert failed["traceback"].endswith("ValueError: wrong")


@pytest.mark.parametrize("style", ["human", "json"])
def test_what_is_logged_during_a_request_carries_its_id(style: Literal["human", "json"]) -> None:
    lines = configured(style)
    log = logging.getLogger("dragoman.service")
    token = requests.current.set(RequestTrace("mine", "POST"))
    log.warning("the engine failed")
    requests.current.reset(token)
    log.warning("drained")
    first, second = lines()
    if style == "json":
        assert json.loads(first)["request_id"] == "mine"
        assert "request_id" not in json.loads(second)
    else:
        assert (first, second) == ("the engine failed (request mine)", "drained")


@pytest.mark.parametrize("terminal", [False, True])
def test_lines_for_people_are_not_wrapped_marked_up_or_coloured_unless_they_warn(terminal: bool) -> None:
    lines = configured("human", terminal=terminal)
    log = logging.getLogger("dragoman.request")
    log.info("a [bold]line[/] of %s", "more than forty characters, 12.5 s")
    log.error("an error")
    plain, error = lines()
    assert plain == "a [bold]line[/] of more than forty characters, 12.5 s"
    assert (error == "an error") is not terminal
    assert "an error" in error


def test_a_servers_lines_say_when() -> None:
    lines = configured("human", timed=True)
    logging.getLogger("dragoman.request").info("a line")
    [line] = lines()
    clock, _, rest = line.partition(" ")
    datetime.strptime(clock, "%H:%M:%S")
    assert rest == "a line"
