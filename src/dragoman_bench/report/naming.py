"""Results files by label: what each is called in charts and tables.

A label is the `label` among the options that its conditions keep, else the file's name without its suffix. Knows
nothing of what is in the results beside that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Results, read_results


def read_named(paths: Sequence[Path]) -> dict[str, Results]:
    """The files by label, in their order. Raises ConfigError where one cannot be read, or is given twice."""
    again = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if again:
        raise ConfigError(f"{again[0].name} is given twice")
    found = [read_results(path) for path in paths]
    labels = [_label(results) or path.stem for path, results in zip(paths, found, strict=True)]
    return dict(zip(_told_apart(labels, paths), found, strict=True))


def _label(results: Results) -> str | None:
    label = results.conditions.options.get("label")
    return label.strip() if isinstance(label, str) and label.strip() else None


def _told_apart(labels: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Those that several files have get the file's name too, then its folder's, then a number."""
    told = list(labels)
    for more in (_stem, _folder):
        count = Counter(told)
        told = [
            f"{label} ({more(path)})" if count[label] > 1 and more(path) != label else label
            for label, path in zip(told, paths, strict=True)
        ]
    count, seen = Counter(told), Counter[str]()
    for place, label in enumerate(told):
        seen[label] += 1
        told[place] = f"{label} #{seen[label]}" if count[label] > 1 else label
    return told


def _stem(path: Path) -> str:
    return path.stem


def _folder(path: Path) -> str:
    return path.resolve().parent.name
