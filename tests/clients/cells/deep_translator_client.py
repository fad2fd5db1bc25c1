"""deep-translator's LibreTranslator."""

from __future__ import annotations

from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, main, refused
from deep_translator import LibreTranslator


def translator(target: str = "ja", key: str = KEY) -> LibreTranslator:
    return LibreTranslator(source="en", target=target, custom_url=f"{URL}/", api_key=key)


@cell("text", "translate, the parameters in the query of a POST")
def text() -> None:
    equal(translator().translate(TEXT), JA)
    equal(translator("ko").translate(TEXT), EXPECTED["ko"][0])


@cell("batch", "translate_batch, in order")
def batch() -> None:
    equal(translator().translate_batch(TEXTS), EXPECTED["ja"])


@refused
def translate(key: str) -> str:
    return translator(key=key).translate(TEXT)


main()
