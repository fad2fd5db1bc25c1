"""Translates files with LibreTranslate's own document translator, argos-translate-files, with a stub for its model.

Run it in an environment of its own, in which the package is installed without its models:

    pip install --no-deps argos-translate-files==1.4.4 argos-translate-lt
    pip install beautifulsoup4==4.9.3 lxml pysrt pymupdf
    python benchmarks/rival_documents.py FOLDER OUT

FOLDER has the files of `dragoman eval --documents --files FOLDER`; `dragoman eval --documents … --rival LibreTranslate=OUT`
judges what comes out as it judges dragoman's results. The stub is a perfect model: it returns each text that it is given with
all letters circled.
"""

import sys
import types
from pathlib import Path
from shutil import copyfile
from unittest.mock import MagicMock


class _Stubs:
    """Finds any module of the models' libraries, none of which is used."""

    names = (
        "ctranslate2",
        "sentencepiece",
        "stanza",
        "spacy",
        "torch",
        "minisbd",
        "sacremoses",
        "onnxruntime",
        "requests",
    )

    def find_spec(self, name: str, *_: object) -> object:
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self) if name.partition(".")[0] in self.names else None  # type: ignore[arg-type]

    def create_module(self, spec: object) -> types.ModuleType:
        return MagicMock(__path__=[], __spec__=spec)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, _Stubs())  # type: ignore[arg-type]

from argostranslate.translate import Hypothesis, ITranslation  # noqa: E402
from argostranslatefiles import argostranslatefiles  # noqa: E402


class Circled(ITranslation):
    """Circles all letters."""

    def __init__(self) -> None:
        self.from_lang, self.to_lang = types.SimpleNamespace(code="en"), types.SimpleNamespace(code="de")

    def hypotheses(self, input_text: str, num_hypotheses: int = 1) -> list[Hypothesis]:
        return [Hypothesis("".join(chr(0x24D0 + ord(c) % 26) if c.isalpha() else c for c in input_text), 0.0)]


def main(folder: Path, out: Path) -> None:
    """Translate all files of a folder that the package supports."""
    out.mkdir(parents=True, exist_ok=True)
    formats = {
        extension for one in argostranslatefiles.get_supported_formats() for extension in one.supported_file_extensions
    }
    for source in sorted(folder.iterdir()):
        if source.suffix not in formats:
            continue
        work = out / source.name
        copyfile(source, work)
        target = out / f"{source.stem}.result{source.suffix}"
        try:
            made = argostranslatefiles.translate_file(Circled(), str(work), lambda *_, target=target: str(target))
            failure = "" if made and target.exists() else "nothing was written"
        except Exception as error:  # noqa: BLE001 - what it fails with is the result
            failure = f"{type(error).__name__}: {error}"
        work.unlink()
        if failure:
            target.unlink(missing_ok=True)
            print(source.name, failure)
        else:
            target.rename(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
