"""One Chromium for the run, a fresh profile for each test, and a page that may not have complained of anything.

Chromium is the machine's (`DRAGOMAN_CHROMIUM` names another), or the one that `playwright install chromium` brought.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, Page, async_playwright, expect

from dragoman.storage.database import Database
from tests.browser.stage import Stage, make_service, serving
from tests.waiting import HANG_S

HANG_MS = 1000 * HANG_S
expect.set_options(timeout=HANG_MS)
SLOW_STEP_S = 0.25
_AUDIT = (files("tests.browser") / "audit.js").read_text(encoding="utf-8")
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no windows' own pages, which take a process and a second of CPU time for each test."""
_REFUSED = "Failed to load resource"  # Chromium's note on any answer from 400 on: tests of errors ask for those


def installed_chromium() -> str | None:
    """The path of the Chromium to use; None: that of Playwright."""
    return os.environ.get("DRAGOMAN_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(executable_path=installed_chromium())
        except Error as fault:
            missing = pytest.fail if os.environ.get("CI") else pytest.skip
            missing(f"no Chromium: apt-get install chromium, or playwright install chromium ({fault.message[:80]})")
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
async def stage() -> AsyncIterator[Stage]:
    """A server that serves, shared by the tests that leave it as it was."""
    service = make_service()
    async with serving(service) as stage:
        await service.start()
        yield stage


@pytest.fixture(scope="session")
async def slow_stage() -> AsyncIterator[Stage]:
    """A server that takes so long over a text that a test can act meanwhile, on however busy a machine."""
    service = make_service(SLOW_STEP_S)
    async with serving(service) as stage:
        await service.start()
        yield stage


@pytest.fixture(scope="session")
async def documents_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A server that translates documents, shared by the tests that each upload their own."""
    folder = tmp_path_factory.mktemp("documents")
    async with documents_serving(folder) as stage:
        yield stage


@pytest.fixture
async def context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    context = await chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    context.set_default_timeout(HANG_MS)
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """An empty tab. The test fails if a script failed in it, or if its policy forbade something."""
    page = await context.new_page()
    complaints: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and _REFUSED not in message.text:
            complaints.append(message.text)

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []


@pytest.fixture
async def live(page: Page, stage: Stage) -> Page:
    """The page of the shared server, ready, translating into Korean."""
    await open_page(page, stage)
    return page


@pytest.fixture
async def slow(page: Page, slow_stage: Stage) -> Page:
    """The page of the slow server, likewise."""
    await open_page(page, slow_stage)
    return page


@asynccontextmanager
async def documents_serving(folder: Path, step_s: float = 0.0, **options: Any) -> AsyncIterator[Stage]:
    """A server without keys, whose documents are in a folder. `options`: of `make_service`."""
    database = Database(f"sqlite:///{folder}/dragoman.db")
    await database.open()
    service = make_service(step_s, database, documents=folder / "files", **options)
    async with serving(service) as stage:
        await service.start()
        yield stage


async def audit(page: Page, name: str) -> list[Any]:
    """What a function of audit.js finds in the page."""
    return await page.evaluate(f"() => {{ {_AUDIT}\n return {name}(); }}")


async def choose_language(page: Page, picker: str, tag: str) -> None:
    """Choose a language in one of the pickers, "" to have it detected."""
    await expect(page.locator(picker)).not_to_have_value("")  # the languages are there
    await page.click(picker)
    await page.locator(f"[role=option][data-value='{tag}']").last.click()
    await expect(page.locator(picker)).to_have_attribute("data-value", tag)


async def open_page(page: Page, stage: Stage, target: str = "ko") -> None:
    await page.goto(stage.url)
    await choose_language(page, "#target-language", target)


async def open_engine(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.url}engine")
    await expect(page.locator("#burst-rows li")).to_have_count(25)
    await choose_language(page, "#target-language", "ko")


async def open_document(page: Page, stage: Stage, content: str | bytes, name: str = "report.md") -> None:
    """Upload a file that is translated into Korean, and wait until it is done and shown."""
    await open_page(page, stage)
    await page.click("text=Documents")
    data = content.encode() if isinstance(content, str) else content
    await page.set_input_files("#file", {"name": name, "mimeType": "", "buffer": data})
    await expect(page.locator("#review-title")).to_have_text(name)
    await expect(page.locator("#download")).to_be_enabled()
    await expect(page.locator(".segment").first).to_be_visible()
