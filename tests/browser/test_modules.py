"""The page's modules one by one, in the browser that runs them: what is awkward to reach through the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.browser.stage import Stage
from wholetext.files.formats import all_formats

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
    ("text", "translation", "pairs"),
    [
        ("One. Two.", "Eins. Zwei.", [("One.", "Eins."), ("Two.", "Zwei.")]),
        ("One. Two.\n\nThree.", "Eins, zwei.\n\nDrei.", [("One. Two.", "Eins, zwei."), ("Three.", "Drei.")]),
        ("🚉 駅です。海です。", "Station. Sea.", [("🚉 駅です。", "Station."), ("海です。", "Sea.")]),
        ("One.\nTwo.", "Eins. Zwei.", [("One.", "Eins."), ("Two.", "Zwei.")]),
        ("One.\nTwo.", "Eins, zwei.", []),
        ("", "", []),
    ],
)
async def test_sentences_are_paired_with_their_translations(
    module_page: Page, text: str, translation: str, pairs: list[tuple[str, str]]
) -> None:
    body = """
        const parts = ({ source, target }) => [a[0].slice(...source), a[1].slice(...target)];
        return m.pairsOf(a[0], a[1], "en", "de").map(parts);
    """
    assert [tuple(pair) for pair in await run(module_page, "alignment", body, text, translation)] == pairs


async def test_every_file_is_of_one_kind(module_page: Page) -> None:
    extensions = [extension for one in all_formats() for extension in one.extensions]
    kinds = await run(module_page, "filekinds", "return m.kindsOf(a[0])", [*extensions, "new"])
    assert sorted(one for kind in kinds for one in kind["extensions"]) == sorted([*extensions, "new"])
    assert [kind["title"] for kind in kinds if {"pdf", "new"} & {*kind["extensions"]}] == ["PDF", "Texts of programs"]
    assert [kind["title"] for kind in await run(module_page, "filekinds", "return m.kindsOf(a[0])", ["srt"])] == [
        "Subtitles"
    ]


@pytest.mark.parametrize(
    ("tag", "direction"),
    [
        *(("ar", "rtl"), ("he", "rtl"), ("fa-IR", "rtl"), ("ur", "rtl"), ("ckb", "rtl"), ("dv", "rtl"), ("yi", "rtl")),
        *(("en", "ltr"), ("ja", "ltr"), ("zh-Hant", "ltr"), ("az", "ltr"), ("az-Arab", "rtl"), ("not a tag", "ltr")),
    ],
)
async def test_directions_follow_the_script(module_page: Page, tag: str, direction: str) -> None:
    assert await run(module_page, "i18n", "return m.direction(a[0])", tag) == direction


HISTORY = """
    const engine = (at) => ({running: 1, waiting: 0, completion_tokens: at.tokens});
    const stats = (at) => ({engine: engine(at), last_minute: {e2e_s: {}}, uptime_s: at.up});
    const history = new m.History();
    for (const at of a[0]) history.add(stats(at), at.s ?? at.up);
"""


def moment(up: float, tokens: int, s: float | None = None) -> dict[str, float | None]:
    return {"up": up, "tokens": tokens, "s": s}


async def test_a_restarted_server_has_no_rate_from_before(module_page: Page) -> None:
    moments = [moment(100, 5000, 1), moment(101, 6000, 2), moment(1, 10, 3), moment(2, 30, 4)]
    rates = await run(module_page, "history", f"{HISTORY} return history.samples.map((one) => one.tokensPerS)", moments)
    assert rates == [None, 1000, None, 20]


async def test_times_without_samples_are_not_drawn(module_page: Page) -> None:
    moments = [moment(1, 0), moment(2, 0), moment(30, 0), moment(31, 0), moment(32, 0)]
    body = f"{HISTORY} return history.stretches('running').map((one) => one.length)"
    assert await run(module_page, "history", body, moments) == [2, 3]


async def test_slots_are_what_the_engines_of_reachable_replicas_run_at_once(module_page: Page) -> None:
    settings = {"engine": {"max_num_seqs": 64}}
    slots_of = "return m.slotsOf({settings: a[0], replicas: a[1].map((state) => ({state}))})"
    assert await run(module_page, "history", slots_of, settings, []) == 64
    assert await run(module_page, "history", slots_of, settings, ["serving", "unreachable", "starting"]) == 2 * 64


@pytest.mark.parametrize(
    ("text", "other", "different"),
    [
        ("Open the file now", "Open the big file", [" now"]),
        ("Close the file.", "Open the file.", ["Close"]),
        ("a b a b", "b a", ["a ", " b"]),
        ("ファイルを開く", "ファイルを閉じる", ["ファイルを開く"]),
        ("same", "same", []),
        ("", "words", []),
        ("words", "", ["words"]),
        ("<b>5</b> €", "<b>6</b> €", ["5"]),
    ],
)
async def test_the_words_of_an_example_that_a_text_does_not_have_are_found(
    module_page: Page, text: str, other: str, different: list[str]
) -> None:
    parts = await run(module_page, "examples", "return m.difference(a[0], a[1]);", text, other)
    assert "".join(part["text"] for part in parts) == text
    assert [part["text"] for part in parts if not part["common"]] == different


async def test_the_words_of_very_long_texts_are_not_compared(module_page: Page) -> None:
    parts = await run(module_page, "examples", "return m.difference(a[0], a[1]);", "x y " * 5_000, "z")
    assert [part["common"] for part in parts] == [True]
