"""Documents on the page, in a browser, against the real server: upload, progress, segments, edits, download."""

from __future__ import annotations

import re
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import docx
import pytest
from playwright.async_api import Locator, Page, Route, expect

from dragoman.storage.database import Database, utc_now
from dragoman.storage.documents import DocumentStore, StoredDocument
from tests.browser.accessibility import violations
from tests.browser.conftest import audit, documents_serving, open_document, open_page
from tests.browser.stage import STEP_S, Stage

pytestmark = pytest.mark.browser

REPORT = """# My daughter is a designer.

The **train** leaves soon.

Yes

This grilled fish is too salty.

Yes

Nothing else is to be seen here.
"""
DOUBTFUL = ["2", "6"]  # the fake leaves them in English, and knows the sentences


@pytest.fixture
async def review(page: Page, documents_stage: Stage) -> Page:
    """The report, translated, its segments side by side."""
    await open_document(page, documents_stage, REPORT)
    return page


def segment(page: Page, number: str) -> Locator:
    return page.locator(".segment").filter(has=page.locator(".place b").get_by_text(number, exact=True))


async def download(page: Page, button: str = "#download") -> tuple[str, bytes]:
    """Name and content of the file that a button downloads."""
    async with page.expect_download() as download:
        await page.click(button)
    file = await download.value
    return file.suggested_filename, Path(await file.path()).read_bytes()


async def drop(page: Page, name: str, text: str) -> None:
    await page.evaluate(
        """([name, text]) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], name));
            for (const type of ["dragover", "drop"]) {
                document.body.dispatchEvent(new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true}));
            }
        }""",
        [name, text],
    )


async def test_a_dropped_file_shows_its_progress_and_is_downloaded_in_the_other_language(
    page: Page, tmp_path: Path
) -> None:
    async with documents_serving(tmp_path, STEP_S) as stage:
        await open_page(page, stage)
        with stage.held():
            await drop(page, "report.md", REPORT)
            await expect(page.locator("#review-progress progress")).to_be_visible()
            await expect(page.locator("#review-progress")).to_contain_text("%")
            await expect(page.locator("#download")).to_be_disabled()
            await expect(page.locator(".segment")).to_have_count(6)
            await expect(page.locator(".segment .icon").first).to_be_hidden()
        await expect(page.locator("#download")).to_be_enabled()
        await expect(page.locator("#review-progress progress")).to_be_hidden()
        name, content = await download(page)
        text = content.decode()
        assert name == "report.ko.md"
        assert text.startswith("# 제 딸은 디자이너예요.\n\n")
        assert "ko:**train**" in text
        assert (await download(page, "#download-xliff"))[1].startswith(b"<?xml")


async def test_doubtful_segments_are_marked_with_reasons_and_reached_one_by_one(review: Page) -> None:
    await expect(review.locator(".segment")).to_have_count(6)
    doubtful = review.locator(".segment[data-doubted]")
    await expect(doubtful.locator(".place b")).to_have_text(DOUBTFUL)
    await expect(doubtful.first.locator(".warning")).to_contain_text("not in the target language")
    await expect(review.locator("#doubtful-count")).to_have_text("2 doubtful segments")
    focused = review.locator(".segment:focus .place b")
    await review.click("#next-doubtful")
    await expect(focused).to_have_text("2")
    for key, number in (("Down", "6"), ("Down", "2"), ("Up", "6")):
        await review.keyboard.press(f"Alt+Arrow{key}")
        await expect(focused).to_have_text(number)
    await expect(review.locator("#doubtful-count")).to_have_text("2 of 2 doubtful segments")


async def test_an_edit_goes_into_the_file_and_lost_marks_do_not(review: Page) -> None:
    row = segment(review, "2")
    await row.locator(".text").click()
    field = row.locator(".field")
    await field.fill("기차가 곧 떠납니다.")
    await review.keyboard.press("Control+Enter")
    await expect(row.locator("[role=alert] .fault")).to_contain_text("mark")
    await field.fill("")
    for key in ("beginning of bold", "기차", "end of bold", "가 곧 떠납니다."):
        if key.isascii():
            await row.get_by_role("button", name=f"Insert {key}").click()
        else:
            await review.keyboard.insert_text(key)
    await row.get_by_role("button", name="Save", exact=True).click()
    await expect(field).to_have_count(0)
    await expect(row).to_be_focused()
    await expect(row).to_have_attribute("data-edited", "")
    assert "\n\n**기차**가 곧 떠납니다.\n\n" in (await download(review))[1].decode()
    await review.reload()
    await expect(segment(review, "2").locator(".text")).to_have_text("기차가 곧 떠납니다.")
    await expect(segment(review, "2").locator(".text b")).to_have_text("기차")


