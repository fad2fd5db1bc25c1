"""The report of a tune in a browser: it asks for nothing, fits a phone, and can be read by day and by night."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page

from dragoman_bench.tune.outcome import read_tuning
from dragoman_bench.tune.outputs import config_text, write_report_page
from tests.browser.conftest import audit

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "report.html"
    tuning = read_tuning(Path(__file__).parents[2] / "results" / "tune-h200-25" / "tune.json")
    write_report_page(tuning, path, config_text(tuning, {}))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_its_words_stand_out_from_their_ground(
    page: Page, report: Path, scheme: Literal["light", "dark"]
) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.goto(report.as_uri())
    await page.locator("summary").click()
    assert await audit(page, "paleTexts") == []


async def test_it_fits_a_phone_and_asks_for_nothing(page: Page, report: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(report.as_uri())
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    assert asked == [report.as_uri()]
