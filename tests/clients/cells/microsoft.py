"""azure-ai-translation-text 1, which speaks version 3.0, and 2, which speaks its successor."""

from __future__ import annotations

from importlib.metadata import version

from azure.ai.translation.text import TextTranslationClient, models
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from cells import EXPECTED, JA, KEY, TEXT, TEXTS, URL, cell, equal, japanese, main, refused, same_tags

IS_BY_DATE = version("azure-ai-translation-text").partition(".")[0] != "1"
TARGET = "language" if IS_BY_DATE else "to"
UNKNOWN_SOURCE = 400003 if IS_BY_DATE else 400035


def client_of(key: str, **options: object) -> TextTranslationClient:
    return TextTranslationClient(endpoint=URL, credential=AzureKeyCredential(key), **options)


client = client_of(KEY)


@cell("text", "translate, the source detected")
def text() -> None:
    [found] = client.translate(body=[TEXT], to_language=["ja"])
    [one] = found.translations
    equal((one.text, getattr(one, TARGET), found.detected_language.language), (JA, "ja", "en"))


@cell("text", "a region, and an id of the client's")
def region() -> None:
    other = client_of(KEY, region="westeurope")
    [found] = other.translate(body=[TEXT], to_language=["ja"], from_language="en", client_trace_id="8f4a0c2e")
    equal(found.translations[0].text, JA)


@cell("batch", "a list of texts into several languages, in order")
def batch() -> None:
    found = client.translate(body=TEXTS, to_language=["ja", "ko"], from_language="en")
    for place, target in enumerate(("ja", "ko")):
        equal([one.translations[place].text for one in found], EXPECTED[target])


@cell("tags", "text_type: html")
def html() -> None:
    source = "<p>Where is the <b>train station</b>?</p>"
    if IS_BY_DATE:
        targets = [models.TranslationTarget(language="ja")]
        item = models.TranslateInputItem(text=source, language="en", text_type="Html", targets=targets)
        [found] = client.translate(body=[item])
    else:
        [found] = client.translate(body=[source], to_language=["ja"], from_language="en", text_type="html")
    same_tags(found.translations[0].text, source)
    japanese(found.translations[0].text)


@cell("languages", "get_supported_languages")
def languages() -> None:
    found = client.get_supported_languages(scope="translation", accept_language="fr").translation or {}
    equal((found["ja"].name, found["ja"].native_name, found["ja"].dir), ("japonais", "日本語", "ltr"))
    assert "zh-Hans" in found, found


@cell("errors", "an unknown language: HttpResponseError with Microsoft's code")
def errors() -> None:
    for options, code in (
        ({"to_language": ["xx"]}, 400036),
        ({"to_language": ["ja"], "from_language": "xx"}, UNKNOWN_SOURCE),
    ):
        try:
            found = client.translate(body=[TEXT], **options)
        except HttpResponseError as error:
            equal((error.status_code, error.error.code if error.error else None), (400, code))
            continue
        raise AssertionError(f"{options}: {found}")


@refused
def translate(key: str) -> str:
    other = client_of(key, retry_total=0)  # else it waits as long as Retry-After says
    return other.translate(body=[TEXT], to_language=["ja"], from_language="en")[0].translations[0].text


main()