async def test_a_word_file_is_translated_marked_edited_and_downloaded(page: Page, documents_stage: Stage) -> None:
    source = docx.Document()
    source.add_paragraph("This grilled fish is too salty.", style="Heading 1")
    sentence = source.add_paragraph("The ")
    sentence.add_run("train").bold = True
    sentence.add_run(" leaves soon from the other platform.")
    buffer = BytesIO()
    source.save(buffer)
    await open_document(page, documents_stage, buffer.getvalue(), "report.docx")
    await expect(page.locator(".segment[data-doubted] .place b")).to_have_text(["2"])
    await page.click("#next-doubtful")
    await expect(segment(page, "2")).to_be_focused()
    await page.keyboard.press("Enter")
    await segment(page, "2").locator(".field").fill("다른 승강장에서 <g1>기차</g1>가 곧 출발합니다.")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("#doubtful-count")).to_have_text("No doubtful segments")
    name, content = await download(page)
    assert name == "report.ko.docx"
    heading, edited = docx.Document(BytesIO(content)).paragraphs
    assert (heading.text, heading.style.name) == ("이 생선구이는 너무 짜요.", "Heading 1")
    assert edited.text == "다른 승강장에서 기차가 곧 출발합니다."
    assert [run.text for run in edited.runs if run.bold] == ["기차"]


async def test_a_doubtful_segment_is_accepted_or_left_with_escape(review: Page) -> None:
    row = segment(review, "2")
    await review.keyboard.press("Alt+ArrowDown")
    await expect(row).to_be_focused()
    await review.keyboard.press("Enter")
    await row.locator(".field").fill("?")
    await review.keyboard.press("Escape")
    await expect(row).to_be_focused()
    await expect(row).to_have_attribute("data-doubted", "")
    await row.get_by_role("button", name="Accept").click()
    await expect(row).not_to_have_attribute("data-doubted", "")
    await expect(review.locator("#doubtful-count")).to_have_text("1 doubtful segment")


async def test_equal_segments_are_changed_together(review: Page) -> None:
    first, second = segment(review, "3"), segment(review, "5")
    await first.locator(".pencil").click()
    await first.locator(".field").fill("네")
    await first.get_by_role("button", name="2 equal").click()
    await expect(second.locator(".text")).to_have_text("네")
    await expect(second).to_have_attribute("data-edited", "")
    await segment(review, "1").locator(".pencil").click()
    await expect(segment(review, "1").get_by_role("button", name="equal")).to_have_count(0)


async def test_another_translation_can_be_chosen(review: Page) -> None:
    row = segment(review, "6")
    await row.get_by_role("button", name="Alternatives").click()
    others = row.locator(".alternative")
    await expect(others).to_have_count(3)
    text = await others.nth(1).inner_text()
    assert text != await row.locator(".field").inner_text()
    await others.nth(1).click()
    await expect(row.locator(".field")).to_have_text(text)
    await expect(row.locator(".field")).to_be_focused()


async def test_ten_thousand_segments_are_a_few_hundred_rows(page: Page, documents_stage: Stage) -> None:
    lines = [f"line {number % 50}" for number in range(10_000)]  # equal ones are translated once
    lines[9_990] = "Nothing else is to be seen here."
    await open_document(page, documents_stage, "\n\n".join(lines), "long.md")
    await page.keyboard.press("Alt+ArrowUp")
    await expect(page.locator(".segment:focus .place b")).to_have_text("9,991")
    await expect(page.locator(".segment:focus")).to_be_in_viewport()
    for share in (0.25, 0.5, 0.75, 0.0):
        await page.evaluate("share => scrollTo(0, share * document.documentElement.scrollHeight)", share)
        await expect(page.locator(".segment .text").first).to_be_attached()
    assert 0 < await page.locator(".segment").count() < 400


async def test_documents_are_listed_and_deleted(review: Page) -> None:
    address = review.url
    await review.click("text=All documents")
    row = review.locator("#document-list li").first
    await expect(row).to_contain_text("English → Korean")
    await expect(row.locator(".doubtful")).to_have_text("2 doubtful segments")
    review.on("dialog", lambda dialog: dialog.accept())
    count = await review.locator("#document-list li").count()
    await row.get_by_role("button", name="Delete").click()
    await expect(review.locator("#document-list li")).to_have_count(count - 1)
    await review.goto(address)
    await expect(review.locator("#review-notes")).to_contain_text("expired")
    for part in ("#review-tools", "#review-actions", "#review-progress progress"):
        await expect(review.locator(part)).to_be_hidden()


async def test_a_file_in_its_target_language_says_what_to_do(page: Page, documents_stage: Stage) -> None:
    await open_page(page, documents_stage, "en")
    await page.click("text=Documents")
    text = b"The train leaves soon, and nothing else is to be seen at this station.\n"
    await page.set_input_files("#file", {"name": "english.md", "mimeType": "", "buffer": text})
    await expect(page.locator("#review-progress")).to_have_text(re.compile("Choose another one and upload it again"))


