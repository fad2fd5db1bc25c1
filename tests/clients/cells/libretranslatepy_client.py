"""libretranslatepy."""

from __future__ import annotations

from cells import EXPECTED, JA, KEY, TEXT, URL, cell, equal, main, refused
from libretranslatepy import LibreTranslateAPI

client = LibreTranslateAPI(URL, KEY)


@cell("text", "translate")
def text() -> None:
    equal(client.translate(TEXT, "en", "ja"), JA)
    equal(client.translate(TEXT, "auto", "ko"), EXPECTED["ko"][0])


@cell("detection", "detect")
def detection() -> None:
    equal(client.detect(TEXT)[0]["language"], "en")
    equal(client.detect(JA)[0]["language"], "ja")


@cell("languages", "languages")
def languages() -> None:
    assert {"en", "ja", "ko"} <= {one["code"] for one in client.languages()}


@refused
def translate(key: str) -> str:
    return LibreTranslateAPI(URL, key).translate(TEXT, "en", "ja")


main()
