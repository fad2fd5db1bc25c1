"""bbook-maker, the command line of bilingual_book_maker. With a key that is refused it tries again for minutes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cells import EXPECTED, KEY, TEXTS, URL, cell, equal, main

FOLDER = Path(tempfile.mkdtemp())


def book(name: str, texts: list[str], *options: str) -> list[str]:
    """The lines of the bilingual book of a text file."""
    (FOLDER / f"{name}.txt").write_text("\n".join(texts) + "\n")
    command = [str(Path(sys.executable).with_name("bbook_maker")), "--book_name", f"{name}.txt", "--language", "ja"]
    command += ["--model", "openai", "--model_list", "dragoman", "--api_base", f"{URL}/v1", "--openai_key", KEY]
    environment = os.environ | {"HOME": str(FOLDER)}
    done = subprocess.run(
        [*command, *options], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=120
    )
    made = FOLDER / f"{name}_bilingual.txt"
    if done.returncode or not made.exists():
        raise RuntimeError((done.stdout + done.stderr).strip()[-300:])
    return [line.strip() for line in made.read_text().splitlines() if line.strip()]


@cell("documents", "a text file, line by line")
def lines() -> None:
    found = book("lines", TEXTS, "--batch_size", "1")
    equal([line for line in found if line not in TEXTS], EXPECTED["ja"])


main()
