"""wagtail-localize's machine translator LibreTranslator, in a Django project of nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import django
from cells import EXPECTED, KEY, TEXTS, URL, cell, equal, main, refused
from django.conf import settings

settings.configure(
    INSTALLED_APPS=[
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "taggit",
        "wagtail",
        "wagtail.images",
        "wagtail.documents",
        "wagtail.users",
        "wagtail.admin",
        "wagtail_localize",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    WAGTAIL_I18N_ENABLED=True,
    USE_I18N=True,
    STATIC_URL="/static/",
    WAGTAIL_CONTENT_LANGUAGES=[("en", "English"), ("ja", "Japanese")],
    LANGUAGES=[("en", "English"), ("ja", "Japanese")],
)
django.setup()

from wagtail_localize.machine_translators.libretranslate import LibreTranslator  # noqa: E402
from wagtail_localize.strings import StringValue  # noqa: E402

ENGLISH, JAPANESE = (SimpleNamespace(language_code=code) for code in ("en", "ja"))


def translated(texts: list[str], key: str = KEY) -> list[Any]:
    translator = LibreTranslator({"LIBRETRANSLATE_URL": URL, "API_KEY": key})
    values = [StringValue.from_plaintext(text) for text in texts]
    found = translator.translate(ENGLISH, JAPANESE, values)
    return [found[value].render_text() for value in values]


@cell("text", "LibreTranslator.translate")
def text() -> None:
    equal(translated(TEXTS[:1]), EXPECTED["ja"][:1])


@cell("batch", "the strings of a page, in order")
def batch() -> None:
    equal(translated(TEXTS), EXPECTED["ja"])


@refused
def translate(key: str) -> str:
    return translated(TEXTS[:1], key)[0]


main()
