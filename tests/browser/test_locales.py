"""The page in the languages that it has: no view says anything in another one, to eyes or to assistive technology."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.async_api import Browser, FilePayload, Locator, Page, expect

from dragoman.api.web.page import STATIC
from dragoman.storage.database import Database
from tests.browser.accessibility import pale, structural
from tests.browser.conftest import HANG_MS, audit, choose_language, documents_serving
from tests.browser.stage import Stage, make_service, serving
from wholetext.files.formats import all_formats

pytestmark = pytest.mark.browser

LOCALES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (STATIC / "locales").glob("*.json")}
TRANSLATED = sorted(set(LOCALES) - {"en"})
UNSPACED = {"ja", "ko", "zh"}
_VALUE = re.compile(r"\{\{\w+\}\}")
_LATIN = re.compile(r"[A-Za-z]{3,}")
_NAMES = {
    *_LATIN.findall(
        "dragoman Word Writer PowerPoint Impress Excel Calc PDF HTML Markdown XLIFF TMX TSV CSV API URL Ctrl Enter"
    ),
    *_LATIN.findall(
        "Alt Esc Custom Key key drg edits curl KISS Immersive Translate Translator Zotero Subtitle Edit Weblate"
    ),
    *_LATIN.findall(
        "Mastodon DeepL OpenAI LibreTranslate CommonMark Docusaurus MDX MkDocs Jekyll Hugo Obsidian Quarto MyST"
    ),
    *_LATIN.findall("VitePress English Deutsch stage fake cpu"),
}
"""Names, and what has no other word in these languages."""
TEXT = "Trains {name}, 42 of them."
FILE = "Trains that **arrive** late.\n\nTrains that leave soon.\n"
_USERS = {*_LATIN.findall(f"{TEXT} {FILE} Railway train xyz letter.doc")} | {
    *_LATIN.findall(" ".join(extension for one in all_formats() for extension in one.extensions))
}
"""Words of the texts that this test types, uploads and gets back."""
_SENTENCES = [
    sentence
    for topic in json.loads((STATIC / "sentences.json").read_text(encoding="utf-8")).values()
    for one in topic
    for sentence in one.values()
]
_BROWSERS = {"No file chosen"}  # Chromium's own, in its language


def is_text(said: str) -> bool:
    """Whether it is a text to translate, a line to copy, or a language's own name."""
    copied = said.startswith(("curl ", "http://", "xxxxx"))
    return copied or said in {*_BROWSERS, "Español", "Français"} or any(one in said for one in _SENTENCES)


def plain(locale: str) -> dict[tuple[str, str], str]:
    """The texts of a catalogue by section and key, without elements."""
    sections: dict[str, dict[str, str]] = LOCALES[locale]
    texts = {(section, key): text for section, texts in sections.items() for key, text in texts.items()}
    return {place: re.sub(r"</?(kbd|code)>", "", text) for place, text in texts.items()}


def pattern(text: str) -> re.Pattern[str]:
    """What a text with values in it may become."""
    return re.compile(".+".join(map(re.escape, _VALUE.split(text))))


@cache
def english(locale: str) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Patterns of the English texts that have words of their own, each with that of the same text in a language."""
    own = plain(locale)
    words = {
        place: text for place, text in plain("en").items() if _LATIN.search(_VALUE.sub("", text)) and text not in _NAMES
    }
    common = set(own.values())
    return tuple(
        (pattern(text), pattern(own[place])) for place, text in words.items() if place in own and text not in common
    )


async def spoken(page: Page) -> set[str]:
    """All that the accessibility tree says: names, descriptions and values."""
    session = await page.context.new_cdp_session(page)
    tree = cast("Any", await session.send("Accessibility.getFullAXTree"))
    nodes: list[dict[str, Any]] = tree["nodes"]
    await session.detach()
    said: set[str] = set()
    for node in nodes:
        if node.get("ignored") or node["role"]["value"] == "InlineTextBox":
            continue
        values: list[dict[str, Any]] = [node.get(name, {}) for name in ("name", "description", "value")]
        properties = cast("list[dict[str, Any]]", node.get("properties", []))
        values += [one["value"] for one in properties if one["name"] in ("roledescription", "valuetext")]
        said |= {str(one["value"]).strip() for one in values if one.get("value")}
    assert len(said) > 5
    hints = "all => all.filter((one) => one.checkVisibility()).map((one) => one.placeholder || one.title)"
    return said | {*await page.locator("[placeholder], [title]").evaluate_all(hints)}


def foreign(locale: str, said: set[str]) -> Iterator[str]:
    """Texts that are English; in a language that is not written in Latin letters, all that have Latin words but names."""
    for text in said:
        if is_text(text):
            continue
        is_english = any(theirs.fullmatch(text) and not ours.fullmatch(text) for theirs, ours in english(locale))
        has_latin = locale in UNSPACED and set(_LATIN.findall(text)) - _NAMES - _USERS
        if is_english or has_latin:
            yield text


@asynccontextmanager
async def reading(chromium: Browser, locale: str) -> AsyncGenerator[Page]:
    """A tab of a reader of this language; a script that fails in it fails the test."""
    context = await chromium.new_context(viewport={"width": 1280, "height": 900}, locale=locale)
    context.set_default_timeout(HANG_MS)
    page = await context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    assert faults == []
    await context.close()


class Walk:
    """Looks at one view after the other."""

    def __init__(self, page: Page, locale: str, check: Callable[[Page], Awaitable[list[str]]] = structural) -> None:
        self.page = page
        self.locale = locale
        self.check = check
        self.found: dict[str, list[str]] = {}

    async def look(self, view: str) -> None:
        found = sorted(foreign(self.locale, await spoken(self.page)))
        found += [*await self.check(self.page), *await audit(self.page, "cutOff")]
        if found:
            self.found[view] = found

    def button(self, section: str, key: str, **values: str) -> Locator:
        """A button by the catalogue's name for it."""
        return self.page.get_by_role("button", name=self.said(section, key, **values), exact=True)

    def said(self, section: str, key: str, **values: str) -> str:
        return _VALUE.sub(lambda found: values[found[0].strip("{}")], LOCALES[self.locale][section][key])


