"""Finds missing packages of dragoman's extras."""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import Requirement


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed."""
    wanted = (Requirement(line) for line in metadata.requires("dragoman") or ())
    missing: list[str] = []
    for requirement in wanted:
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.marker.evaluate({"extra": ""}):  # not of the extra alone
            continue
        try:
            metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            missing.append(requirement.name)
    return missing
