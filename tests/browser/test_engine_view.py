"""What the page `/engine` shows: numbers, slots, charts, and the burst, against the real server."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, Request, expect

from dragoman.types import ANONYMOUS
from tests.browser.conftest import choose_language, open_engine, open_page
from tests.browser.stage import SLOTS, Stage, make_service, serving
from tests.replicas import ReplicasHere
from tests.waiting import until

pytestmark = pytest.mark.browser

WAY = re.compile(r"First token [\d.]+ m?s ?, done [\d.]+ m?s")
LONG = " ".join(f"word{number}" for number in range(300))


@pytest.fixture
async def live(page: Page, stage: Stage) -> Page:
    """The engine's page of the shared server, ready, its burst into Korean."""
    await open_engine(page, stage)
    return page


@pytest.fixture
async def slow(page: Page, slow_stage: Stage) -> Page:
    """The engine's page of the slow server, likewise."""
    await open_engine(page, slow_stage)
    return page


async def readout(page: Page, name: str) -> str:
    box = page.locator("#readouts > div").filter(has=page.get_by_text(name, exact=True))
    return await box.locator("dd").first.inner_text()


async def test_running_sequences_fill_slots_and_leave_them(slow: Page, slow_stage: Stage) -> None:
    await expect(slow.locator("#slots i")).to_have_count(SLOTS)
    await expect(slow.locator("#slots i.on")).to_have_count(0)
    translating = await slow.context.new_page()
    await open_page(translating, slow_stage)
    await translating.fill("#source", LONG)
    await slow.bring_to_front()
    await expect(slow.locator("#slots i.on").first).to_be_attached()
    await expect(slow.locator("#slots")).to_have_attribute(
        "aria-label", re.compile(r"^Slots: [1-9]\d* of 16 run a sequence")
    )
    assert int(await readout(slow, "Running")) > 0
    await translating.fill("#source", "")
    await expect(slow.locator("#slots i.on")).to_have_count(0)


async def test_readouts_are_the_server_s_numbers(live: Page, stage: Stage) -> None:
    stats = stage.service.stats()
    await expect(live.locator("#identity")).to_have_text("stage · fake · cpu")
    await expect(live.locator("#state")).to_have_attribute("data-state", "serving")
    await expect(live.locator("#readouts")).to_contain_text(f"limit {stats.max_in_flight_characters:,}")
    names = await live.locator("#readouts dt").all_inner_texts()
    await expect(live.locator("#replicas")).to_be_hidden()
    assert names == ["Running", "Waiting", "In flight", "KV cache", "Tokens/s", "Texts/s"]
    await live.click("#send")
    await expect(live.locator("#latency tbody tr").first.locator("td").first).to_have_text(re.compile(r"\d m?s$"))
    tokens = live.locator("#readouts > div").filter(has_text="Tokens/s").locator("dd").first
    await expect(tokens).to_have_text(re.compile(r"[1-9]"))


async def test_several_replicas_are_added_up_and_each_is_in_a_table(page: Page) -> None:
    services = [make_service(replica="a"), make_service(replica="b")]
    everyone = ReplicasHere(services, missing=("c",))
    async with serving(services[0], everyone) as a, serving(services[1], everyone):
        for service in services:
            await service.start()
        await open_engine(page, a)
        await expect(page.locator("#state")).to_have_text("serving, 2 of 3 replicas")
        await expect(page.locator("#slots i")).to_have_count(2 * SLOTS)
        rows = page.locator("#replicas-table tbody tr")
        await expect(rows.locator("th")).to_have_text(["a", "b", "c"])
        await expect(rows.locator("td:nth-child(2)")).to_have_text(["serving", "serving", "unreachable"])
        await expect(rows.locator("td:nth-child(3)")).to_have_text(["0", "0", "–"])
        services[1].admission.drain()
        await expect(rows.locator("td:nth-child(2)")).to_have_text(["serving", "shutting down", "unreachable"])
        assert await page.evaluate("document.documentElement.scrollWidth") <= 1280


