"""Writes a tune's outcome into its folder: the settings to serve with, the page, and the same as Markdown and JSON.

Knows file names; what is in the files is others'.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.tune.config_file import config_text
from dragoman_bench.tune.document import write_tuning
from dragoman_bench.tune.markdown import markdown
from dragoman_bench.tune.outcome import Tuning
from dragoman_bench.tune.page import write_page
from dragoman_bench.tune.points import Value


def write_outcome(tuning: Tuning, folder: Path, told: Mapping[str, Value]) -> tuple[Path, ...]:
    """The files, the settings first. `told`: by settings path, what the servers were told beside the knobs. Raises
    ConfigError where they cannot be written, or nothing was measured."""
    config = config_text(tuning, told)
    paths = tuple(folder / name for name in ("dragoman.toml", "report.html", "tune.md", "tune.json"))
    settings, page, text, document = paths
    write_tuning(tuning, document)
    write_page(tuning, page, config)
    try:
        settings.write_text(config, encoding="utf-8")
        text.write_text(markdown(tuning), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write into {folder}: {error.strerror}", param="out") from error
    return paths
