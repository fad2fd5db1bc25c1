"""translate (PyPI) with its provider `libre`, and its command line."""

from __future__ import annotations

from cells import JA, KEY, TEXT, URL, cell, equal, main, refused
from translate import Translator


def translator(source: str = "en", key: str = KEY) -> Translator:
    return Translator(provider="libre", from_lang=source, to_lang="ja", base_url=URL, secret_access_key=key)


@cell("text", "translate")
def text() -> None:
    equal(translator().translate(TEXT), JA)


@cell("detection", "from_lang=autodetect")
def detection() -> None:
    equal(translator("autodetect").translate(TEXT), JA)


@refused
def translate(key: str) -> str:
    return translator(key=key).translate(TEXT)


main()