async def test_a_file_without_letters_says_that_it_has_no_segments(page: Page, documents_stage: Stage) -> None:
    await open_page(page, documents_stage)
    await page.click("text=Documents")
    await page.set_input_files("#file", {"name": "figures.md", "mimeType": "", "buffer": b"12345\n\n--- 77\n"})
    await expect(page.locator("#download")).to_be_enabled()
    await expect(page.locator("#review-facts")).to_contain_text("0 segments")
    await expect(page.locator("#review-facts")).not_to_contain_text("…")
    await expect(page.locator("#review-tools")).to_be_hidden()
    assert (await download(page))[1] == b"12345\n\n--- 77\n"


async def test_documents_are_searched_by_name_and_deleted_together(page: Page, documents_stage: Stage) -> None:
    await open_document(page, documents_stage, "Hello", "searched-a.md")
    await page.click("text=All documents")
    names = [f"searched-{letter}.md" for letter in "bc"]
    await page.set_input_files("#file", [{"name": name, "mimeType": "", "buffer": b"Hello"} for name in names])
    shown = page.locator("#document-list li:visible .name").filter(has_text="searched-")
    await expect(shown).to_have_count(3)
    await page.fill("#documents-find", "SEARCHED-B")
    await expect(page.locator("#document-list li:visible")).to_have_count(1)
    assert await violations(page) == []
    assert await audit(page, "cutOff") == []
    page.on("dialog", lambda dialog: dialog.accept())
    await page.click("#documents-delete")
    await expect(page.locator("#document-list li:visible")).to_have_count(0)
    await page.fill("#documents-find", "")
    await expect(shown).to_have_text(["searched-c.md", "searched-a.md"])


async def test_a_list_of_more_than_a_hundred_documents_says_so_and_is_shown_in_parts(
    page: Page, tmp_path: Path
) -> None:
    database = Database(f"sqlite:///{tmp_path}/dragoman.db")
    async with documents_serving(tmp_path) as stage:
        await database.open()
        store, now = DocumentStore(database), utc_now()
        for number in range(205):
            created, name = now + timedelta(seconds=number), f"{number}.md"
            await store.add(
                StoredDocument(
                    f"{number:032X}", "anonymous", "", "native", name, "markdown", "ko", "en", False, created,
                    now + timedelta(days=1), "done", 10, 10, 1, 1,
                ),
                "{}",
                1000,
            )  # fmt: skip
        await open_page(page, stage)
        await page.click("text=Documents")
        rows, more = page.locator("#document-list li"), page.locator("#documents-more")
        count = page.locator("#documents-count")
        for shown in (100, 200):
            await expect(rows).to_have_count(shown)
            await expect(rows.first).to_contain_text("204.md")
            await expect(count).to_contain_text(f"newest {shown} documents")
            await more.focus()
            await page.keyboard.press("Enter")
        await expect(rows).to_have_count(205)
        await expect(rows.last).to_contain_text("0.md")
        await expect(count).to_contain_text("All 205 documents")
        await expect(more).to_be_hidden()
    await database.close()


async def test_a_file_that_is_not_read_is_refused_in_the_server_s_words(page: Page, documents_stage: Stage) -> None:
    await open_page(page, documents_stage)
    await drop(page, "old.doc", "x")
    notes = page.locator("#upload-notes")
    await expect(notes).to_contain_text(re.compile("old.doc: .*docx"))
    assert await notes.get_attribute("role") == "alert"


async def test_a_glossary_holds_for_documents(page: Page, documents_stage: Stage) -> None:
    await open_page(page, documents_stage)
    await page.click("text=Documents")
    await page.click(".options summary")
    await page.fill("#glossary", "train = 기차")
    await page.set_input_files("#file", {"name": "a.md", "mimeType": "text/markdown", "buffer": b"The train leaves."})
    await expect(page.locator(".segment .translation .text")).to_contain_text("기차")


async def test_a_server_without_documents_says_so(live: Page) -> None:
    await live.click("text=Documents")
    await expect(live.locator("#documents-fault")).to_contain_text("not translated by this server")


async def test_segments_similar_to_an_edited_one_are_translated_again_on_demand(review: Page) -> None:
    """Where the model takes examples, which that of the stage does not: the server's answers are the test's."""
    row = segment(review, "2")
    changed = {
        "n": 4,
        "place": "line 9",
        "source": "This grilled fish is too salty.",
        "translation": "焼き魚が塩辛い。",
        "confidence": None,
        "warnings": [],
        "doubtful": False,
        "edited": False,
        "reviewed": False,
        "machine": None,
        "memory": False,
        "examples": 0,
        "looks": [],
        "equal": 0,
    }

    async def similar(route: Route) -> None:
        await route.fulfill(json={"segments": [changed]})

    await review.route("**/v1/models", lambda route: route.fulfill(json={"data": [{"takes_examples": True}]}))
    await review.route("**/segments/1/similar", similar)
    await review.reload()  # what the model can do is asked once
    await row.get_by_role("button", name="Accept").click()
    await row.get_by_role("button", name="Translate similar segments again").click()
    await expect(segment(review, "5").locator(".text")).to_have_text("焼き魚が塩辛い。")
    await expect(review.locator("#announcement")).to_have_text("1 translated again")
