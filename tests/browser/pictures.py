"""Takes the pictures of docs/page.md: `python -m tests.browser.pictures docs/images [URL]`.

The server is the tests', over the fake pipeline, which knows the sentences of the document. With the URL of a `dragoman serve`
with the packaged model, `page-document.png`, which README shows, is of that.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.async_api import Browser, FilePayload, Page, async_playwright, expect

from dragoman.api.web.page import STATIC
from tests.browser.conftest import (
    documents_serving,
    installed_chromium,
    open_document,
    open_engine,
    open_page,
)
from tests.browser.stage import Stage

TEXT = """# My daughter is a designer.

The express train to Vienna leaves from platform 4 at 5:15 PM.

The **train** leaves soon, and [this page](https://example.org) has its times.

I am from China, but I live in Vienna now.
"""


PAST = (
    "Could you wake me up at 8 AM tomorrow?",
    "Sales went up by 7% in January.",
    "How much is this shirt?",
)
LONG = "\n\n".join(
    " ".join(sentence["en"] for sentence in topic)
    for topic in json.loads((STATIC / "sentences.json").read_text(encoding="utf-8")).values()
)
STOPPED_STEP_S = 0.03
"""So slow that a long text is seen while it is translated."""
LETTER = "My daughter is a designer. The bakery is across from the stadium.\nThis grilled fish is too salty."


async def pictures_of_texts(browser: Browser, stage: Stage, folder: Path) -> None:
    """A text in the English page, with another translation; and in the Japanese one, with a sentence that is pointed at."""
    for locale, target, name in (("en-GB", "ja", "page-text"), ("ja-JP", "ko", "page-japanese")):
        context = await browser.new_context(viewport={"width": 1280, "height": 620}, locale=locale)
        page = await context.new_page()
        await open_page(page, stage, target)
        await page.fill("#source", LETTER)
        await expect(page.locator("#output[data-phase=done]")).not_to_be_empty()
        if locale == "ja-JP":
            await page.hover("#output", position={"x": 60, "y": 34})
        else:
            await page.click(".options summary")
        await page.screenshot(path=folder / f"{name}.png")
        await context.close()


async def pictures_of_long_and_past_texts(browser: Browser, folder: Path) -> None:
    """A long text whose translation is being stopped, and texts of before."""
    context = await browser.new_context(viewport={"width": 1280, "height": 820}, locale="en-GB")
    page = await context.new_page()
    with tempfile.TemporaryDirectory() as documents:
        async with documents_serving(Path(documents), STOPPED_STEP_S) as stage:
            await open_page(page, stage)
            await page.click("#past summary")
            await page.check("#past-on")
            for text in PAST:
                await page.fill("#source", text)
                await expect(page.locator("#output[data-phase=done]")).not_to_be_empty()
                await expect(page.locator("#past-list .begins").first).to_have_text(text)
                await page.fill("#source", "")
                await expect(page.locator("#output[data-phase]")).to_have_count(0)
            await page.locator("#past-list button").nth(1).click()
            await expect(page.locator("#output[data-phase=done]")).not_to_be_empty()
            await page.screenshot(path=folder / "page-history.png")
            await page.fill("#source", LONG)
            await page.wait_for_function("() => document.getElementById('output').textContent.length > 250")
            with stage.held():
                await page.hover("#stop")
                await page.screenshot(path=folder / "page-stop.png")
    await context.close()


async def picture_of_engine(page: Page, stage: Stage, folder: Path) -> None:
    """The engine after a burst."""
    await open_engine(page, stage)
    await page.click("#send")
    await expect(page.locator("#burst-result")).not_to_be_empty()
    await page.screenshot(path=folder / "page-engine.png")


async def pictures_of_review(page: Page, folder: Path) -> None:
    """A translation with marks that is edited, and a search with its replacements."""
    edited = page.locator(".segment").nth(2)
    await edited.locator(".pencil").click()
    await edited.locator(".field").fill("<g1>기차</g1>가 곧 떠나고, 시간은 <g2>이 페이지</g2>에 있어요.")
    await expect(edited.locator(".field .mark")).to_have_count(4)
    await edited.screenshot(path=folder / "page-marks.png")
    await page.keyboard.press("Control+Enter")
    await page.keyboard.press("Escape")
    await page.fill("#find-text", "빈")
    await page.click("#replace-open")
    await page.fill("#replacement", "비엔나")
    await page.keyboard.press("Enter")
    await expect(page.locator("#replacements li")).to_have_count(2)
    await expect(page.locator(".segment mark")).to_have_count(2)
    await page.screenshot(path=folder / "page-review.png")


async def picture_of_import(page: Page, stage: Stage, folder: Path) -> None:
    """What became of an XLIFF file that a translator's tool has changed: a translation is changed, another was changed here
    too, and of a third the marks are gone."""
    await open_document(page, stage, TEXT, "letter.md")
    async with page.expect_download() as download:
        await page.click("#download-xliff")
    data = Path(await (await download.value).path()).read_text(encoding="utf-8")
    targets = re.findall(r"<target[^>]*>(.*?)</target>", data)
    last, marked = targets[-1], next(one for one in targets if "<g " in one)
    changed = data.replace(f">{last}<", ">저는 중국에서 왔지만, 지금은 빈에 삽니다.<").replace(
        f">{marked}<", ">기차가 곧 떠납니다.<"
    )
    await page.locator(".segment .pencil").nth(1).click()
    await page.locator(".segment .field").fill("빈으로 가는 급행열차는 오후 5시 15분에 4번 승강장에서 출발합니다.")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.locator(".segment").nth(1)).to_have_attribute("data-edited", "")
    changed = changed.replace(f">{targets[1]}<", ">빈행 급행열차는 오후 5시 15분에 4번 승강장에서 떠납니다.<")
    file: FilePayload = {"name": "letter.xliff", "mimeType": "", "buffer": changed.encode()}
    await page.set_input_files("#xliff", [file])
    await expect(page.locator("#imported-list li")).to_have_count(2)
    await expect(page.locator(".segment").last).to_contain_text("삽니다")
    await page.screenshot(path=folder / "page-xliff.png")


async def pictures_on_a_phone(browser: Browser, stage: Stage, folder: Path) -> None:
    """A text, and a document of which a segment is edited, on a phone whose colours are dark."""
    context = await browser.new_context(
        viewport={"width": 390, "height": 844}, locale="en-GB", color_scheme="dark", has_touch=True, is_mobile=True
    )
    page = await context.new_page()
    await open_page(page, stage)
    await page.fill("#source", LETTER)
    await expect(page.locator("#output[data-phase=done]")).not_to_be_empty()
    await page.screenshot(path=folder / "page-phone-text.png")
    await open_document(page, stage, TEXT, "letter.md")
    await page.locator(".segment .pencil").nth(2).click()
    await expect(page.locator(".segment .field")).to_be_focused()
    await page.screenshot(path=folder / "page-phone-document.png")
    await context.close()


async def pictures_of_collections(page: Page, stage: Stage, folder: Path) -> None:
    """A glossary with a term that is edited, and what the edits of the document have added to a memory."""
    await page.goto(f"{stage.url}#glossaries")
    terms = "train\t기차\nplatform\t승강장\nticket\t승차권\nconductor\t승무원\n"
    await page.set_input_files("#make-file", {"name": "Railway.tsv", "mimeType": "", "buffer": terms.encode()})
    await page.click("#make button")
    await page.get_by_role("button", name="Edit platform").click()
    await page.screenshot(path=folder / "page-glossary.png")
    await page.goto(f"{stage.url}#memories")
    await page.click("#collection-list >> text=edits")
    await page.fill("#entries-find", "기차")
    await expect(page.locator("#entries tr")).to_have_count(1)
    await page.screenshot(path=folder / "page-memory.png")


async def main(folder: Path, packaged_url: str | None = None) -> None:
    """Take all pictures. `packaged_url`: a server with the packaged model."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=installed_chromium())
        context = await browser.new_context(viewport={"width": 1280, "height": 820}, locale="en-GB")
        with tempfile.TemporaryDirectory() as documents:
            async with documents_serving(Path(documents), remembers=True) as stage:
                page = await context.new_page()
                await open_document(page, replace(stage, url=packaged_url or stage.url), TEXT, "letter.md")
                await page.screenshot(path=folder / "page-document.png")
                if packaged_url:
                    await open_document(page, stage, TEXT, "letter.md")
                await pictures_of_review(page, folder)
                await picture_of_import(page, stage, folder)
                await pictures_of_collections(page, stage, folder)
                await pictures_of_texts(browser, stage, folder)
                await pictures_of_long_and_past_texts(browser, folder)
                await pictures_on_a_phone(browser, stage, folder)
                await picture_of_engine(page, stage, folder)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