async def walk_texts(walk: Walk, stage: Stage) -> None:
    page = walk.page
    await page.goto(stage.url)
    await choose_language(page, "#target-language", "ko")
    await walk.look("texts, empty")
    await page.click("#past summary")
    await page.check("#past-on")
    await page.fill("#source", TEXT)
    await expect(page.locator("#notes p").first).to_be_visible()
    await page.click("#more")
    await expect(page.locator(".alternative").nth(1)).to_be_visible()
    await page.click(".options summary")
    await page.fill("#glossary", "xyz")
    await page.click("#connect summary")
    await page.click("#target-language")
    await walk.look("a translation")
    await page.fill("#source", "x" * 5001)
    await expect(page.locator("#notes[data-kind=error]")).not_to_be_empty()
    await walk.look("an error")


async def walk_documents(walk: Walk, stage: Stage) -> None:
    page = walk.page
    await page.goto(f"{stage.url}#documents")
    await page.set_input_files("#file", FilePayload(name="letter.md", mimeType="", buffer=FILE.encode()))
    await expect(page.locator(".segment .warning").first).to_be_visible()
    await page.locator(".segment").first.locator(".pencil").click()
    await page.keyboard.type("xyz ")
    await walk.button("segment", "alternatives").first.click()
    await expect(page.locator(".editor .alternative").first).to_be_visible()
    await page.fill("#find-text", "ko")
    await page.click("#replace-open")
    await page.fill("#replacement", "xyz")
    await page.click("#replace button[type=submit]")
    await expect(page.locator("#replacements li").first).to_be_visible()
    await walk.look("a document")
    await page.click("#replace-apply")
    await expect(page.locator("#replace-status")).to_contain_text(re.compile(r"\d"))
    await walk.look("a document after replacing")
    await page.click(".back a >> visible=true")
    await page.set_input_files("#file", FilePayload(name="letter.doc", mimeType="", buffer=b"x"))
    await expect(page.locator("#upload-notes .fault")).to_be_visible()
    await page.click(".formats summary")
    await expect(page.locator("#document-list li").first).to_be_visible()
    await walk.look("documents")


async def walk_collections(walk: Walk, stage: Stage) -> None:
    page = walk.page
    for kind in ("glossaries", "memories"):
        name = f"Railway {walk.locale}"
        await page.goto(f"{stage.url}#{kind}")
        await page.fill("#make-name", name)
        await page.click("#make button")
        await expect(page.locator("#entries-title")).to_be_focused()
        await expect(page.locator("#entries-status")).not_to_be_empty()
        await walk.look(f"{kind}: one without entries")
        for text in ("train", "xyz"):
            await page.fill("#entry-text", text)
            await page.fill("#entry-translation", "기차")
            await page.click("#entry-add button")
            await expect(page.locator("#entries tr th").filter(has_text=text)).to_be_visible()
        await walk.button("entries", "delete_named", text="xyz").click()
        await expect(page.locator("#entries-status button")).to_be_focused()
        await walk.button("entries", "edit_named", text="train").click()
        await walk.look(f"{kind}: entries")
        await page.click("#entries-back")
        await page.fill("#make-name", name)  # there is one of this name
        await page.click("#make button")
        await expect(page.locator("#collections-fault")).not_to_be_empty()
        await walk.look(f"{kind}, an error")


