"""llm, Simon Willison's command line, with a model of its extra-openai-models.yaml."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cells import EXPECTED, JA, KEY, TEXT, URL, cell, equal, main, refused

FOLDER = Path(tempfile.mkdtemp())
(FOLDER / "extra-openai-models.yaml").write_text(
    f"- model_id: ja\n  model_name: dragoman/ja\n  api_base: {URL}/v1\n  api_key_name: dragoman\n"
    f"- model_id: any\n  model_name: gpt-4o-mini\n  api_base: {URL}/v1\n  api_key_name: dragoman\n"
    f"- model_id: ja-text\n  model_name: dragoman/ja\n  api_base: {URL}/v1\n  api_key_name: dragoman\n  completion: true\n"
)


def llm(*arguments: str, key: str = KEY) -> str:
    environment = os.environ | {"LLM_USER_PATH": str(FOLDER), "OPENAI_API_KEY": key}
    command = [str(Path(sys.executable).with_name("llm")), "--no-log", *arguments, "--key", key]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, input="")
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


@cell("command line", "llm -m MODEL TEXT, as a chat and as a completion, streamed and not")
def text() -> None:
    for model in ("ja", "ja-text"):
        equal(llm("-m", model, TEXT), JA)
        equal(llm("-m", model, "--no-stream", TEXT), JA)


@cell("command line", "--system 'Translate to Korean.'")
def system() -> None:
    equal(llm("-m", "any", TEXT, "--system", "Translate to Korean."), EXPECTED["ko"][0])


@refused
def translate(key: str) -> str:
    return llm("-m", "ja", TEXT, key=key)


main()
