"""Looking into JSON from elsewhere without trusting its shape."""

from __future__ import annotations

from typing import Any, cast


def members(value: object) -> dict[str, Any]:
    """The members of a JSON object; none of anything else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def elements(value: object) -> list[Any]:
    """The elements of a JSON array; none of anything else."""
    return cast(list[Any], value) if isinstance(value, list) else []


def number(value: object) -> float | None:
    """The value where it is a number (true and false are none)."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """The value where it is a whole number."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None
