"""Edits that are not saved: no way of leaving a segment loses one, but discarding it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Dialog, Locator, Page, Route, expect

from tests.browser.accessibility import violations
from tests.browser.conftest import open_document
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser

TEXT = "My daughter is a designer.\n\nThe train leaves soon.\n\nNothing else is to be seen here.\n"
EDIT = "기차가 곧 떠납니다."


@pytest.fixture
async def review(page: Page, documents_stage: Stage) -> AsyncIterator[Page]:
    """A document with an edit in its second segment that is being typed."""
    await open_document(page, documents_stage, TEXT)
    await row(page).locator(".text").click()
    await field(page).fill(EDIT)
    yield page
    if not page.is_closed():
        await page.unroute_all()


def row(page: Page) -> Locator:
    return page.locator(".segment").nth(1)


def field(page: Page) -> Locator:
    return row(page).locator(".field")


async def drafts(page: Page) -> int:
    return await page.evaluate("Object.keys(localStorage).filter((name) => name.startsWith('dragoman.draft')).length")


async def leave(page: Page, how: str) -> None:
    """Leave the document in one of the ways, and come back."""
    address = page.url
    match how:
        case "All documents":
            await page.click("text=All documents")
            await expect(page.locator("#document-list .drafts").first).to_have_text("1 unsaved edit")
            await page.goto(address)
        case "Back":
            await page.go_back()
            await expect(page.locator("#review-title")).to_be_hidden()
            await page.go_forward()
        case "reload":
            await page.reload()
        case _:
            other = await page.context.new_page()
            await page.close()
            await other.goto(address)
            await expect(row(other).locator(".reasons .draft")).to_be_visible()
            await other.close()


@pytest.mark.parametrize("how", ["All documents", "Back", "reload", "another tab"])
async def test_an_edit_that_is_not_saved_is_there_when_the_reader_comes_back(review: Page, how: str) -> None:
    await leave(review, how)
    if review.is_closed():
        return
    await expect(review.locator("#review-drafts")).to_contain_text("1 edit of yours is not saved")
    await expect(row(review).locator(".reasons .draft")).to_contain_text("not saved")
    assert await violations(review) == []
    await review.locator("#review-drafts button").focus()
    await review.keyboard.press("Enter")
    await expect(row(review)).to_be_focused()
    await review.keyboard.press("Enter")
    await expect(field(review)).to_have_text(EDIT)
    await expect(row(review).locator(".editor .draft")).to_contain_text("not saved")
    await review.keyboard.press("Control+Enter")
    await expect(field(review)).to_have_count(0)
    await expect(row(review).locator(".text")).to_have_text(EDIT)
    await expect(review.locator("#review-drafts")).to_be_hidden()
    assert await drafts(review) == 0


@pytest.mark.parametrize("how", ["Escape", "Discard", "the same text"])
async def test_an_edit_that_is_discarded_is_gone(review: Page, how: str) -> None:
    before = await row(review).locator(".text").text_content()
    match how:
        case "Escape":
            await review.keyboard.press("Escape")
        case "Discard":
            await review.reload()
            await row(review).get_by_role("button", name="Discard").click()
            await expect(row(review)).to_be_focused()
        case _:
            await review.reload()
            await row(review).get_by_role("button", name="Go on editing").click()
            await row(review).get_by_role("button", name="saved translation").click()
            await expect(field(review)).to_have_text(before or "")
    await expect(review.locator("#review-drafts")).to_be_hidden()
    assert await drafts(review) == 0
    await review.reload()
    await expect(row(review).locator(".text")).to_have_text(before or "")
    await expect(row(review).locator(".reasons .draft")).to_have_count(0)


async def test_what_was_discarded_by_mistake_is_had_back(review: Page) -> None:
    await review.keyboard.press("Escape")
    await row(review).get_by_role("button", name="Undo").press("Enter")
    await expect(field(review)).to_have_text(EDIT)
    await expect(field(review)).to_be_focused()
    assert await drafts(review) == 1
    await review.keyboard.press("Escape")
    assert await drafts(review) == 0


async def test_what_was_changed_in_another_tab_meanwhile_is_not_overwritten_unseen(review: Page) -> None:
    other = await review.context.new_page()
    await other.goto(review.url)
    await row(other).locator(".text").click()
    await field(other).fill("다른 번역")
    await other.keyboard.press("Control+Enter")
    await expect(row(other).locator(".text")).to_have_text("다른 번역")
    await review.wait_for_function("Object.keys(localStorage).some((name) => name.startsWith('dragoman.draft'))")

    await field(review).focus()
    await review.keyboard.press("Control+Enter")
    await expect(row(review).locator(".editor .draft")).to_contain_text("changed since")
    await expect(field(review)).to_be_focused()
    await expect(field(review)).to_have_text(EDIT)
    assert await drafts(review) == 1
    await row(review).get_by_role("button", name="saved translation").click()
    await expect(field(review)).to_have_text("다른 번역")
    await review.keyboard.type("!")
    await review.keyboard.press("Control+Enter")
    await expect(row(review).locator(".text")).to_have_text("다른 번역!")

    await row(other).get_by_role("button", name="is reviewed").click()  # of what is another by now
    await expect(row(other).locator(".text")).to_have_text("다른 번역!")
    await expect(row(other)).to_have_attribute("data-reviewed", "")
    await expect(row(other).get_by_role("alert")).to_contain_text("changed since")


@pytest.mark.parametrize("status", [0, 401, 409, 500, 503])
async def test_an_edit_that_could_not_be_saved_is_kept(review: Page, status: int) -> None:
    """`status` 0: the server is gone."""

    async def refuse(route: Route) -> None:
        if route.request.method != "PATCH":
            await route.fallback()
        elif not status:
            await route.abort("connectionrefused")
        else:
            await route.fulfill(status=status, json={"error": {"code": "unauthenticated", "message": "planted"}})

    await review.route("**/segments/*", refuse)
    await field(review).press("Control+Enter")
    if status == 401:
        await review.click("#key-cancel")
    await expect(row(review).locator("[role=alert] .fault")).to_be_visible()
    await expect(field(review)).to_be_focused()
    await expect(field(review)).to_have_text(EDIT)
    await expect(field(review)).to_be_editable()
    await review.reload()
    await row(review).get_by_role("button", name="Go on editing").click()
    await expect(field(review)).to_have_text(EDIT)
    await review.unroute_all()
    await review.keyboard.press("Control+Enter")
    await expect(row(review)).to_have_attribute("data-edited", "")
    assert await drafts(review) == 0


async def test_an_edit_whose_answer_was_lost_is_saved_by_the_next_attempt(review: Page) -> None:
    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort("connectionreset")

    await review.route("**/segments/*", lose)
    await field(review).press("Control+Enter")
    await expect(row(review).locator("[role=alert] .fault")).to_be_visible()
    await review.unroute_all()
    await field(review).press("Control+Enter")
    await expect(field(review)).to_have_count(0)
    await expect(row(review).locator(".text")).to_have_text(EDIT)
    assert await drafts(review) == 0


async def test_a_translation_that_was_changed_meanwhile_is_said(review: Page) -> None:
    number = await review.evaluate("location.hash.split('/')[1]")
    answer = await review.request.patch(
        f"{review.url.partition('#')[0]}v1/documents/{number}/segments/1", data={"translation": "기차"}
    )
    assert answer.ok
    await review.reload()
    await row(review).get_by_role("button", name="Go on editing").click()
    await expect(row(review).locator(".editor .draft")).to_contain_text("was changed since")


async def test_where_the_browser_keeps_nothing_it_asks_before_the_page_is_left(review: Page) -> None:
    await review.evaluate(
        "() => { Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }; }"
    )
    await field(review).press_sequentially("!")
    await review.click("text=All documents")  # within the page nothing is lost
    await expect(review.locator("#document-list .drafts").first).to_have_text("1 unsaved edit")
    asked: list[str] = []

    async def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.accept()

    review.on("dialog", answer)
    await review.reload()
    assert asked == ["beforeunload"]


@pytest.mark.parametrize("gone", ["here", "elsewhere"])
async def test_drafts_end_with_their_document(review: Page, gone: str) -> None:
    assert await drafts(review) == 1
    if gone == "here":
        review.on("dialog", lambda dialog: dialog.accept())
        await review.click("#review-delete")
        await expect(review.locator("#documents-title")).to_be_visible()
    else:
        number = await review.evaluate("location.hash.split('/')[1]")
        await review.request.delete(f"{review.url.partition('#')[0]}v1/documents/{number}")
        await review.reload()
        await expect(review.locator("#review-notes .fault")).to_be_visible()
    assert await drafts(review) == 0


async def test_drafts_are_bounded(review: Page) -> None:
    await review.evaluate(
        """() => {
            const draft = (at, text) => JSON.stringify({text, base: "", at, mark: "0000"});
            for (let n = 0; n < 210; n++) localStorage.setItem(`dragoman.draft OTHER ${n}`, draft(Date.now() + n, "x"));
            localStorage.setItem("dragoman.draft OLD 1", draft(Date.now() - 31 * 86400e3, "x"));
        }"""
    )
    await review.reload()
    await review.wait_for_function("localStorage.getItem('dragoman.draft OLD 1') === null")
    await row(review).get_by_role("button", name="Go on editing").click()
    await field(review).press_sequentially("!")
    assert await drafts(review) == 200
    await review.reload()
    await expect(row(review).locator(".reasons .draft")).to_be_visible()
    await review.evaluate("localStorage.clear()")
