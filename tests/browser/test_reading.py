"""Accessibility of the pages: small screens, keyboards, screen readers, dark colours, reduced motion."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.accessibility import violations
from tests.browser.conftest import audit, open_document, open_engine, open_page
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser


VIEWS = ("text", "documents", "review", "collections", "entries", "engine", "docs")


@pytest.fixture
async def view(request: pytest.FixtureRequest, page: Page, stage: Stage, documents_stage: Stage) -> Page:
    """One of the views, in the state with the most to read."""
    match request.param:
        case "text":
            await open_page(page, stage)
            await page.fill("#source", "hello {name}, welcome")
            await expect(page.locator("#notes p").first).to_be_visible()
            await page.click("#more")
            await expect(page.locator(".alternative").first).to_be_visible()
            await page.click(".options summary")
        case "engine":
            await open_engine(page, stage)
            await page.click("#send")
            await expect(page.locator("#send")).to_have_text("Send 25 more")
            await page.locator("#history summary").click()
        case "docs":
            await page.goto(f"{stage.url}docs")
            await page.locator("#operations summary").nth(2).click()
        case "collections" | "entries":
            await open_page(page, documents_stage)
            await page.click("nav >> text=Glossaries")
            terms = b"server,\xec\x84\x9c\xeb\xb2\x84\nqueue of very many words,x"
            name = f"{request.param} {request.node.name}"[:60]
            await page.set_input_files("#make-file", {"name": f"{name}.csv", "mimeType": "", "buffer": terms})
            await page.click("#make button")
            await page.get_by_role("button", name="Edit server").click()
            if request.param == "collections":
                await page.click("#entries-back")
                await page.fill("#make-name", f"{name}, too")
                await page.click("#make button")
                await page.click("#entries-back")
                await page.fill("#make-name", name)  # there is one of this name
                await page.click("#make button")
                await expect(page.locator("#collections-fault")).not_to_be_empty()
                await expect(page.locator("#collection-list li").nth(1)).to_be_visible()
        case _:
            await open_document(page, documents_stage, "Welcome to **all** of you here.\n\n" * 3)
            if request.param == "documents":
                await page.set_input_files("#file", {"name": "a.doc", "mimeType": "", "buffer": b"x"})
                await page.click("text=All documents")
                await expect(page.locator("#document-list li").first).to_be_visible()
                await expect(page.locator("#upload-notes .fault")).to_be_visible()
            else:
                await page.locator(".segment").nth(1).get_by_role("button", name="Alternatives").click()
                await expect(page.locator(".alternative").first).to_be_visible()
    await page.mouse.move(0, 0)
    return page


every_view = pytest.mark.parametrize("view", VIEWS, indirect=True)


@every_view
async def test_nothing_scrolls_sideways(view: Page) -> None:
    for width in (320, 360, 768, 1280):
        await view.set_viewport_size({"width": width, "height": 740})
        sizes = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        assert await view.evaluate(sizes) == [width, width]
        assert await audit(view, "cutOff") == []


@every_view
async def test_every_text_stands_out_from_its_ground(view: Page) -> None:
    for scheme in ("light", "dark"):
        await view.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # pyright: ignore[reportArgumentType]
        assert await audit(view, "paleTexts") == []


async def test_dark_is_dark_and_light_is_light(live: Page) -> None:
    grounds: dict[str, float] = {}
    for scheme in ("light", "dark"):
        await live.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        assert len(await live.screenshot()) > 10_000
        grounds[scheme] = (await audit(live, "groundLuminance"))[0]
    assert grounds["dark"] < 0.02 < 0.8 < grounds["light"]


@every_view
async def test_everything_has_a_name_and_a_place(view: Page) -> None:
    assert await violations(view) == []
    assert await view.get_attribute("html", "lang") == "en"
    assert "dragoman" in await view.title()
    for role in ("banner", "main", "navigation"):
        await expect(view.get_by_role(role)).to_have_count(1)


async def reached_by_tab(page: Page, count: int) -> list[str]:
    """Ids or texts of what the Tab key reaches one after the other."""
    await page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    await page.mouse.click(3, 3)
    reached: list[str] = []
    for _ in range(count):
        await page.keyboard.press("Tab")
        reached.append(await page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    return reached


async def test_the_keyboard_reaches_everything_in_reading_order(live: Page, stage: Stage) -> None:
    await live.fill("#source", "hello")
    await expect(live.locator("#copy")).to_be_enabled()
    assert await reached_by_tab(live, 18) == [
        *("Text", "Documents", "Glossaries", "Memories", "Engine", "API", "page-language"),
        *(
            "source-language",
            "swap",
            "target-language",
            "source",
            "Translate",
            "example",
            "clear",
            "output",
            "copy",
            "more",
            "Options and glossary",
        ),
    ]
    await live.click("text=Documents")
    assert (await reached_by_tab(live, 13))[7:] == [
        *("source-language", "swap", "target-language", "file", "Kinds of files", "Options and glossary"),
    ]
    await open_engine(live, stage)
    assert await reached_by_tab(live, 8) == [
        *("Translate", "Engine", "API", "Metrics", "page-language", "The same as a table", "target-language", "send"),
    ]


async def test_the_keyboard_reaches_every_segment(page: Page, documents_stage: Stage) -> None:
    await open_document(page, documents_stage, "Hello\n\nWelcome to **all** of you here.")
    await page.locator("#next-doubtful").focus()
    reached: list[str] = []
    for _ in range(7):
        await page.keyboard.press("Tab")
        active = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
        reached.append(await page.evaluate(active))
    assert reached == [
        *("Previous", "Edit segment 1", "Segment 1 is reviewed", "Edit segment 2", "Segment 2 is reviewed"),
        *("Accept", "Alternatives"),
    ]


async def test_the_keyboard_alone_translates_and_bursts(live: Page, stage: Stage) -> None:
    await live.focus("#source")
    await live.keyboard.type("hello")
    await live.keyboard.press("Control+Enter")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:hello")
    assert await live.evaluate("document.activeElement.id") == "source"
    await open_engine(live, stage)
    await live.focus("#send")
    await live.keyboard.press("Enter")
    await expect(live.locator("#send")).to_have_text("Send 25 more")
    assert await live.evaluate("document.activeElement.id") == "send"


@pytest.mark.parametrize(
    ("view", "controls"),
    [
        ("text", ("#source-language", "#source", "#example", "#more", ".alternative")),
        ("review", ("#next-doubtful", ".segment", ".segment .icon", ".editor .field", ".alternative")),
        ("engine", ("#send", "#history summary")),
    ],
    indirect=["view"],
)
async def test_the_focus_can_be_seen(view: Page, controls: tuple[str, ...]) -> None:
    for control in controls:
        await view.locator(control).first.focus()
        await view.keyboard.press("Shift")  # as one does who has no mouse
        style = (
            "element => [getComputedStyle(element).outlineStyle, parseFloat(getComputedStyle(element).outlineWidth)]"
        )
        outline, width = await view.locator(control).first.evaluate(style)
        assert (control, outline, width >= 2) == (control, "solid", True)


@every_view
async def test_little_motion_is_none(view: Page) -> None:
    await view.emulate_media(reduced_motion="reduce")
    assert await audit(view, "moving") == []


async def test_axe_finds_what_has_no_name_and_what_is_pale_in_the_dark(live: Page) -> None:
    await live.evaluate("document.querySelector('#swap').removeAttribute('aria-label')")
    colours = "element => Object.assign(element.style, {color: 'light-dark(#000, #444)', background: 'light-dark(#fff, #222)'})"
    await live.locator("#example").evaluate(colours)
    found = await violations(live)
    assert [one.partition(":")[0] for one in found] == ["button-name", "color-contrast"]


async def test_the_audit_finds_motion_where_there_is_some(page: Page, stage: Stage) -> None:
    await open_engine(page, stage)
    assert await audit(page, "moving") != []


async def test_without_javascript_the_page_says_how_to_do_without(chromium: Browser, stage: Stage) -> None:
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(stage.url)
    await expect(page.locator("noscript code")).to_contain_text("/v1/translate")
    await context.close()


@every_view
async def test_fingers_find_targets_large_enough(view: Page) -> None:
    await view.set_viewport_size({"width": 360, "height": 740})
    assert await audit(view, "smallTargets") == []
