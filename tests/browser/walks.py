"""What tasks of a translator take on the page: `python -m tests.browser.walks` writes the table of docs/page.md.

Each task is done by Chromium with a mouse or a finger and a keyboard, over the fake pipeline. A listener in the page
counts what the browser reports as a person's, so that a walk cannot leave out a step.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import docx
from playwright.async_api import Browser, FilePayload, Page, async_playwright, expect

from tests.browser.conftest import HANG_MS, documents_serving, installed_chromium
from tests.browser.stage import Stage
from tests.browser.tables import line, write

COUNTER = """(() => {
    const counts = { clicks: 0, menus: 0, files: 0, fields: 0, characters: 0, keys: 0 };
    const modifiers = ["Shift", "Control", "Alt", "Meta"];
    let field = null;
    addEventListener("pointerdown", (event) => { if (event.isTrusted) { counts.clicks += 1; field = null; } }, true);
    addEventListener("keydown", (event) => {
        if (!event.isTrusted || modifiers.includes(event.key)) return;
        if (event.key.length > 1 || event.ctrlKey || event.altKey || event.metaKey) counts.keys += 1;
    }, true);
    addEventListener("beforeinput", (event) => {
        if (!event.isTrusted || event.inputType !== "insertText") return;
        counts.characters += event.data.length;
        if (event.target !== field) counts.fields += 1;
        field = event.target;
    }, true);
    addEventListener("change", ({ target }) => {
        if (target.matches("select")) counts.menus += 1;
        if (target.matches("[type=file]")) counts.files += 1;
    }, true);
    globalThis.stepsTaken = counts;
})()"""

LETTER = "My daughter is a designer. The bakery is across from the stadium.\nThis grilled fish is too salty."
STORY = "\n\n".join(["Anna opens the door.", "The train leaves soon.", "Anna closes the door.", "Anna waits."])
TERMS = "train\t기차\nplatform\t승강장\n"
PAGES = 40
MISTAKES = 5


@dataclass(frozen=True, slots=True)
class Steps:
    """What a person did."""

    clicks: int
    menus: int
    files: int
    fields: int
    characters: int
    keys: int


@dataclass(frozen=True, slots=True)
class Task:
    """`how`: its steps, in the words of docs/page.md; `begin`: what was there before, which is not counted."""

    title: str
    how: str
    do: Callable[[Page], Awaitable[None]]
    begin: Callable[[Page], Awaitable[None]] | None = None
    phone: bool = False


def word_file() -> bytes:
    """Pages of sentences that the fake knows, and some that it does not, whose translations are in doubt."""
    document = docx.Document()
    for page in range(1, PAGES + 1):
        for _ in range(8):
            document.add_paragraph(LETTER.replace("\n", " "))
        if page % (PAGES // MISTAKES) == 0:
            paragraph = document.add_paragraph("The ")
            paragraph.add_run("train").bold = True
            paragraph.add_run(f" leaves soon from platform {page}.")
        document.add_page_break()
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


async def choose_file(page: Page, label: str, file: FilePayload) -> None:
    """Click on what opens the system's dialogue, and choose a file there."""
    async with page.expect_file_chooser() as chooser:
        await page.click(label)
    await (await chooser.value).set_files([file])


async def download(page: Page, button: str) -> bytes:
    async with page.expect_download() as waiting:
        await page.click(button)
    return Path(await (await waiting.value).path()).read_bytes()


async def choose_korean(page: Page) -> None:
    await page.click("#target-language")
    await page.keyboard.type("kor")
    await expect(page.locator("[role=option][data-active]")).to_have_attribute("data-value", "ko")
    await page.keyboard.press("Enter")


# ---- the tasks


async def translate_letter(page: Page) -> None:
    await page.evaluate("text => navigator.clipboard.writeText(text)", LETTER)  # copied elsewhere
    await page.keyboard.press("Control+V")
    await expect(page.locator("#source")).to_have_value(LETTER)
    await expect(page.locator("#output[data-phase=done]")).not_to_be_empty()
    await choose_korean(page)
    await expect(page.locator("#output[data-phase=done]")).to_contain_text("제 딸은 디자이너예요.")
    await page.click("#copy")
    await expect(page.locator("#copy")).to_be_focused()
    assert "제 딸은 디자이너예요." in await page.evaluate("navigator.clipboard.readText()")


async def correct_report(page: Page) -> None:
    await choose_korean(page)  # which the glossary is for then, too
    await page.click("nav >> text=Glossaries")
    await choose_file(page, "#make-file", FilePayload(name="Railway.tsv", mimeType="", buffer=TERMS.encode()))
    await page.click("#make button")
    await expect(page.locator("#entries tr")).to_have_count(2)
    await page.click("nav >> text=Documents")
    await page.click(".options summary")
    await page.select_option("#glossary-choice", label="Railway")
    await choose_file(page, "label[for=file]", FilePayload(name="report.docx", mimeType="", buffer=word_file()))
    await expect(page.locator("#download")).to_be_enabled()
    await page.select_option("#find-kind", "doubtful")
    await expect(page.locator(".segment")).to_have_count(MISTAKES)
    await expect(page.locator(".segment .text", has_text="기차")).to_have_count(MISTAKES)
    await page.locator(".segment .text").first.click()
    for number in range(MISTAKES):
        row = page.locator(".segment").nth(number)
        await expect(row.locator(".field")).to_be_focused()
        await page.keyboard.press("Control+A")
        await page.keyboard.type("<g1>기차</g1>가 곧 떠나요.")
        await page.keyboard.press("Control+Enter")
        await expect(row).to_have_attribute("data-edited", "")
    content = docx.Document(BytesIO(await download(page, "#download")))
    assert [paragraph.text for paragraph in content.paragraphs].count("기차가 곧 떠나요.") == MISTAKES


