"""What the benchmarks of an engine in this process share: values of options, interrupts, the results file."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from dragoman.cli.console import error_console


def numbers(text: str) -> list[int]:
    """`1,8,25`, as argparse takes it."""
    return [int(part) for part in text.split(",")]


def named_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME={"attention_config": {"backend": "TRITON_ATTN"}}`, as argparse takes it."""
    name, _, arguments = text.partition("=")
    try:
        found = json.loads(arguments)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=JSON: {error}") from error
    if not name or not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME={{...}}, arguments by vLLM's names")
    return name, found


def run_until_interrupted(measuring: Coroutine[Any, Any, None], document: dict[str, Any]) -> None:
    """An interrupt keeps what was measured so far and marks the document as partial."""
    try:
        asyncio.run(measuring)
    except KeyboardInterrupt:
        error_console.print("interrupted: the measurements made so far are kept")
        document["partial"] = True


def write(document: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
