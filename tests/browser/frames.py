"""Measures how smooth a document of 20,000 segments is: `python -m tests.browser.frames [SEGMENTS]`.

It is scrolled with the wheel, searched and edited. Frames are the compositor's, of Chromium's trace: shown, or dropped where
something moved. Times to the next paint after a key are the browser's (Event Timing), CPU time is that of the main thread.
The result goes into results/page-frames.json and docs/page.md. The server is the tests', over the fake pipeline, on the same
machine; headless Chromium draws without a GPU, 60 frames a second at most.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from playwright.async_api import Browser, CDPSession, Page, async_playwright, expect

from tests.browser.conftest import documents_serving, installed_chromium, open_document
from tests.browser.tables import ROOT, line, write

SEGMENTS = 20_000
SCROLLED_S = 10
SPEEDS = (1_500, 6_000, 24_000)
"""Pixels in a second: as one looks for a place, as fast as a wheel is turned, and as one drags a scrollbar."""
TYPED = 60
SAVES = 10

OBSERVE = """() => {
    const seen = (globalThis.seen = { paintMs: [], longestTaskMs: 0, blank: 0, looks: 0 });
    const events = new PerformanceObserver((list) => {
        for (const { name, duration } of list.getEntries()) if (name === "keydown") seen.paintMs.push(duration);
    });
    events.observe({ type: "event", durationThreshold: 16 });
    const tasks = new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) seen.longestTaskMs = Math.max(seen.longestTaskMs, duration);
    });
    tasks.observe({ type: "longtask" });
    const look = () => {
        if (seen !== globalThis.seen) return;
        seen.looks += 1;
        if (!document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest(".segment")) seen.blank += 1;
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""
"""`blank`: frames in whose middle there was no segment yet. Keys that were painted in under 16 ms are not in `paintMs`."""
FOCUS_OF = """selector => new Promise((resolve) => {
    addEventListener("focusin", function once({ target }) {
        if (!target.matches(selector)) return;
        removeEventListener("focusin", once);
        resolve(performance.now());
    });
})"""


def frames_of(trace: bytes) -> dict[str, float]:
    """Frames that were shown, and those that were dropped while something moved; ms from one that is shown to the next."""
    reports = [one for one in json.loads(trace)["traceEvents"] if one["name"] == "PipelineReporter"]
    opened: dict[tuple[int, str], dict[str, Any]] = {}
    shown: set[float] = set()  # a frame may have two reports, of the page's main thread and of its compositor
    dropped = 0
    for one in sorted(reports, key=lambda one: (one["ts"], one["ph"] == "b")):  # an identity is used again and again
        identity = (one["pid"], one["id2"]["local"])
        if one["ph"] == "b":
            opened[identity] = one["args"]["frame_reporter"]
            continue
        report = opened.pop(identity, {"state": "of before"})
        if report["state"] in {"STATE_PRESENTED_ALL", "STATE_PRESENTED_PARTIAL"}:
            shown.add(one["ts"])
        elif report["state"] == "STATE_DROPPED" and report["affects_smoothness"]:
            dropped += 1
    times = sorted(shown)
    gaps = sorted((late - early) / 1000 for early, late in pairwise(times)) or [0.0]
    middle, most = gaps[len(gaps) // 2], gaps[len(gaps) * 95 // 100]
    return {"shown": len(shown), "dropped": dropped, "p50_ms": middle, "p95_ms": most, "longest_ms": gaps[-1]}


class Lens:
    """Looks at what the browser does during a part of the measurement."""

    def __init__(self, browser: Browser, page: Page, session: CDPSession) -> None:
        self.browser = browser
        self.page = page
        self.session = session
        self.parts: dict[str, dict[str, float]] = {}

    async def cpu_s(self) -> float:
        metrics: list[dict[str, Any]] = cast("Any", await self.session.send("Performance.getMetrics"))["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    @asynccontextmanager
    async def part(self, name: str) -> AsyncGenerator[dict[str, float]]:
        """`parts[name]`; the block may add to it."""
        found: dict[str, float] = {}
        await self.page.evaluate(OBSERVE)
        before_s = await self.cpu_s()
        await self.browser.start_tracing(page=self.page, categories=["cc", "benchmark"])
        yield found
        trace = await self.browser.stop_tracing()
        found["main_thread_cpu_ms"] = 1000 * (await self.cpu_s() - before_s)
        seen: dict[str, Any] = await self.page.evaluate(
            "() => { const { seen } = globalThis; delete globalThis.seen; return seen; }"
        )
        paints = sorted(seen["paintMs"])
        found |= {
            **frames_of(trace),
            "longest_task_ms": seen["longestTaskMs"],
            "blank_share": seen["blank"] / max(1, seen["looks"]),
            "keys_over_16_ms": len(paints),
            "slowest_key_ms": paints[-1] if paints else 0,
        }
        found["elements"] = await self.page.evaluate("document.querySelectorAll('*').length")
        self.parts[name] = {key: round(value, 2) for key, value in found.items()}
        print(name, self.parts[name], file=sys.stderr)


async def scroll(lens: Lens, speed: int) -> None:
    """Turn the wheel from the document's beginning."""
    await lens.page.evaluate("scrollTo(0, 0)")
    await expect(lens.page.locator('.segment[data-n="0"]')).to_be_visible()
    gesture = {"x": 640, "y": 600, "yDistance": -speed * SCROLLED_S, "speed": speed, "gestureSourceType": "mouse"}
    async with lens.part(f"scroll, {speed:,} pixels a second") as found:
        await lens.session.send("Input.synthesizeScrollGesture", gesture)
        found["scrolled_pixels"] = await lens.page.evaluate("scrollY")


async def search(lens: Lens, words: str, count: int) -> None:
    """Type what is searched for, until what is found is shown; the page waits 300 ms for more letters."""
    page = lens.page
    await page.click("#find-text")
    await page.keyboard.press("Control+A")
    async with lens.part(f"search: {count:,} found") as found:
        await page.keyboard.type(words, delay=80)
        began = await page.evaluate("performance.now()")
        is_shown = """([count, box]) => document.querySelector("#found-count").textContent.startsWith(count)
            && document.querySelector(".segment")?.querySelector(box) && performance.now()"""
        shown = await page.wait_for_function(is_shown, arg=[f"{count:,} ", ".source mark"])
        found["until_shown_ms"] = await shown.json_value() - began


async def edit(lens: Lens, segment: int) -> None:
    """Go to a segment by its link, type into it, and save it and those after it."""
    page = lens.page
    async with lens.part("go to a segment") as found:
        document = page.url.partition("#")[2].split("/")[:2]
        address = "/".join([*document, str(segment)])
        go = "address => { const began = performance.now(); location.hash = address; return began; }"
        focused = asyncio.ensure_future(page.evaluate(FOCUS_OF, f'.segment[data-n="{segment - 1}"]'))
        began = await page.evaluate(go, address)
        found["until_shown_ms"] = await focused - began
    async with lens.part(f"type {TYPED} characters"):
        await page.keyboard.press("Enter")
        await page.keyboard.type("abcdefghi " * (TYPED // 10), delay=60)
    async with lens.part(f"save {SAVES} segments, going on to the next") as found:
        times: list[float] = []
        for _ in range(SAVES):
            began = await page.evaluate("performance.now()")
            focused = asyncio.ensure_future(page.evaluate(FOCUS_OF, ".field"))
            await page.keyboard.press("Control+Enter")
            times.append(await focused - began)
            await page.keyboard.type("a")
        found["until_shown_ms"] = sorted(times)[SAVES // 2]


async def measure(browser: Browser, page: Page, segments: int) -> dict[str, Any]:
    """Scroll, search and edit the document that is shown."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    lens = Lens(browser, page, session)
    for speed in SPEEDS:
        await scroll(lens, speed)
    await search(lens, "line", segments)
    await search(lens, f"line {segments - 1}", 1)
    await edit(lens, segments // 2)
    return {
        "segments": segments,
        "browser": browser.version,
        "cpus": os.cpu_count(),
        "load_1_min": round(os.getloadavg()[0], 1),
        "parts": lens.parts,
    }


def rows(found: dict[str, Any]) -> list[str]:
    """Lines of the table: one for each part."""
    cells: list[str] = []
    for name, part in found["parts"].items():
        paint = f"{part['slowest_key_ms']:.0f}" if part["slowest_key_ms"] else "–"
        until = f"{part['until_shown_ms']:.0f}" if "until_shown_ms" in part else "–"
        is_moving = name.startswith("scroll")
        gaps = f"{part['p50_ms']:.0f}, {part['p95_ms']:.0f}, {part['longest_ms']:.0f}" if is_moving else "–"
        blank = f"{100 * part['blank_share']:.0f} %" if is_moving else "–"
        numbers = (f"{part['shown']:.0f}", f"{part['dropped']:.0f}", gaps, blank, paint, until)
        cells.append(line([name, *numbers, f"{part['longest_task_ms']:.0f}", f"{part['main_thread_cpu_ms']:.0f}"]))
    return cells


def conditions(found: dict[str, Any]) -> str:
    return (
        f"Chromium {found['browser']}, without a GPU; {found['cpus']} CPUs, on which the server and other programs ran too: "
        f"on average {found['load_1_min']} processes wanted one."
    )


HEAD = (
    "what is done", "frames shown", "dropped", "between frames p50, p95, longest (ms)", "blank", "slowest key (ms)",
    "until shown (ms)", "longest task (ms)", "CPU (ms)",
)  # fmt: skip


async def main(segments: int) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=installed_chromium())
        page = await browser.new_page(viewport={"width": 1280, "height": 900}, locale="en-GB")
        page.set_default_timeout(600_000)
        with tempfile.TemporaryDirectory() as folder:
            async with documents_serving(Path(folder)) as stage:
                await open_document(page, stage, "\n\n".join(f"Line {n} of them." for n in range(segments)), "long.md")
                found = await measure(browser, page, segments)
        await browser.close()
    print(json.dumps(found))
    if segments == SEGMENTS:
        (ROOT / "results/page-frames.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write("frames", HEAD, rows(found), conditions(found))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else SEGMENTS))
