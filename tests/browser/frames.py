"""Measures how smoothly a document of 20,000 segments scrolls: `python -m tests.browser.frames [SEGMENTS]`.

The page is scrolled from the first segment on for ten seconds, 400 pixels in each frame, and then goes to the last segment
by its link. What is printed is JSON: the times between frames in ms, how many took longer than 50 ms, how many elements the
page has at most, and how long the last segment took to be there. The server is the tests', over the fake pipeline; headless
Chromium draws without a GPU, at 60 frames per second at most.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic

from playwright.async_api import Page, async_playwright, expect

from tests.browser.conftest import documents_serving, installed_chromium, open_document

SEGMENTS = 20_000
SCROLL = """() => new Promise((resolve) => {
    const [times, elements] = [[], []];
    const beganMs = performance.now();
    let lastMs = beganMs;
    const frame = (nowMs) => {
        times.push(nowMs - lastMs);
        lastMs = nowMs;
        if (times.length % 30 === 0) elements.push(document.querySelectorAll("*").length);
        if (nowMs - beganMs > 10_000) return resolve({ times: times.slice(1), elements: Math.max(...elements), y: scrollY });
        scrollBy(0, 400);
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
})"""


async def measure(page: Page, segments: int) -> dict[str, object]:
    """Scroll the document that is shown, and go to its end."""
    scrolled = await page.evaluate(SCROLL)
    times = sorted(scrolled["times"])
    began_s = monotonic()
    await page.evaluate("n => { location.hash = location.hash.split('/').slice(0, 2).join('/') + '/' + n; }", segments)
    await expect(page.locator(f'.segment[data-n="{segments - 1}"]')).to_be_focused()
    return {
        "segments": segments,
        "frames": len(times),
        "frame_ms": {"p50": times[len(times) // 2], "p95": times[len(times) * 95 // 100], "longest": times[-1]},
        "frames_over_50_ms": sum(one > 50 for one in times),
        "scrolled_pixels": scrolled["y"],
        "most_elements": scrolled["elements"],
        "last_segment_s": round(monotonic() - began_s, 2),
        "cpus": os.cpu_count(),
        "load_1_min": round(os.getloadavg()[0], 1),
    }


async def main(segments: int) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=installed_chromium())
        page = await browser.new_page(viewport={"width": 1280, "height": 900}, locale="en-GB")
        with tempfile.TemporaryDirectory() as folder:
            async with documents_serving(Path(folder)) as stage:
                await open_document(page, stage, "\n\n".join(f"Line {n} of them." for n in range(segments)), "long.md")
                print(json.dumps(await measure(page, segments)))
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else SEGMENTS))
