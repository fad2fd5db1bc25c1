"""The page of a server that needs keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect

from dragoman.service.stack import account_store
from dragoman.storage.database import Database
from dragoman.types import Account, KeyRole
from tests.browser.accessibility import violations
from tests.browser.conftest import choose_language
from tests.browser.stage import Stage, make_service, serving

pytestmark = pytest.mark.browser


@pytest.fixture
async def keyed_stage(tmp_path: Path) -> AsyncIterator[tuple[Stage, dict[KeyRole, str]]]:
    """A server, and a key of each role."""
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    await database.open()
    keys = account_store(database).keys
    roles: tuple[KeyRole, ...] = ("translate", "operator")
    made: dict[KeyRole, str] = {role: (await keys.create(Account("", role, role)))[1] for role in roles}
    service = make_service(database=database)
    async with serving(service) as stage:
        await service.start()
        yield stage, made


async def enter(page: Page, key: str) -> None:
    await page.fill("#key", key)
    await page.keyboard.press("Enter")


async def test_a_key_is_asked_for_once_and_kept_for_the_tab(
    page: Page, keyed_stage: tuple[Stage, dict[KeyRole, str]]
) -> None:
    stage, keys = keyed_stage
    await page.goto(stage.url)
    await expect(page.locator("#key-dialog")).to_be_visible()
    await enter(page, "drg_wrong")
    await expect(page.locator("#key-reason")).to_contain_text("does not know")
    await enter(page, keys["operator"])
    await expect(page.locator("#key-dialog")).to_be_hidden()
    for _ in range(2):
        await choose_language(page, "#target-language", "ko")
        await page.fill("#source", "hello")
        await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")
        await page.reload()
        await expect(page.locator("#key-dialog")).to_be_hidden()
    await page.goto(f"{stage.url}engine")
    await expect(page.locator("#state")).to_have_attribute("data-state", "serving")
    assert keys["operator"] not in str(await page.evaluate("JSON.stringify(localStorage)")) + page.url


async def test_a_key_that_is_no_operators_translates_and_shows_no_statistics(
    page: Page, keyed_stage: tuple[Stage, dict[KeyRole, str]]
) -> None:
    stage, keys = keyed_stage
    await page.goto(stage.url)
    await enter(page, keys["translate"])
    await choose_language(page, "#target-language", "ko")
    await page.fill("#source", "hello")
    await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")
    await page.goto(f"{stage.url}engine")
    await expect(page.locator("#state")).to_have_attribute("data-state", "lost")
    await expect(page.locator("#burst-rows li")).to_have_count(25)


async def translates(page: Page) -> None:
    await choose_language(page, "#target-language", "ko")
    await page.fill("#source", "hello")
    await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")


@pytest.mark.parametrize("how", ["button", "Escape"])
async def test_a_reader_who_cancels_is_asked_again_when_they_want(
    page: Page, keyed_stage: tuple[Stage, dict[KeyRole, str]], how: str
) -> None:
    stage, keys = keyed_stage
    await page.goto(stage.url)
    await expect(page.locator("#key-dialog")).to_be_visible()
    assert await violations(page) == []
    for _ in range(2):
        await (page.click("#key-cancel") if how == "button" else page.keyboard.press("Escape"))
        await expect(page.locator("#notes")).to_contain_text("needs a key")
        await expect(page.locator("#key-dialog")).to_be_hidden()
        assert await violations(page) == []
        await page.click("#key-again")
        await expect(page.locator("#key")).to_be_focused()
    await enter(page, keys["translate"])
    await expect(page.locator("#key-notice")).to_be_hidden()
    await translates(page)


@pytest.mark.parametrize("path", ["", "engine"])
async def test_what_failed_without_a_key_is_tried_again_with_one(
    page: Page, keyed_stage: tuple[Stage, dict[KeyRole, str]], path: str
) -> None:
    """On the engine's page, and in the view of documents, where the reader may be when they cancel."""
    stage, keys = keyed_stage
    await page.goto(f"{stage.url}{path or '#documents'}")
    await page.click("#key-cancel")
    await page.click("#key-again")
    await enter(page, keys["operator"])
    if path:
        await expect(page.locator("#state")).to_have_attribute("data-state", "serving")
        await expect(page.locator("#burst-rows li")).to_have_count(25)
    else:
        await expect(page.locator("#target-language")).not_to_have_value("")
        await expect(page.locator("#documents-title")).to_be_visible()


async def test_tabs_share_a_key_and_forget_it_together(
    page: Page, context: BrowserContext, keyed_stage: tuple[Stage, dict[KeyRole, str]]
) -> None:
    stage, keys = keyed_stage
    await page.goto(stage.url)
    await enter(page, keys["translate"])
    await expect(page.locator("#target-language")).not_to_have_value("")
    other = await context.new_page()
    await other.goto(stage.url)
    await translates(other)
    assert keys["translate"] not in await other.evaluate("JSON.stringify(localStorage)")
    await other.click("#key-open")
    await other.click("#key-forget")
    await expect(other.locator("#key-dialog")).to_be_visible()
    await page.reload()
    await expect(page.locator("#key-dialog")).to_be_visible()
    await enter(other, keys["translate"])  # and the waiting tab goes on
    await translates(page)
    await other.close()
    await page.close()
    last = await context.new_page()
    await last.goto(stage.url)
    await expect(last.locator("#key-dialog")).to_be_visible()  # no tab was left that had it


async def test_a_key_is_kept_on_the_device_if_the_reader_wants_that(
    page: Page, context: BrowserContext, keyed_stage: tuple[Stage, dict[KeyRole, str]]
) -> None:
    stage, keys = keyed_stage
    await page.goto(stage.url)
    await page.check("#key-on-device")
    await enter(page, keys["translate"])
    await translates(page)
    await page.close()
    later = await context.new_page()
    await later.goto(stage.url)
    await translates(later)
    await later.click("#key-open")
    await expect(later.locator("#key-on-device")).to_be_checked()
    await later.click("#key-forget")
    await expect(later.locator("#key-dialog")).to_be_visible()
    assert keys["translate"] not in await later.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
