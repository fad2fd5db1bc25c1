"""Finds missing packages of dragoman's extras."""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import Requirement


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, and those of another version with the version that is wanted."""
    wanted = (Requirement(line) for line in metadata.requires("dragoman") or ())
    missing: list[str] = []
    for requirement in wanted:
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.marker.evaluate({"extra": ""}):  # not of the extra alone
            continue
        try:
            is_right = requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
        except metadata.PackageNotFoundError:
            missing.append(requirement.name)
        else:
            if not is_right:
                missing.append(f"{requirement.name}{requirement.specifier}")
    return missing
