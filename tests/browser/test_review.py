"""Reviewing a document as in a translator's editor: search, filters, replacing, and the way from segment to segment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Locator, Page, Route, expect

from tests.browser.accessibility import violations
from tests.browser.conftest import audit, open_document
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser

TEXT = """Anna **opens** the door.

The train leaves soon.

Anna closes the door.

Nothing else is to be seen here.
"""


@pytest.fixture
async def review(page: Page, documents_stage: Stage) -> Page:
    """The text, translated: the fake puts `ko:` before each word."""
    await open_document(page, documents_stage, TEXT, "letter.md")
    return page


def numbers(page: Page) -> Locator:
    return page.locator(".segment .place b")


def row(page: Page, number: int) -> Locator:
    return page.locator(f'.segment[data-n="{number - 1}"]')


async def faults(page: Page) -> list[object]:
    return [*await violations(page), *await audit(page, "cutOff")]


async def test_segments_are_searched_filtered_and_replaced_after_a_look(review: Page) -> None:
    await expect(numbers(review)).to_have_text(["1", "2", "3", "4"])
    await review.fill("#find-text", "ANNA")
    await expect(numbers(review)).to_have_text(["1", "3"])
    await expect(review.locator("#found-count")).to_have_text("2 segments")
    await expect(review.locator(".source mark")).to_have_text(["Anna", "Anna"])
    await review.check("#find-case")
    await expect(numbers(review)).to_have_count(0)
    await review.uncheck("#find-case")

    await review.click("#replace-open")
    await expect(review.locator("#replacement")).to_be_focused()
    await review.keyboard.type("Eva")
    await review.keyboard.press("Enter")
    changes = review.locator("#replacements li")
    await expect(changes.locator("ins")).to_contain_text(["ko:Eva ko:", "ko:Eva ko:closes ko:the ko:door."])
    await changes.nth(1).get_by_role("checkbox").uncheck()
    assert await faults(review) == []
    await review.get_by_role("button", name="Replace in 1 segment").click()
    await expect(review.locator("#replace-status")).to_have_text("1 segment changed.")
    await expect(review.locator("#replace-undo")).to_be_focused()
    await expect(row(review, 1).locator(".text")).to_contain_text("ko:Eva")
    await expect(row(review, 1)).to_have_attribute("data-edited", "")
    await expect(row(review, 1)).not_to_have_attribute("data-reviewed", "")
    await review.click("#replace-undo")
    await expect(row(review, 1).locator(".text")).to_contain_text("ko:Anna")
    await expect(row(review, 1)).not_to_have_attribute("data-edited", "")
    await expect(review.locator("#replace-undo")).to_be_focused()
    await review.click("#replace-undo")  # of the step back
    await expect(row(review, 1)).to_have_attribute("data-edited", "")

    await review.fill("#replacement", "Ina")
    await review.fill("#find-text", "ko")
    await review.click("#replace button[type=submit]")  # before the search, which waits for more letters
    await expect(numbers(review)).to_have_count(4)
    await expect(changes).to_have_count(4)
    await review.fill("#find-text", "")
    await expect(changes).to_have_count(0)
    await expect(numbers(review)).to_have_count(4)
    doubtful = await review.locator(".segment[data-doubted] .place b").all_inner_texts()
    kinds = {"edited": ["1"], "doubtful": doubtful, "unreviewed": ["1", "2", "3", "4"], "reviewed": []}
    for kind, found in kinds.items():
        await review.select_option("#find-kind", kind)
        await expect(numbers(review)).to_have_text(found)
    await review.select_option("#find-kind", "")
    await expect(numbers(review)).to_have_count(4)


async def test_what_was_replaced_is_shown_though_an_answer_from_before_comes_after_it(review: Page) -> None:
    held = asyncio.Event()

    async def late(route: Route) -> None:
        answer = await route.fetch()
        await held.wait()
        await route.fulfill(response=answer)

    await review.route("**/segments?n=*", late)
    await review.fill("#find-text", "Anna")
    await review.click("#replace-open")
    await review.fill("#replacement", "Eva")
    await review.keyboard.press("Enter")
    await review.click("#replace-apply")
    await expect(review.locator("#replace-status")).to_have_text("2 segments changed.")
    held.set()
    await expect(review.locator(".segment[data-edited]")).to_have_count(2)


async def test_the_keyboard_alone_goes_through_segments_saves_reviews_and_restores(review: Page) -> None:
    await row(review, 1).focus()
    await review.keyboard.press("ArrowDown")
    await expect(row(review, 2)).to_be_focused()
    assert review.url.endswith("/2")
    await review.keyboard.press("Enter")
    await review.keyboard.press("Control+A")
    await review.keyboard.type("기차")
    await review.keyboard.press("Control+Enter")
    await expect(row(review, 3).locator(".field")).to_be_focused()
    await expect(row(review, 2).locator(".reasons")).to_contain_text("edited, reviewed")
    await review.keyboard.press("Escape")
    await expect(row(review, 3)).to_be_focused()
    await review.keyboard.press("Control+Enter")
    await expect(row(review, 4)).to_be_focused()
    await expect(row(review, 3)).to_have_attribute("data-reviewed", "")
    await review.keyboard.press("ArrowDown")  # there is none
    await expect(row(review, 4)).to_be_focused()

    await row(review, 2).get_by_role("button", name="Restore").press("Enter")
    await expect(row(review, 2).locator(".text")).to_have_text("ko:The ko:train ko:leaves ko:soon.")
    await expect(row(review, 2)).not_to_have_attribute("data-reviewed", "")
    tick = row(review, 4).get_by_role("button", name="is reviewed")
    await tick.press("Enter")
    await expect(tick).to_have_attribute("aria-pressed", "true")
    await expect(row(review, 4)).not_to_have_attribute("data-doubted", "")
    await tick.press("Enter")
    await expect(row(review, 4)).to_have_attribute("data-doubted", "")


async def test_a_link_leads_to_a_segment_in_its_place_also_out_of_a_search(page: Page, documents_stage: Stage) -> None:
    lines = [f"line {number % 50}" for number in range(600)]
    await open_document(page, documents_stage, "\n\n".join(lines), "long.md")
    address = page.url.partition("#")
    name = "/".join(address[2].split("/")[:2])
    await page.goto(f"{address[0]}#{name}/500")
    await expect(row(page, 500)).to_be_focused()
    await expect(row(page, 500)).to_be_in_viewport()
    await page.fill("#find-text", "line 7")
    await expect(page.locator("#found-count")).to_have_text("12 segments")
    await page.evaluate("name => location.hash = name", f"{name}/1")
    await expect(row(page, 1)).to_be_focused()
    await expect(page.locator("#find-text")).to_have_value("")
    await page.reload()
    await expect(row(page, 1)).to_be_focused()


async def test_a_mark_goes_as_a_whole_and_is_one_when_it_is_typed(review: Page) -> None:
    first = row(review, 1)
    await first.locator(".pencil").click()
    field = first.locator(".field")
    await expect(field.locator(".mark")).to_have_text(["⟨B", "B⟩"])
    await review.keyboard.press("Control+Home")
    for _ in "ko:Anna ko:":
        await review.keyboard.press("Delete")
    await expect(field.locator(".mark")).to_have_count(2)
    await review.keyboard.press("Delete")
    await expect(field.locator(".mark")).to_have_text(["B⟩"])
    await review.keyboard.type("A<g1>n")
    await expect(field.locator(".mark")).to_have_text(["⟨B", "B⟩"])
    await first.get_by_role("button", name="Save", exact=True).click()
    await expect(field).to_have_count(0)
    await expect(first.locator(".text")).to_have_text("Anopens ko:the ko:door.")
    await expect(first.locator(".text b")).to_have_text("nopens")


def written(field: Locator) -> Awaitable[str]:
    """What is in the box, with marks as they are written."""
    return field.evaluate("box => [...box.childNodes].map((node) => node.dataset?.mark ?? node.data ?? '|').join('')")


async def test_what_is_put_into_the_box_is_taken_back_as_what_is_typed(review: Page) -> None:
    first = row(review, 1)
    await first.locator(".pencil").click()
    field = first.locator(".field")
    machine = await written(field)
    await review.keyboard.type("a ")
    await first.locator(".insert").first.click()
    await review.keyboard.type("b<x7/>c")
    steps = [await written(field)]
    while steps[-1] != machine and len(steps) < 10:
        await review.keyboard.press("Control+z")
        steps.append(await written(field))
    ends = ["a <g1>b<x7/>c", "a <g1>b<x7/>", "a <g1>b<x7/>", "a <g1>", "a ", ""]  # a mark was characters before
    assert steps == [machine + end for end in ends]
    await review.keyboard.press("Control+Shift+z")
    assert await written(field) == f"{machine}a "

    await first.get_by_role("button", name="Save", exact=True).click()
    await first.locator(".pencil").click()
    await review.keyboard.type("b")
    await first.locator(".editor").get_by_role("button", name="machine").click()
    assert await written(field) == machine
    await review.keyboard.press("Control+z")
    assert await written(field) == f"{machine}a b"


async def test_marks_are_moved_with_cut_and_paste(review: Page) -> None:
    first = row(review, 1)
    await first.locator(".pencil").click()
    field = first.locator(".field")
    machine = await written(field)
    await review.keyboard.press("Control+A")
    await review.keyboard.press("Control+X")
    await expect(field).to_have_text("")
    await review.keyboard.type("Now ")
    await review.keyboard.press("Control+V")
    await review.keyboard.type("!")
    assert await written(field) == f"Now {machine}!"
    await first.get_by_role("button", name="Save", exact=True).click()
    await expect(field).to_have_count(0)
    await expect(first.locator(".text b")).to_have_text("opens")


async def test_a_line_break_at_the_end_is_one_and_an_empty_box_has_none(review: Page) -> None:
    await row(review, 2).locator(".pencil").click()
    save = row(review, 2).get_by_role("button", name="Save", exact=True)
    await review.keyboard.press("Enter")
    async with review.expect_request(lambda request: request.method == "PATCH") as first:
        await save.click()
    assert json.loads((await first.value).post_data or "")["translation"] == "ko:The ko:train ko:leaves ko:soon.\n"
    await row(review, 2).locator(".pencil").click()
    await review.keyboard.press("Control+A")
    await review.keyboard.press("Delete")
    async with review.expect_request(lambda request: request.method == "PATCH") as second:
        await save.click()
    assert json.loads((await second.value).post_data or "")["translation"] == ""


@pytest.mark.parametrize("typed", ["", "안나!"])
async def test_what_is_replaced_is_not_undone_by_a_box_that_was_open(review: Page, typed: str) -> None:
    await review.fill("#find-text", "Anna")
    await expect(numbers(review)).to_have_text(["1", "3"])
    await row(review, 3).locator(".pencil").click()
    await review.keyboard.type(typed)
    await review.click("#replace-open")
    await review.fill("#replacement", "Eva")
    await review.keyboard.press("Enter")
    await review.click("#replace-apply")
    await expect(row(review, 3)).to_have_attribute("data-edited", "")
    replaced = "ko:Eva ko:closes ko:the ko:door."
    box = row(review, 3).locator(".field")
    await expect(box).to_have_text(f"ko:Anna ko:closes ko:the ko:door.{typed}" if typed else replaced)
    await expect(row(review, 3).locator(".editor")).to_contain_text("changed since")
    assert await faults(review) == []
    if typed:
        await row(review, 3).get_by_role("button", name="saved translation").click()
    await box.press("Control+Enter")
    await expect(row(review, 3).locator(".text")).to_have_text(replaced)


async def test_a_phone_has_room_for_segments_beside_the_tools(page: Page, documents_stage: Stage) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    words = "Anna opens the door and closes it. " * 100
    await open_document(
        page, documents_stage, "\n\n".join([words, *(f"Anna {number}" for number in range(20))]), "long.md"
    )
    await row(page, 1).locator(".pencil").click()
    await row(page, 1).locator(".field").press("Control+Home")
    await page.keyboard.type("1")
    await expect(row(page, 1).get_by_role("button", name="Save", exact=True)).to_be_in_viewport()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("2")
    await expect(row(page, 1).get_by_role("button", name="Save", exact=True)).to_be_in_viewport()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    await page.fill("#find-text", "Anna")
    await page.click("#replace-open")
    await page.keyboard.press("Enter")
    await expect(page.locator("#replacements li")).to_have_count(21)
    assert await page.locator("#review-tools").evaluate("tools => tools.offsetHeight / innerHeight") < 0.6


@pytest.mark.parametrize("before", [True, False])
async def test_an_input_method_composes_beside_a_mark(review: Page, before: bool) -> None:
    first = row(review, 1)
    await first.locator(".pencil").click()
    field = first.locator(".field")
    machine = await written(field)
    place = "mark => getSelection().collapse(mark.parentNode, [...mark.parentNode.childNodes].indexOf(mark) + %d)"
    await field.locator(".mark").first.evaluate(place % (not before))
    session = await review.context.new_cdp_session(review)
    for text in ("え", "えき", "駅"):
        composed = {"text": text, "selectionStart": len(text), "selectionEnd": len(text)}
        await session.send("Input.imeSetComposition", composed)
    await session.send("Input.insertText", {"text": "駅"})
    assert await written(field) == machine.replace("<g1>", "駅<g1>" if before else "<g1>駅")


async def test_segments_that_came_into_sight_without_a_network_are_there_when_it_is_back(
    page: Page, documents_stage: Stage
) -> None:
    await open_document(page, documents_stage, "\n\n".join(f"line {number}" for number in range(900)), "long.md")
    await page.context.set_offline(True)
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(page.locator("#review-notes .fault")).to_be_visible()
    await expect(row(page, 900)).to_have_count(0)
    await page.context.set_offline(False)
    await expect(row(page, 900)).to_be_visible()
    await expect(page.locator("#review-notes .fault")).to_have_count(0)


async def test_a_server_that_is_ready_and_lacks_segments_is_asked_now_and_then(
    page: Page, documents_stage: Stage
) -> None:
    await open_document(page, documents_stage, "\n\n".join(f"line {number}" for number in range(900)), "long.md")
    asked = list[str]()

    async def refuse(route: Route) -> None:
        asked.append(route.request.url)
        await route.fulfill(status=503, json={"error": {"code": "unavailable", "message": "planted"}})

    await page.route("**/segments?*", refuse)
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(page.locator("#review-notes .fault")).to_be_visible()
    for _ in range(20):  # round trips, each of which is longer than one of a page that asks at once
        await page.request.get(f"{page.url.partition('#')[0]}readyz")
    assert len(asked) <= 4 * len(set(asked))
    await page.unroute_all()
    await expect(row(page, 900)).to_be_visible()


async def test_a_box_that_is_being_saved_takes_no_mark(review: Page) -> None:
    held = asyncio.Event()

    async def wait(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await review.route("**/segments/*", wait)
    await row(review, 1).locator(".pencil").click()
    box = row(review, 1).locator(".field")
    before = await written(box)
    await review.keyboard.press("Control+Enter")
    await expect(box).to_have_attribute("aria-readonly", "true")
    await row(review, 1).locator(".insert").first.click()
    assert (await written(box), await box.get_attribute("contenteditable")) == (before, "false")
    held.set()
    await expect(row(review, 1)).to_have_attribute("data-reviewed", "")


async def test_at_400_percent_nothing_covers_a_segment(review: Page) -> None:
    await review.set_viewport_size({"width": 320, "height": 225})
    await row(review, 3).locator(".pencil").scroll_into_view_if_needed()
    await row(review, 3).locator(".pencil").click()
    await expect(row(review, 3).locator(".field")).to_be_focused()
    assert await faults(review) == []


async def exported(page: Page) -> str:
    async with page.expect_download() as download:
        await page.click("#download-xliff")
    return Path(await (await download.value).path()).read_text(encoding="utf-8")


async def give_back(page: Page, data: str) -> None:
    file = FilePayload(name="letter.xliff", mimeType="", buffer=data.encode())
    await page.set_input_files("#xliff", [file])


async def test_an_exported_file_comes_back_from_a_translators_tool(review: Page) -> None:
    data = await exported(review)
    await give_back(review, data.replace("ko:train", "기차").replace('ko:<g id="1">opens</g>', "ko:opens"))
    imported = review.locator("#review-imported")
    await expect(imported).to_contain_text("1 segment changed, 1 not taken")
    await expect(imported.locator("li")).to_contain_text("each mark of the source once")
    await expect(row(review, 2).locator(".text")).to_contain_text("기차")
    assert await faults(review) == []
    await imported.get_by_role("link", name="1").click()
    await expect(row(review, 1)).to_be_focused()
    drop = """data => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([data], "letter.ko.xliff"));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    }"""
    await review.evaluate(drop, data.replace("ko:closes", "닫고"))
    await expect(row(review, 3).locator(".text")).to_contain_text("닫고")
    await give_back(review, "<xliff/>")
    await expect(review.locator("#review-notes")).to_contain_text("no segments")
    await expect(imported).to_be_hidden()
    assert await faults(review) == []


async def test_what_was_changed_here_and_in_a_tool_is_shown_twice_and_chosen_by_a_click(review: Page) -> None:
    data = await exported(review)
    for number in (1, 2, 3):
        await row(review, number).locator(".pencil").click()
        await review.keyboard.press("End")
        await review.keyboard.type(" here")
        await row(review, number).get_by_role("button", name="Save", exact=True).click()
        await expect(row(review, number)).to_have_attribute("data-edited", "")
    await give_back(review, data.replace("ko:door", "문").replace("ko:train", "기차").replace("ko:Nothing", "없음"))
    imported = review.locator("#review-imported")
    await expect(imported).to_contain_text(
        "1 segment changed. 3 were changed both here and in the file. 3 stay as they are here."
    )
    texts = imported.locator("li").nth(1).locator("dd")
    await expect(texts).to_have_text(["ko:The ko:train ko:leaves ko:soon. here", "ko:The 기차 ko:leaves ko:soon."])
    await expect(row(review, 2).locator(".text")).to_contain_text("ko:train")
    assert await faults(review) == []
    first = imported.locator("li button").first
    await first.press("Enter")
    await expect(row(review, 1).locator(".text")).to_contain_text("문")
    await expect(first).to_have_text("Keep the one from here")
    await expect(imported).to_contain_text("2 stay as they are here. 1 has the file’s translation now.")
    marked = "[...CSS.highlights.get('difference')].map(({startContainer, startOffset, endOffset}) => "
    assert "문" in await review.evaluate(f"{marked} startContainer.data.slice(startOffset, endOffset))")
    await expect(first).to_be_focused()
    await imported.get_by_role("button", name="in 2 segments").click()
    await expect(row(review, 2).locator(".text")).to_contain_text("기차")
    await expect(row(review, 3).locator(".text")).to_contain_text("문")
    await first.click()
    await expect(row(review, 1).locator(".text")).to_contain_text("here")
    assert await faults(review) == []
    await imported.get_by_role("button", name="Close").click()
    await expect(imported).to_be_hidden()


async def test_what_another_file_of_the_export_has_changed_is_shown_and_stays(review: Page) -> None:
    data = await exported(review)
    await give_back(review, data.replace("ko:train", "기차").replace("ko:closes", "닫고"))
    await expect(row(review, 2).locator(".text")).to_contain_text("기차")
    await give_back(review, data.replace("ko:closes", "닫아요"))
    imported = review.locator("#review-imported")
    await expect(imported.locator("li")).to_have_count(2)
    await expect(imported.get_by_role("button", name="in 2 segments")).to_be_hidden()
    await expect(row(review, 2).locator(".text")).to_contain_text("기차")
    await expect(row(review, 3).locator(".text")).to_contain_text("닫고")
    set_back = imported.locator("li").nth(1)
    await expect(set_back.locator("dd").nth(1)).to_contain_text("ko:train")
    await set_back.get_by_role("button").click()
    await expect(row(review, 2).locator(".text")).to_contain_text("ko:train")
    assert await faults(review) == []
