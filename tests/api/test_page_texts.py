"""The page's catalogues: which keys the page uses, and that every language has them, with the same values in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest

from dragoman import errors
from dragoman.api.web.page import STATIC
from dragoman.text.checks import WARNING_CODES
from wholetext.files.content import TEXT_GREW, ReadOptions
from wholetext.files.jsonfile import read
from wholetext.markup.plurals import plural_categories

LOCALES = sorted(path.stem for path in (STATIC / "locales").glob("*.json"))
SOURCE = "en"
TRANSLATED = [locale for locale in LOCALES if locale != SOURCE]
_PLURAL = re.compile(r"(.+)_(zero|one|two|few|many|other)")
_VALUE = re.compile(r"\{\{(\w+)\}\}")
_ELEMENT = re.compile(r"</?\w+>")
_LITERAL = re.compile(r"[\"']([a-z]+\.[a-z0-9_]+)[\"']")
_IN_HTML = re.compile(r'data-t(?:-\w+)?="([^"]+)"')
_BUILT = re.compile(r"`([a-z]+\.(?:\w+_)?)\$\{[^}]*\}(_\w+)?`|`([a-z]+)\.\$\{\w+\}_\$\{\w+\}`")


@cache
def catalogue(locale: str) -> dict[str, str]:
    sections = json.loads((STATIC / "locales" / f"{locale}.json").read_text(encoding="utf-8"))
    return {f"{section}.{key}": text for section, texts in sections.items() for key, text in texts.items()}


def plain(keys: Iterator[str] | dict[str, str]) -> set[str]:
    """Keys without the category of a plural."""
    return {found[1] if (found := _PLURAL.fullmatch(key)) else key for key in keys}


def used() -> tuple[set[str], list[re.Pattern[str]]]:
    """Keys that the page names, and patterns of those that it puts together."""
    keys: set[str] = set()
    built: list[re.Pattern[str]] = []
    for path in STATIC.iterdir():
        if path.suffix == ".html":
            keys |= set(_IN_HTML.findall(path.read_text(encoding="utf-8")))
        elif path.suffix == ".js":
            text = path.read_text(encoding="utf-8")
            keys |= set(_LITERAL.findall(text))
            for prefix, suffix, section in _BUILT.findall(text):
                built.append(re.compile(rf"{section}\.\w+_\w+" if section else rf"{re.escape(prefix)}\w+{suffix}"))
    return keys, built


def test_every_text_of_the_page_is_in_the_catalogue_and_none_is_there_in_vain() -> None:
    known = plain(catalogue(SOURCE))
    sections = {key.partition(".")[0] for key in known}
    named, built = used()
    named = {key for key in named if key.partition(".")[0] in sections}
    assert len(named) > 200
    assert named - known == set()
    assert {key for key in known - named if not any(one.fullmatch(key) for one in built)} == set()


@pytest.mark.parametrize("locale", TRANSLATED)
def test_every_catalogue_has_the_same_keys_with_the_plurals_of_its_language(locale: str) -> None:
    source, texts = catalogue(SOURCE), catalogue(locale)
    plurals = {found[1] for key in source if (found := _PLURAL.fullmatch(key))}
    needed = {f"{key}_{category}" for key in plurals for category in plural_categories(locale)}
    assert needed <= texts.keys()
    assert plain(texts) == plain(source)
    assert {key for key in texts if not _PLURAL.fullmatch(key)} == plain(source) - plurals
    assert all(text.strip() for text in texts.values())


@pytest.mark.parametrize("locale", TRANSLATED)
def test_every_translation_has_the_values_and_elements_of_its_source(locale: str) -> None:
    source = catalogue(SOURCE)
    for key, text in catalogue(locale).items():
        found = _PLURAL.fullmatch(key)
        of = source[f"{found[1]}_other" if found else key]
        required, allowed = set(_VALUE.findall(of)), set(_VALUE.findall(text))
        if found and found[2] in ("zero", "one", "two"):
            required -= {"count"}  # "the last one" has no figure
        assert required <= allowed <= set(_VALUE.findall(of)), key
        assert sorted(_ELEMENT.findall(text)) == sorted(_ELEMENT.findall(of)), key


@pytest.mark.parametrize("locale", TRANSLATED)
def test_no_sentence_is_left_in_the_source_language(locale: str) -> None:
    source = catalogue(SOURCE)
    same = {key for key, text in catalogue(locale).items() if text == source.get(key) and len(text.split()) > 3}
    assert same == set()


def subclasses(kind: type[errors.DragomanError]) -> Iterator[type[errors.DragomanError]]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_code_of_an_error_and_of_a_warning_has_its_sentence() -> None:
    never_answered = {errors.ConfigError.code}  # of a start
    server = errors.__name__.partition(".")[0]  # other packages have errors of their own, which no server answers with
    answered = (one for one in subclasses(errors.DragomanError) if one.__module__.partition(".")[0] == server)
    codes = {one.code for one in answered} - never_answered
    assert {code for code in codes if f"error.{code}" not in catalogue(SOURCE)} == set()
    warnings = {*WARNING_CODES, TEXT_GREW.rstrip(": ")}
    assert {key.removeprefix("warning.") for key in catalogue(SOURCE) if key.startswith("warning.")} == warnings | {
        "listed"
    }


def test_the_catalogue_can_be_translated_as_a_file() -> None:
    data = (STATIC / "locales" / f"{SOURCE}.json").read_bytes()
    content = read(data, ReadOptions("json", "de"))
    places = {unit.place for unit in content.units}
    left = {one.place for one in content.left}
    assert places | left == catalogue(SOURCE).keys()
    assert all(len(one.text.split()) <= 4 for one in content.left)
    assert not content.warnings


def test_style_sheets_name_no_side_of_the_line() -> None:
    """In a language that is written from right to left, the beginning of a line is at its other end."""
    sides = re.compile(
        r"(?:margin|padding|border)-(?:left|right)|(?:text-align|float|clear): (?:left|right)|[{;\s](?:left|right):"
    )
    found = {path.name: sides.findall(path.read_text(encoding="utf-8")) for path in STATIC.glob("*.css")}
    assert len(found) > 5
    assert not {name: sides for name, sides in found.items() if sides}
    scripts = [
        path for path in STATIC.glob("*.js") if re.search(r"\.style\.(left|right)\b", path.read_text(encoding="utf-8"))
    ]
    assert scripts == []