async def walk_engine(walk: Walk, stage: Stage) -> None:
    page = walk.page
    await page.goto(f"{stage.url}engine")
    await expect(page.locator("#burst-rows li")).to_have_count(25)
    await walk.look("the engine")
    await page.click("#send")
    await expect(page.locator("#burst-result")).not_to_be_empty()
    await page.click("#history summary")
    await expect(page.locator("#history-table tbody tr").first).to_be_visible()
    await walk.look("the engine after a burst")


async def walk_all(walk: Walk, stage: Stage) -> None:
    await walk_texts(walk, stage)
    await walk_documents(walk, stage)
    await walk_collections(walk, stage)
    await walk_engine(walk, stage)


@pytest.mark.parametrize("locale", sorted(LOCALES))
async def test_no_view_says_anything_in_another_language_or_is_faulted_by_axe(
    chromium: Browser, tmp_path: Path, locale: str
) -> None:
    async with documents_serving(tmp_path) as stage, reading(chromium, locale) as page:
        walk = Walk(page, locale)
        await walk_all(walk, stage)
        assert walk.found == {}
        assert await page.get_attribute("html", "lang") == locale


@pytest.mark.acceptance
@pytest.mark.parametrize("locale", ["de", "ja"])  # colours are the same in all languages, fonts by their script
async def test_no_text_of_any_view_is_pale_in_light_or_dark(chromium: Browser, tmp_path: Path, locale: str) -> None:
    async with documents_serving(tmp_path) as stage, reading(chromium, locale) as page:
        walk = Walk(page, locale, pale)
        await walk_all(walk, stage)
        assert walk.found == {}


@pytest.mark.parametrize("locale", TRANSLATED)
async def test_the_key_and_a_server_that_starts_are_explained_in_the_reader_s_language(
    chromium: Browser, tmp_path: Path, locale: str
) -> None:
    database = Database(f"sqlite:///{tmp_path}/keys.db")
    await database.open()
    async with reading(chromium, locale) as page, serving(make_service(database=database)) as stage:
        walk = Walk(page, locale)
        await page.goto(stage.url)
        await expect(page.get_by_role("dialog")).to_be_visible()
        await walk.look("the key")
        await walk.button("key", "not_now").click()
        await expect(page.locator("#key-notice")).to_be_visible()
        await walk.look("without a key")
        assert walk.found == {}
    async with reading(chromium, locale) as page, serving(make_service()) as stage:
        walk = Walk(page, locale)
        await page.goto(stage.url)
        await choose_language(page, "#target-language", "ko")
        await page.fill("#source", "xyz")
        await expect(page.locator("#notes")).to_contain_text(LOCALES[locale]["error"]["starting"])
        await walk.look("a server that starts")
        assert walk.found == {}


async def test_the_walk_finds_english(chromium: Browser, stage: Stage) -> None:
    async with reading(chromium, "en") as page:
        await page.goto(stage.url)
        await choose_language(page, "#target-language", "ko")
        said = await spoken(page)
        assert {"Detect language", "Type or paste text", "Memories"} <= {*foreign("de", said)}
        assert {"Detect language", "Type or paste text", "Memories"} <= {*foreign("ja", said)}


async def test_the_language_is_the_browser_s_until_another_one_is_chosen(chromium: Browser, stage: Stage) -> None:
    async with reading(chromium, "fr-CA") as page:
        await page.goto(stage.url)
        await expect(page.locator("html")).to_have_attribute("lang", "fr")
        await choose_language(page, "#target-language", "ko")
        await page.fill("#source", "xyz")
        await page.select_option("#page-language", "de")
        await expect(page.locator("html")).to_have_attribute("lang", "de")
        await expect(page.locator("html")).to_have_attribute("dir", "ltr")
        await expect(page.locator("#source")).to_have_value("xyz")
        await expect(page.locator("#target-language")).to_have_value("Koreanisch · 한국어")
        await page.goto(f"{stage.url}engine")
        await expect(page.locator("#page-language")).to_have_value("de")
        await expect(page.locator("#engine-title")).to_have_text(LOCALES["de"]["engine"]["title"])
    async with reading(chromium, "sw-KE") as page:  # not one of the page's
        await page.goto(stage.url)
        await expect(page.locator("html")).to_have_attribute("lang", "en")


async def test_plurals_are_those_of_the_language(chromium: Browser, stage: Stage) -> None:
    async with reading(chromium, "fr") as page:
        await page.goto(f"{stage.url}web/icon.svg")
        said = await page.evaluate("""async () => {
            const { t } = await import("/web/i18n.js");
            return [0, 1, 2, 1_000_000].map((count) => t("count.characters", { count }));
        }""")
        assert said == ["0 caractère", "1 caractère", "2 caractères", "1\u202f000\u202f000 de caractères"]
        for locale in TRANSLATED:
            keys = {key for section in LOCALES[locale].values() for key in section if key.startswith("characters_")}
            categories = await page.evaluate(
                "tag => new Intl.PluralRules(tag).resolvedOptions().pluralCategories", locale
            )
            assert keys == {f"characters_{category}" for category in categories}
