"""Options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from dragoman.secretfile import read_secret

F = TypeVar("F", bound=Callable[..., Any])
KEY_VARIABLE = "DRAGOMAN_BENCH_API_KEY"


def api_key_option(help: str) -> Callable[[F], F]:
    """Return the option `--api-key`, whose value may be in a variable or in a file that a variable names."""
    shown = f"{help}  [env var: {KEY_VARIABLE}, or a file: {KEY_VARIABLE}_FILE]"
    return click.option("--api-key", default=lambda: read_secret(os.environ, KEY_VARIABLE), help=shown)
