"""The section "Use it from…": the server's own address for each program, and a line to copy."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import violations
from tests.browser.conftest import audit, open_page
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser


async def open_section(page: Page) -> None:
    await page.locator("#connect summary").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#program")).to_be_visible()


async def programs(page: Page) -> list[str]:
    return await page.locator("#program option").all_inner_texts()


async def test_each_program_has_this_server_s_address_and_a_line_to_copy(live: Page, stage: Stage) -> None:
    await open_section(live)
    await expect(live.locator("#connect-key")).to_contain_text("needs none")
    names = await programs(live)
    assert len(names) == 10 == len(set(names))
    lines: set[str] = set()
    for name in names:
        await live.select_option("#program", name)
        for id in ("#connect-address", "#connect-line"):
            assert stage.url.rstrip("/") in await live.locator(id).inner_text(), (name, id)
        line = await live.locator("#connect-line").inner_text()
        assert "KEY=" not in line and "KEY'" not in line, line
        lines.add(line)
    assert len(lines) > 6


async def test_where_keys_are_needed_it_says_where_one_goes(page: Page, stage: Stage) -> None:
    async def settings(route: object) -> None:
        response = await route.fetch()  # type: ignore[attr-defined]
        await route.fulfill(response=response, json=await response.json() | {"keyRequired": True})  # type: ignore[attr-defined]

    await page.route("**/frontend/settings", settings)
    await open_page(page, stage)
    await open_section(page)
    for name in await programs(page):
        await page.select_option("#program", name)
        assert "KEY" in await page.locator("#connect-key").inner_text()


async def test_the_line_is_copied_with_the_keyboard_alone(live: Page, stage: Stage) -> None:
    await live.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_section(live)
    await live.keyboard.press("Tab")
    assert await live.evaluate("document.activeElement.id") == "program"
    await live.keyboard.type("Masto")
    await live.keyboard.press("Tab")
    assert await live.evaluate("document.activeElement.id") == "copy-line"
    said = asyncio.create_task(live.locator("#copy-line", has_text="Copied").wait_for())  # for a second and a half
    await live.keyboard.press("Enter")
    await said
    copied = await live.evaluate("navigator.clipboard.readText()")
    assert copied == f"LIBRE_TRANSLATE_ENDPOINT={stage.url.rstrip('/')}"


async def test_it_reads_well_on_small_screens_and_in_the_dark(live: Page) -> None:
    await open_section(live)
    for name in await programs(live):
        await live.select_option("#program", name)
        for width in (320, 768):
            await live.set_viewport_size({"width": width, "height": 740})
            assert await live.evaluate("document.documentElement.scrollWidth") == width, name
            assert await audit(live, "cutOff") == []
    assert await violations(live) == []
