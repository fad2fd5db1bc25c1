"""pysubtrans, the library of LLM-Subtrans, with its provider "Custom Server"."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path

from cells import FILES, KEY, URL, cell, main, refused, translated_file
from PySubtrans import init_options, init_subtitles, init_translator

FOLDER = Path(tempfile.mkdtemp())


def translated(key: str = KEY, **options: object) -> Path:
    """The subtitles of the file of the cells, translated."""
    settings = init_options(
        provider="Custom Server",
        server_address=URL,
        endpoint="/v1/chat/completions",
        supports_conversation=True,
        supports_system_messages=True,
        model="dragoman",
        api_key=key,
        target_language="Japanese",
        max_retries=0,
        **options,
    )
    subtitles = init_subtitles(str(FILES / "a.srt"), options=settings)
    init_translator(settings).TranslateSubtitles(subtitles)
    made = FOLDER / f"{uuid.uuid4()}.srt"
    subtitles.SaveTranslation(str(made))
    if not made.exists():
        raise RuntimeError("no line was translated")
    return made


@cell("documents", "init_translator(...).TranslateSubtitles: srt")
def subtitles() -> None:
    translated_file(translated())


@cell("batch", "batches of 3 lines")
def batches() -> None:
    translated_file(translated(min_batch_size=1, max_batch_size=3))


@refused
def translate(key: str) -> str:
    return translated(key).read_text()


main()
