"""The page of a server that needs keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from dragoman.service.stack import account_store
from dragoman.storage.database import Database
from dragoman.types import Account, KeyRole
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
    await expect(page.locator("#key-reason")).to_contain_text("not accept")
    await enter(page, keys["operator"])
    await expect(page.locator("#key-dialog")).to_be_hidden()
    for _ in range(2):
        await page.select_option("#target-language", "ko")
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
    await page.select_option("#target-language", "ko")
    await page.fill("#source", "hello")
    await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")
    await page.goto(f"{stage.url}engine")
    await expect(page.locator("#state")).to_have_attribute("data-state", "lost")
    await expect(page.locator("#burst-rows li")).to_have_count(25)


async def test_a_reader_without_a_key_may_cancel(page: Page, keyed_stage: tuple[Stage, dict[KeyRole, str]]) -> None:
    stage, _ = keyed_stage
    await page.goto(stage.url)
    await page.click("#key-cancel")
    await expect(page.locator("#notes")).to_contain_text("needs a key")
    await expect(page.locator("#key-dialog")).to_be_hidden()
