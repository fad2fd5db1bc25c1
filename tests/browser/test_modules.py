"""The page's modules one by one, in the browser that runs them: what is awkward to reach through the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.browser.stage import Stage

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
async def module_page(chromium: Browser, stage: Stage) -> AsyncIterator[Page]:
    """A document of the server's origin that runs nothing of its own; modules keep no state, so all tests share it."""
    page = await chromium.new_page()
    await page.goto(f"{stage.url}web/icon.svg")
    yield page
    await page.close()


async def run(page: Page, module: str, body: str, *arguments: object) -> Any:
    """Evaluate a function's body, in which `m` is the module and `a` the arguments."""
    script = f"async a => {{ const m = await import('/web/{module}.js'); {body} }}"
    return await page.evaluate(script, list(arguments))


READ_ALL = """
    const bytes = new TextEncoder().encode(a[0]);
    const chunks = [];
    for (let at = 0; at < bytes.length; at += a[1]) chunks.push(bytes.slice(at, at + a[1]));
    const found = [];
    const body = new ReadableStream({start: (to) => { chunks.forEach((chunk) => to.enqueue(chunk)); to.close(); }});
    for await (const data of m.eventData(body)) found.push(data);
    return found;
"""


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_events_survive_any_chunking(module_page: Page, chunk: int, end: str) -> None:
    stream = f"data: 駅は🚉{end}{end}: a comment{end}{end}event: x{end}data:two{end}data: lines{end}{end}data: cut off"
    assert await run(module_page, "sse", READ_ALL, stream, chunk) == ["駅は🚉", "two\nlines"]


async def test_a_reader_that_stops_early_frees_the_stream(module_page: Page) -> None:
    body = """
        let freed = false;
        const source = new ReadableStream({
            pull: (controller) => controller.enqueue(new TextEncoder().encode("data: 1\\n\\n")),
            cancel: () => { freed = true; },
        });
        for await (const data of m.eventData(source)) break;
        await new Promise((resolve) => setTimeout(resolve));
        return freed;
    """
    assert await run(module_page, "sse", body) is True


@pytest.mark.parametrize(
    ("tag", "direction"),
    [
        *(("ar", "rtl"), ("he", "rtl"), ("fa-IR", "rtl"), ("ur", "rtl"), ("ckb", "rtl"), ("dv", "rtl"), ("yi", "rtl")),
        *(("en", "ltr"), ("ja", "ltr"), ("zh-Hant", "ltr"), ("az", "ltr"), ("az-Arab", "rtl"), ("not a tag", "ltr")),
    ],
)
async def test_directions_follow_the_script(module_page: Page, tag: str, direction: str) -> None:
    assert await run(module_page, "languages", "return m.direction(a[0])", tag) == direction


@pytest.mark.parametrize(
    ("highest", "whole", "top"),
    [
        *((0, True, 4), (3, True, 4), (5, True, 6), (25, True, 40), (64, True, 100), (100, True, 100)),
        *(
            (0, False, 1),
            (0.3, False, 0.5),
            (1.2, False, 2),
            (2.2, False, 2.5),
            (999, False, 1000),
            (1000, False, 1000),
        ),
    ],
)
async def test_axes_end_at_round_numbers(module_page: Page, highest: float, whole: bool, top: float) -> None:
    assert await run(module_page, "chart", "return m.roundTop(a[0], a[1])", highest, whole) == pytest.approx(top)


@pytest.mark.parametrize(
    ("function", "number", "words"),
    [
        *(("duration", 0.0004, "0.4 ms"), ("duration", 0.084, "84 ms"), ("duration", 0.9996, "1.00 s")),
        *(("duration", 12.34, "12.3 s"), ("duration", 200, "3 min 20 s"), ("duration", None, "–")),
        *(("rate", 0, "0"), ("rate", 0.418, "0.42"), ("rate", 8.26, "8.3"), ("rate", 12480.2, "12,480")),
        *(("share", 0, "0 %"), ("share", 0.031, "3.1 %"), ("share", 1, "100 %"), ("count", 1240, "1,240")),
        *(("ago", 7, "0:07"), ("ago", 270.4, "4:30"), ("durationMark", 0.25, "250 ms"), ("durationMark", 2.5, "2.5 s")),
    ],
)
async def test_numbers_are_short(module_page: Page, function: str, number: float | None, words: str) -> None:
    assert await run(module_page, "format", "return m[a[0]](a[1])", function, number) == words


HISTORY = """
    const engine = (at) => ({running: 1, waiting: 0, completion_tokens: at.tokens});
    const stats = (at) => ({engine: engine(at), last_minute: {e2e_s: {}}, uptime_s: at.up});
    const history = new m.History();
    for (const at of a[0]) history.add(stats(at), at.s ?? at.up);
"""


