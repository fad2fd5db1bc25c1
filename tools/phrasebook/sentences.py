"""Writes the sentences that load tests send, into the package: `python -m tools.phrasebook.sentences`.

Plain sentences without markup, in all four languages, that the packaged model was not trained on. One JSON array a line, in the
order of `LANGUAGES`. The same seed and data give the same file, byte for byte.
"""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

from dragoman import phrasebook
from tools.phrasebook.generator import Generator

COUNT = 12_000
SEED = 20_261


def sentences(count: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Different ones, in every language."""
    generator = Generator(split="heldout", seed=seed)
    seen: set[str] = set()
    while len(seen) < count:
        texts = generator.sentence().texts
        first = texts[phrasebook.LANGUAGES[0]]
        if first not in seen and not any("<" in text for text in texts.values()):
            seen.add(first)
            yield tuple(texts[language] for language in phrasebook.LANGUAGES)


def write(path: Path, count: int = COUNT, seed: int = SEED) -> None:
    """Compressed with a fixed time stamp, so that the same sentences are the same bytes."""
    lines = (json.dumps(texts, ensure_ascii=False) + "\n" for texts in sentences(count, seed))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream:
        stream.writelines(line.encode("utf-8") for line in lines)
    path.write_bytes(packed.getvalue())


if __name__ == "__main__":
    write(phrasebook.sentences_file())