async def open_story(page: Page) -> None:
    """A document that is translated into Korean, and open."""
    await page.click("nav >> text=Documents")
    await choose_korean(page)
    await page.set_input_files("#file", FilePayload(name="story.md", mimeType="", buffer=STORY.encode()))
    await expect(page.locator("#download")).to_be_enabled()
    await expect(page.locator(".segment")).to_have_count(4)


async def replace_name(page: Page) -> None:
    await page.click("#find-text")
    await page.keyboard.type("Anna")
    await page.click("#replace-open")
    await page.keyboard.type("안나")
    await page.keyboard.press("Enter")
    await expect(page.locator("#replacements li")).to_have_count(3)
    await page.click("#replace-apply")
    await expect(page.locator(".segment[data-edited]")).to_have_count(3)


async def send_xliff(page: Page) -> None:
    sent = await download(page, "#download-xliff")
    changed = sent.decode().replace("ko:train", "기차")
    file = FilePayload(name="story.xliff", mimeType="", buffer=changed.encode())
    await choose_file(page, "label[for=xliff]", file)
    await expect(page.locator(".segment").nth(1).locator(".text")).to_contain_text("기차")
    assert "기차" in (await download(page, "#download")).decode()


async def fits(page: Page) -> None:
    assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def translate_on_phone(page: Page) -> None:
    await page.tap("#source")
    await page.keyboard.type("This grilled fish is too salty.")
    await page.tap("#target-language")
    await page.keyboard.type("kor")
    await page.locator("[role=option]").first.tap()
    await expect(page.locator("#output[data-phase=done]")).to_have_text("이 생선구이는 너무 짜요.")
    await fits(page)
    await page.tap("#copy")


async def correct_on_phone(page: Page) -> None:
    await page.tap("text=story.md")
    row = page.locator(".segment").nth(1)
    await row.locator(".text").tap()
    await row.locator(".field").press("Control+A")
    await page.keyboard.type("기차가 곧 떠나요.")
    await fits(page)
    await row.get_by_role("button", name="Save", exact=True).tap()
    await expect(row).to_have_attribute("data-edited", "")
    await fits(page)


async def close_story(page: Page) -> None:
    await open_story(page)
    await page.click("text=All documents")
    await expect(page.locator("#document-list li").first).to_be_visible()


TASKS = (
    Task("Translate a letter", "paste it, choose the language, copy the translation", translate_letter),
    Task(
        f"Correct a Word file of {PAGES} pages, with a glossary that is a TSV file",
        f"make the glossary, choose it, upload, correct the {MISTAKES} doubtful segments one after the other, download",
        correct_report,
    ),
    Task(
        "Find and replace a name in an open document", "search, replace, look at the preview, confirm",
        replace_name, open_story,
    ),
    Task(
        "Send an open document's XLIFF file to a CAT tool and take it back", "download XLIFF, take it back, download",
        send_xliff, open_story,
    ),
    Task("Translate a sentence on a phone", "type it, choose the language, copy", translate_on_phone, phone=True),
    Task("Correct a segment on a phone", "open the document, correct, save", correct_on_phone, close_story, phone=True),
)  # fmt: skip


@asynccontextmanager
async def reader(browser: Browser, task: Task) -> AsyncGenerator[Page]:
    """A new reader's page, of the size of their device; a script that fails in it fails the walk."""
    size: Any = {"width": 390, "height": 844} if task.phone else {"width": 1280, "height": 900}
    context = await browser.new_context(viewport=size, locale="en-GB", has_touch=task.phone, is_mobile=task.phone)
    context.set_default_timeout(HANG_MS)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await context.add_init_script(COUNTER)
    page = await context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    await context.close()
    assert faults == []


async def walk(browser: Browser, stage: Stage, task: Task) -> Steps:
    """Do a task; returns what it took."""
    async with reader(browser, task) as page:
        await page.goto(stage.url)
        await expect(page.locator("#target-language")).not_to_have_value("")
        if task.begin:
            await task.begin(page)
        await page.evaluate("for (const name in stepsTaken) stepsTaken[name] = 0")
        await task.do(page)
        return Steps(**await page.evaluate("stepsTaken"))


def row(task: Task, steps: Steps) -> str:
    """A task's line of the table."""
    numbers = [str(getattr(steps, field.name) or "–") for field in fields(Steps)]
    return line([f"{task.title}: {task.how}", *numbers])


async def main() -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=installed_chromium())
        rows: list[str] = []
        for task in TASKS:
            with tempfile.TemporaryDirectory() as folder:
                async with documents_serving(Path(folder)) as stage:
                    rows.append(row(task, await walk(browser, stage, task)))
                    print(rows[-1])
        await browser.close()
    write("walks", ["task", *(field.name for field in fields(Steps))], rows)


if __name__ == "__main__":
    asyncio.run(main())