def moment(up: float, tokens: int, s: float | None = None) -> dict[str, float | None]:
    return {"up": up, "tokens": tokens, "s": s}


async def test_token_rates_are_over_a_second_of_the_server_s_clock(module_page: Page) -> None:
    moments = [moment(10, 0), moment(10.25, 50), moment(11, 100), moment(11.25, 150)]
    rates = await run(module_page, "history", f"{HISTORY} return history.samples.map((one) => one.tokensPerS)", moments)
    assert rates == [None, None, 100, 100]


async def test_a_restarted_server_has_no_rate_from_before(module_page: Page) -> None:
    moments = [moment(100, 5000, 1), moment(101, 6000, 2), moment(1, 10, 3), moment(2, 30, 4)]
    rates = await run(module_page, "history", f"{HISTORY} return history.samples.map((one) => one.tokensPerS)", moments)
    assert rates == [None, 1000, None, 20]


async def test_times_without_samples_are_not_drawn(module_page: Page) -> None:
    moments = [moment(1, 0), moment(2, 0), moment(30, 0), moment(31, 0), moment(32, 0)]
    body = f"{HISTORY} return history.stretches('running').map((one) => one.length)"
    assert await run(module_page, "history", body, moments) == [2, 3]


async def test_what_is_older_than_the_window_is_forgotten(module_page: Page) -> None:
    moments = [moment(second, 0) for second in range(0, 400, 2)]
    body = f"{HISTORY} return [history.samples.length, history.windowS(399), history.every(10).length]"
    kept, window, rows = await run(module_page, "history", body, moments)
    assert (kept, window, rows) == (153, 300, 31)


@pytest.mark.parametrize(
    ("pipeline", "slots"),
    [
        ({"name": "continuous", "workers": 1, "batch_size": 16}, 64),
        ({"name": "workers", "workers": 2, "batch_size": 16}, 2),
        ({"name": "static_batch", "workers": 1, "batch_size": 16}, 16),
    ],
)
async def test_slots_are_what_the_pipeline_can_have_in_the_engine(
    module_page: Page, pipeline: dict[str, Any], slots: int
) -> None:
    settings = {"engine": {"max_num_seqs": 64}, "pipeline": pipeline}
    slots_of = "return m.slotsOf({settings: a[0], replicas: a[1].map((state) => ({state}))})"
    assert await run(module_page, "history", slots_of, settings, []) == slots
    assert await run(module_page, "history", slots_of, settings, ["serving", "unreachable", "starting"]) == 2 * slots


async def test_many_slots_are_one_bar(live: Page) -> None:
    body = """
        const slots = new m.Slots();
        slots.draw({slots: 256, running: 64, waiting: 70, peak: 128});
        const row = document.getElementById("slots");
        const queue = document.getElementById("queue");
        return [row.className, row.querySelector(".fill").style.width, row.querySelector(".peak").style.left,
                queue.querySelectorAll("i").length, queue.textContent];
    """
    assert await run(live, "slots", body) == ["bar", "25%", "50%", 48, "+22"]


DRAW = """
    const topics = {one: [{en: "A.", ja: "あ。"}, {en: "B.", ja: "い。"}], two: [{en: "C.", ja: "う。"}]};
    const languages = new Map(a[1].map((tag) => [tag, {}]));
    const pair = {target: a[0], languages, serves: (from, to) => a[2].includes(from + to)};
    return m.drawTexts(topics, pair);
"""


async def test_a_burst_is_short_and_long_texts_in_the_languages_that_the_model_serves(module_page: Page) -> None:
    texts = await run(module_page, "texts", DRAW, "fr", ["en", "ja", "fr"], ["enfr", "jafr"])
    assert len(texts) == 25
    assert {one["language"] for one in texts} == {"en", "ja"}
    assert sum(one["long"] for one in texts) == 7
    assert texts[0]["long"]
    for one in texts:
        sentences = one["text"].count("。" if one["language"] == "ja" else ".")
        assert sentences == (7 if one["long"] else 1)


async def test_a_burst_leaves_out_directions_that_the_model_does_not_serve(module_page: Page) -> None:
    texts = await run(module_page, "texts", DRAW, "fr", ["en", "ja", "fr"], ["jafr"])
    assert {one["language"] for one in texts} == {"ja"}
    assert await run(module_page, "texts", DRAW, "fr", ["de", "fr"], ["defr"]) == []


async def test_a_glossary_is_read_line_by_line(module_page: Page) -> None:
    text = "server = サーバー\n\n a=b = c \nqueue\t待ち行列\nnothing\n= x\ny ="
    found = await run(module_page, "options", "return m.glossaryOf(a[0]);", text)
    assert found == {"terms": {"server": "サーバー", "a": "b = c", "queue": "待ち行列"}, "faulty": [5, 6, 7]}
