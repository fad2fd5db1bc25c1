"""What the clients' scripts share. They run in environments of their own: nothing but the standard library is here.

A script registers cells, functions that use the client and check what comes back, and `refused`: one call with a key that
the server refuses. `main()` runs all, and prints a JSON object a line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

URL, KEY = os.environ["CLIENT_URL"], os.environ["CLIENT_KEY"]
REFUSED_KEYS: dict[str, str] = json.loads(os.environ["CLIENT_REFUSED_KEYS"])
TEXTS: list[str] = json.loads(os.environ["CLIENT_TEXTS"])
EXPECTED: dict[str, list[str]] = json.loads(os.environ["CLIENT_EXPECTED"])
"""The native API's translations of the texts, by target."""
TEXT, JA = TEXTS[0], EXPECTED["ja"][0]

_CELLS: list[tuple[str, str, Callable[[], Any]]] = []
_REFUSED: list[Callable[[str], Any]] = []


def cell(column: str, title: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """A cell of the matrix: its column, and what it shows."""

    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        _CELLS.append((column, title, function))
        return function

    return add


def refused(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """One call with a given key."""
    _REFUSED.append(function)
    return function


def equal(found: object, expected: object) -> None:
    """A check that says what differs."""
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


def japanese(text: str) -> None:
    """Kana or kanji, and no English word."""
    plain = re.sub(r"<[^>]*>", "", text)
    if not re.search(r"[\u3040-\u30ff\u4e00-\u9fff]", plain) or re.search(r"[A-Za-z]{4}", plain):
        raise AssertionError(f"not Japanese: {text!r}")


FILES = Path(os.environ["CLIENT_FILES"])
"""A folder of the client's, which has `a.docx`, `a.pptx` and `a.srt` with the texts."""


def translated_file(path: Path) -> None:
    """The file with the texts' translations, as another reader finds them."""
    done = subprocess.run([*json.loads(os.environ["CLIENT_CHECK"]), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{path.name}: {done.stderr[-200:]}")


def same_tags(found: str, source: str) -> None:
    """The same tags in the same order."""
    equal(re.findall(r"<[^>]*>", found), re.findall(r"<[^>]*>", source))


def main() -> None:
    for column, title, function in _CELLS:
        began, reason = time.perf_counter(), None
        try:
            function()
        except Exception as error:  # noqa: BLE001 - a failed cell is a result
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {str(error)[:300]} ({Path(place.filename).name}:{place.lineno})"
        _emit({"column": column, "title": title, "reason": reason, "took_s": round(time.perf_counter() - began, 2)})
    for function in _REFUSED:
        for name, key in REFUSED_KEYS.items():
            try:
                found: Any = function(key)
            except Exception as error:  # noqa: BLE001 - this is what is looked for
                _emit({"refused": name, "raises": type(error).__name__, "message": str(error)[:200]})
            else:
                _emit({"refused": name, "raises": None, "message": str(found)[:200]})


def _emit(value: dict[str, Any]) -> None:
    print("CELL " + json.dumps(value, ensure_ascii=False), flush=True)
