"""google-cloud-translate, version 2."""

from __future__ import annotations

from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused, same_tags
from google.auth.api_key import Credentials
from google.cloud import translate_v2


def client_of(key: str) -> translate_v2.Client:
    return translate_v2.Client(client_options={"api_endpoint": URL}, credentials=Credentials(key))


client = client_of(KEY)


@cell("text", "translate, the source detected")
def text() -> None:
    found = client.translate(TEXT, target_language="ja", format_="text")
    equal((found["translatedText"], found["detectedSourceLanguage"], found["input"]), (JA, "en", TEXT))


@cell("batch", "a list of texts, in order")
def batch() -> None:
    found = client.translate(TEXTS, target_language="ja", source_language="en", format_="text")
    equal([one["translatedText"] for one in found], EXPECTED["ja"])


@cell("tags", "HTML, the default format")
def html() -> None:
    source = "<p>Where is the <b>train station</b>?</p>"
    found = client.translate(source, target_language="ja", source_language="en")["translatedText"]
    same_tags(found, source)
    japanese(found)


@cell("detection", "detect_language")
def detection() -> None:
    equal([one["language"] for one in client.detect_language([TEXT, JA])], ["en", "ja"])


@cell("languages", "get_languages with names")
def languages() -> None:
    names = {one["language"]: one["name"] for one in client.get_languages(target_language="en")}
    equal((names["ja"], names["ko"]), ("Japanese", "Korean"))
    assert "zh-CN" in names, names


@refused
def translate(key: str) -> str:
    return client_of(key).translate(TEXT, target_language="ja", source_language="en")["translatedText"]


main()
