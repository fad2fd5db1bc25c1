"""Renders docs/phrasebook.md from the figures of `evaluate`. Knows the shape of that JSON and nothing of the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

_TEMPLATE = Path(__file__).with_name("phrasebook.md.jinja")


def render(result: Mapping[str, Any]) -> str:
    """The page for one result of `evaluate`."""
    # Markdown for a file of ours, not HTML for a browser: nothing to escape.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(result)
