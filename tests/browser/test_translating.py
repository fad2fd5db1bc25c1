"""The translation box, in a browser, against the real server."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest
from playwright.async_api import Page, expect

from dragoman.text.confidence import ConfidenceModel, RecentScores, Regression
from dragoman.types import ANONYMOUS, TokenLogprobs
from tests.browser.conftest import choose_language, documents_serving, open_document, open_page
from tests.browser.stage import Stage, make_service, serving
from tests.telemetry.traffic.making import text
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.browser

MEASURED = "English detected"
LONG = " ".join(f"word{number}" for number in range(300))  # many seconds of the slow server's time


async def record_growth(page: Page) -> None:
    """Keep every text that the output shows."""
    await page.evaluate("""() => {
        window.shown = [];
        const output = document.getElementById("output");
        new MutationObserver(() => window.shown.push(output.textContent))
            .observe(output, {childList: true, characterData: true, subtree: true});
    }""")


async def test_typing_streams_the_translation_in(live: Page, stage: Stage) -> None:
    await record_growth(live)
    with stage.held():
        await live.locator("#source").press_sequentially("one two three four five six")
        await expect(live.locator("#output")).to_have_text("ko:one")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:one ko:two ko:three ko:four ko:five ko:six")
    shown: list[str] = await live.evaluate("window.shown")
    growing = [text for text in dict.fromkeys(shown) if text]
    assert len(growing) > 1
    assert all(later.startswith(earlier) for earlier, later in pairwise(growing))
    await expect(live.locator("#measured")).to_have_text(MEASURED)
    await expect(live.locator("[data-doubtful]")).to_have_count(0)
    await expect(live.locator("#packaged-model")).to_be_hidden()


@pytest.mark.parametrize(("text", "translation"), [("short", "ko:short"), ("", "")], ids=["typing on", "emptying"])
async def test_another_text_cancels_the_request_before(
    slow: Page, slow_stage: Stage, text: str, translation: str
) -> None:
    before = slow_stage.cancelled
    await slow.fill("#source", LONG)
    await until(lambda: slow_stage.running > 0, "the long text in the engine")
    await slow.fill("#source", text)
    await expect(slow.locator("#output")).to_have_text(translation)
    await until(lambda: slow_stage.cancelled == before + 1, "the long text cancelled")
    await until(lambda: slow_stage.running == 0, "an empty engine")


async def open_with_stopped_clock(page: Page, stage: Stage) -> None:
    await page.clock.install()
    await open_page(page, stage)
    await page.clock.pause_at(await page.evaluate("Date.now() + 3_600_000"))  # further than the clock runs meanwhile
    await page.locator("#source").press_sequentially("hello")
    await expect(page.locator("#source-size")).to_have_text("5 characters")


async def test_a_pause_in_typing_starts_the_translation(page: Page, stage: Stage) -> None:
    await open_with_stopped_clock(page, stage)
    await page.clock.run_for(300)
    assert await page.locator("#output").get_attribute("data-phase") is None
    await page.clock.run_for(300)
    await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")


@pytest.mark.parametrize("key", ["Control+Enter", "Meta+Enter"])
async def test_control_enter_waits_for_no_pause(page: Page, stage: Stage, key: str) -> None:
    await open_with_stopped_clock(page, stage)
    await page.locator("#source").press(key)
    await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")


async def test_the_finished_translation_alone_is_announced(live: Page) -> None:
    status = live.locator("#announcement")
    assert await status.get_attribute("role") == "status"
    assert await live.locator("#output").get_attribute("aria-live") is None
    await live.fill("#source", "good morning")
    await expect(status).to_have_text("ko:good ko:morning")
    await expect(status).to_have_attribute("lang", "ko")


async def test_source_and_output_carry_their_language_and_direction(live: Page) -> None:
    await choose_language(live, "#target-language", "ar")
    await live.fill("#source", "This grilled fish is too salty.")
    output = live.locator("#output[data-phase=done]")
    await expect(output).to_have_attribute("lang", "ar")
    await expect(output).to_have_attribute("dir", "rtl")
    source = live.locator("#source")
    await expect(source).to_have_attribute("lang", "en")
    await expect(source).to_have_attribute("dir", "ltr")
    await choose_language(live, "#source-language", "ar")
    await expect(source).to_have_attribute("dir", "rtl")


async def test_swapping_makes_the_translation_the_source(live: Page) -> None:
    await expect(live.locator("#swap")).to_be_disabled()
    await live.fill("#source", "My daughter is a designer.")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("제 딸은 디자이너예요.")
    await live.click("#swap")
    await expect(live.locator("#source")).to_have_value("제 딸은 디자이너예요.")
    await expect(live.locator("#source-language")).to_have_attribute("data-value", "ko")
    await expect(live.locator("#target-language")).to_have_attribute("data-value", "en")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("My daughter is a designer.")


async def test_choosing_the_other_side_s_language_swaps(live: Page) -> None:
    await choose_language(live, "#source-language", "en")
    await choose_language(live, "#target-language", "en")
    await expect(live.locator("#source-language")).to_have_attribute("data-value", "ko")


async def test_languages_are_remembered_and_texts_are_not(live: Page) -> None:
    await choose_language(live, "#source-language", "zh")
    await choose_language(live, "#target-language", "ar")
    await live.fill("#source", "谢谢")
    await live.reload()
    await expect(live.locator("#source-language")).to_have_attribute("data-value", "zh")
    await expect(live.locator("#target-language")).to_have_attribute("data-value", "ar")
    assert "谢谢" not in await live.evaluate("JSON.stringify(localStorage)")
    await live.click("#target-language")
    recent = live.get_by_role("group", name="Recent").get_by_role("option")
    assert await recent.evaluate_all("all => all.map((one) => one.dataset.value)") == ["ar", "ko"]


@pytest.mark.parametrize("typed", ["kor", "한국", "ko", "KOREAN"])
async def test_a_language_is_found_by_its_names_and_its_code(live: Page, typed: str) -> None:
    await choose_language(live, "#target-language", "ja")
    box = live.get_by_role("combobox", name="To")
    await box.focus()
    await live.keyboard.insert_text(typed)
    found = live.locator("#target-language ~ [role=listbox] [role=option]")
    await expect(found).to_have_text(["Korean · 한국어"])
    await expect(box).to_have_attribute("aria-activedescendant", str(await found.get_attribute("id")))
    await live.keyboard.press("Enter")
    await expect(box).to_have_attribute("data-value", "ko")
    await expect(box).to_have_value("Korean · 한국어")
    await expect(box).to_be_focused()
    await expect(box).to_have_attribute("aria-expanded", "false")


async def test_arrow_keys_go_through_the_languages_and_escape_leaves_what_was_chosen(live: Page) -> None:
    box = live.locator("#target-language")
    await box.focus()
    await live.keyboard.press("ArrowDown")
    active = live.locator("[role=option][data-active]")
    reached: list[str] = [str(await active.get_attribute("data-value"))]
    assert reached == ["ko"]
    await live.keyboard.press("Alt+ArrowUp")
    await expect(live.get_by_role("listbox")).to_have_count(0)
    await live.keyboard.press("ArrowDown")
    for _ in range(6):
        await live.keyboard.press("ArrowUp")
        reached.append(str(await active.get_attribute("data-value")))
    assert {"ar", "ko", "ja", "en", "zh"} <= {*reached}
    await live.keyboard.press("Escape")
    await expect(box).to_have_attribute("data-value", "ko")
    await live.keyboard.insert_text("no language")
    await expect(live.get_by_role("listbox")).to_have_text("No language found")
    await live.focus("#source")
    await expect(box).to_have_value("Korean · 한국어")


SENTENCES = "[...CSS.highlights.get('sentence') ?? []].map(String)"


async def test_a_sentence_and_its_translation_are_highlighted_together(live: Page) -> None:
    pairs = [
        ["My daughter is a designer.", "제 딸은 디자이너예요."],
        ["This grilled fish is too salty.", "이 생선구이는 너무 짜요."],
        ["The bakery is across from the stadium.", "빵집은 경기장 맞은편에 있어요."],
    ]
    await live.fill("#source", "{} {}\n{}".format(*(source for source, _ in pairs)))
    await expect(live.locator("#output[data-phase=done]")).to_have_text(" ".join(target for _, target in pairs))
    await live.evaluate("source.setSelectionRange(30, 30)")
    await expect_sentences(live, pairs[1])
    await live.focus("#copy")
    await expect_sentences(live, [])
    await live.keyboard.press("Shift+Tab")
    await expect(live.locator("#output")).to_be_focused()
    for pair in pairs:
        await expect_sentences(live, pair)
        await live.keyboard.press("ArrowRight")
    await live.focus("#copy")
    for side in ("#source", "#output"):
        await live.locator(side).hover(position={"x": 60, "y": 34})
        await expect_sentences(live, pairs[0])
        await live.mouse.move(0, 0)
        await expect_sentences(live, [])
    await live.fill("#source", "It rained.")
    await expect_sentences(live, [])


async def expect_sentences(page: Page, wanted: list[str]) -> None:
    deadline_s = monotonic() + HANG_S
    while (found := await page.evaluate(SENTENCES)) != wanted:
        assert monotonic() < deadline_s, found
        await asyncio.sleep(0.02)


async def test_an_address_of_no_view_shows_the_texts(live: Page, stage: Stage) -> None:
    for wrong in ("constructor", "text/%"):
        await live.goto(f"{stage.url}#documents")
        await expect(live.locator("#source")).to_be_hidden()
        await live.goto(f"{stage.url}#{wrong}")
        await expect(live.locator("#source")).to_be_visible()


async def test_the_history_is_kept_in_the_browser_while_the_reader_wants_it(live: Page) -> None:
    kept = live.locator("#past-list button")
    output = live.locator("#output[data-phase=done]")
    await live.click("#past summary")
    await live.fill("#source", "good morning")
    await expect(output).to_have_text("ko:good ko:morning")
    await expect(kept).to_have_count(0)
    assert "morning" not in await live.evaluate("JSON.stringify(localStorage)")
    await live.check("#past-on")
    for typed in ("good evening", "good evening, all", "hello there"):
        await live.fill("#source", typed)
        await expect(output).to_have_text(" ".join(f"ko:{word}" for word in typed.split()))
    await expect(kept).to_have_text(["hello thereko:hello ko:there", "good evening, allko:good ko:evening, ko:all"])
    await choose_language(live, "#target-language", "ja")
    await expect(kept).to_have_count(3)
    await live.reload()
    await live.click("#past summary")
    await kept.nth(2).click()
    await expect(output).to_have_text("ko:good ko:evening, ko:all")
    await expect(kept).to_have_count(3)  # it has gone to the first place
    await expect(kept.first).to_contain_text("good evening, all")
    await expect(live.locator("#source-language")).to_have_attribute("data-value", "en")
    await expect(live.locator("#source")).to_be_focused()
    await live.evaluate("""() => {
        const past = (text, translation) => ({text, translation, source: "en", target: "ko"});
        localStorage.setItem("dragoman.history", JSON.stringify([past("long", "x".repeat(500_001)), past("short", "x")]));
    }""")
    await live.fill("#source", "good night")  # one that does not fit takes no other's place
    await expect(kept).to_have_text(["good nightko:good ko:night", "shortx"])
    await live.click("#past-clear")
    await expect(kept).to_have_count(0)
    await live.uncheck("#past-on")
    assert await live.evaluate("localStorage.getItem('dragoman.history')") is None


async def test_a_remembered_language_that_is_no_longer_served_is_forgotten(page: Page, stage: Stage) -> None:
    await page.goto(stage.url)
    await page.evaluate("""localStorage.setItem("dragoman.languages", '{"source": "xx", "target": "yy"}')""")
    await page.reload()
    await expect(page.locator("#source-language")).to_have_attribute("data-value", "")
    await expect(page.locator("#target-language")).not_to_have_attribute("data-value", "")


async def test_the_text_is_of_the_format_that_was_chosen(live: Page) -> None:
    await live.fill("#source", "<p class='a'>hello <img alt='x'></p>")
    await live.click(".options summary")
    await live.select_option("#format", "html")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("<p class='a'>ko:hello <img alt='ko:x'></p>")
    await live.fill("#source", "# hello\n\n- `code` here")
    await live.select_option("#format", "markdown")
    await expect(live.locator("#output[data-phase=done]")).to_have_text(
        "# ko:hello\n\n- ko:`code` ko:here", use_inner_text=True
    )


async def test_terms_of_the_glossary_are_translated_as_it_says(live: Page) -> None:
    await live.fill("#source", "good morning")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:good ko:morning")
    await live.click(".options summary")
    await live.fill("#glossary", "morning = 아침\nno translation")
    await expect(live.locator("#output[data-phase=done]")).to_have_text(re.compile("아침"))
    await expect(live.locator("#terms")).to_have_text(re.compile("^1 term · line 2 "))
    await live.fill("#glossary", "")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:good ko:morning")
    await expect(live.locator("#terms")).to_be_empty()


async def test_warnings_and_a_text_in_the_target_language_are_noted_below_the_translation(live: Page) -> None:
    await live.fill("#source", "hello {name}, welcome")
    await expect(live.locator("#notes")).to_contain_text("{name}")
    await live.fill("#source", "hello")
    await expect(live.locator("#notes")).to_be_empty()
    await live.fill("#source", "안녕하세요, 반갑습니다.")
    await expect(live.locator("#notes")).to_contain_text("Nothing to translate")
    await expect(live.locator("#output")).to_have_text("안녕하세요, 반갑습니다.")


async def test_an_error_is_shown_in_the_server_s_words(live: Page) -> None:
    await live.fill("#source", "hello")
    await expect(live.locator("#copy")).to_be_enabled()
    await live.fill("#source", "x" * 5001)
    notes = live.locator("#notes[data-kind=error]")
    await expect(notes).to_contain_text("5001 characters; this server accepts 5000")
    assert await notes.get_attribute("role") == "alert"
    await expect(live.locator("#output")).to_be_empty()
    await expect(live.locator("#copy")).to_be_disabled()
    await live.fill("#source", "hello")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:hello")
    await expect(live.locator("#notes")).to_be_empty()


async def test_a_full_queue_is_shown_and_retried(live: Page, stage: Stage) -> None:
    admission = stage.service.admission
    refused = admission.refused
    for _ in range(30):  # texts leave quickly: Retry-After is its shortest
        stage.service.rates.text_ended(text(source_characters=1, e2e_s=0.01))
    with admission.permit(admission.limit, account_id=ANONYMOUS.id):
        await live.fill("#source", "patience")
        await expect(live.locator("#notes")).to_contain_text("The queue is full")
        assert admission.refused > refused
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:patience")
    await expect(live.locator("#notes")).to_be_empty()


async def test_a_text_waits_for_a_server_that_is_starting(page: Page) -> None:
    service = make_service()
    async with serving(service) as stage:
        await open_page(page, stage)
        await page.fill("#source", "hello")
        await expect(page.locator("#notes")).to_contain_text("The engine is starting.")
        await service.start()
        await expect(page.locator("#output[data-phase=done]")).to_have_text("ko:hello")


async def test_a_text_waits_for_a_connection(live: Page) -> None:
    await live.context.set_offline(True)
    await live.fill("#source", "hello")
    await expect(live.locator("#notes")).to_contain_text("The server does not answer")
    await live.context.set_offline(False)
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:hello")


async def test_the_translation_can_be_copied(live: Page) -> None:
    await live.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await expect(live.locator("#copy")).to_be_disabled()
    await live.fill("#source", "hello")
    copied = asyncio.create_task(
        live.locator("#copy", has_text="Copied").wait_for()
    )  # it is shown for a second and a half
    await live.click("#copy")
    await copied
    assert await live.evaluate("navigator.clipboard.readText()") == "ko:hello"


async def test_without_a_clipboard_api_the_selection_is_copied(page: Page, stage: Stage) -> None:
    """As on a server that is reached over plain HTTP from another machine."""
    await page.add_init_script("""
        Object.defineProperty(navigator, "clipboard", {value: undefined});
        document.addEventListener("copy", () => { window.copied = String(getSelection()); });
    """)
    await open_page(page, stage)
    await page.fill("#source", "hello")
    await page.click("#copy")
    assert await page.evaluate("window.copied") == "ko:hello"


async def test_other_translations_are_chosen_with_the_keyboard_alone(live: Page) -> None:
    more, others = live.locator("#more"), live.locator("#others .alternative")
    await expect(more).to_be_disabled()
    await live.fill("#source", "good morning")
    await expect(more).to_be_enabled()
    await more.focus()
    await live.keyboard.press("Enter")
    await expect(others).to_have_count(3)
    await expect(more).to_be_focused()
    await expect(more).to_have_attribute("aria-expanded", "true")
    texts = await others.all_inner_texts()
    assert len({*texts, "ko:good ko:morning"}) == 4
    await expect(others.first).to_have_attribute("lang", "ko")
    for key in ("Tab", "Tab", "Enter"):
        await live.keyboard.press(key)
    await expect(live.locator("#output")).to_have_text(texts[1])
    await expect(live.locator("#announcement")).to_have_text(texts[1])
    await expect(others.nth(1)).to_have_text("ko:good ko:morning")  # they have changed places
    await expect(others.nth(1)).to_be_focused()
    await live.keyboard.press("Enter")
    await expect(live.locator("#output")).to_have_text("ko:good ko:morning")
    await live.keyboard.press("Escape")
    await expect(others).to_have_count(0)
    await expect(more).to_be_focused()
    await expect(more).to_have_attribute("aria-expanded", "false")


async def test_other_translations_are_those_of_the_text_that_is_shown(live: Page, stage: Stage) -> None:
    more, others = live.locator("#more"), live.locator("#others .alternative")
    await live.fill("#source", "good morning")
    await more.click()
    await expect(others).to_have_count(3)
    await live.fill("#source", "My daughter is a designer.")  # which the fake model translates in one way
    await expect(others).to_have_count(0)
    await expect(live.locator("#output[data-phase=done]")).to_have_text("제 딸은 디자이너예요.")
    await more.click()
    await expect(live.locator("#others [role=status]")).to_contain_text("no other translation")
    await more.click()
    await expect(live.locator("#others")).to_be_empty()
    with stage.service.admission.permit(stage.service.admission.limit, account_id=ANONYMOUS.id):
        await more.click()
        await expect(live.locator("#notes[data-kind=error]")).to_contain_text("The queue is full")
    await expect(live.locator("#others")).to_be_empty()
    await live.fill("#source", "안녕하세요, 반갑습니다.")
    await expect(live.locator("#notes")).to_contain_text("Nothing to translate")
    await expect(more).to_be_disabled()


async def test_an_example_is_one_click_away(live: Page) -> None:
    await live.click("#example")
    await expect(live.locator("#source")).not_to_have_value("")
    await expect(live.locator("#output[data-phase=done]")).not_to_be_empty()


async def test_doubtful_translations_are_marked_and_the_packaged_model_is_explained(page: Page) -> None:
    doubtful = ConfidenceModel(Regression(0.0, {"mean_surprise": -2.0}), threshold=0.3)
    service = make_service(0.0, profile="phrasebook", confidence=doubtful, logprobs=TokenLogprobs(-2.0, -4.0))
    async with serving(service) as stage:
        await service.start()
        await open_page(page, stage)
        await expect(page.locator("#packaged-model")).to_contain_text("dragoman serve --model")
        await page.fill("#source", "one two")
        await expect(page.locator("#output[data-doubtful]")).to_have_text("ko:one ko:two")
        await expect(page.locator("#measured")).to_contain_text("confidence 20%")
        await expect(page.locator("#notes p")).to_have_count(1)
        await page.fill("#source", "")
        await expect(page.locator("#output[data-doubtful]")).to_have_count(0)


@pytest.mark.parametrize(
    ("recent", "shown"), [(None, "confidence 20%"), (RecentScores([-5.0, -1.0, -1.0, -1.0, -1.0]), "")]
)
async def test_a_confidence_is_a_share_only_where_the_model_is_calibrated(
    page: Page, tmp_path: Path, recent: RecentScores | None, shown: str
) -> None:
    judge = ConfidenceModel(Regression(0.0, {"mean_surprise": -2.0}), threshold=0.3, recent=recent)
    async with documents_serving(tmp_path, confidence=judge, logprobs=TokenLogprobs(-2.0, -4.0)) as stage:
        await open_page(page, stage)
        await page.fill("#source", "one two")
        await page.click("#more")
        await expect(page.locator("#others .figure")).to_have_text([shown] * 3)
        await expect(page.locator("#measured")).to_contain_text(shown)
        await open_document(page, stage, "three four")
        await expect(page.locator(".segment .warning").first).to_be_visible()
        await page.get_by_role("button", name="Alternatives").click()
        await expect(page.locator(".others .figure")).to_have_count(3)
        said = await page.locator("main").inner_text()
        assert said.count("confidence 20%") == (4 if shown else 0)
        assert ("confidence" in said) is bool(shown)


async def test_what_a_warning_names_is_underlined(live: Page) -> None:
    text = "🌧️ 비가 왔다. We left. 아무도 없었다. It was late."

    def place(part: str) -> dict[str, int]:
        return {"start": text.index(part), "end": text.index(part) + len(part)}

    warnings: list[dict[str, object]] = [
        {"code": "answered", "message": "Answered.", "places": [place("It was late."), place("We left. 아무도")]},
        {"code": "wrong_language", "message": "Not Korean.", "places": [place("We left.")]},
        {"code": "terms_missing", "message": "Terms.", "places": []},
    ]
    translation: dict[str, object] = {
        "text": text,
        "source": "en",
        "detected": True,
        "finish_reason": "stop",
        "warnings": warnings,
    }
    body = f"data: {json.dumps({'index': 0, 'translation': translation | {'confidence': None}})}\n\ndata: [DONE]\n\n"
    await live.route("**/v1/translate", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    await live.fill("#source", "It rained. We left. Nobody was there. It was late.")
    await expect(live.locator("#output [data-doubtful]")).to_have_text(["We left. 아무도", "It was late."])
    await expect(live.locator("#output")).to_have_text(text)
    await expect(live.locator("#output[data-doubtful]")).to_have_count(0)
    await expect(live.locator("#notes p")).to_have_count(3)


async def test_the_most_similar_example_is_shown_with_the_words_in_which_it_differs(live: Page) -> None:
    best = {"source": "Where is the <b>bus</b> station?", "translation": "버스 정류장은 어디예요?"}
    translation: dict[str, object] = {
        "text": "기차역은 어디예요?",
        "source": "en",
        "detected": True,
        "finish_reason": "stop",
        "warnings": [],
        "confidence": None,
        "examples": {"count": 3, "best_similarity": 86.6, "best": best},
    }
    body = f"data: {json.dumps({'index': 0, 'translation': translation})}\n\ndata: [DONE]\n\n"
    await live.route("**/v1/translate", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    await live.fill("#source", "Where is the train station?")
    remark = live.locator("#notes .example")
    await expect(remark).to_contain_text("3 examples, 87% similar")
    await expect(remark.locator("q")).to_have_text([best["source"], best["translation"]])
    assert "".join(await remark.locator("q b").all_text_contents()) == "<b>bus</b>"
    assert await remark.locator("q").evaluate_all("all => all.map((one) => one.lang)") == ["en", "ko"]


async def test_a_translation_is_stopped_and_the_box_emptied(slow: Page, slow_stage: Stage) -> None:
    with slow_stage.held():
        await slow.fill("#source", "many words that take their time")
        await expect(slow.locator("#output")).to_have_text(re.compile("ko:"))
        await slow.click("#stop")
        await until(lambda: slow_stage.running == 0, "the engine is free")
    await expect(slow.locator("#stop")).to_be_hidden()
    await expect(slow.locator("#output")).to_have_text(re.compile("ko:"))
    await expect(slow.locator("#measured")).to_have_text("Stopped: this is not all of it.")
    await expect(slow.locator("#copy")).to_be_enabled()
    await expect(slow.locator("#source")).to_be_focused()
    await slow.click("#clear")
    await expect(slow.locator("#output")).to_be_empty()
    await expect(slow.locator("#source")).to_have_value("")
    await expect(slow.locator("#clear")).to_be_hidden()
    await slow.keyboard.press("Control+z")
    await expect(slow.locator("#source")).to_have_value("many words that take their time")


async def test_stop_is_in_reach_on_a_phone_however_long_the_translation_gets(slow: Page, slow_stage: Stage) -> None:
    await slow.set_viewport_size({"width": 390, "height": 844})
    with slow_stage.held():
        await slow.fill("#source", "\n\n".join(f"line {number}" for number in range(60)))
        await expect(slow.locator("#output")).to_have_text(re.compile("ko:"))
        await slow.locator("#output").evaluate("output => output.append('ko: '.repeat(900))")
        await expect(slow.locator("#stop")).to_be_in_viewport(ratio=1)
        await slow.click("#stop")
        await until(lambda: slow_stage.running == 0, "the engine is free")


async def test_a_text_is_there_again_when_the_page_is_loaded_again_in_its_tab(live: Page, stage: Stage) -> None:
    await live.fill("#source", "good morning")
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:good ko:morning")
    await live.goto(f"{stage.url}engine")
    assert "morning" not in await live.evaluate("JSON.stringify(localStorage)")
    await live.goto(stage.url)
    await expect(live.locator("#output[data-phase=done]")).to_have_text("ko:good ko:morning")
    await live.click("#clear")
    await live.reload()
    await expect(live.locator("#target-language")).not_to_have_value("")
    await expect(live.locator("#source")).to_have_value("")


async def test_the_reader_s_language_is_the_first_target_unless_the_text_is_in_it(page: Page, stage: Stage) -> None:
    await page.goto(stage.url)
    await expect(page.locator("#target-language")).to_have_attribute("data-value", "en")
    await page.fill("#source", "My daughter is a designer.")
    await expect(page.locator("#target-language")).to_have_attribute("data-value", "ar")
    await expect(page.locator("#output[data-phase=done]")).not_to_have_text("My daughter is a designer.")
    await choose_language(page, "#target-language", "en")  # who chooses it gets it
    await expect(page.locator("#output[data-phase=done]")).to_have_text("My daughter is a designer.")
    await expect(page.locator("#target-language")).to_have_attribute("data-value", "en")


async def test_source_and_translation_stay_beside_each_other_when_they_are_long(live: Page) -> None:
    await live.fill("#source", "hello world\n" * 100)
    await expect(live.locator("#output[data-phase=done]")).to_contain_text("ko:hello")
    for width, height in ((1280, 800), (390, 844)):
        await live.set_viewport_size({"width": width, "height": height})
        await live.evaluate("scrollTo(0, 0)")
        await expect(live.locator("#output")).to_be_in_viewport(ratio=0.3)
        for at, by, other in (("#source", 10_000, "output"), ("#output", -10_000, "source")):
            await live.hover(at)
            await live.mouse.wheel(0, by)
            end = f"{other}.scrollHeight - {other}.clientHeight - 2" if by > 0 else "0"
            await live.wait_for_function(f"() => {other}.scrollTop {'>=' if by > 0 else '=='} {end}")


async def test_a_translation_that_is_longer_than_its_source_is_whole_on_a_phone(live: Page) -> None:
    await live.set_viewport_size({"width": 390, "height": 844})
    await live.fill("#source", " ".join("abcdefghijklmnopqrstuvwxyz"))  # each word gets some letters more
    await expect(live.locator("#output[data-phase=done]")).to_contain_text("z")
    assert await live.evaluate("output.scrollHeight <= output.clientHeight")


async def test_a_form_of_address_is_offered_where_the_model_has_one(live: Page) -> None:
    await live.click(".options summary")
    await expect(live.locator("#glossary")).to_be_visible()
    await expect(live.locator("#formality")).to_be_hidden()
    await live.route("**/v1/models", lambda route: route.fulfill(json={"data": [{"takes_formality": True}]}))
    await live.reload()
    await live.click(".options summary")
    await expect(live.locator("#formality")).to_be_visible()
