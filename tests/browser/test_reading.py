"""Accessibility of the page: small screens, keyboards, screen readers, dark colours, reduced motion."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import audit, open_page
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser


async def fill_everything(page: Page) -> None:
    """Bring the page into the state with the most to read."""
    await page.fill("#source", "hello {name}, welcome")
    await expect(page.locator("#notes p").first).to_be_visible()
    await page.click("#send")
    await expect(page.locator("#send")).to_have_text("Send 25 more")
    await page.locator("#history summary").click()
    await page.mouse.move(0, 0)


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
async def test_nothing_scrolls_sideways(live: Page, width: int) -> None:
    await live.set_viewport_size({"width": width, "height": 740})
    await fill_everything(live)
    sizes = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    wide, shown = await live.evaluate(sizes)
    assert (wide, shown) == (width, width)
    assert await audit(live, "cutOff") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_stands_out_from_its_ground(live: Page, scheme: Any) -> None:
    await live.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await fill_everything(live)
    assert await audit(live, "paleTexts") == []


async def test_dark_is_dark_and_light_is_light(live: Page) -> None:
    grounds: dict[str, float] = {}
    for scheme in ("light", "dark"):
        await live.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        assert len(await live.screenshot()) > 10_000
        grounds[scheme] = (await audit(live, "groundLuminance"))[0]
    assert grounds["dark"] < 0.02 < 0.8 < grounds["light"]


async def test_everything_has_a_name_and_a_place(live: Page) -> None:
    await fill_everything(live)
    assert await audit(live, "nameless") == []
    assert await audit(live, "repeatedIds") == []
    assert await audit(live, "skippedHeadings") == []
    assert await audit(live, "outsideLandmarks") == []
    assert await live.get_attribute("html", "lang") == "en"
    assert await live.title() == "dragoman"
    for role in ("banner", "main", "navigation"):
        await expect(live.get_by_role(role)).to_have_count(1)


async def test_the_keyboard_reaches_everything_in_reading_order(live: Page) -> None:
    await live.fill("#source", "hello")
    await expect(live.locator("#copy")).to_be_enabled()
    await live.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    await live.mouse.click(3, 3)
    reached: list[str] = []
    for _ in range(13):
        await live.keyboard.press("Tab")
        reached.append(await live.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached == [
        *("API", "Metrics", "source-language", "swap", "target-language", "source"),
        *("Translate", "example", "copy", "Format and glossary", "The same as a table", "send"),
        reached[-1],
    ]


async def test_the_keyboard_alone_translates_and_bursts(live: Page) -> None:
    await live.focus("#source")
    await live.keyboard.type("hello")
    await live.keyboard.press("Control+Enter")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:hello")
    assert await live.evaluate("document.activeElement.id") == "source"
    await live.focus("#send")
    await live.keyboard.press("Enter")
    await expect(live.locator("#send")).to_have_text("Send 25 more")
    assert await live.evaluate("document.activeElement.id") == "send"


async def test_the_focus_can_be_seen(live: Page) -> None:
    for control in ("#source-language", "#source", "#example", "#send", "#history summary"):
        await live.focus(control)
        await live.keyboard.press("Shift")  # as one does who has no mouse
        style = (
            "element => [getComputedStyle(element).outlineStyle, parseFloat(getComputedStyle(element).outlineWidth)]"
        )
        outline, width = await live.locator(control).evaluate(style)
        assert (control, outline, width >= 2) == (control, "solid", True)


async def test_little_motion_is_none(live: Page) -> None:
    await live.emulate_media(reduced_motion="reduce")
    assert await audit(live, "moving") == []
    await live.emulate_media(reduced_motion="no-preference")
    assert await audit(live, "moving") != []  # the audit finds motion where there is some


async def test_without_javascript_the_page_says_how_to_do_without(chromium: Browser, stage: Stage) -> None:
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(stage.url)
    await expect(page.locator("noscript code")).to_contain_text("/v1/translate")
    await context.close()


async def test_fingers_find_targets_large_enough(live: Page, stage: Stage) -> None:
    await live.set_viewport_size({"width": 360, "height": 740})
    await open_page(live, stage)
    assert await audit(live, "smallTargets") == []