async def test_a_burst_shows_each_text_s_way_and_short_ones_overtake(live: Page, stage: Stage) -> None:
    calls: list[Request] = []
    live.on("request", lambda request: calls.append(request) if "translate" in request.url else None)
    await live.click("#send")
    await expect(live.locator("#send")).to_have_text("Send 25 more")
    await expect(live.locator("#burst-rows li[data-phase=done]")).to_have_count(25)
    await expect(live.locator("#burst-load")).to_be_empty()
    assert len(calls) == 1
    assert len(set(calls[0].post_data_json["text"])) == 25  # else some would be generated once, for several
    counted = re.search(r"25 texts in .+\. (\d+) of 18 short texts", await live.locator("#burst-result").inner_text())
    assert counted is not None
    assert int(counted[1]) >= 9
    for row in await live.locator("#burst-rows li").all():
        assert WAY.fullmatch(" ".join((await row.locator(".times .visually-hidden").inner_text()).split()))
        assert await row.locator(".translation").get_attribute("lang") == "ko"
    assert stage.running == 0


async def test_a_burst_that_is_stopped_leaves_the_engine(slow: Page, slow_stage: Stage) -> None:
    before = slow_stage.cancelled
    with slow_stage.held():
        await slow.click("#send")
        await expect(slow.locator("#burst-rows li[data-phase=streaming]").first).to_be_attached()
        await expect(slow.locator("#queue i").first).to_be_attached()  # more texts than slots
        assert slow_stage.running == SLOTS
        await expect(slow.locator("#send")).to_have_text("Stop")
        await slow.click("#send")
        await until(lambda: slow_stage.cancelled == before + 1, "the burst cancelled")
        assert slow_stage.running == 0
    await expect(slow.locator("#burst-result")).to_have_text("Stopped. What was running has left the engine.")
    await expect(slow.locator("#burst-rows li[data-phase=streaming]")).to_have_count(0)


async def test_a_burst_that_is_refused_says_why(live: Page, stage: Stage) -> None:
    admission = stage.service.admission
    with admission.permit(admission.limit, account_id=ANONYMOUS.id):
        await live.click("#send")
        await expect(live.locator("#burst-result")).to_contain_text("The queue is full")
    await expect(live.locator("#burst-rows li[data-phase=failed]")).to_have_count(25)


async def test_a_burst_is_never_in_the_language_that_it_is_translated_into(live: Page) -> None:
    for target in ("ja", "en"):
        await choose_language(live, "#target-language", target)
        spans = live.locator(f"#burst-rows .text [lang={target}]")
        await expect(spans).to_have_count(0)
        await expect(live.locator("#burst-rows .text [lang]")).to_have_count(25)


async def test_charts_say_in_words_and_in_a_table_what_they_draw(live: Page) -> None:
    charts = live.locator("#charts svg")
    await expect(charts).to_have_count(3)
    await expect(charts.first).to_have_attribute(
        "aria-label", re.compile(r"^Sequences, recent history: running \d+ now, \d+ at most; waiting")
    )
    await expect(charts.first.locator("path.area.run")).to_have_count(1)
    await live.locator("#history summary").click()
    await expect(live.locator("#history-table thead th")).to_have_count(6)
    await expect(live.locator("#history-table tbody th").first).to_have_text("0:00")


async def test_pointing_at_a_chart_reads_a_moment(live: Page) -> None:
    plot = live.locator("#charts svg").first
    await expect(plot.locator("path.line.run")).to_have_count(1)
    await plot.scroll_into_view_if_needed()  # a mouse points at nothing below the fold
    box = await plot.bounding_box()
    assert box is not None
    await live.mouse.move(box["x"] + box["width"] - 30, box["y"] + 40)
    await expect(live.locator("#charts .when").first).to_have_text(re.compile(r"^\d+:\d\d ago$"))
    await expect(plot.locator(".cursor")).to_have_count(1)
    await live.mouse.move(0, 0)
    await expect(live.locator("#charts .when").first).to_have_text("")


async def test_a_hidden_page_asks_for_nothing(page: Page, stage: Stage) -> None:
    await page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "stats" in request.url else None)
    await open_engine(page, stage)
    await expect(page.locator("#state-text")).to_have_text("serving")
    await show(page, hidden=True)
    before = len(asked)
    await page.clock.run_for(30_000)
    assert len(asked) == before
    async with page.expect_request("**/v1/stats"):
        await show(page, hidden=False)


async def show(page: Page, *, hidden: bool) -> None:
    await page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


async def test_the_state_is_the_server_s(page: Page) -> None:
    service = make_service()
    async with serving(service) as stage:
        await open_engine(page, stage)
        await expect(page.locator("#state")).to_have_attribute("data-state", "starting")
        await service.start()
        await expect(page.locator("#state-text")).to_have_text("serving")
        await page.context.set_offline(True)
        await expect(page.locator("#state-text")).to_have_text("no connection")
        await page.context.set_offline(False)
        await expect(page.locator("#state-text")).to_have_text("serving")
