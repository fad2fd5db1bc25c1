"""Glossaries and translation memories on the page: made, filled from files, searched, changed, chosen, shared."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Dialog, FilePayload, Locator, Page, Route, expect

from dragoman.service.stack import account_store
from dragoman.storage.database import Database
from dragoman.types import Account
from tests.browser.conftest import choose_language, documents_serving, open_page
from tests.browser.stage import make_service, serving
from tests.waiting import until

pytestmark = pytest.mark.browser

TERMS = "\n".join(["morning,아침", "train,기차", *(f"term {number},용어 {number}" for number in range(250))])
TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>Good evening.</seg></tuv><tuv xml:lang="ko"><seg>좋은 저녁입니다.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Well done.</seg></tuv><tuv xml:lang="ko"><seg>잘했어요.</seg></tuv></tu>
</body></tmx>"""


def file(name: str, content: str) -> FilePayload:
    return {"name": name, "mimeType": "", "buffer": content.encode()}


def entry(page: Page, text: str) -> Locator:
    return page.locator("#entries tr").filter(has=page.get_by_role("rowheader", name=text, exact=True))


async def test_what_was_wrong_stays_when_the_list_comes_after_it(page: Page, tmp_path: Path) -> None:
    came = asyncio.Event()

    async def hold(route: Route) -> None:
        if route.request.method == "GET":
            await came.wait()
        await route.continue_()

    async with documents_serving(tmp_path) as stage:
        await open_page(page, stage)
        await page.route("**/v1/glossaries", hold)
        await page.click("nav >> text=Glossaries")
        await page.set_input_files("#make-file", file("broken.csv", "one,two,three"))
        await page.click("#make button")
        await expect(page.locator("#collections-fault")).to_contain_text("3 columns")
        came.set()
        await expect(page.locator("#collections-empty")).to_be_visible()
        await expect(page.locator("#collections-fault")).to_contain_text("3 columns")


async def test_a_term_without_a_language_asks_for_it(page: Page, tmp_path: Path) -> None:
    async with documents_serving(tmp_path) as stage:
        await open_page(page, stage, "en")
        await page.click("nav >> text=Glossaries")
        await page.fill("#make-name", "Trains")
        await page.keyboard.press("Enter")
        await expect(page.locator("#entries-title")).to_have_text("Trains")
        await expect(page.locator("#entries-search")).to_be_hidden()  # there is nothing to search
        await page.fill("#entry-text", "기차")
        await page.fill("#entry-translation", "train")
        await page.keyboard.press("Enter")
        await expect(page.locator("#entry-source")).to_be_focused()
        await expect(page.locator("#entry-source")).to_have_attribute("placeholder", "Choose a language")
        await page.get_by_role("option", name="Korean").click()
        await page.click("#entry-add button[type=submit]")
        await expect(page.locator("#entries tr")).to_have_count(1)
        await expect(page.locator("#entries-search")).to_be_visible()


async def test_a_glossary_is_made_of_a_file_searched_changed_and_used(page: Page, tmp_path: Path) -> None:
    async with documents_serving(tmp_path) as stage:
        await open_page(page, stage)
        await page.click("nav >> text=Glossaries")
        await expect(page.locator("#collections-empty")).to_be_visible()
        await page.set_input_files("#make-file", file("broken.csv", "one,two,three"))
        await choose_language(page, "#make-source", "en")
        await choose_language(page, "#make-target", "ko")
        await page.click("#make button")
        await expect(page.locator("#collections-fault")).to_contain_text("3 columns")
        await page.set_input_files("#make-file", file("trains.csv", TERMS))
        await page.fill("#make-name", "Trains")
        await page.keyboard.press("Enter")
        await expect(page.locator("#entries-title")).to_have_text("Trains")
        await expect(page.locator("#entries-facts")).to_contain_text("252 terms")
        await expect(page.locator("#entries tr")).to_have_count(100)
        await page.locator("#entries-more").evaluate("more => { more.click(); more.click(); }")  # a page comes once
        await expect(page.locator("#entries tr")).to_have_count(200)
        await page.click("#entries-more")
        await expect(page.locator("#entries tr")).to_have_count(252)
        await expect(page.locator("#entries-more")).to_be_hidden()
        await page.fill("#entries-find", "MORN")
        await expect(page.locator("#entries tr")).to_have_count(1)
        await entry(page, "morning").get_by_role("button", name="Edit").click()
        await page.keyboard.press("ControlOrMeta+a")
        await page.keyboard.insert_text("오전")
        await page.keyboard.press("Enter")
        await expect(entry(page, "morning").get_by_role("button", name="Edit")).to_be_focused()
        await page.fill("#entries-find", "")
        await expect(page.locator("#entries tr")).to_have_count(100)
        await page.fill("#entries-find", "train")
        await expect(page.locator("#entries tr")).to_have_count(1)
        await entry(page, "train").get_by_role("button", name="Delete").click()
        await expect(page.locator("#entries-facts")).to_contain_text("251 terms")
        await page.click("#entries-status >> text=Undo")
        await expect(entry(page, "train")).to_be_visible()
        await expect(page.locator("#entries-title")).to_be_focused()
        await entry(page, "train").get_by_role("button", name="Edit").click()
        await page.keyboard.type("역")
        await page.fill("#entries-find", "MORN")
        await expect(page.locator("#entries tr")).to_have_count(1)
        await page.click("nav >> text=Text")
        await page.go_back()
        await page.fill("#entries-find", "train")
        await expect(entry(page, "train").locator("textarea")).to_have_value(
            "기차역"
        )  # typed, and neither saved nor lost
        await entry(page, "train").get_by_role("button", name="Cancel").click()
        await page.fill("#entry-text", "new term")
        await page.fill("#entry-translation", "새 용어")
        await page.keyboard.press("Enter")
        await expect(page.locator("#entry-text")).to_be_focused()
        await expect(page.locator("#entries-facts")).to_contain_text("253 terms")
        async with page.expect_download() as download:
            await page.click("#collection-export")
        saved = await download.value
        assert saved.suggested_filename == "Trains.en-ko.csv"
        assert {"morning,오전", "train,기차", "new term,새 용어"} < {*(await saved.path()).read_text().splitlines()}

        await page.click("nav >> text=Text")
        await page.click(".options summary")
        await page.select_option("#glossary-choice", label="Trains")
        await page.route("**/v1/memories", lambda route: route.fulfill(status=503))
        async with page.expect_response("**/v1/memories"):  # what was chosen stays so
            await page.click(".options summary")
            await page.click(".options summary")
        await page.unroute("**/v1/memories")
        await page.fill("#source", "good morning train")  # its language is found, and the glossary's pair with it
        await expect(page.locator("#output[data-phase=done]")).to_have_text(re.compile("오전"))
        await expect(page.locator("#measured")).to_contain_text("English detected")
        await expect(page.locator("#own-terms")).to_be_hidden()
        await page.click("nav >> text=Documents")
        await page.set_input_files("#file", file("a.md", "good morning"))
        await expect(page.locator(".segment .text")).to_have_text(re.compile("오전"))

        page.once("dialog", lambda dialog: dialog.accept("Railway"))
        await page.goto(f"{stage.url}#glossaries")
        await page.click("#collection-list a")
        await page.click("#collection-rename")
        await expect(page.locator("#entries-title")).to_have_text("Railway")
        page.once("dialog", lambda dialog: dialog.accept())
        await page.click("#collection-delete")
        await expect(page.locator("#collections-empty")).to_be_visible()


async def test_what_edits_add_to_a_memory_is_seen_and_undone(page: Page, tmp_path: Path) -> None:
    async with documents_serving(tmp_path, remembers=True) as stage:
        await open_page(page, stage)
        await page.click("nav >> text=Memories")
        await page.set_input_files("#make-file", file("greetings.tmx", TMX))
        await expect(page.locator("#make-name")).to_have_value("greetings")
        await page.click("#make button")
        await expect(page.locator("#entries tr")).to_have_count(2)
        await page.click("nav >> text=Documents")
        await page.set_input_files("#file", file("a.md", "Good evening.\n\nWelcome, friend."))
        row = page.locator(".segment").nth(1)
        await expect(page.locator(".segment .text").first).to_have_text("좋은 저녁입니다.")
        await row.locator(".pencil").click()
        await row.locator(".field").fill("어서 와요.")
        await row.get_by_role("button", name="Save", exact=True).click()
        await expect(row).to_have_attribute("data-edited", "")
        document = page.url

        async def edits(count: int) -> None:
            await page.goto(f"{stage.url}#memories")
            await page.click("#collection-list >> text=edits")
            await expect(page.locator("#entries-facts")).to_contain_text(f"{count} ")
            await expect(page.locator("#entries tr")).to_have_count(count)

        await edits(1)
        await page.fill("#entries-find", "어서")
        await expect(entry(page, "Welcome, friend.").locator("td").first).to_have_text("어서 와요.")
        await page.goto(document)
        await row.get_by_role("button", name="Restore the machine").click()
        await expect(row).not_to_have_attribute("data-edited", "")
        await edits(0)

        await page.click("nav >> text=Text")
        await page.click(".options summary")
        await page.fill("#source", "Well done.")
        await expect(page.locator("#output[data-phase=done]")).to_have_text("잘했어요.")
        await page.select_option("#memory-choice", "none")
        await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:Well ko:done.")
        await page.select_option("#memory-choice", label="greetings")
        await expect(page.locator("#output[data-phase=done]")).to_have_text("잘했어요.")


async def test_an_answer_that_comes_late_says_nothing_of_what_is_shown_then(page: Page, tmp_path: Path) -> None:
    async with documents_serving(tmp_path) as stage:
        await open_page(page, stage)
        addresses: list[str] = []
        for name in ("First", "Second"):
            await page.goto(f"{stage.url}#glossaries")
            await page.set_input_files("#make-file", file(f"{name}.csv", "train,기차"))
            await page.fill("#make-name", name)
            await page.keyboard.press("Enter")
            await expect(page.locator("#entries-title")).to_have_text(name)
            await expect(entry(page, "train")).to_be_visible()
            addresses.append(page.url)
        let_go = asyncio.Event()

        async def hold(route: Route) -> None:
            if route.request.method == "PATCH":
                await let_go.wait()
            await route.continue_()

        await page.goto(addresses[0])
        await expect(page.locator("#entries-title")).to_have_text("First")
        await page.route("**/v1/glossaries/**", hold)
        page.once("dialog", lambda dialog: dialog.accept("Third"))
        await page.click("#collection-rename")
        await entry(page, "train").get_by_role("button", name="Delete").click()
        await page.goto(addresses[1])
        await expect(page.locator("#entries-title")).to_have_text("Second")
        await expect(entry(page, "train")).to_be_visible()
        changed: list[str] = []
        page.on("requestfinished", lambda request: changed.append(request.url) if request.method == "PATCH" else None)
        let_go.set()
        await until(lambda: len(changed) == 2, "the answers")
        await page.evaluate("() => new Promise((done) => setTimeout(done))")
        await expect(page.locator("#entries-title")).to_have_text("Second")
        await expect(page.locator("#entries-status")).to_be_empty()
        questions: list[str] = []

        async def agree(dialog: Dialog) -> None:
            questions.append(dialog.message)
            await dialog.accept()

        page.once("dialog", agree)
        await page.click("#collection-delete")
        await expect(page.locator("#collection-list li")).to_contain_text(["Third"])
        assert questions == ["Delete Second with its 1 term?"]


async def test_operators_share_and_others_see_what_is_shared(page: Page, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    await database.open()
    keys = account_store(database).keys
    made = {role: (await keys.create(Account("", role, role)))[1] for role in ("translate", "operator")}
    service = make_service(database=database)
    async with serving(service) as stage:
        await service.start()
        await page.goto(f"{stage.url}#glossaries")
        await page.fill("#key", made["operator"])
        await page.keyboard.press("Enter")
        await page.fill("#make-name", "House")
        await page.click("#make button")
        await page.click("#collection-share")
        await expect(page.locator("#entries-facts")).to_contain_text("shared")
        address = page.url
        await page.click("#key-open")
        await page.fill("#key", made["translate"])
        await page.keyboard.press("Enter")
        await page.goto(f"{stage.url}#glossaries")
        await expect(page.locator("#collection-list li")).to_contain_text("shared")
        await page.goto(address)
        await expect(page.locator("#entries-title")).to_have_text("House")
        for button in ("collection-rename", "collection-delete", "collection-share", "entry-add"):
            await expect(page.locator(f"#{button}")).to_be_hidden()
